"""Images with rows on partitions: the rows of several images, and of ranges of their columns.

In each dimension of a convolution, either the result or the window is on partitions: it is
``window`` here, with steps of ``dilation``. The other one (``places``, steps of ``stride``) becomes
lines in every partition. A row of the image is loaded once for each line that contains it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.convolution.taps import PARTITIONS, Axis
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.task import Port, window
from nki_lang.base.dtypes import DType

__all__ = ["ImageRows", "Places", "Stack", "even_cuts", "slice_of", "tile_in_memory_order"]

_MAX_STEP_RATIO = 0.85
"""More parts of the columns must reduce the steps to this fraction to be worth their transfers."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Rows of one image's plane on partitions.

    Attributes:
        column_range: index of the range of columns.
        channel, plane, row: indices in the other operand or the result; the first row.
        count: number of rows.
        first_partition: partition of the first row.
    """

    column_range: int
    channel: int
    plane: int
    row: int
    count: int
    first_partition: int


@dataclass(frozen=True, slots=True)
class Places:
    """The rows on partitions of one pass."""

    stacks: tuple[Stack, ...]

    @property
    def count(self) -> int:
        return sum(stack.count for stack in self.stacks)


@dataclass(frozen=True, slots=True)
class _Load:
    """Rows of the image that are loaded to adjacent partitions.

    Attributes:
        start: element of the image.
        first_partition, count: partitions.
        left, right: columns of the tile inside the image.
        step: elements from one row to the next.
    """

    start: int
    first_partition: int
    count: int
    left: int
    right: int
    step: int


@dataclass(frozen=True, slots=True)
class ImageRows:
    """An image and its layout on partitions.

    Attributes:
        port: (groups, samples, channels, planes, rows, columns); channels are on partitions too.
        axes: planes, rows, columns; none has holes.
        dtype: type of the tiles.
        around: the padding value.
    """

    port: Port
    axes: tuple[Axis, Axis, Axis]
    dtype: DType
    around: float = 0.0

    @property
    def lines(self) -> list[tuple[int, int]]:
        """Return (plane, row) of the lines of a partition."""
        return list(product(range(self.axes[0].places), range(self.axes[1].places)))

    @property
    def parts(self) -> int:
        """Return the number of ranges of columns on different partitions, if they save enough
        steps.
        """
        columns = self.axes[2]
        rows = self.port.view.shape[2] * self.axes[0].window * self.axes[1].window
        best, best_steps = 1, float("inf")
        # More parts than partitions cost a transfer each and compute nothing faster.
        for parts in range(1, min(columns.window, PARTITIONS) + 1):
            if columns.window % parts or (parts > 1 and columns.window // parts < columns.places):
                continue
            steps = -(-rows * parts // PARTITIONS) * (columns.window // parts)
            if steps < _MAX_STEP_RATIO * best_steps:
                best, best_steps = parts, steps
        return best

    @property
    def places(self) -> list[Places]:
        """Return all rows in passes of at most 128, as even as possible."""
        planes, rows, _ = self.axes
        channels = self.port.view.shape[2]
        stacks = list(product(range(self.parts), range(channels), range(planes.window)))
        return [
            Places(tuple(_stacked(stacks, rows.window, first, count)))
            for first, count in even_cuts(len(stacks) * rows.window, PARTITIONS)
        ]

    def wide(self, count: int) -> int:
        """Return the columns of the image that ``count`` columns need for all positions."""
        columns = self.axes[2]
        return (count - 1) * columns.dilation + (columns.places - 1) * columns.stride + 1

    def tile(
        self, tensor: Tile, places: Places, columns: tuple[int, int],
        lines: Sequence[tuple[int, int]], samples: tuple[int, int, int],
    ) -> Tile:  # fmt: skip
        """Load a tile (rows, lines, columns, samples), with the padding of the image.

        Args:
            tensor: the image in HBM.
            places: the rows on partitions.
            columns: first and number of the columns, in each range.
            lines: the lines to load.
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
            all_loads = [
                self._part(stack, line, columns[0], wide, start) for stack in places.stacks
            ]
            loads = [load for load in all_loads if load is not None]
            _clear(tile[:, number], loads, places, self.around)
            for load in loads:
                self._load(tensor, tile[:, number], load, samples[2])
        return tile

    def _part(
        self, stack: Stack, line: tuple[int, int], first: int, wide: int, start: int
    ) -> _Load | None:
        """Return the rows of the image for some rows on partitions; None if all are padding."""
        strides = self.port.view.strides
        planes, rows, columns = self.axes
        width = columns.window // self.parts
        depth = stack.plane * planes.dilation + line[0] * planes.stride - planes.low
        top, row_count, skipped = _reached(rows, stack.row, line[1] * rows.stride, stack.count)
        begin = (stack.column_range * width + first) * columns.dilation - columns.low
        left, right = max(0, -begin), min(wide, columns.size - begin)
        if not 0 <= depth < planes.size or row_count <= 0 or right <= left:
            return None
        start += stack.channel * strides[2] + depth * strides[3] + top * strides[4]
        start += (begin + left) * strides[5]
        return _Load(
            start,
            stack.first_partition + skipped,
            row_count,
            left,
            right,
            rows.dilation * strides[4],
        )

    def _load(self, tensor: Tile, tile: Tile, load: _Load, samples: int) -> None:
        strides = self.port.view.strides
        span = tile[
            load.first_partition : load.first_partition + load.count, load.left : load.right
        ]
        pattern = [[strides[5], load.right - load.left], [strides[1], samples]]
        if strides[5] < strides[1]:
            span, pattern = span.permute([0, 2, 1]), pattern[::-1]
        pattern = [[load.step, load.count], *pattern]
        nisa.dma_copy(span, window(tensor, self.port, load.start, pattern))


def _stacked(
    stacks: list[tuple[int, int, int]], rows: int, first: int, count: int
) -> Iterator[Stack]:
    partition = 0
    while partition < count:
        number, row = divmod(first + partition, rows)
        row_count = min(rows - row, count - partition)
        yield Stack(*stacks[number], row, row_count, partition)
        partition += row_count


def _reached(rows: Axis, first: int, moved: int, count: int) -> tuple[int, int, int]:
    """Return the first row of the image of ``count`` rows, their number, and the padding rows in
    front.
    """
    begin = first * rows.dilation + moved - rows.low
    skipped = max(0, -(begin // rows.dilation))
    last = min(count, -((begin - rows.size) // rows.dilation))
    return begin + skipped * rows.dilation, last - skipped, skipped


def _clear(tile: Tile, loads: list[_Load], locations: Places, value: float) -> None:
    """Fill (rows, columns, samples) with a value where no row of the image is loaded."""
    if sum(load.count for load in loads) < locations.count:
        nisa.memset(tile, value)
        return
    left, right = max(load.left for load in loads), min(load.right for load in loads)
    for begin, end in ((0, left), (right, tile.shape[1])):
        if begin < end:
            nisa.memset(tile[:, begin:end], value)


def tile_in_memory_order(
    rows: int, shape: tuple[int, ...], steps: tuple[int, ...], dtype: DType
) -> tuple[Tile, list[int]]:
    """Return a tile whose dimensions have the order of memory, and this order."""
    order = sorted(range(len(shape)), key=lambda dim: -abs(steps[dim]))
    tile = nl.ndarray((rows, *(shape[dim] for dim in order)), dtype=dtype, buffer=nl.sbuf)
    return tile, order


def even_cuts(extent: int, max_size: int) -> list[tuple[int, int]]:
    """Return (first, count) of equal parts of at most ``max_size``."""
    size = -(-extent // -(-extent // max(1, min(max_size, extent))))
    return [(first, min(size, extent - first)) for first in range(0, extent, size)]


def slice_of(span: tuple[int, int]) -> slice:
    """Return the slice of (first, count)."""
    return slice(span[0], span[0] + span[1])
