"""The part of CBOR (RFC 8949) that KLIR uses, written in one way only.

Integers and lengths take their shortest form, floats are binary32 (``fa``) or binary64 (``fb``),
text and arrays have a definite length, a structure is the tag ``d9 <type> <constructor>`` around
an array of at most 23 fields. The readers refuse every other spelling, so that reading and
writing a file restores its bytes.

Readers take ``(data, position)`` and return ``(value, next position)``. They raise
:class:`Damage`, or ``IndexError`` where the data ends; the caller converts both into a
:class:`~nki_lang.errors.NkiFileError`.
"""

from __future__ import annotations

from struct import Struct

__all__ = [
    "Damage",
    "array_head",
    "float32",
    "float64",
    "integer",
    "read_count",
    "read_float32",
    "read_float64",
    "read_integer",
    "read_text",
    "structure_head",
    "text",
]

_F32 = Struct(">Bf")
_F64 = Struct(">Bd")
_FLOAT32 = Struct(">f")
_FLOAT64 = Struct(">d")
_U16 = Struct(">BH")
_U32 = Struct(">BI")
_U64 = Struct(">BQ")

_UNSIGNED, _NEGATIVE, _TEXT, _ARRAY = 0x00, 0x20, 0x60, 0x80
_LIMIT = 1 << 64


class Damage(Exception):
    """Bytes that are no KLIR: ``offset`` and what is wrong there."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.offset = offset
        self.message = message


def _head(major: int, value: int) -> bytes:
    if value < 24:
        return bytes((major | value,))
    if value < 0x100:
        return bytes((major | 24, value))
    if value < 0x10000:
        return _U16.pack(major | 25, value)
    if value < 0x100000000:
        return _U32.pack(major | 26, value)
    if value < _LIMIT:
        return _U64.pack(major | 27, value)
    raise OverflowError(f"{value} does not fit into 64 bits")


_SMALL = tuple(_head(_UNSIGNED, value) for value in range(256))


def integer(value: int) -> bytes:
    """An integer in its shortest form.

    Raises:
        OverflowError: it needs more than 64 bits.
    """
    if 0 <= value < 256:
        return _SMALL[value]
    if value >= 0:
        return _head(_UNSIGNED, value)
    return _head(_NEGATIVE, -1 - value)


def text(value: str) -> bytes:
    """A string in UTF-8."""
    encoded = value.encode()
    return _head(_TEXT, len(encoded)) + encoded


def float32(value: float) -> bytes:
    """A binary32 number, rounded to nearest; what is too large becomes infinite."""
    try:
        return _F32.pack(0xFA, value)
    except OverflowError:
        return _F32.pack(0xFA, float("inf") if value > 0 else float("-inf"))


def float64(value: float) -> bytes:
    """A binary64 number."""
    return _F64.pack(0xFB, value)


def array_head(count: int) -> bytes:
    """The head before the elements of an array."""
    return _head(_ARRAY, count)


def structure_head(tag: int, constructor: int, fields: int) -> bytes:
    """The head before the fields of a structure (at most 23, properties counted)."""
    if fields > 23:
        raise OverflowError(f"a structure has at most 23 fields, not {fields}")
    return bytes((0xD9, tag, constructor, _ARRAY | fields))


_WIDTHS = {24: (1, 24), 25: (2, 0x100), 26: (4, 0x10000), 27: (8, 0x100000000)}


def _read_head(data: bytes, at: int, major: int, what: str) -> tuple[int, int]:
    first = data[at]
    if first & 0xE0 != major:
        raise Damage(at, f"expected {what}, found the byte 0x{first:02x}")
    short = first & 0x1F
    if short < 24:
        return short, at + 1
    width, least = _WIDTHS.get(short, (0, 0))
    if not width:
        raise Damage(at, f"{what} has the length code {short}, which KLIR does not use")
    end = at + 1 + width
    if end > len(data):
        raise IndexError
    value = int.from_bytes(data[at + 1 : end], "big")
    if value < least:
        raise Damage(at, f"{what} is not in its shortest form")
    return value, end


def read_integer(data: bytes, at: int) -> tuple[int, int]:
    """An integer of either sign."""
    first = data[at]
    if first < 24:
        return first, at + 1
    if first & 0xE0 == _NEGATIVE:
        value, at = _read_head(data, at, _NEGATIVE, "an integer")
        return -1 - value, at
    return _read_head(data, at, _UNSIGNED, "an integer")


def read_count(data: bytes, at: int) -> tuple[int, int]:
    """How many elements an array has; never more than bytes are left."""
    count, end = _read_head(data, at, _ARRAY, "a list")
    if count > len(data) - end:
        raise Damage(
            at, f"a list of {count} elements is announced where {len(data) - end} bytes are left"
        )
    return count, end


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """A string."""
    size, start = _read_head(data, at, _TEXT, "text")
    end = start + size
    if end > len(data):
        raise IndexError
    try:
        return data[start:end].decode(), end
    except UnicodeDecodeError:
        raise Damage(start, "text is not valid UTF-8") from None


def read_float32(data: bytes, at: int) -> tuple[float, int]:
    """A binary32 number."""
    if data[at] != 0xFA:
        raise Damage(at, f"expected a 32-bit float, found the byte 0x{data[at]:02x}")
    if at + 5 > len(data):
        raise IndexError
    return _FLOAT32.unpack_from(data, at + 1)[0], at + 5


def read_float64(data: bytes, at: int) -> tuple[float, int]:
    """A binary64 number."""
    if data[at] != 0xFB:
        raise Damage(at, f"expected a 64-bit float, found the byte 0x{data[at]:02x}")
    if at + 9 > len(data):
        raise IndexError
    return _FLOAT64.unpack_from(data, at + 1)[0], at + 9
