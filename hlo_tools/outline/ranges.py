"""Byte ranges of a file, looked into all at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hlo_tools.wire.columns import Words, varints
from hlo_tools.wire.fields import damage

__all__ = ["lists", "not_ascii", "unpacked"]

Array = Any

_MAX_SCALAR_LISTS = 24
"""From so few lists on that still have numbers, each is read by itself."""


def lists(*columns: Array) -> Iterator[list[int]]:
    """Columns as lists: looping over Python numbers is several times faster than over NumPy's."""
    return (column.tolist() for column in columns)


def not_ascii(words: Words, begin: Array, end: Array) -> Array:
    """Which ranges have a byte that is not ASCII."""
    has_other_bytes = np.zeros(len(begin), bool)
    rows = np.flatnonzero(begin < end)
    position, left = begin[rows], (end - begin)[rows]
    while rows.size:
        # Bytes behind the range's end are shifted out.
        word = words.at(position) << (np.maximum(8 - left, 0) << 3).astype(np.uint64)
        has_other_bytes[rows] |= (word & np.uint64(0x8080808080808080)) != 0
        keep = np.flatnonzero(left > 8)
        rows, position, left = rows[keep], position[keep] + 8, left[keep] - 8
    return np.flatnonzero(has_other_bytes)


def unpacked(words: Words, begin: Array, end: Array) -> tuple[Array, Array]:
    """(number of the range, value) of all varints in ranges, in order.

    Raises:
        HloFileError: a varint has no end in its range.
    """
    owners: list[Array] = []
    values: list[Array] = []
    rows = np.flatnonzero(begin < end)
    position, stop = begin[rows], end[rows]
    # In step while many lists have numbers left; the few longest are then read at once each, by
    # the bytes that end a number (those without the top bit).
    while rows.size > _MAX_SCALAR_LISTS:
        value, length = varints(words, position)
        after = position + length
        if not ((length > 0) & (after <= stop)).all():
            raise damage(int(position[0]), "a number runs past the end of its list")
        owners.append(rows)
        values.append(value)
        keep = np.flatnonzero(after < stop)
        rows, position, stop = rows[keep], after[keep], stop[keep]
    for row, start, until in zip(*lists(rows, position, stop), strict=True):
        data = np.frombuffer(words.data, np.uint8, until - start, start)
        last = np.flatnonzero(data < 0x80)
        if not last.size or last[-1] != until - start - 1:
            raise damage(start, "the last number of a list is cut")
        value, length = varints(words, start + np.concatenate(([0], last[:-1] + 1)))
        if not length.all():
            raise damage(start, "a number longer than ten bytes")
        owners.append(np.full(last.size, row))
        values.append(value)
    if not owners:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    owner = np.concatenate(owners)
    # Numbers were found turn by turn; stably sorted by their list they are in its order again.
    order = np.argsort(owner, kind="stable")
    return owner[order], np.concatenate(values)[order].astype(np.int64)
