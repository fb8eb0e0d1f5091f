"""Shape: a view of a ShapeProto."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from numpy.typing import DTypeLike

from hlo_tools import schema
from hlo_tools.types.element_types import (
    BY_NAME,
    BY_NUMBER,
    INVALID,
    DType,
    ElementType,
    element_of,
)

if TYPE_CHECKING:
    from hlo_tools.schema.messages import ShapeProto

__all__ = ["Shape", "array_shape", "parse_shape", "token_shape", "tuple_shape"]

_TUPLE, _TOKEN = 13, 17


class Shape:
    """Element type, dimensions and layout of an array, or the shapes of a tuple.

    A view: it reads and never copies ``proto``. Two shapes are equal when their text is, layouts
    included; :meth:`same_array` leaves layouts out.
    """

    __slots__ = ("_text", "proto")

    def __init__(self, proto: ShapeProto) -> None:
        self.proto = proto
        self._text = ""

    @property
    def element(self) -> ElementType:
        """The element type; ``invalid`` for a number that this version does not know."""
        return BY_NUMBER.get(self.proto.element_type, INVALID)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes; the bound for a dynamic dimension."""
        return tuple(self.proto.dimensions)

    @property
    def dynamic(self) -> tuple[bool, ...]:
        """True for each dimension whose size is only a bound."""
        flags = tuple(self.proto.is_dynamic_dimension)
        return flags if len(flags) == self.rank else (False,) * self.rank

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.proto.dimensions)

    @property
    def is_tuple(self) -> bool:
        """True for a tuple of shapes."""
        return self.proto.element_type == _TUPLE

    @property
    def is_token(self) -> bool:
        """True for a token, which orders effects and has no data."""
        return self.proto.element_type == _TOKEN

    @property
    def is_array(self) -> bool:
        """True when it has elements (no tuple, token, opaque or buffer)."""
        return self.element.dtype is not None

    @property
    def is_scalar(self) -> bool:
        """True for an array without dimensions."""
        return self.is_array and self.rank == 0

    @property
    def tuple_shapes(self) -> tuple[Shape, ...]:
        """Shapes of a tuple's parts; empty for anything else."""
        return tuple(Shape(element) for element in self.proto.tuple_shapes)

    @property
    def dtype(self) -> DType | None:
        """The NumPy dtype of the elements, or None where there are none."""
        return self.element.dtype

    @property
    def element_count(self) -> int:
        """Elements of an array; 0 for anything else."""
        return math.prod(self.proto.dimensions) if self.is_array else 0

    @property
    def byte_size(self) -> int:
        """Bytes as NumPy holds them (sub-byte types take a byte), parts of tuples added up."""
        if self.is_tuple:
            return sum(element.byte_size for element in self.tuple_shapes)
        return self.element_count * self.element.itemsize

    @property
    def has_layout(self) -> bool:
        """True if the order of dimensions in memory is stated."""
        return self.proto.HasField("layout")

    @property
    def layout(self) -> tuple[int, ...]:
        """``minor_to_major``: the fastest dimension first; row-major when no layout is given."""
        order = tuple(self.proto.layout.minor_to_major)
        return order if len(order) == self.rank else tuple(range(self.rank - 1, -1, -1))

    @property
    def is_row_major(self) -> bool:
        """True when the last dimension is the fastest, as in NumPy."""
        return self.layout == tuple(range(self.rank - 1, -1, -1))

    def leaves(self) -> Iterator[tuple[tuple[int, ...], Shape]]:
        """(shape index, shape) of every part that is not a tuple, in order."""
        if not self.is_tuple:
            yield (), self
            return
        for number, element in enumerate(self.tuple_shapes):
            for index, leaf in element.leaves():
                yield (number, *index), leaf

    def same_array(self, other: Shape) -> bool:
        """Return True if both are equal without layouts and dynamic marks."""
        left, right = self.proto, other.proto
        if left.element_type != right.element_type or left.dimensions != right.dimensions:
            return False
        if len(left.tuple_shapes) != len(right.tuple_shapes):
            return False
        return all(
            a.same_array(b) for a, b in zip(self.tuple_shapes, other.tuple_shapes, strict=True)
        )

    def __str__(self) -> str:
        if not self._text:
            from hlo_tools.types.shape_text import print_shape  # late: few shapes are printed

            self._text = print_shape(self.proto)
        return self._text

    def __repr__(self) -> str:
        return f"Shape({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == other
        return isinstance(other, Shape) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def array_shape(
    element: ElementType | DTypeLike,
    dimensions: Sequence[int] = (),
    layout: Sequence[int] | None = None,
) -> Shape:
    """A new array shape, laid out row-major unless ``layout`` (minor to major) says otherwise.

    Args:
        element: an element type, its name (``"f32"``), or a NumPy dtype.
        dimensions: the extents, outermost first; none for a scalar.
        layout: the dimensions, minor to major.

    Raises:
        TypeError: HLO has no such element type.
    """
    if isinstance(element, str) and element in BY_NAME:
        element = BY_NAME[element]
    elif not isinstance(element, ElementType):
        element = element_of(element)
    proto = schema.ShapeProto(element_type=element.number, dimensions=dimensions)
    rank = len(proto.dimensions)
    order = range(rank - 1, -1, -1) if layout is None else layout
    proto.layout.minor_to_major.extend(order)
    proto.layout.tail_padding_alignment_in_elements = 1
    proto.is_dynamic_dimension.extend([False] * rank)
    return Shape(proto)


def tuple_shape(parts: Iterable[Shape]) -> Shape:
    """A new tuple shape; the parts are copied."""
    proto = schema.ShapeProto(element_type=_TUPLE)
    proto.tuple_shapes.extend(element.proto for element in parts)
    return Shape(proto)


def token_shape() -> Shape:
    """A new token shape."""
    return Shape(schema.ShapeProto(element_type=_TOKEN))


def parse_shape(text: str) -> Shape:
    """Parse the text of a shape, as in ``f32[2,3]{1,0}``.

    Raises:
        HloTextError: it is none; the place is the column (counted from 1) and what was expected.
    """
    from hlo_tools.types.shape_text import parse_shape_into

    proto = schema.ShapeProto()
    parse_shape_into(text, proto)
    return Shape(proto)
