"""Small kernels built by hand, without the front end."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from nki_lang.base.dtypes import dtype_of
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.execute import Memory, prepare
from nki_lang.execute.prepare import failure
from nki_lang.ir import Access, Engine, Instruction, KernelIR, Tensor

REGIONS = {
    "sbuf": MemoryRegion.sbuf,
    "psum": MemoryRegion.psum,
    "hbm": MemoryRegion.shared_hbm,
    "private": MemoryRegion.private_hbm,
}
KERNEL_FILE = "kernel.py"


def tensor(
    name: str,
    shape: tuple[int, ...],
    dtype: Any = "float32",
    buffer: str = "sbuf",
    address: tuple[int, int] | None = None,
) -> Tensor:
    return Tensor(name, dtype_of(dtype), shape, REGIONS[buffer], address, address is not None)


def full(t: Tensor, **extra: Any) -> Access:
    pattern: list[tuple[int, int]] = []
    step = 1
    for extent in reversed(t.shape):
        pattern.append((step, extent))
        step *= extent
    return Access(t, 0, tuple(reversed(pattern)), **extra)


def part(t: Tensor, *slices: slice, **extra: Any) -> Access:
    """A rectangular piece."""
    pattern, offset, step = [], 0, 1
    for extent, piece in zip(reversed(t.shape), reversed(slices), strict=True):
        start, stop, stride = piece.indices(extent)
        pattern.append((step * stride, len(range(start, stop, stride))))
        offset += start * step
        step *= extent
    return Access(t, offset, tuple(reversed(pattern)), **extra)


def instruction(
    op: str, /, line: int = 1, engine: Engine = Engine.unknown, **operands: Any
) -> Instruction:
    return Instruction(op, operands, engine, location=SourceLocation(KERNEL_FILE, line))


def kernel(
    inputs: list[Tensor], outputs: list[Tensor], *bodies: list[Any], **extra: Any
) -> KernelIR:
    return KernelIR(
        "k", "trn3", max(1, len(bodies)), tuple(inputs), tuple(outputs), bodies, **extra
    )


def perform(
    op: str, /, engine: Engine = Engine.unknown, memory: Memory | None = None, **operands: Any
) -> Any:
    """Execute one instruction on SBUF tensors made from arrays; give back what it wrote.

    Arrays become tensors; what is written is returned by name in a dict.
    """
    memory = memory or Memory(fresh=True)
    accesses: dict[str, Any] = {}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in operands.items():
        if isinstance(value, np.ndarray):
            t = tensor(f"{name}.{len(memory._private)}", value.shape, value.dtype)
            memory.array(t)[...] = value
            accesses[name] = full(t)
            arrays[name] = memory.array(t)
        else:
            accesses[name] = value
    with np.errstate(all="ignore"):
        inst = Instruction(op, accesses, engine, location=SourceLocation(KERNEL_FILE, 7))
        try:
            prepare(inst, memory)()
        except (ValueError, IndexError) as error:
            raise failure(error, inst) from error
    return arrays


def signature_of(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)
