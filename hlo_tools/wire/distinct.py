"""Equal rows of columns found without sorting: one of each group is then examined."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from hlo_tools.wire.columns import Words

__all__ = ["distinct", "distinct_bytes", "numbered"]

Array = Any
_ROUNDS = 24
"""Rounds of hashing after which what is left is sorted."""
_FACTOR, _FOLD = np.uint64(0x9E3779B97F4A7C15), np.uint64(29)
_CHUNK = 1 << 13
"""Ranges that are read at once: few enough for their bytes to stay in the cache."""
_LONG = 64
"""Ranges of more bytes are compared one by one."""


def distinct(*columns: Array) -> tuple[Array, Array]:
    """(of, first): rows with the same values in all columns have the same number in ``of``.

    Numbers are given in the order of the first row with each, which is ``first[number]``.

    Args:
        columns: of 64-bit integers, all of one length.
    """
    # Sorting whole rows would take most of the time. Instead rows are thrown into a table by their
    # hash; who meets its equal there is done, and what met another row (a collision) tries again
    # among those that are left, where other rows own the buckets.
    count: int = columns[0].size
    bits = max(int(count).bit_length() + 1, 8)
    bucket = (_mixed(columns) >> np.uint64(64 - bits)).astype(np.int64)
    table = np.zeros(1 << bits, np.int64)
    left: Array = np.arange(count)
    leader: Array = np.zeros(count, np.int64)
    for iteration in range(_ROUNDS):
        # NumPy keeps the last of several values for one index: reversed, the first row wins.
        table[bucket[::-1]] = left[::-1]
        leader[left] = first = table[bucket]
        same = np.ones(left.size, bool)
        for column in columns:
            same &= (column[left] if iteration else column) == column[first]
        collisions = np.flatnonzero(~same)
        left, bucket = left[collisions], bucket[collisions]
        if not left.size:
            break
    else:
        leader[left] = _sorted(columns, left)
    alone: Array = leader == np.arange(count)
    return (np.cumsum(alone) - 1)[leader], np.flatnonzero(alone)


def _mixed(columns: tuple[Array, ...]) -> Array:
    """A number of 64 bits for each row, whose high bits distinguish most rows."""
    # Fibonacci hashing (Knuth, TAOCP 3, 6.4): multiplication mixes upwards only, so the fold
    # brings high bits down before the next one.
    hashes = columns[0].view(np.uint64) * _FACTOR
    for column in columns[1:]:
        hashes ^= hashes >> _FOLD
        hashes += column.view(np.uint64)
        hashes *= _FACTOR
    hashes ^= hashes >> _FOLD
    hashes *= _FACTOR
    return hashes


def _sorted(columns: tuple[Array, ...], rows: Array) -> Array:
    """The first of the rows, which ascend, that is equal to each."""
    table = np.stack([column[rows].view(np.int64) for column in columns], 1)
    _, first, of = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return rows[first[of.reshape(-1)]]


def distinct_bytes(words: Words, begin: Array, end: Array) -> tuple[Array, Array]:
    """As :func:`distinct`, of the bytes in ranges of a buffer."""
    size = end - begin
    deep = -(-min(int(size.max(initial=0)), _LONG) // 8)
    texts = np.zeros((deep, size.size), np.uint64)
    for start in range(0, size.size, _CHUNK):
        _read_texts(
            words, begin[start : start + _CHUNK], size[start : start + _CHUNK], texts[:, start:]
        )
    columns = [size, *texts]
    long = np.flatnonzero(size > _LONG)
    if long.size:
        bounds = zip(begin[long].tolist(), end[long].tolist(), strict=True)
        column = np.zeros(size.size, np.int64)
        column[long] = numbered([words.data[first:last] for first, last in bounds])
        columns.append(column)
    return distinct(*columns)


def _read_texts(words: Words, begin: Array, size: Array, texts: Array) -> None:
    """The bytes of ranges as columns of numbers."""
    count: int = size.size
    rows: Array = np.arange(count)
    for position, text in enumerate(texts):
        left = size[rows] - 8 * position
        word = words.at(begin[rows] + 8 * position)
        # Bytes behind the range's end are shifted out; the size is a column of its own, so that
        # a text and the same text with zero bytes behind it stay apart.
        word <<= (np.clip(8 - left, 0, 8) << 3).view(np.uint64)
        text[rows] = word
        rows = rows[np.flatnonzero(left > 8)]
        if not rows.size:
            break


def numbered(values: Iterable[Hashable]) -> Array:
    """Equal values get equal numbers, from 0 in the order in which they come up."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
