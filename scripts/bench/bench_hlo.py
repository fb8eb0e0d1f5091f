"""Loading, walking, editing and saving a large module, as ratios to jaxlib in the same process.

Usage: python scripts/bench/bench_hlo.py [--json] [INSTRUCTIONS]
Bounds: load 0.5, save 1, what a file holds 0.3 of jaxlib's time for reading the same module.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import hlo_tools
from hlo_tools import Module, array_shape
from hlo_tools.outline import load_outline
from hlo_tools.restructuring import remove_dead


def chain(count: int) -> bytes:
    """A module of ``count`` instructions with metadata, every third one used by nobody."""
    shape = array_shape("f32", (128, 256))
    module = Module.new("chain")
    body = module.add_computation("main")
    value = body.add("parameter", shape, name="x")
    for number in range(count - 1):
        made = body.add("tanh" if number % 2 else "negate", shape, [value])
        made.proto.metadata.op_name = f"jit(chain)/layer_{number // 50}/op"
        made.proto.metadata.source_file, made.proto.metadata.source_line = "chain.py", number % 90
        value = value if number % 3 == 2 else made
    body.set_root(value)
    return module.to_bytes()


def best(action: Callable[[], Any], runs: int = 5) -> float:
    """Milliseconds of processor time of the fastest run."""
    found = float("inf")
    for _ in range(runs):
        start = time.process_time()
        action()
        found = min(found, time.process_time() - start)
    return found * 1e3


def summary(data: bytes) -> tuple[int, int]:
    """What ``nki-hlo show -s`` and ``kernels`` need: opcodes counted, kernels found."""
    view = load_outline(data)
    return len(view.shapes()), len(view.custom_calls("AwsNeuronCustomNativeKernel"))


def users_of_all(data: bytes) -> None:
    module = hlo_tools.load(data)
    for computation in module.computations:
        computation.index_users()


def without_dead(data: bytes) -> bytes:
    module = hlo_tools.load(data)
    remove_dead(module.entry)
    return module.to_bytes()


def ours(data: bytes) -> dict[str, float]:
    module = hlo_tools.load(data)
    module.touch()
    return {
        "load": best(lambda: hlo_tools.load(data)),
        "save after a change": best(module.to_bytes),
        "count opcodes and shapes, find kernels": best(lambda: summary(data)),
        "load, users of all": best(lambda: users_of_all(data), 3),
        "load, remove dead, save": best(lambda: without_dead(data), 3),
    }


def jaxlibs(data: bytes) -> dict[str, float] | None:
    try:
        from jaxlib import _hlo
    except ImportError:
        return None
    read = _hlo.HloModule.from_serialized_hlo_module_proto
    module = read(data)
    return {
        "load": best(lambda: read(data), 3),
        "save": best(module.as_serialized_hlo_module_proto, 3),
    }


def main() -> int:
    words = [word for word in sys.argv[1:] if word.isdigit()]
    data = chain(int(words[0]) if words else 100_000)
    mine, theirs = ours(data), jaxlibs(data)
    ratios = {}
    if theirs is not None:
        for name, value in mine.items():
            reference = theirs["save" if name.startswith("save") else "load"]
            ratios[name] = round(value / reference, 2)
    report = {"bytes": len(data), "ms": mine, "jaxlib ms": theirs, "ratio": ratios}
    if "--json" in sys.argv:
        print(json.dumps(report, indent=2))
        return 0
    for name, value in mine.items():
        print(f"{name:36}{value:9.1f} ms   {ratios.get(name, '')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
