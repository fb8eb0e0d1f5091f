"""The one entry to shape inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hlo_tools.inference import algebraic, control, elementwise, structural
from hlo_tools.inference.layouts import laid_out_shape
from hlo_tools.inference.rule import RULES, Call
from hlo_tools.inference.types import TUPLE, Array, InferenceError, Type, of, to_proto

__all__ = ["INFERRED", "infer", "infer_shape"]

Message = Any

_RULE_FILES = (algebraic, control, elementwise, structural)
"""Imported for the rules that they register."""

INFERRED = frozenset(RULES)
"""Opcodes whose result shape follows from operands and attributes (some need the shape that the
instruction states itself, as a reshape does, and are checked against it)."""


def infer(row: Message, operands: Sequence[Type], called: Sequence[Message]) -> Type | None:
    """The type of an instruction.

    Args:
        row: its ``HloInstructionProto``.
        operands: types of its operands.
        called: ``ProgramShapeProto`` of each computation that it calls.

    Returns:
        the type, or None when the opcode's shape is whatever the instruction states.

    Raises:
        InferenceError: operands or attributes break the opcode's rules.
    """
    rule = RULES.get(row.opcode)
    return None if rule is None else rule(Call(row, operands, called))


def infer_shape(
    row: Message, operand_shapes: Sequence[Message], called: Sequence[Message]
) -> Message:
    """The ``ShapeProto`` of an instruction that states none.

    Layouts are those that XLA infers (:mod:`hlo_tools.inference.layouts`), row-major by default.

    Raises:
        InferenceError: the rules are broken, or the opcode needs a stated shape.
    """
    inferred = infer(row, [of(shape) for shape in operand_shapes], called)
    if inferred is None:
        raise InferenceError(f"{row.opcode} needs a stated shape", place=row.name)
    element = inferred.element if isinstance(inferred, Array) else TUPLE
    laid_out = laid_out_shape(row, operand_shapes, called, element)
    shape = to_proto(inferred)
    if laid_out is None:
        return shape
    if of(laid_out) == inferred:
        return laid_out
    if isinstance(inferred, Array) and list(laid_out.dimensions) == list(inferred.dimensions):
        shape.layout.CopyFrom(laid_out.layout)
    return shape
