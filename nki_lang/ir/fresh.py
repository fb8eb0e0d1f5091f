"""Instructions that make memory as it is before anything was written: NaN, integers all bits set."""

from __future__ import annotations

import numpy as np

from nki_lang.dtypes import Array, dtype_of
from nki_lang.ir.types import Access, Block, Instruction, Tensor, walk
from nki_lang.source import SourceLocation

__all__ = ["FRESH", "SCALES", "fresh_copy", "fresh_fill", "fresh_row", "is_fresh_fill", "scales_in"]

FRESH = 0xFF
"""Byte of memory that nobody wrote: NaN in every float type, -1 or the maximum in integers."""

SCALES = ("dst_scale", "stationary_scale", "moving_scale")
"""Operands that hold block scales: what nobody wrote of such a tile is zero on hardware (the
tests of the kernel library's MX kernels rely on it)."""

_MAX_ROW = 4096
"""Bytes of the longest row that fills a tensor in HBM."""

_NAME = "fresh memory"
"""How the names of the instructions that fill end; a user's name has no space."""


def fresh_fill(
    tensor: Tensor, *, zero: bool = False, location: SourceLocation | None = None
) -> Instruction:
    """Every byte of the tensor becomes that of fresh memory, or zero."""
    rows = tensor.shape[0] if tensor.shape else 1
    width = tensor.nbytes // max(1, rows)
    everything = Access(tensor, 0, ((width, rows), (1, width)), dtype=dtype_of("uint8"))
    value = 0 if zero else FRESH
    return Instruction("memset", {"dst": everything, "value": value}, name=_NAME, location=location)


def fresh_row(tensor: Tensor) -> Array:
    """The value, uint8 of shape (1, bytes), that :func:`fresh_copy` repeats to fill the tensor."""
    widest = min(tensor.nbytes, _MAX_ROW)
    width = next(size for size in range(widest, 0, -1) if tensor.nbytes % size == 0)
    return np.full((1, width), FRESH, np.uint8)


def fresh_copy(tensor: Tensor, row: Tensor, *, location: SourceLocation | None) -> Instruction:
    """As :func:`fresh_fill` for a tensor in HBM, where engines do not write and DMA does.

    ``row`` is a constant with the value of :func:`fresh_row`.
    """
    width = row.nbytes
    count = tensor.nbytes // width
    everything = Access(tensor, 0, ((width, count), (1, width)), dtype=row.dtype)
    repeated = Access(row, 0, ((0, count), (1, width)))
    operands = {"dst": everything, "src": repeated, "priority": None}
    modes = {"oob_mode": "error", "dge_mode": "unknown"}
    return Instruction("dma_copy", operands | modes, name=_NAME, location=location)


def is_fresh_fill(instruction: Instruction) -> bool:
    """The instruction only says that memory is as before the first write."""
    if not instruction.name.endswith(_NAME):  # a NEFF adds a prefix
        return False
    if instruction.op == "memset":
        return instruction.operands.get("value") == FRESH
    return instruction.op == "dma_copy"


def scales_in(body: Block) -> set[str]:
    """Names of the tensors that hold block scales."""
    return {
        access.tensor.name
        for instruction in walk(body)
        for name in SCALES
        if type(access := instruction.operands.get(name)) is Access
    }
