"""How long writing and reading kernel files takes per instruction.

python -m scripts.bench klir [--count 20000] [--json]

Four kernels: instructions on the same tiles; each on slices of its own; each with a new tensor;
each with something that only the companion record holds.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable
from typing import Any

from nki_lang import klir
from nki_lang.base.dtypes import dtype_of
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.ir import Access, Engine, Instruction, KernelIR, Tensor

F32 = dtype_of("float32")
ROW = ((4096, 128), (1, 512))


def _tile(name: str) -> Tensor:
    return Tensor(name, F32, (128, 4096), MemoryRegion.sbuf)


def _add(dst: Access, left: Access, right: Access, line: int) -> Instruction:
    operands = {"dst": dst, "data1": left, "data2": right, "op": "add"}
    return Instruction("tensor_tensor", operands, Engine.vector, "", _line(line))


def _line(number: int) -> SourceLocation:
    return SourceLocation("kernel.py", number, "kernel")


def same_tiles(count: int) -> list[Any]:
    """The same accesses again and again."""
    a, b, c = (Access(_tile(name), 0, ROW) for name in "abc")
    return [_add(c, a, b, index % 40) for index in range(count)]


def fresh_slices(count: int) -> list[Any]:
    """Three accesses of its own in each instruction."""
    a, b, c = map(_tile, "abc")
    return [
        _add(*(Access(tensor, index * 8 % 3584, ROW) for tensor in (a, b, c)), index % 40)
        for index in range(count)
    ]


def fresh_tensors(count: int) -> list[Any]:
    """A tensor of its own in each instruction."""
    source = Access(_tile("source"), 0, ROW)
    return [
        _add(Access(_tile(f"tile.{index}"), 0, ROW), source, source, index % 40)
        for index in range(count)
    ]


def noted(count: int) -> list[Any]:
    """A matrix multiplication with ``accumulate`` given, which KLIR does not have."""
    a, b = (Access(_tile(name), 0, ROW) for name in "ab")
    total = Access(Tensor("sum", F32, (128, 512), MemoryRegion.psum), 0, ((512, 128), (1, 512)))
    operands = {
        "dst": total, "stationary": a, "moving": b, "is_stationary_onezero": False,
        "is_moving_onezero": False, "is_transpose": False, "accumulate": True,
        "tile_position": (), "tile_size": (), "perf_mode": "none",
    }  # fmt: skip
    return [
        Instruction("nc_matmul", dict(operands), Engine.tensor, "", _line(9)) for _ in range(count)
    ]


def best(action: Callable[[], Any]) -> float:
    """Seconds of the best of three."""
    times = []
    for _ in range(3):
        gc.collect()
        begin = time.process_time()
        action()
        times.append(time.process_time() - begin)
    return min(times)


def measure(make: Callable[[int], list[Any]], count: int) -> dict[str, Any]:
    """Microseconds an instruction for writing and reading one kernel."""
    kernel = KernelIR(make.__name__, "trn2", 1, (), (), (make(count),))
    written = klir.dumps(kernel)
    assert klir.loads(written.klir, written.companion) == kernel
    return {
        "kernel": make.__name__,
        "instructions": count,
        "bytes_per_instruction": len(written.klir) / count,
        "write_us": best(lambda: klir.dumps(kernel)) / count * 1e6,
        "read_us": best(lambda: klir.loads(written.klir, written.companion)) / count * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [
        measure(make, options.count) for make in (same_tiles, fresh_slices, fresh_tensors, noted)
    ]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(
            f"{row['kernel']:14} {row['bytes_per_instruction']:6.0f} bytes  "
            f"write {row['write_us']:5.1f} us  read {row['read_us']:5.1f} us"
        )


if __name__ == "__main__":
    main()
