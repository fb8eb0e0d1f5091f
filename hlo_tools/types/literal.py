"""Literal: a constant of a module as a NumPy array, made when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hlo_tools import schema
from hlo_tools._messages import counted
from hlo_tools.errors import HloFileError, HloUnsupportedError
from hlo_tools.types.element_types import MOST_DIMENSIONS, Array
from hlo_tools.types.shape import Shape, array_shape
from hlo_tools.wire import fields as wire
from hlo_tools.wire.large_constants import LiteralRange, encode_varint

if TYPE_CHECKING:
    from hlo_tools.schema.messages import LiteralProto

__all__ = ["Literal", "StoredLiteral", "literal_of"]

_RAW_FIELDS = {"f32s": "<f4", "f64s": "<f8", "c64s": "<c8", "c128s": "<c16"}
"""Packed fields whose wire bytes are the elements themselves."""
_VARINT_FIELDS = ("preds", "s32s", "s64s", "u32s", "u64s")


class Literal:
    """A view of a LiteralProto. Elements stand in the proto in the order of the layout.

    Source of the element forms: XLA's ``xla_data.proto`` and files that jaxlib 0.10.2 wrote.
    """

    __slots__ = ("proto",)

    def __init__(self, proto: LiteralProto) -> None:
        self.proto = proto

    @property
    def shape(self) -> Shape:
        return Shape(self.proto.shape)

    @property
    def is_tuple(self) -> bool:
        """True for a tuple of literals."""
        return self.shape.is_tuple

    @property
    def parts(self) -> tuple[Literal, ...]:
        """Literals of a tuple's parts."""
        return tuple(Literal(element) for element in self.proto.tuple_literals)

    @property
    def is_elided(self) -> bool:
        """True when the elements are not there: text prints large constants as ``{...}``."""
        shape = self.shape
        return shape.is_array and shape.element_count > 0 and _stored(self.proto, shape) == 0

    def numpy(self) -> Array:
        """The elements as an array of the shape's dimensions, layout undone.

        Raises:
            HloFileError: a tuple or token (HLO-LITERAL), elements elided (HLO-ELIDED), or their
                number is not the shape's (HLO-LITERAL).
        """
        shape = self.shape
        if not shape.is_array:
            raise _wrong(f"a literal of shape {shape} is not an array; take its parts")
        if min(shape.dimensions, default=0) < 0:
            raise _wrong(f"a literal has the shape {shape}, with a dimension below zero")
        count, stored = shape.element_count, _stored(self.proto, shape)
        if stored != count:
            raise self._wrong_count(shape, stored)
        if count == 0:
            return np.zeros(shape.dimensions, shape.dtype)
        flat = _read(self.proto, shape)
        if len(flat) != count:
            raise self._wrong_count(shape, len(flat))
        return _undo_layout(flat, shape)

    def _wrong_count(self, shape: Shape, stored: int) -> HloFileError:
        if stored == 0:
            return HloFileError(
                f"the elements of a constant {shape} are not in the file (elided)",
                code="HLO-ELIDED",
                remedy="write the module with all constants, e.g. as a proto instead of as text",
            )
        return _wrong(
            f"{shape} has {counted(shape.element_count, 'element')}, the file holds {stored}"
        )

    def leaves(self) -> Iterator[tuple[tuple[int, ...], Literal]]:
        """(shape index, literal) of every part that is not a tuple."""
        if not self.is_tuple:
            yield (), self
            return
        for number, element in enumerate(self.parts):
            for index, leaf in element.leaves():
                yield (number, *index), leaf

    def __repr__(self) -> str:
        return f"Literal({str(self.shape)!r})"


class StoredLiteral(Literal):
    """A constant that stays in its file: elements are read from there, without a copy if possible.

    Its ``proto`` is parsed when asked for, and holds all elements.
    """

    __slots__ = ("_proto", "_shape", "_stored")

    def __init__(self, stored: LiteralRange, shape: Shape) -> None:
        self._stored = stored
        self._shape = shape
        self._proto: LiteralProto | None = None

    @property
    def proto(self) -> LiteralProto:  # pyright: ignore[reportIncompatibleVariableOverride]
        if self._proto is None:
            stored = self._stored
            proto = schema.LiteralProto()
            proto.ParseFromString(bytes(stored.buffer[stored.begin : stored.end]))
            self._proto = proto
        return self._proto

    @property
    def shape(self) -> Shape:
        return self._shape

    @property
    def is_elided(self) -> bool:
        return False

    def numpy(self) -> Array:
        """Like :meth:`Literal.numpy`; a read-only view of the file if the elements are raw bytes."""
        raw = self._raw()
        element = self._shape.element
        if raw is None or element.dtype is None:
            return super().numpy()
        form = _RAW_FIELDS.get(element.field, element.dtype.newbyteorder("<"))
        flat = np.frombuffer(raw, form).astype(element.dtype, copy=False)
        if len(flat) != self._shape.element_count:
            raise self._wrong_count(self._shape, len(flat))
        return _undo_layout(flat, self._shape)

    def _raw(self) -> memoryview | None:
        """The elements' bytes, when they stand in one run of plain bytes."""
        name = self._shape.element.field
        if name in _VARINT_FIELDS or not name:
            return None
        number = schema.LiteralProto.DESCRIPTOR.fields_by_name[name].number
        stored = self._stored
        runs = [
            f for f in wire.fields(stored.buffer, stored.begin, stored.end) if f.number == number
        ]
        if len(runs) != 1 or runs[0].wire_type != wire.BYTES:
            return None
        width = np.dtype(_RAW_FIELDS.get(name, self._shape.dtype)).itemsize
        if (runs[0].end - runs[0].begin) % width:
            return None
        return memoryview(stored.buffer)[runs[0].begin : runs[0].end]


def literal_of(
    value: ArrayLike, *, layout: tuple[int, ...] | None = None, element: str | None = None
) -> Literal:
    """A new literal with the elements of an array (or anything ``numpy.asarray`` takes).

    Args:
        value: the array, number or nested list.
        layout: minor to major; row-major when not given.
        element: the element type's name where the dtype does not determine it (``"s1"``).

    Raises:
        TypeError: HLO has no element type for the dtype.
    """
    array = np.asarray(value)
    proto = schema.LiteralProto()
    proto.shape.CopyFrom(array_shape(element or array.dtype, array.shape, layout).proto)
    store(proto, array)
    return Literal(proto)


def store(proto: LiteralProto, array: Array) -> None:
    """Put an array, in logical order, into a ``LiteralProto`` whose shape is set already."""
    shape = Shape(proto.shape)
    _write(proto, shape.element.field, _apply_layout(array, shape))


def _stored(proto: LiteralProto, shape: Shape) -> int:
    """Return the number of elements in the proto, without reading them."""
    element = shape.element
    size = len(getattr(proto, element.field))
    if element.kind == "complex":
        return size // 2
    if element.field in _RAW_FIELDS or element.field in _VARINT_FIELDS:
        return size
    return size // element.itemsize


def _read(proto: LiteralProto, shape: Shape) -> Array:
    """The elements as they stand, one-dimensional."""
    field, dtype = shape.element.field, shape.element.dtype
    assert dtype is not None
    if field in _RAW_FIELDS:
        data = _packed(proto, field)
        if len(data) % dtype.itemsize:
            raise _of_another_size(shape, f"{len(data)} bytes")
        return np.frombuffer(data, _RAW_FIELDS[field]).astype(dtype, copy=False)
    values = getattr(proto, field)
    if field in _VARINT_FIELDS:
        return np.fromiter(values, dtype, len(values))
    if len(values) % dtype.itemsize:
        raise _of_another_size(shape, f"{len(values)} bytes")
    return np.frombuffer(values, dtype.newbyteorder("<")).astype(dtype, copy=False)


def _of_another_size(shape: Shape, actual: str) -> HloFileError:
    return HloFileError(
        f"a literal of {shape} has {actual}", code="HLO-LITERAL-SIZE",
        remedy="the module is damaged, or was written wrongly",
    )  # fmt: skip


def _packed(proto: LiteralProto, field: str) -> bytes:
    """The wire bytes of a packed field: much faster than one Python number an element.

    A message whose numbers came in several runs, or one by one, is serialised as one run.
    """
    number = proto.DESCRIPTOR.fields_by_name[field].number
    data = proto.SerializeToString()
    for message_field in wire.fields(data):
        if message_field.number == number:
            return data[message_field.begin : message_field.end]
    return b""


def _write(proto: LiteralProto, field: str, flat: Array) -> None:
    if field in _RAW_FIELDS:
        raw = flat.astype(_RAW_FIELDS[field], copy=False).tobytes()
        number = proto.DESCRIPTOR.fields_by_name[field].number
        proto.MergeFromString(
            encode_varint(number << 3 | wire.BYTES) + encode_varint(len(raw)) + raw
        )
    elif field in _VARINT_FIELDS:
        getattr(proto, field).extend(flat.tolist())
    else:
        setattr(proto, field, flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes())


def _undo_layout(flat: Array, shape: Shape) -> Array:
    if shape.rank > MOST_DIMENSIONS:
        raise HloUnsupportedError(
            f"a literal has {shape.rank} dimensions; arrays of NumPy have at most "
            f"{MOST_DIMENSIONS}",
            code="HLO-RANK",
            remedy="read its elements in the module's text",
        )
    if shape.is_row_major:
        return flat.reshape(shape.dimensions)
    major_to_minor = shape.layout[::-1]
    _check_layout(shape)
    stored = flat.reshape([shape.dimensions[axis] for axis in major_to_minor])
    return stored.transpose(np.argsort(major_to_minor))


def _apply_layout(array: Array, shape: Shape) -> Array:
    if shape.is_row_major:
        return array.ravel()
    _check_layout(shape)
    return array.transpose(shape.layout[::-1]).ravel()


def _check_layout(shape: Shape) -> None:
    if sorted(shape.layout) != list(range(shape.rank)):
        raise _wrong(f"the layout of {shape} does not name each dimension once")


def _wrong(message: str) -> HloFileError:
    return HloFileError(
        message, code="HLO-LITERAL", remedy="the module is damaged, or was edited inconsistently"
    )
