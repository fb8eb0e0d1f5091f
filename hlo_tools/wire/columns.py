"""Many messages of one buffer taken apart at once: their fields as columns of NumPy arrays.

:func:`hlo_tools.wire.fields.fields` makes an object for each field; here all messages are read in step,
first field with first field, so that Python's cost is that of the longest message and not that of
all of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from hlo_tools.wire import fields as wire

if TYPE_CHECKING:
    from hlo_tools.wire.fields import Buffer

__all__ = ["Table", "Words", "split", "starts", "varints"]

Array = Any
_CHUNK = 1 << 14
"""Messages that are read in step: few enough for the arrays to stay in the cache."""
_MAX_SCALAR_MESSAGES = 24
"""If no more messages have fields left, each is read by a scalar loop: columns would be too short."""
_STOPS, _TWO_STOPS = np.uint64(0x8080808080808080), np.uint64(0x8080)
_ONE, _SEVEN_BITS = np.uint64(1), np.uint64(7)
_SEVEN = tuple(np.uint64(0x7F << 7 * position) for position in range(2))
_HALVES = tuple(
    (np.uint64(width), np.uint64(low), np.uint64(high))
    for width, low, high in (
        (1, 0x007F007F007F007F, 0x7F007F007F007F00),
        (2, 0x00003FFF00003FFF, 0x3FFF00003FFF0000),
        (4, 0x000000000FFFFFFF, 0x0FFFFFFF00000000),
    )
)
"""How seven bits of each byte move together: two bytes, then four, then all eight."""
_PLACES, _LAST_BYTE = np.uint64(0x0102030405060708), np.uint64(56)
"""Times the bit of a byte, it has that byte's place, from 1, at the top."""
_LARGEST_TAG, _FAR = np.uint64(0xFFFFFFFF), np.uint64(1 << 60)
_LEAVE, _TAKE = 1, 2
_SIZES = np.array([0, 8, 0, 1 << 60, 1 << 60, 4, 1 << 60, 1 << 60], np.int64)
"""Bytes of a value by its wire type, where the type fixes them; else more than any file has."""


class Table(NamedTuple):
    """Fields of many messages, those of one message in their order.

    Attributes:
        row: the message's number.
        tag: the field's number and wire type (``number << 3 | type``).
        begin, end: bounds of its payload; of a varint, where it stands itself.
    """

    row: Array
    tag: Array
    begin: Array
    end: Array

    def of(self, *tags: int) -> Table:
        """The fields of some tags."""
        is_chosen = self.tag == tags[0]
        for tag in tags[1:]:
            is_chosen |= self.tag == tag
        chosen = np.flatnonzero(is_chosen)
        return Table(*(column[chosen] for column in self))


class Words:
    """A buffer whose next eight bytes can be read anywhere.

    Args:
        data: bytes or a memory map; it is not copied (unless it has less than eight bytes).
    """

    def __init__(self, data: Buffer) -> None:
        self.data = data
        padded = data if len(data) >= 8 else bytes(data) + bytes(8)
        # Overlapping words, one from each byte on: an unaligned load is one index, nothing is
        # copied, and a memory map is only paged in where it is read.
        self._last = len(padded) - 8
        self._words = np.ndarray((self._last + 1,), "<u8", padded, strides=(1,))

    def at(self, positions: Array) -> Array:
        """The eight bytes from each position as a little-endian number; 0 after the end."""
        if positions.size == 0 or int(positions.max()) <= self._last:
            return self._words[positions]
        # Near the end the last whole word is read and shifted, so that bytes after the end are 0.
        safe = np.minimum(positions, self._last)
        beyond = np.minimum(positions - safe, 8).astype(np.uint64) * np.uint64(8)
        # A shift by 64 is undefined in C: such rows are shifted by less and cleared.
        loaded = self._words[safe] >> np.minimum(beyond, np.uint64(63))
        loaded[beyond > 56] = 0
        return loaded


def varints(words: Words, positions: Array) -> tuple[Array, Array]:
    """The varints at ``positions``: their values (uint64) and lengths (0 where one has no end)."""
    value, length = np.empty(positions.size, np.uint64), np.empty(positions.size, np.int64)
    for start in range(0, positions.size, _CHUNK):
        chunk = slice(start, start + _CHUNK)
        value[chunk], length[chunk] = _varints(words, positions[chunk])
    return value, length


def _varints(words: Words, positions: Array) -> tuple[Array, Array]:
    value, length = _short(words.at(positions))
    long = np.flatnonzero(length == 0)
    if long.size:
        # Eight bytes hold 56 bits; the ninth holds seven more, and of the tenth only the lowest
        # bit fits in 64. Negative numbers (int32 fields too) are always written in ten bytes.
        later_bytes = words.at(positions[long] + 8)
        ninth, tenth = later_bytes & np.uint64(0xFF), later_bytes >> np.uint64(8) & np.uint64(0xFF)
        value[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        value[long] |= np.where(
            ninth >= 0x80, (tenth & np.uint64(1)) << np.uint64(63), np.uint64(0)
        )
        length[long] = np.where(ninth < 0x80, 9, np.where(tenth < 0x80, 10, 0))
    return value, length


def _short(word: Array) -> tuple[Array, Array]:
    """Values and lengths of varints of up to eight bytes; length 0 for longer ones."""
    # The last byte of a varint has its top bit clear. ``x & -x`` keeps the first such byte only;
    # where there is none, ``stop`` is 0, and so are the mask below and the length.
    stops = ~word & _STOPS
    stop = stops & (~stops + _ONE)
    value = word & ((stop << _ONE) - _ONE)
    # Close the gaps that the top bits leave: 8 x 7 bits become 4 x 14, 2 x 28, 1 x 56.
    for width, low, high in _HALVES:
        value = value & low | (value & high) >> width
    return value, ((stop >> _SEVEN_BITS) * _PLACES >> _LAST_BYTE).astype(np.int64)


def starts(fields: Table) -> Array:
    """Where fields start, if their tags and lengths are written as short as can be."""
    size = fields.end - fields.begin
    length = 1 + sum((size >= 1 << 7 * position).astype(np.int64) for position in range(1, 5))
    width = 1 + (fields.tag >= 1 << 7).astype(np.int64) + (fields.tag >= 1 << 14)
    return fields.begin - width - np.where(fields.tag & 7 == wire.BYTES, length, 0)


def split(
    words: Words, begin: Array, end: Array, tags_wanted: Iterable[int], *, beyond: bool = False
) -> Table:
    """The fields of some tags (below 1 << 15) of the messages ``data[begin[i]:end[i]]``.

    Args:
        beyond: take the fields of all larger tags too; each then has the tag ``max(tags_wanted | 7) + 1``.

    Raises:
        HloFileError: one of them is not a message; offset and reason are in the text.
    """
    tags = list(tags_wanted)
    chosen = np.zeros((max(tags) | 7) + 2, bool)
    chosen[tags] = True
    chosen[-1] = beyond
    tables = [
        table
        for start in range(0, len(begin), _CHUNK)
        for table in _in_step(
            words, begin[start : start + _CHUNK], end[start : start + _CHUNK], start, chosen
        )
    ]
    if not tables:
        return Table(*(np.zeros(0, np.int64) for _ in Table._fields))
    return Table(*(np.concatenate(column) for column in zip(*tables, strict=True)))


def _in_step(words: Words, begin: Array, end: Array, base: int, chosen: Array) -> list[Table]:
    tables: list[Table] = []
    rows = np.flatnonzero(begin < end)
    position, stop = begin[rows], end[rows]
    # One turn reads the next field of every message that has one, so the number of turns is that
    # of the fields of the longest message. The few messages that are much longer than the others
    # would make turns for nothing but themselves; those are scanned one by one below.
    while rows.size > _MAX_SCALAR_MESSAGES:
        tag, start, finish, fine = _next_field(words, position, stop)
        if not fine.all():
            _refuse(words.data, begin, end, rows[~fine])
        # The last entry of ``chosen`` stands for all larger tags.
        tag = np.minimum(tag, len(chosen) - 1)
        keep = np.flatnonzero(chosen[tag])
        chosen_tags = tag[keep].astype(np.int16)
        tables.append(Table(rows[keep] + base, chosen_tags, start[keep], finish[keep]))
        left = np.flatnonzero(finish < stop)
        rows, position, stop = rows[left], finish[left], stop[left]
    if rows.size:
        ends = zip(position.tolist(), stop.tolist(), strict=True)
        field_positions = [
            _scan(words.data, first, until, chosen.tolist()) for first, until in ends
        ]
        counts = [len(positions) for positions in field_positions]
        starts = np.concatenate(
            [np.frombuffer(positions, np.int64) for positions in field_positions]
        )
        tag, start, finish, _ = _next_field(words, starts, np.repeat(stop, counts))
        owners = np.repeat(rows + base, counts)
        tag = np.minimum(tag, len(chosen) - 1)
        tables.append(Table(owners, tag.astype(np.int16), start, finish))
    return tables


def _scan(data: wire.Buffer, position: int, stop: int, chosen: list[bool]) -> array[int]:
    """Where the chosen fields of one message stand."""
    field_positions = array("q")
    # Nearly all fields have a tag of one byte, and a payload with a length of one or two: these
    # are stepped over without a call. Everything else, and every error, goes through ``fields``.
    short = [0] * 256
    for tag in range(8 | wire.BYTES, 128, 8):
        short[tag] = _TAKE if chosen[min(tag, len(chosen) - 1)] else _LEAVE
    last = len(data) - 2
    while position < stop:
        action = short[data[position]]
        if action and position < last:
            size = data[position + 1]
            if size < 0x80:
                end = position + size + 2
            else:
                more = data[position + 2]
                # 3 bytes of header, and ``size`` has its top bit set: 3 - 0x80 = -0x7D.
                end = position + size + (more << 7) - 0x7D if more < 0x80 else stop + 1
            if end <= stop:
                if action == _TAKE:
                    field_positions.append(position)
                position = end
                continue
        field = next(wire.fields(data, position, stop))
        tag = field.number << 3 | field.wire_type
        if chosen[min(tag, len(chosen) - 1)]:
            field_positions.append(position)
        position = field.end
    return field_positions


def _next_field(words: Words, position: Array, stop: Array) -> tuple[Array, Array, Array, Array]:
    """(tag, payload's begin and end, whether all is right) of the field at each position."""
    word = words.at(position)
    tag, width = _mostly_short(words, word, position)
    start = position + width
    value, length = _mostly_short(words, word >> (width << 3).astype(np.uint64), start)
    kind = (tag & np.uint64(7)).astype(np.intp)
    size = np.minimum(value, _FAR).astype(np.int64)  # a sum with it stays below 2^63
    is_bytes = kind == wire.BYTES
    if is_bytes.all():
        begin: Array = start + length
        finish: Array = begin + size
    else:
        begin = cast(Array, np.where(is_bytes, start + length, start))
        fixed_size = cast(Array, np.where(kind == wire.VARINT, length, _SIZES[kind]))
        finish = begin + cast(Array, np.where(is_bytes, size, fixed_size))
    fine: Array = (finish <= stop) & (tag > 7) & (tag <= _LARGEST_TAG)
    return tag.astype(np.int64), begin, finish, fine


def _mostly_short(words: Words, word: Array, position: Array) -> tuple[Array, Array]:
    """As :func:`varints`, of which ``word`` has the first bytes; far too long where none ends."""
    # One byte or two without a branch: ``more`` is the first byte's continuation bit, and the
    # second byte counts only where it is set. Longer ones are rare, and read again in full.
    more = word >> _SEVEN_BITS & _ONE
    value = word & _SEVEN[0] | (word >> _ONE & _SEVEN[1]) * more
    length = more.astype(np.int64) + 1
    long = np.flatnonzero(word & _TWO_STOPS == _TWO_STOPS)
    if long.size:
        long_values, bytes_of = varints(words, position[long])
        bytes_of[bytes_of == 0] = int(_FAR)
        value[long], length[long] = long_values, bytes_of
    return value, length


def _refuse(data: Buffer, begin: Array, end: Array, rows: Array) -> None:
    """Raise the error of the first message that is none."""
    for row in rows.tolist():
        for _ in wire.fields(data, int(begin[row]), int(end[row])):
            pass
    raise wire.damage(int(begin[rows[0]]), "this is not a message")
