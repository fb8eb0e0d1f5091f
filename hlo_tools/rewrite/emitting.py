"""Instructions that passes add, and constants that they read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from hlo_tools import schema
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.ordering import behind
from hlo_tools.types.element_types import BY_NAME, BY_NUMBER, INVALID
from hlo_tools.types.literal import Literal, literal_of
from hlo_tools.types.shape import Shape, array_shape, tuple_shape

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = [
    "SPLAT_OPCODES",
    "broadcast",
    "constant",
    "convert",
    "dimensions_of",
    "get_part",
    "is_signed_zero",
    "make_tuple",
    "plain",
    "reshape",
    "splat",
    "transpose",
    "with_element",
]

_MAX_SCANNED_ELEMENTS = 1 << 12
"""Larger constants are not scanned: equal elements are unlikely, the scan is slow."""
_SCALAR_BYTES = 128
"""Bytes of a scalar constant's literal at most, for its number to be remembered."""
SPLAT_OPCODES = frozenset({"broadcast", "constant", "copy", "reshape"})
"""Opcodes of what may have one value everywhere that is known."""


def plain(
    view: Instruction,
    opcode: str,
    shape: Shape,
    operands: Sequence[Instruction],
    **fields: Any,
) -> Instruction:
    """Add an instruction to the computation of ``view``, with its metadata, without its sharding."""
    inst = view.computation.add(opcode, shape, list(operands), like=view, **fields)
    inst.proto.ClearField("sharding")
    return inst


def with_element(shape: Shape, element: str) -> Shape:
    """The shape, layout and all, with elements of another type."""
    proto = type(shape.proto)()
    proto.CopyFrom(shape.proto)
    proto.element_type = BY_NAME[element].number
    if proto.HasField("layout"):
        proto.layout.ClearField("element_size_in_bits")
    return Shape(proto)


def constant(view: Instruction, value: ArrayLike, shape: Shape) -> Instruction:
    """Add a constant of ``shape`` to the computation of ``view``; equal elements are broadcast."""
    array = np.asarray(value, dtype=shape.dtype)
    element = shape.element.name
    if array.ndim == 0 and shape.rank:
        scalar = constant(view, array, array_shape(element))
        return plain(view, "broadcast", shape, [scalar])
    layout = shape.layout if shape.has_layout else None
    literal = literal_of(
        np.broadcast_to(array, shape.dimensions), layout=layout, element=element
    ).proto
    return plain(view, "constant", shape, [], literal=literal)


def convert(view: Instruction, element: str) -> Instruction:
    """``view`` with elements of another type."""
    return plain(view, "convert", with_element(view.shape, element), [view])


def reshape(view: Instruction, dimensions: Sequence[int], like: Instruction) -> Instruction:
    """``view`` with other dimensions, row-major; itself when it has them."""
    if view.shape.dimensions == tuple(dimensions):
        return view
    return plain(like, "reshape", array_shape(view.shape.element, dimensions), [view])


def transpose(view: Instruction, order: Sequence[int], like: Instruction) -> Instruction:
    """``view`` with its dimensions in another order, row-major; itself for the same order."""
    if list(order) == list(range(len(order))):
        return view
    sizes = view.shape.dimensions
    shape = array_shape(view.shape.element, [sizes[axis] for axis in order])
    return plain(like, "transpose", shape, [view], dimensions=list(order))


def broadcast(
    view: Instruction, shape: Shape, dimensions: Sequence[int], like: Instruction
) -> Instruction:
    """``view`` broadcast to ``shape``, its dimensions at ``dimensions``."""
    return plain(like, "broadcast", shape, [view], dimensions=list(dimensions))


def make_tuple(like: Instruction, elements: Sequence[Instruction]) -> Instruction:
    """A tuple of instructions."""
    return plain(like, "tuple", tuple_shape([element.shape for element in elements]), elements)


def get_part(view: Instruction, number: int) -> Instruction:
    """A part of a tuple: the operand itself where the tuple is made right there."""
    if view.opcode == "tuple":
        return view.operands[number]
    shape = view.shape.tuple_shapes[number]
    return plain(view, "get-tuple-element", shape, [view], tuple_index=number)


def dimensions_of(view: Instruction) -> tuple[int, ...]:
    """The attribute ``dimensions``."""
    return tuple(view.proto.dimensions)


def splat(view: Instruction) -> Any:
    """The one value that a constant, or a broadcast constant, has everywhere; else None."""
    view = behind(view, "broadcast", "reshape", "copy")
    row = view.proto
    if row.opcode != "constant" or not row.HasField("literal"):
        return None
    if not row.shape.dimensions and row.literal.ByteSize() <= _SCALAR_BYTES:
        return _scalar_of(row.shape.element_type, row.literal.SerializeToString())
    literal, shape = view.literal, view.shape
    if (
        literal is None
        or not shape.is_array
        or not 0 < shape.element_count <= _MAX_SCANNED_ELEMENTS
    ):
        return None
    if literal.is_elided:
        return None
    return _one_value(literal)


def _one_value(literal: Literal) -> Any:
    values = literal.numpy().reshape(-1)
    first = values[0]
    if values.size == 1:
        return first
    same = values.view(np.uint8).reshape(values.size, -1)
    return first if (same == same[0]).all() else None


@lru_cache(maxsize=4096)
def _scalar_of(element: int, data: bytes) -> Any:
    """The number in a serialised ``LiteralProto``, as :func:`splat` returns it."""
    literal = Literal(schema.LiteralProto.FromString(data))
    if BY_NUMBER.get(element, INVALID).dtype is None or literal.is_elided:
        return None
    return _one_value(literal)


def is_signed_zero(view: Instruction) -> bool:
    """Return True if every element is -0.0: any float plus -0.0 is that float."""
    constant_value = splat(view)
    if constant_value is None or view.shape.element.kind != "float":
        return False
    return bool(constant_value == 0) and bool(np.signbit(constant_value))
