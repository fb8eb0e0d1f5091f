"""Mutate modules and look at everything in them: only our own errors may come out.

Usage: python scripts/fuzz/fuzz_load.py [--seed N] [--count N] [FILE ...]

Without files, a small module made here in every kind of file is mutated. Exit code 1, and the
bytes as ``fuzz-<number>.bin`` in the current folder, when something else came out or a case took
more than five seconds.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import hlo_tools
from hlo_tools import HloError, Module, array_shape, literal_of, tuple_shape
from hlo_tools.converting import FORMATS, render, set_ids, to_dialect

SLOW = 5.0


def example() -> Module:
    """A module with calls, constants, metadata and a tuple."""
    shape = array_shape("f32", (2, 3), (0, 1))
    module = Module.new("example")
    inner = module.add_computation("inner")
    inner.set_root(inner.add("negate", shape, [inner.add("parameter", shape)]))
    body = module.add_computation("main")
    module.proto.entry_computation_id = body.id
    x = body.add("parameter", shape, name="x")
    table = literal_of([[1, 2, 3], [4, 5, 6]], layout=(0, 1), element="s32").proto
    constant = body.add("constant", array_shape("s32", (2, 3), (0, 1)), literal=table)
    call = body.add("call", shape, [x], called_computation_ids=[inner.id])
    call.proto.metadata.source_file, call.proto.metadata.source_line = "a.py", 3
    body.set_root(body.add("tuple", tuple_shape([constant.shape, shape]), [constant, call]))
    return module


def look_at_everything(data: bytes) -> None:
    module = hlo_tools.load(data)
    for computation in module.computations:
        computation.post_order()
        repr((computation.root, computation.parameters, computation.callers))
        for view in computation:
            repr((view, view.users, view.stack, view.called_computations, view.backend_config))
            if view.literal is not None and view.literal.shape.is_array:
                view.literal.numpy()
    repr((module.entry, module.find_custom_calls(), module.to_bytes()))


def overview(data: bytes) -> None:
    for instruction in hlo_tools.load_outline(data).instructions:
        str(instruction.shape)


LOOKS: dict[str, Callable[[bytes], Any]] = {
    "everything": look_at_everything,
    "constants left": lambda data: hlo_tools.load(data, leave_constants=4).to_bytes(),
    "ids": lambda data: set_ids(hlo_tools.load(data), "legacy"),
    "dialect": lambda data: to_dialect(hlo_tools.load(data), "2024"),
    "overview": overview,
}


def mutated(data: bytes, rng: random.Random) -> bytes:
    """One to five flips, overwritten bytes, cuts and insertions."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(out)) if out else 0
        kind = rng.randrange(4)
        if kind == 0 and out:
            out[place] ^= 1 << rng.randrange(8)
        elif kind == 1 and out:
            out[place] = rng.randrange(256)
        elif kind == 2:
            del out[place : place + rng.randrange(1, 9)]
        else:
            out[place:place] = rng.randbytes(rng.randrange(1, 5))
    return bytes(out)


def failure_of(data: bytes) -> str:
    """What went wrong, or ""."""
    start = time.perf_counter()
    for name, look in LOOKS.items():
        try:
            look(data)
        except HloError:
            continue
        except Exception:
            return f"{name}: {traceback.format_exc(limit=-4)}"
    spent = time.perf_counter() - start
    return f"took {spent:.1f} s" if spent > SLOW else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("files", nargs="*", type=Path)
    words = parser.parse_args()
    seeds = [path.read_bytes() for path in words.files]
    seeds = seeds or [render(example(), form) for form in FORMATS]
    rng = random.Random(words.seed)
    failures = 0
    for number in range(words.count):
        data = mutated(rng.choice(seeds), rng)
        reason = failure_of(data)
        if reason:
            failures += 1
            Path(f"fuzz-{number}.bin").write_bytes(data)
            print(f"case {number}: {reason}", file=sys.stderr)
    print(f"{words.count} cases, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
