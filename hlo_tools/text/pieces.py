"""Lines put together from columns of texts, all at once: texts are numbers until the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo_tools.text.print_values import escape

__all__ = ["Columns", "Texts"]

Array = Any
_WIDE = np.dtype("V32")
"""Padding of the buffer: a text's last copy goes beyond it, under the text that follows."""
_MAX_PIECES_PER_BATCH = 1 << 14
"""Larger batches would push the index arrays out of the cache."""
_IS_ESCAPED = np.array([escape(bytes([byte])) != chr(byte) for byte in range(256)])


class Texts:
    """Texts by number, in the order in which they are added; number 0 is empty."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._sizes: list[Array] = []
        self._count = 0
        self.add([""])

    def add(self, texts: Iterable[str]) -> Array:
        """Add texts; return their numbers."""
        encoded = [text.encode() for text in texts]
        self._parts.append(b"".join(encoded))
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return np.where(sizes > 0, self._numbered(sizes), 0)

    def add_ranges(
        self, data: Any, begin: Array, end: Array, *, before: str = "", escaped: bool = False
    ) -> Array:
        """Add texts that are ranges of a buffer; return their numbers.

        Args:
            before: one character or none that stands before each.
            escaped: texts with other than plain characters are written with C escapes.
        """
        size = end - begin + len(before)
        ranges = copied(data, np.maximum(begin - len(before), 0), size)
        if before:
            ranges[np.cumsum(size) - size] = ord(before)
        numbers = self._numbered(size)
        self._parts.append(ranges)
        if escaped and (special := np.flatnonzero(_IS_ESCAPED[ranges])).size:
            rows = np.unique(np.searchsorted(np.cumsum(size), special, "right"))
            bounds = zip(begin[rows].tolist(), end[rows].tolist(), strict=True)
            numbers[rows] = self.add(escape(data[first:last]) for first, last in bounds)
        return numbers

    def _numbered(self, sizes: Array) -> Array:
        first, self._count = self._count, self._count + len(sizes)
        self._sizes.append(sizes)
        return np.arange(first, self._count)

    def joined(self, pieces: Array) -> tuple[Array, Array]:
        """The texts with the numbers ``pieces`` as bytes, and where each of them begins."""
        data, begin, sizes = self._table()
        size = sizes[pieces]
        return copied(data, begin[pieces], size), np.cumsum(size) - size

    def _table(self) -> tuple[Any, Array, Array]:
        """All texts in one buffer, where each of them begins, and how long it is."""
        if len(self._sizes) > 1:
            self._parts = [b"".join([*self._parts, bytes(_WIDE.itemsize)])]
            self._sizes = [np.concatenate(self._sizes)]
            self._begin = np.cumsum(self._sizes[0]) - self._sizes[0]
        return self._parts[0], self._begin, self._sizes[0]


@dataclass(frozen=True)
class Columns:
    """The texts that lines are made of, as numbers.

    Attributes:
        front, behind: columns of what stands before the operands and behind them.
        inside: what stands between the parentheses where there are no operands.
        count, first: how many operands a row has, and where they begin in ``operands``.
        operands: columns of what each operand of all rows is made of.
        separators: what stands before the operand with each place.
    """

    front: list[Array]
    inside: Array
    count: Array
    first: Array
    operands: list[Array]
    separators: Array
    behind: list[Array]

    def joined(self, rows: Array, texts: Texts) -> tuple[memoryview, list[int]]:
        """The text of rows as bytes, and the bounds of their lines in it."""
        pieces, start = self._pieces(rows)
        text, begin = texts.joined(pieces)
        return text.data, [*begin[start].tolist(), len(text)]

    def _pieces(self, rows: Array) -> tuple[Array, Array]:
        """Numbers of texts one after another, and where among them each row begins."""
        count, places_per_operand = self.count[rows], len(self.operands) + 1
        # A row holds (front..., operands with separators between, behind...). An operand takes
        # ``places_per_operand`` places, the first of which is its separator, but for the first operand: n of
        # them take places_per_operand * n - 1. A row without operands has ``inside`` in the place of one.
        width = places_per_operand * np.maximum(count, 1) - 1
        length = len(self.front) + width + len(self.behind)
        start = np.cumsum(length) - length
        pieces = np.zeros(int(length.sum()), np.int64)
        for offset, column in enumerate(self.front):
            pieces[start + offset] = column[rows]
        middle = start + len(self.front)
        pieces[middle] = self.inside[rows]
        position = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        operand = np.repeat(self.first[rows], count) + position
        begin = np.repeat(middle, count) + places_per_operand * position
        for offset, column in enumerate(self.operands):
            pieces[begin + offset] = column[operand]
        later = np.flatnonzero(position)
        pieces[begin[later] - 1] = self.separators[position[later]]
        behind = middle + width
        for offset, column in enumerate(self.behind):
            pieces[behind + offset] = column[rows]
        return pieces, start


def copied(data: Any, begin: Array, size: Array) -> Array:
    """Ranges of a buffer one after another, as an array of bytes."""
    # NumPy copies fixed widths fast and ranges of different sizes only in a Python loop. So each
    # range is copied in steps of 32 bytes, in order: its last step runs over its end, and what
    # is wrong there is overwritten by the range that follows. The buffer is 32 bytes too long
    # for the last range, and ranges that near the end of ``data`` are copied by themselves.
    width = _WIDE.itemsize
    start = np.cumsum(size) - size
    total = int(size.sum())
    buffer = np.empty(total + width, np.uint8)
    times = (size + (width - 1)) // width
    cut = np.flatnonzero(begin + times * width > len(data))
    times[cut] = 0
    source, target = _overlapping(data), _overlapping(buffer)
    for start_piece in range(0, len(size), _MAX_PIECES_PER_BATCH):
        batch = slice(start_piece, start_piece + _MAX_PIECES_PER_BATCH)
        repeats = times[batch]
        before = np.cumsum(repeats) - repeats
        # Places in the target: the range's start, then 32 bytes further each time.
        location = np.arange(0, int(repeats.sum()) * width, width)
        location += np.repeat(start[batch] - before * width, repeats)
        target[location] = source[location + np.repeat(begin[batch] - start[batch], repeats)]
    for to, start_piece, length in zip(
        *(c[cut].tolist() for c in (start, begin, size)), strict=True
    ):
        buffer[to : to + length] = np.frombuffer(data, np.uint8, length, start_piece)
    return buffer[:total]


def _overlapping(buffer: Any) -> Array:
    """Return the text that begins at each byte."""
    count = max(0, len(buffer) - _WIDE.itemsize + 1)
    return np.ndarray((count,), _WIDE, buffer, strides=(1,))
