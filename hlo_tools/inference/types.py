"""The types that inference works on: element type and extents, without layouts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from hlo_tools.errors import HloVerifyError
from hlo_tools.schema import ShapeProto
from hlo_tools.types.element_types import BY_NAME, BY_NUMBER

__all__ = [
    "Array",
    "InferenceError",
    "TupleType",
    "Type",
    "called_types",
    "number",
    "of",
    "part_at",
    "to_proto",
]

Message = Any

TUPLE = BY_NAME["tuple"].number
_BUFFER = 34
UNBOUNDED = -(1 << 63)


class InferenceError(HloVerifyError):
    """Operands or attributes that the opcode does not allow."""

    default_code = "HLO-SHAPE"


class Array(NamedTuple):
    """An array type (or token, opaque: without extents).

    Attributes:
        element: number of the element type.
        dimensions: extents.
        dynamic: dimensions whose extent is only a bound.
    """

    element: int
    dimensions: tuple[int, ...] = ()
    dynamic: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    @property
    def kind(self) -> str:
        """``pred``, ``int``, ``uint``, ``float``, ``complex`` or ``none``."""
        element_type = BY_NUMBER.get(self.element)
        return element_type.kind if element_type else "none"

    def __str__(self) -> str:
        element_type = BY_NUMBER.get(self.element)
        extents = ",".join(
            f"{'<=' if axis in self.dynamic else ''}{'?' if size == UNBOUNDED else size}"
            for axis, size in enumerate(self.dimensions)
        )
        return f"{element_type.name if element_type else self.element}[{extents}]"


class TupleType(NamedTuple):
    """A tuple of types."""

    parts: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(str(element) for element in self.parts)})"


Type = Array | TupleType


def part_at(kind: Type, index: Iterable[int]) -> Type | None:
    """Return the element of a type at a tuple index, or None."""
    for position in index:
        if not isinstance(kind, TupleType) or not 0 <= position < len(kind.parts):
            return None
        kind = kind.parts[position]
    return kind


def of(shape: Message) -> Type:
    """The type of a ``ShapeProto``."""
    element = shape.element_type
    if element == TUPLE:
        return TupleType(tuple(of(element_shape) for element_shape in shape.tuple_shapes))
    if element == _BUFFER and shape.tuple_shapes:
        return of(shape.tuple_shapes[0])  # a buffer counts as what it holds
    flags = shape.is_dynamic_dimension
    if flags and any(flags):
        return Array(element, tuple(shape.dimensions), tuple(a for a, f in enumerate(flags) if f))
    return Array(element, tuple(shape.dimensions))


def to_proto(kind: Type) -> Message:
    """A ``ShapeProto`` of the type, row-major."""
    if isinstance(kind, TupleType):
        shape = ShapeProto(element_type=TUPLE)
        for element in kind.parts:
            shape.tuple_shapes.append(to_proto(element))
        return shape
    shape = ShapeProto(element_type=kind.element)
    if kind.kind == "none":
        return shape
    shape.dimensions.extend(kind.dimensions)
    shape.is_dynamic_dimension.extend(axis in kind.dynamic for axis in range(kind.rank))
    shape.layout.minor_to_major.extend(reversed(range(kind.rank)))
    shape.layout.tail_padding_alignment_in_elements = 1
    return shape


def number(name: str) -> int:
    """Number of an element type by its name in text."""
    return BY_NAME[name].number


def called_types(program: Message) -> tuple[tuple[Type, ...], Type]:
    """Parameter types and result type of a called computation."""
    return tuple(of(parameter) for parameter in program.parameters), of(program.result)
