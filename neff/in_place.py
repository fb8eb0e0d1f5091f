"""Results that may take the bytes of an operand which nobody reads afterwards."""

from __future__ import annotations

import math

from nki_lang.ir import Access, Instruction, Tensor

__all__ = ["in_place"]

_SOURCES = {
    "activation": ("data",),
    "reciprocal": ("data",),
    "tensor_copy": ("src",),
    "tensor_scalar": ("data",),
    "tensor_tensor": ("data1", "data2"),
}
"""Instructions that read an element of these operands before they write the element of ``dst`` at
the same place, and never again."""


def in_place(instruction: Instruction, old: Tensor, new: Tensor) -> bool:
    """Return whether an instruction's result ``new`` may overlay its operand ``old`` exactly.

    The operand must be read with the access with which the result is written, element for
    element at the same byte; and the result must be written whole, for what else it holds is
    not the operand's.
    """
    if (old.shape[:1], old.free_bytes) != (new.shape[:1], new.free_bytes):
        return False
    sources = _SOURCES.get(instruction.op, ())
    result = instruction.operands.get("dst")
    if type(result) is not Access or result.tensor.name != new.name or result.is_dynamic:
        return False
    if math.prod(result.shape) * result.element_type.itemsize != new.nbytes or 0 in (
        step for step, count in result.pattern if count > 1
    ):
        return False
    read = False
    for name, operand in instruction.operands.items():
        if type(operand) is not Access or operand.tensor.name != old.name:
            continue
        if name not in sources or operand.is_dynamic:
            return False
        if operand[1:3] != result[1:3]:
            return False
        if operand.element_type.itemsize != result.element_type.itemsize:
            return False
        read = True
    return read
