"""What a module holds, as columns: names, opcodes, shapes, calls."""

from hlo_tools.outline.outline import (
    CALLED,
    CALLED_ONE,
    COST,
    ID,
    NAME,
    OPCODE,
    OPERAND,
    OPERANDS,
    SHAPE,
    Body,
    Outline,
    OutlinedComputation,
    OutlinedInstruction,
    shape_of,
)

__all__ = [
    "CALLED",
    "CALLED_ONE",
    "COST",
    "ID",
    "NAME",
    "OPCODE",
    "OPERAND",
    "OPERANDS",
    "SHAPE",
    "Body",
    "Outline",
    "OutlinedComputation",
    "OutlinedInstruction",
    "shape_of",
]
