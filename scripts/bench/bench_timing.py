"""Time of the timing model per instruction, which must not grow with the number of iterations.

python -m scripts.bench timing [--turns 2000 20000] [--json]

Each row is a program of so many turns of two loads, a matrix product, two vector instructions and a
store, estimated with its range (three simulations). Bound: 10 us an instruction, the same for each
size. A plain loop of Python is timed beside it, for comparing machines.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from neff.program import Program, Step, SubGraph
from neff.timing import estimate
from nki_lang.base.dtypes import BY_NAME
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir import Access, Engine, Instruction, Tensor

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")
BF16 = BY_NAME["bfloat16"]


def tile(name: str, columns: int, buffer: MemoryRegion, offset: int = 0) -> Access:
    on_chip = buffer is not MemoryRegion.shared_hbm
    tensor = Tensor(name, BF16, (128, columns), buffer, (0, offset) if on_chip else None)
    return Access(tensor, 0, ((columns, 128), (1, columns)))


def turn() -> dict[str, Step]:
    """One turn, its steps waiting for each other across engines; semaphores count turns."""
    hbm, sbuf, psum = MemoryRegion.shared_hbm, MemoryRegion.sbuf, MemoryRegion.psum
    left, right = tile("l", 128, sbuf), tile("r", 512, sbuf, 1024)
    bank, first, second = (
        tile("p", 512, psum),
        tile("s", 512, sbuf, 4096),
        tile("t", 512, sbuf, 8192),
    )
    rows = {
        "sync": ("dma_copy", {"dst": left, "src": tile("a", 128, hbm)}),
        "sync ": ("dma_copy", {"dst": right, "src": tile("b", 512, hbm)}),
        "tensor": ("nc_matmul", {"dst": bank, "stationary": left, "moving": right}),
        "vector": ("tensor_copy", {"dst": first, "src": bank}),
        "vector ": ("tensor_tensor", {"dst": second, "data1": first, "data2": first, "op": "add"}),
        "gpsimd": ("dma_copy", {"dst": tile("c", 512, hbm), "src": second}),
    }  # fmt: skip
    return {
        name: Step(Instruction(op, operands, Engine[name.strip()]))
        for name, (op, operands) in rows.items()
    }


def program(iterations: int) -> Program:
    lists: dict[str, list[Any]] = {name: [] for name in ENGINES}
    for number in range(1, iterations + 1):
        steps = turn()
        steps["sync "].signals, steps["tensor"].waits = (0,), ((0, number),)
        steps["tensor"].signals, steps["vector"].waits = (1,), ((1, number),)
        steps["vector "].signals, steps["gpsimd"].waits = (2,), ((2, number),)
        for name, step in steps.items():
            lists[name.strip()].append(step)
    engines = {Engine[name]: steps for name, steps in lists.items()}
    return Program("turns", "trn2", [], [], {}, [SubGraph(engines, 3)])


def plain_loop() -> float:
    """Nanoseconds of one turn of a loop that adds and compares."""
    start, total = time.process_time(), 0.0
    for number in range(1_000_000):
        if total < number:
            total += 0.5
    return (time.process_time() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, nargs="*", default=[2_000, 20_000])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = []
    for iterations in options.turns:
        timed_program = program(iterations)
        start = time.process_time()
        estimate(timed_program)
        seconds = time.process_time() - start
        report.append(
            {
                "instructions": 6 * iterations,
                "us each": seconds / iterations / 6 * 1e6,
                "loop ns": plain_loop(),
            }
        )
    if options.json:
        print(json.dumps(report))
        return
    for row in report:
        print(
            f"{row['instructions']:10,} instructions  {row['us each']:5.1f} us each (bound 10)   "
            f"a turn of a plain loop: {row['loop ns']:.0f} ns"
        )


if __name__ == "__main__":
    main()
