"""Images with rows on partitions: the rows of several images, and of parts of their columns.

Seen from one dimension of a convolution's result and window, one of the two lies on partitions and
is ``window`` here with steps of ``dilation``; the other (``places``, steps of ``stride``) makes lines
beside each other on every partition. A row of the image comes once for each line that it is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.emitter import Tile
from neff.compiler.lowering.taps import PARTITIONS, Axis
from neff.compiler.lowering.task import Port, window
from nki_lang.base.dtypes import DType

__all__ = ["ImageRows", "Places", "Stack", "even_cuts", "lying", "part_of"]

_CLEARLY = 0.85
"""Steps of more parts over those of fewer, at most."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Rows of one image's plane on partitions.

    Attributes:
        part: of the columns.
        channel, plane, row: of the other operand or the result; the first row.
        count: rows.
        at: partition of the first one.
    """

    part: int
    channel: int
    plane: int
    row: int
    count: int
    at: int


@dataclass(frozen=True, slots=True)
class Places:
    """What lies on partitions at once."""

    stacks: tuple[Stack, ...]

    @property
    def count(self) -> int:
        return sum(one.count for one in self.stacks)


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows of the image that are loaded to neighbouring partitions.

    Attributes:
        start: element of the image.
        at, count: partitions.
        left, right: columns of the tile that the image has.
        step: elements from one row to the next.
    """

    start: int
    at: int
    count: int
    left: int
    right: int
    step: int


@dataclass(frozen=True, slots=True)
class ImageRows:
    """An image and how it lies on partitions.

    Attributes:
        port: (groups, samples, channels, planes, rows, columns); channels are on partitions too.
        axes: planes, rows, columns; of none are there holes.
        dtype: type of the tiles.
        around: the value around the image.
    """

    port: Port
    axes: tuple[Axis, Axis, Axis]
    dtype: DType
    around: float = 0.0

    @property
    def lines(self) -> list[tuple[int, int]]:
        """(plane, row) of what lies side by side."""
        return list(product(range(self.axes[0].places), range(self.axes[1].places)))

    @property
    def parts(self) -> int:
        """Parts of the columns that lie on different partitions: clearly fewer steps are worth the more
        transfers."""
        columns = self.axes[2]
        rows = self.port.view.shape[2] * self.axes[0].window * self.axes[1].window
        found, least = 1, float("inf")
        # More parts than partitions cost a transfer each and compute nothing faster.
        for parts in range(1, min(columns.window, PARTITIONS) + 1):
            if columns.window % parts or (parts > 1 and columns.window // parts < columns.places):
                continue
            steps = -(-rows * parts // PARTITIONS) * (columns.window // parts)
            if steps < _CLEARLY * least:
                found, least = parts, steps
        return found

    @property
    def places(self) -> list[Places]:
        """All rows by 128, as even as can be."""
        planes, rows, _ = self.axes
        channels = self.port.view.shape[2]
        stacks = list(product(range(self.parts), range(channels), range(planes.window)))
        return [
            Places(tuple(_stacked(stacks, rows.window, first, count)))
            for first, count in even_cuts(len(stacks) * rows.window, PARTITIONS)
        ]

    def wide(self, count: int) -> int:
        """Columns of the image that so many columns need for all places."""
        columns = self.axes[2]
        return (count - 1) * columns.dilation + (columns.places - 1) * columns.stride + 1

    def tile(
        self, tensor: Tile, places: Places, columns: tuple[int, int],
        lines: Sequence[tuple[int, int]], samples: tuple[int, int, int],
    ) -> Tile:  # fmt: skip
        """(places, lines, columns, samples), with what is around the image.

        Args:
            tensor: the image in HBM.
            places: what is on partitions.
            columns: the first and how many, of each part.
            lines: those that are wanted.
            samples: group, first sample and number of samples, across groups.
        """
        strides = self.port.view.strides
        wide = self.wide(columns[1])
        shape, steps = (len(lines), wide, samples[2]), (strides[5], strides[1])
        if steps[0] < steps[1]:
            tile = nl.ndarray((places.count, shape[0], *shape[:0:-1]), self.dtype, buffer=nl.sbuf)
            tile = tile.permute([0, 1, 3, 2])
        else:
            tile = nl.ndarray((places.count, *shape), self.dtype, buffer=nl.sbuf)
        start = samples[0] * strides[0] + samples[1] * strides[1]
        for number, line in enumerate(lines):
            found = [self._part(one, line, columns[0], wide, start) for one in places.stacks]
            loads = [load for load in found if load is not None]
            _clear(tile[:, number], loads, places, self.around)
            for load in loads:
                self._load(tensor, tile[:, number], load, samples[2])
        return tile

    def _part(
        self, one: Stack, line: tuple[int, int], first: int, wide: int, start: int
    ) -> _Part | None:
        """What of the image lies under some rows; None when nothing does."""
        strides = self.port.view.strides
        planes, rows, columns = self.axes
        width = columns.window // self.parts
        depth = one.plane * planes.dilation + line[0] * planes.stride - planes.low
        top, taken, skipped = _reached(rows, one.row, line[1] * rows.stride, one.count)
        begin = (one.part * width + first) * columns.dilation - columns.low
        left, right = max(0, -begin), min(wide, columns.size - begin)
        if not 0 <= depth < planes.size or taken <= 0 or right <= left:
            return None
        start += one.channel * strides[2] + depth * strides[3] + top * strides[4]
        start += (begin + left) * strides[5]
        return _Part(start, one.at + skipped, taken, left, right, rows.dilation * strides[4])

    def _load(self, tensor: Tile, tile: Tile, part: _Part, samples: int) -> None:
        strides = self.port.view.strides
        span = tile[part.at : part.at + part.count, part.left : part.right]
        pattern = [[strides[5], part.right - part.left], [strides[1], samples]]
        if strides[5] < strides[1]:
            span, pattern = span.permute([0, 2, 1]), pattern[::-1]
        pattern = [[part.step, part.count], *pattern]
        nisa.dma_copy(span, window(tensor, self.port, part.start, pattern))


def _stacked(
    stacks: list[tuple[int, int, int]], rows: int, first: int, count: int
) -> Iterator[Stack]:
    at = 0
    while at < count:
        number, row = divmod(first + at, rows)
        taken = min(rows - row, count - at)
        yield Stack(*stacks[number], row, taken, at)
        at += taken


def _reached(rows: Axis, first: int, moved: int, count: int) -> tuple[int, int, int]:
    """Of ``count`` rows: the first row of the image under them, how many there are, and how many
    rows in front have none."""
    begin = first * rows.dilation + moved - rows.low
    skipped = max(0, -(begin // rows.dilation))
    last = min(count, -((begin - rows.size) // rows.dilation))
    return begin + skipped * rows.dilation, last - skipped, skipped


def _clear(tile: Tile, loads: list[_Part], places: Places, value: float) -> None:
    """A value in (places, columns, samples) where no part of the image comes."""
    if sum(load.count for load in loads) < places.count:
        nisa.memset(tile, value)
        return
    left, right = max(load.left for load in loads), min(load.right for load in loads)
    for begin, end in ((0, left), (right, tile.shape[1])):
        if begin < end:
            nisa.memset(tile[:, begin:end], value)


def lying(
    rows: int, shape: tuple[int, ...], steps: tuple[int, ...], dtype: DType
) -> tuple[Tile, list[int]]:
    """A tile whose dimensions lie as in memory, and their order."""
    order = sorted(range(len(shape)), key=lambda dim: -abs(steps[dim]))
    tile = nl.ndarray((rows, *(shape[dim] for dim in order)), dtype=dtype, buffer=nl.sbuf)
    return tile, order


def even_cuts(extent: int, most: int) -> list[tuple[int, int]]:
    """(first, count) of equal parts, none longer than ``most``."""
    size = -(-extent // -(-extent // max(1, min(most, extent))))
    return [(first, min(size, extent - first)) for first in range(0, extent, size)]


def part_of(part: tuple[int, int]) -> slice:
    """The slice of (first, count)."""
    return slice(part[0], part[0] + part[1])
