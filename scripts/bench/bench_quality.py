"""How near the compiler's programs come to the machine's limit, by the timing model.

python -m scripts.bench quality [--only NAME ...] [--targets trn2 ...] [--json] [-O 3] [--list common]

Each program of ``quality_programs.py``, or of ``common_programs.py``, is lowered by JAX, compiled, and estimated. The roofline is
the largest of four minimums, taken from the module as JAX lowers it (``roofline.py``). A ratio is
the estimate over it; ``max_ratio`` is its bound on trn2. ``DMA`` is the bytes that cross the border
of HBM over the least possible. Exit code 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

import hlo_tools
import neff
from neff.options import CompileOptions
from neff.program import Program
from neff.timing import Parameters, estimate
from nki_lang.ir import Access
from scripts.bench.common_programs import COMMON_PROGRAMS
from scripts.bench.quality_programs import PROGRAMS, Case
from scripts.bench.roofline import Minimum, minimum_of

TARGETS = ("trn2", "trn1", "trn3")
LISTS = {"tuned": PROGRAMS, "common": COMMON_PROGRAMS}


def module_of(case: Case) -> hlo_tools.Module:
    """The module that JAX lowers the program to."""
    import jax

    function, arguments = case.make()
    lowered: Any = jax.jit(function).lower(*arguments).compiler_ir("hlo")
    return hlo_tools.load(lowered.as_serialized_hlo_module_proto())


def crossing_bytes(program: Program, events: Any) -> int:
    """Bytes that transfers read from HBM and write to it."""
    total = 0
    for event in events:
        if not event.nbytes:
            continue
        operands = event.source.operands.values()
        outside = sum(
            type(operand) is Access and not operand.tensor.on_chip for operand in operands
        )
        total += event.nbytes * event.turns * outside
    return total


def measured(case: Case, target: str, level: int) -> dict[str, Any]:
    """One row of the table."""
    module = module_of(case)
    least: Minimum = minimum_of(module, Parameters(target))
    begin = time.process_time()
    program = neff.compile(module, target=target, options=CompileOptions(optlevel=level))
    built = time.process_time() - begin
    estimated = estimate(program)
    moved = sum(crossing_bytes(program, core.events) for core in estimated.cores)
    return {
        "program": case.name,
        "target": target,
        "estimate_us": estimated.total.value / 1e3,
        "roofline_us": least.longest / 1e3,
        "bound_by": least.bound,
        "minimum_us": {name: nanoseconds / 1e3 for name, nanoseconds in least.times.items()},
        "ratio": estimated.total.value / least.longest,
        "dma_ratio": moved / least.nbytes,
        "max_ratio": case.max_ratio,
        "build_s": built,
        "instructions": program.metadata["statistics"]["instructions"],
    }


def line(row: dict[str, Any]) -> str:
    missed = " missed" if row["target"] == "trn2" and row["ratio"] > row["max_ratio"] else ""
    return (
        f"{row['program']:24} {row['target']} {row['estimate_us']:10.1f} us {row['roofline_us']:9.1f} "
        f"us {row['bound_by']:7} {row['ratio']:7.2f} (<= {row['max_ratio']:g}) DMA {row['dma_ratio']:6.2f} "
        f"{row['instructions']:8} instructions {row['build_s']:6.1f} s{missed}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=TARGETS)
    parser.add_argument("-O", "--optlevel", type=int, default=2, choices=(1, 2, 3))
    parser.add_argument("--json", action="store_true", help="one line of JSON for each row")
    parser.add_argument("--list", default="tuned", choices=LISTS, help="programs to measure")
    options = parser.parse_args()
    cases = {case.name: case for case in LISTS[options.list]}
    if unknown := set(options.only) - set(cases):
        parser.error(f"no program {', '.join(sorted(unknown))}; there are {', '.join(cases)}")
    missed, ratios = False, list[float]()
    for name in options.only or cases:
        for target in options.targets:
            row = measured(cases[name], target, options.optlevel)
            missed |= target == "trn2" and row["ratio"] > row["max_ratio"]
            ratios.append(row["ratio"])
            print(json.dumps(row) if options.json else line(row), flush=True)
    if not options.json:
        print(f"median ratio {statistics.median(ratios):.2f}, {len(ratios)} programs")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
