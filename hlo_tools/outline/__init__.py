"""Columns of a module's names, opcodes, shapes and calls."""

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
