"""The subset of CBOR (RFC 8949) that KLIR uses, in its canonical encoding only.

Integers and lengths take their shortest form, floats are binary32 (``fa``) or binary64 (``fb``),
text and arrays have a definite length, a structure is the tag ``d9 <type> <constructor>`` around
an array of at most 23 fields. The readers refuse every other spelling, so that reading and
writing a file restores its bytes.

Readers take ``(data, position)`` and return ``(value, next position)``. They raise
:class:`Damage`, or ``IndexError`` where the data ends; the caller converts both into a
:class:`~nki_lang.base.errors.NkiFileError`.
"""

from __future__ import annotations

from struct import Struct

__all__ = [
    "Damage",
    "UnknownStructure",
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
_INTEGER_LIMIT = 1 << 64


class Damage(Exception):
    """Bytes that are no KLIR, with their offset and the reason."""

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
    if value < _INTEGER_LIMIT:
        return _U64.pack(major | 27, value)
    raise OverflowError(f"{value} does not fit into 64 bits")


_SMALL_INTEGER_BYTES = tuple(_head(_UNSIGNED, value) for value in range(256))


def integer(value: int) -> bytes:
    """Return an integer in its shortest form.

    Raises:
        OverflowError: it needs more than 64 bits.
    """
    if 0 <= value < 256:
        return _SMALL_INTEGER_BYTES[value]
    if value >= 0:
        return _head(_UNSIGNED, value)
    return _head(_NEGATIVE, -1 - value)


def text(value: str) -> bytes:
    """Return a string in UTF-8."""
    encoded = value.encode()
    return _head(_TEXT, len(encoded)) + encoded


def float32(value: float) -> bytes:
    """Return a binary32 number, rounded to nearest; a number that is too large becomes infinite."""
    try:
        return _F32.pack(0xFA, value)
    except OverflowError:
        return _F32.pack(0xFA, float("inf") if value > 0 else float("-inf"))


def float64(value: float) -> bytes:
    """Return a binary64 number."""
    return _F64.pack(0xFB, value)


def array_head(count: int) -> bytes:
    """Return the head before the elements of an array."""
    return _head(_ARRAY, count)


def structure_head(tag: int, constructor: int, fields: int) -> bytes:
    """Return the head before the fields of a structure (at most 23, properties counted)."""
    if fields > 23:
        raise OverflowError(f"a structure has at most 23 fields, not {fields}")
    return bytes((0xD9, tag, constructor, _ARRAY | fields))


# Length code -> bytes of the length, and the smallest length that needs them.
_LENGTH_CODES = {24: (1, 24), 25: (2, 0x100), 26: (4, 0x10000), 27: (8, 0x100000000)}


def _read_head(data: bytes, position: int, major: int, expected: str) -> tuple[int, int]:
    first = data[position]
    if first & 0xE0 != major:
        raise Damage(position, f"expected {expected}, found the byte 0x{first:02x}")
    short = first & 0x1F
    if short < 24:
        return short, position + 1
    width, minimum = _LENGTH_CODES.get(short, (0, 0))
    if not width:
        raise Damage(position, f"{expected} has the length code {short}, which KLIR does not use")
    end = position + 1 + width
    if end > len(data):
        raise IndexError
    value = int.from_bytes(data[position + 1 : end], "big")
    if value < minimum:
        raise Damage(position, f"{expected} is not in its shortest form")
    return value, end


def read_integer(data: bytes, position: int) -> tuple[int, int]:
    """Read an integer of either sign."""
    first = data[position]
    if first < 24:
        return first, position + 1
    if first & 0xE0 == _NEGATIVE:
        value, position = _read_head(data, position, _NEGATIVE, "an integer")
        return -1 - value, position
    return _read_head(data, position, _UNSIGNED, "an integer")


def read_count(data: bytes, position: int) -> tuple[int, int]:
    """Read the number of elements of an array; it is at most the number of remaining bytes."""
    count, end = _read_head(data, position, _ARRAY, "a list")
    if count > len(data) - end:
        raise Damage(
            position,
            f"a list of {count} elements is announced where {len(data) - end} bytes are left",
        )
    return count, end


def read_text(data: bytes, position: int) -> tuple[str, int]:
    """Read a string."""
    size, start = _read_head(data, position, _TEXT, "text")
    end = start + size
    if end > len(data):
        raise IndexError
    try:
        return data[start:end].decode(), end
    except UnicodeDecodeError:
        raise Damage(start, "text is not valid UTF-8") from None


def read_float32(data: bytes, position: int) -> tuple[float, int]:
    """Read a binary32 number."""
    if data[position] != 0xFA:
        raise Damage(position, f"expected a 32-bit float, found the byte 0x{data[position]:02x}")
    if position + 5 > len(data):
        raise IndexError
    return _FLOAT32.unpack_from(data, position + 1)[0], position + 5


def read_float64(data: bytes, position: int) -> tuple[float, int]:
    """Read a binary64 number."""
    if data[position] != 0xFB:
        raise Damage(position, f"expected a 64-bit float, found the byte 0x{data[position]:02x}")
    if position + 9 > len(data):
        raise IndexError
    return _FLOAT64.unpack_from(data, position + 1)[0], position + 9


class UnknownStructure(Damage):
    """A well-formed structure whose tag, constructor or number of fields the schema lacks."""

    def __init__(self, offset: int, message: str, structure: str) -> None:
        super().__init__(offset, message)
        self.structure = structure
