"""Instructions that make memory as it is before anything was written: NaN, integers all bits set."""

from __future__ import annotations

from nki_lang.dtypes import dtype_of
from nki_lang.ir.types import Access, Block, Instruction, Tensor, walk
from nki_lang.source import SourceLocation

__all__ = ["FRESH", "SCALES", "fresh_fill", "is_fresh_fill", "scales_in"]

FRESH = 0xFF
"""Byte of memory that nobody wrote: NaN in every float type, -1 or the maximum in integers."""

SCALES = ("dst_scale", "stationary_scale", "moving_scale")
"""Operands that hold block scales: what nobody wrote of such a tile is zero on hardware (the
tests of the kernel library's MX kernels rely on it)."""

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


def is_fresh_fill(instruction: Instruction) -> bool:
    """The instruction only says that memory is as before the first write."""
    if instruction.op != "memset" or not instruction.name.endswith(_NAME):  # a NEFF adds a prefix
        return False
    return instruction.operands.get("value") == FRESH


def scales_in(body: Block) -> set[str]:
    """Names of the tensors that hold block scales."""
    return {
        access.tensor.name
        for instruction in walk(body)
        for name in SCALES
        if type(access := instruction.operands.get(name)) is Access
    }
