"""Instructions that set memory to its content before the first write: NaN, integers all bits
set.
"""

from __future__ import annotations

import numpy as np

from nki_lang.base.dtypes import Array, dtype_of
from nki_lang.base.source import SourceLocation
from nki_lang.ir.types import Access, Block, Instruction, Tensor, walk

__all__ = [
    "FRESH_BYTE",
    "SCALE_OPERANDS",
    "fresh_copy",
    "fresh_fill",
    "fresh_row",
    "is_fresh_fill",
    "scales_in",
]

FRESH_BYTE = 0xFF
"""Byte of unwritten memory: NaN in every float type, -1 or the maximum in integers."""

SCALE_OPERANDS = ("dst_scale", "stationary_scale", "moving_scale")
"""Operands with block scales: unwritten elements of them are zero on hardware (the tests of the
kernel library's MX kernels rely on it).
"""

_MAX_ROW_BYTES = 4096
"""Longest row that fills a tensor in HBM; longer constants would enlarge the program."""

_FILL_NAME = "fresh memory"
"""Suffix of the names of fill instructions; a user's name has no space."""


def fresh_fill(
    tensor: Tensor, *, zero: bool = False, location: SourceLocation | None = None
) -> Instruction:
    """Return an instruction that sets every byte of the tensor to fresh memory, or to zero."""
    rows = tensor.shape[0] if tensor.shape else 1
    width = tensor.nbytes // max(1, rows)
    everything = Access(tensor, 0, ((width, rows), (1, width)), dtype=dtype_of("uint8"))
    value = 0 if zero else FRESH_BYTE
    return Instruction(
        "memset", {"dst": everything, "value": value}, name=_FILL_NAME, location=location
    )


def fresh_row(tensor: Tensor) -> Array:
    """Return the value, uint8 of shape (1, bytes), that :func:`fresh_copy` repeats to fill the
    tensor.
    """
    widest = min(tensor.nbytes, _MAX_ROW_BYTES)
    width = next(size for size in range(widest, 0, -1) if tensor.nbytes % size == 0)
    return np.full((1, width), FRESH_BYTE, np.uint8)


def fresh_copy(tensor: Tensor, row: Tensor, *, location: SourceLocation | None) -> Instruction:
    """Return a fill as :func:`fresh_fill` does, for HBM, which only DMA writes.

    ``row`` is a constant with the value of :func:`fresh_row`.
    """
    width = row.nbytes
    count = tensor.nbytes // width
    everything = Access(tensor, 0, ((width, count), (1, width)), dtype=row.dtype)
    repeated = Access(row, 0, ((0, count), (1, width)))
    operands = {"dst": everything, "src": repeated, "priority": None}
    modes = {"oob_mode": "error", "dge_mode": "unknown"}
    return Instruction("dma_copy", operands | modes, name=_FILL_NAME, location=location)


def is_fresh_fill(instruction: Instruction) -> bool:
    """Return True if the instruction only marks memory as unwritten."""
    if not instruction.name.endswith(_FILL_NAME):  # a NEFF adds a prefix
        return False
    if instruction.op == "memset":
        return instruction.operands.get("value") == FRESH_BYTE
    return instruction.op == "dma_copy"


def scales_in(body: Block) -> set[str]:
    """Return the names of the tensors that hold block scales."""
    return {
        access.tensor.name
        for instruction in walk(body)
        for name in SCALE_OPERANDS
        if type(access := instruction.operands.get(name)) is Access
    }
