"""Time of operations on HLO modules, as ratios to jaxlib in the same process.

Usage: python -m scripts.bench hlo [--sizes 1000,10000,100000] [--runs 5] [--chain] [--json]
           [--models FOLDER]

The module is a transformer's training step as JAX lowers it, unrolled to the size
(``training_steps.py``); ``--chain`` takes a chain of two elementwise opcodes with metadata
instead, ``--models FOLDER`` the modules of public models that ``dump_models.py`` wrote there, and
constants of a million elements. Ours and jaxlib's turns alternate; what is shown are medians of processor time. Bounds
hold at 100,000 instructions. What jaxlib has no counterpart for is bounded in seconds. A module
that was loaded and not looked into is printed from its bytes; a changed one is written first.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import hlo_tools
from hlo_tools.diff import diff_modules
from hlo_tools.ir.loading import load_outline
from hlo_tools.ir.module import KERNEL_TARGET
from hlo_tools.passes import Pipeline
from hlo_tools.stats import statistics as statistics_of
from hlo_tools.text import parse, print_module
from hlo_tools.verify import verify
from scripts.bench.training_steps import chain, one_step, training_steps


@dataclass(frozen=True)
class Row:
    """One measurement: seconds, jaxlib's seconds (0 where it has nothing), what is allowed."""

    what: str
    instructions: int
    seconds: float
    peer: float
    bound: float

    @property
    def ratio(self) -> float:
        return self.seconds / self.peer if self.peer else 0.0

    def __str__(self) -> str:
        us_each = self.seconds / self.instructions * 1e6
        shown = f"{self.ratio:5.2f}x" if self.peer else f"{self.seconds:5.2f}s"
        unit = "x" if self.peer else "s"
        return (
            f"{self.what:26} {self.instructions:9,} {self.seconds * 1e3:9.1f} ms "
            f"{self.peer * 1e3:9.1f} ms  {shown}  (bound {self.bound:g}{unit})  {us_each:7.2f} us each"
        )


def seconds(action: Callable[[], Any]) -> float:
    start = time.process_time()
    result = action()
    elapsed = time.process_time() - start
    del result
    return elapsed


def passes(data: bytes, names: str) -> Callable[[], Any]:
    """A pipeline on a module loaded for it."""
    module = hlo_tools.load(data)
    return lambda: Pipeline.parse(names).run(module)


def differences(data: bytes) -> Callable[[], Any]:
    """The module compared with itself after cse."""
    before, after = hlo_tools.load(data), hlo_tools.load(data)
    Pipeline.parse("cse").run(after)
    return lambda: diff_modules(before, after)


def constants(splat: bool) -> bytes:
    """A module with a constant of a million elements."""
    values = np.full(1_000_000, 1.5, np.float32)
    if not splat:
        values = np.random.default_rng(0).normal(size=1_000_000).astype(np.float32)
    module = hlo_tools.Module.new("constants")
    body = module.add_computation("main")
    literal = hlo_tools.literal_of(values)
    body.set_root(body.add("constant", literal.shape, literal=literal.proto))
    return module.to_bytes()


def measured_constants(runs: int) -> list[Row]:
    """Texts of a million numbers, different ones and equal ones."""
    from jaxlib import _hlo

    rows: list[Row] = []
    for splat in (False, True):
        data = constants(splat)
        reference = _hlo.HloModule.from_serialized_hlo_module_proto(data)
        options = _hlo.HloPrintOptions()
        options.print_large_constants = True
        text = print_module(hlo_tools.load(data))
        ours = hlo_tools.load(data)
        kind = "equal" if splat else "random"
        for what, action, peer in (
            ("parse", lambda text=text: parse(text), lambda text=text: _hlo.hlo_module_from_text(text)),
            ("print", lambda ours=ours: print_module(ours), lambda peer_module=reference, shown=options: peer_module.to_string(shown)),
        ):  # fmt: skip
            pairs = [(seconds(action), seconds(peer)) for _ in range(runs)]
            medians = (statistics.median(column) for column in zip(*pairs, strict=True))
            rows.append(Row(f"{what} 1M {kind} numbers", 1_000_000, *medians, 3.0))
    return rows


def kernels(path: Path) -> Any:
    view = load_outline(path)
    return view.part([call.row for call in view.custom_calls(KERNEL_TARGET)])


def summary(path: Path) -> Any:
    view = load_outline(path)
    return view.opcodes(), view.root(view.entry)


def measure(data: bytes, folder: Path, runs: int) -> list[Row]:
    from jaxlib import _hlo

    path = folder / "module.pb"
    path.write_bytes(data)
    read = _hlo.HloModule.from_serialized_hlo_module_proto
    reference = read(data)
    text = reference.to_string()
    fresh, ours = hlo_tools.load(data), hlo_tools.load(data)
    ours.touch()
    count = load_outline(data).instruction_count

    def load() -> Any:
        return read(path.read_bytes())

    table: list[tuple[str, Callable[[], Callable[[], Any]], Callable[[], Any] | None, float]] = [
        ("load proto", lambda: lambda: hlo_tools.load(path), load, 0.5),
        ("save proto", lambda: ours.to_bytes, reference.as_serialized_hlo_module_proto, 1.0),
        ("summary of a file", lambda: lambda: summary(path), load, 0.3),
        ("kernels of a file", lambda: lambda: kernels(path), load, 0.3),
        ("stats of a file", lambda: lambda: statistics_of(path), load, 0.3),
        ("parse text", lambda: lambda: parse(text), lambda: _hlo.hlo_module_from_text(text), 2.5),
        ("print text", lambda: lambda: print_module(fresh), reference.to_string, 3.0),
        ("print a changed module", lambda: lambda: print_module(ours), reference.to_string, 5.0),
        ("verify", lambda: lambda: verify(ours), None, 1.5),
        ("dce and cse", lambda: passes(data, "dce,cse"), None, 1.0),
        ("algebraic-simplification", lambda: passes(data, "algebraic-simplification"), None, 1.0),
        ("diff", lambda: differences(data), None, 2.0),
    ]
    rows: list[Row] = []
    for what, prepare, peer, bound in table:
        pairs = [(seconds(prepare()), seconds(peer) if peer else 0.0) for _ in range(runs)]
        medians = (statistics.median(column) for column in zip(*pairs, strict=True))
        rows.append(Row(what, count, *medians, bound))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--chain", action="store_true")
    parser.add_argument("--models", type=Path, help="a folder of dump_models.py; and 1M constants")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows: list[Row] = []
    if options.models:
        for path in sorted(options.models.glob("*.pb")):
            print(path.stem, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                measurements = measure(path.read_bytes(), Path(folder), options.runs)
            print(*measurements, sep="\n", flush=True)
        print(*measured_constants(options.runs), sep="\n")
        return 0
    step = b"" if options.chain else one_step()
    for size in map(int, options.sizes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            data = chain(size) if options.chain else training_steps(step, size)
            measurements = measure(data, Path(folder), options.runs)
        rows += measurements
        if not options.json:
            print(*measurements, sep="\n", flush=True)
    if options.json:
        print(json.dumps([asdict(row) | {"ratio": row.ratio} for row in rows], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
