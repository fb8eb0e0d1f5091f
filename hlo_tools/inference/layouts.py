"""The layouts that XLA assigns to shapes whose text omits them, as jaxlib 0.10.2 shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hlo_tools.schema import ShapeProto
from hlo_tools.types.element_types import BY_NAME, BY_NUMBER
from hlo_tools.types.opcodes import opcodes_of_kind

__all__ = ["laid_out_shape"]

Message = Any
Shapes = Sequence[Message]
Layout = Callable[[Message, Shapes, Shapes], "Message | None"]

_TUPLE = BY_NAME["tuple"].number
_KEEPS_FIRST = (
    opcodes_of_kind("elementwise") - {"bitcast-convert", "convert", "stochastic-convert"}
) | {
    "add-dependency", "batch-norm-inference", "cholesky", "copy", "domain", "fft", "opt-barrier",
    "reverse", "scatter", "select-and-scatter", "set-dimension-size", "triangular-solve", "while",
}  # fmt: skip
"""Opcodes whose result has the layout of an operand, by default the first."""

_WHICH = {"clamp": 1, "triangular-solve": 1}


def laid_out_shape(
    row: Message, operands: Shapes, called: Shapes, element_type: int
) -> Message | None:
    """The shape of an instruction with XLA's layout; None when the layout is row-major.

    Args:
        row: the instruction.
        operands: shapes of its operands.
        called: the program shapes of the computations that it calls.
        element_type: of the result.
    """
    layout_rule = _LAYOUTS.get(row.opcode)
    shape = layout_rule(row, operands, called) if layout_rule is not None and operands else None
    if shape is None or shape.element_type == element_type:
        return shape
    changed = _copy(shape)
    changed.element_type = element_type
    return changed


def _copy(shape: Message) -> Message:
    return ShapeProto.FromString(shape.SerializeToString())


def _like_operand(row: Message, operands: Shapes, called: Shapes) -> Message:
    """Copy an operand's layout; pack elements only if the result's type has fewer bits."""
    shape = operands[_WHICH.get(row.opcode, 0)]
    sized = shape
    if row.opcode == "select":
        sized = operands[1]
        shape = shape if shape.dimensions else sized
    elif len(operands) < 2 or not shape.layout.element_size_in_bits:
        return shape
    laid_out = _copy(shape)
    packed = BY_NUMBER[sized.element_type].bits < 8 and row.opcode != "compare"
    laid_out.layout.element_size_in_bits = sized.layout.element_size_in_bits if packed else 0
    return laid_out


def _normalised(row: Message, operands: Shapes, called: Shapes) -> Message:
    """The first part as the operand, the statistics row-major."""
    feature = ShapeProto(element_type=operands[0].element_type)
    feature.dimensions.append(operands[0].dimensions[row.feature_index])
    feature.is_dynamic_dimension.append(False)
    feature.layout.minor_to_major.append(0)
    feature.layout.tail_padding_alignment_in_elements = 1
    return _tuple_of(row, [operands[0], feature, feature], called)


def _tuple_of(row: Message, operands: Shapes, called: Shapes) -> Message:
    return ShapeProto(element_type=_TUPLE, tuple_shapes=operands)


def _sorted(row: Message, operands: Shapes, called: Shapes) -> Message:
    return operands[0] if len(operands) == 1 else _tuple_of(row, operands, called)


def _element(row: Message, operands: Shapes, called: Shapes) -> Message | None:
    parts = operands[0].tuple_shapes
    return parts[row.tuple_index] if 0 <= row.tuple_index < len(parts) else None


def _result(row: Message, operands: Shapes, called: Shapes) -> Message | None:
    return called[0].result if called else None


def _transposed(row: Message, operands: Shapes, called: Shapes) -> Message | None:
    """Return the layout that keeps every element at its location in memory."""
    shape = operands[0]
    order = list(row.dimensions)
    if sorted(order) != list(range(len(shape.dimensions))):
        return None
    moved = _copy(shape)
    moved.dimensions[:] = [shape.dimensions[axis] for axis in order]
    if shape.is_dynamic_dimension:
        moved.is_dynamic_dimension[:] = [shape.is_dynamic_dimension[axis] for axis in order]
    moved.layout.minor_to_major[:] = [order.index(axis) for axis in shape.layout.minor_to_major]
    return moved


_LAYOUTS: dict[str, Layout] = {
    **dict.fromkeys(_KEEPS_FIRST, _like_operand),
    "tuple": _tuple_of,
    "get-tuple-element": _element,
    "sort": _sorted,
    "batch-norm-training": _normalised,
    "batch-norm-grad": _normalised,
    "transpose": _transposed,
    **dict.fromkeys(("call", "conditional"), _result),
}
