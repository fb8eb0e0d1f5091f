"""Serialized protocol-buffer messages, read and edited as bytes: what is not touched stays as it is.

A module can hold gigabytes of constants; reading a few fields and changing a few instructions
must not parse and rebuild all of it. (``hlo_tools.wire`` reads; the fields that the device
writes are made here.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from hlo_tools.wire import fields as wire

__all__ = ["Field", "bytes_field", "fields", "integers", "rewritten", "varint", "varint_field"]


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: field number.
        start, end: the whole field in the message, tag included.
        value: an integer, or the bytes of a length-delimited or fixed-width field.
    """

    number: int
    start: int
    end: int
    value: int | bytes


def varint(value: int) -> bytes:
    """A variable-length integer (negative ones as 64-bit two's complement)."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_field(number: int, value: int) -> bytes:
    """An integer field."""
    return varint(number << 3) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """A string, bytes or message field."""
    return varint(number << 3 | 2) + varint(len(value)) + value


def fields(data: bytes) -> Iterator[Field]:
    """The fields of a message in their order.

    Raises:
        HloFileError: the bytes are not a message.
    """
    for field in wire.fields(data):
        is_number = field.wire_type == wire.VARINT
        value = field.value if is_number else data[field.begin : field.end]
        yield Field(field.number, field.offset, field.end, value)


def integers(data: bytes, number: int) -> list[int]:
    """A repeated integer field, packed or not."""
    numbers: list[int] = []
    for field in fields(data):
        if field.number != number:
            continue
        if isinstance(field.value, int):
            numbers.append(field.value)
            continue
        location = 0
        while location < len(field.value):
            value, location = wire.read_varint(field.value, location, len(field.value))
            numbers.append(value)
    return numbers


def rewritten(data: bytes, number: int, change: Callable[[bytes], bytes]) -> bytes:
    """The message with every length-delimited field ``number`` passed through ``change``."""
    parts: list[bytes] = []
    copied_end = 0
    for field in fields(data):
        if field.number != number or isinstance(field.value, int):
            continue
        value = change(field.value)
        if value is field.value:
            continue
        parts += [data[copied_end : field.start], bytes_field(number, value)]
        copied_end = field.end
    return b"".join([*parts, data[copied_end:]]) if parts else data
