"""The protobuf wire format, read without a schema: fields of a message as ranges of a buffer.

Used where a whole parse would be too much (detecting kinds of files, files beyond what
protobuf reads) and where it failed (finding the byte at which a file is damaged).
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Any, NamedTuple, cast

from hlo_tools.errors import HloFileError

__all__ = ["BYTES", "FIXED32", "FIXED64", "VARINT", "Field", "fields", "read_varint", "signed"]

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)
_NAMES = ("varint", "fixed64", "bytes", "group", "end of group", "fixed32")

Buffer = bytes | memoryview | mmap


class Field(NamedTuple):
    """One field: where it starts, its number and wire type, and its value.

    ``value`` is the number of a varint; for the others ``begin`` and ``end`` bound the payload.
    """

    offset: int
    number: int
    wire_type: int
    begin: int
    end: int
    value: int


def damage(offset: int, reason: str, *, code: str = "HLO-DAMAGED") -> HloFileError:
    """The error for bytes that cannot be right at ``offset``."""
    return HloFileError(
        f"damaged at byte {offset}: {reason}",
        code=code,
        place=f"byte {offset}",
        remedy="the file was cut or changed after it was written; get it again from its source",
    )


def read_varint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """The unsigned number at ``position`` and the position after it.

    Raises:
        HloFileError: the number runs past ``end`` (code HLO-TRUNCATED) or past ten bytes.
    """
    start = position
    result = shift = 0
    while True:
        if position >= end:
            raise damage(start, "a number runs past the end of its message", code="HLO-TRUNCATED")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift >= 70:
            raise damage(start, "a number longer than ten bytes")


def signed(value: int) -> int:
    """An int64 from the unsigned number of a varint."""
    return value - (1 << 64) if value >= 1 << 63 else value


def fields(data: Buffer, begin: int = 0, end: int | None = None) -> Iterator[Field]:
    """Every field of the message that fills ``data[begin:end]``, payloads untouched.

    Raises:
        HloFileError: the bytes are no message; offset and reason are in the text.
    """
    position = begin
    stop = len(data) if end is None else end
    make = cast(Any, tuple).__new__  # half of what Field(...) takes
    while position < stop:
        offset = position
        tag = data[position]
        if tag < 0x80:  # nearly always: a loop over a large module spends its time here
            position += 1
        else:
            tag, position = read_varint(data, position, stop)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or number > 0x1FFFFFFF:
            raise damage(offset, f"field number {number} does not exist")
        value, start = 0, position
        if wire_type == VARINT:
            value, position = read_varint(data, position, stop)
        elif wire_type == BYTES:
            if position < stop and data[position] < 0x80:
                size, start = data[position], position + 1
            else:
                size, start = read_varint(data, position, stop)
            position = start + size
        elif wire_type in (FIXED64, FIXED32):
            position += 8 if wire_type == FIXED64 else 4
        else:
            raise damage(offset, f"wire type {wire_type} is not used by HLO files")
        if position > stop:
            raise damage(
                offset,
                f"field {number} ({_NAMES[wire_type]}) needs {position - start} bytes, "
                f"{stop - start} are left",
                code="HLO-TRUNCATED",
            )
        yield make(Field, (offset, number, wire_type, start, position, value))
