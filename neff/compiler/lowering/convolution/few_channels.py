"""Convolutions of few channels, as the first layers of image models have.

A tap of three channels uses three of the tensor engine's 128 rows. So all elements of a window are
contracted together: rows of the result are on partitions, each with all rows of the image that its
windows read (``image_rows.py``). The windows of ``together`` neighboring columns are a run of this
tile in each row of the window. The tensor engine transposes it (on trn1 the vector engine), and a
product with a band of the weights, zero where a column is outside a result's window, computes these
columns of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.convolution.image_rows import (
    ImageRows,
    Places,
    even_cuts,
    slice_of,
    tile_in_memory_order,
)
from neff.compiler.lowering.convolution.taps import PARTITIONS, Axis
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.operands import transpose_into
from neff.compiler.lowering.tiles.task import Port, window
from neff.compiler.lowering.tiles.tiling import affordable
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["FewChannels", "multiply_few"]

_BANK_SUMS = 512
"""Sums in each partition of a PSUM bank."""

_BANK_BYTES = 2048

_MAX_TILE_BYTES = 32 * 1024
"""Bytes of each partition for a band of the image, and for a band of the result."""

_WEIGHT_LOAD_CYCLES = 200
"""Cycles for the stationary operand of a product, besides two for each moving column and pass."""

F32 = BY_NAME["float32"]


@dataclass(frozen=True, slots=True)
class FewChannels:
    """The data of this kernel's convolution.

    Attributes:
        rows: the image, with rows of the result on partitions; its lines are rows of the window.
        kernel: (1, channels, outputs, planes, rows, columns).
        out: (1, images, outputs, planes, rows, columns).
        exact: the tensor engine transposes bit for bit.
    """

    rows: ImageRows
    kernel: Port
    out: Port
    exact: bool

    @property
    def dtype(self) -> DType:
        return self.rows.dtype

    @property
    def columns(self) -> Axis:
        """Return the axis of columns: ``window`` counts positions of the result, ``places``
        taps.
        """
        return self.rows.axes[2]

    @property
    def channels(self) -> int:
        return self.kernel.view.shape[1]

    @property
    def outputs(self) -> int:
        return self.kernel.view.shape[2]

    @property
    def together(self) -> int:
        """Return the columns of one product that minimize the time."""
        width = self.columns.window // self.rows.parts
        candidates = range(1, min(width, _BANK_SUMS) + 1)
        return min(
            (count for count in candidates if count == 1 or self._fits(count)), key=self._cost
        )

    def _fits(self, together: int) -> bool:
        return self.run(together) * self.channels <= PARTITIONS

    def _cost(self, together: int) -> float:
        parts = -(-together * self.outputs // _BANK_SUMS)
        chunk_cost = (
            parts * _WEIGHT_LOAD_CYCLES + 4 * max(96, together * self.outputs) + 2 * PARTITIONS
        )
        return len(self.chunks(together)) * chunk_cost / together

    def run(self, together: int) -> int:
        """Return the columns of the image that this number of columns of the result reads."""
        return self.rows.wide(together)

    def chunks(self, together: int) -> list[tuple[int, int]]:
        """Return (first, count) of the lines that are contracted at a time."""
        limit = max(1, PARTITIONS // (self.run(together) * self.channels))
        return even_cuts(len(self.rows.lines), limit)


def multiply_few(spec: FewChannels, tensors: dict[str, Tile]) -> None:
    """Emit the body of the kernel."""
    positions, columns = spec.rows.places, spec.columns.window
    affordable(len(positions) * columns * len(spec.chunks(spec.together)))
    _FewChannels(spec, tensors).run(positions)


class _FewChannels:
    def __init__(self, spec: FewChannels, tensors: dict[str, Tile]) -> None:
        self._spec = spec
        self._image = tensors[spec.rows.port.view.buffer]
        self._kernel = tensors[spec.kernel.view.buffer]
        self._out = tensors[spec.out.view.buffer]
        self._together = spec.together
        self._run = spec.run(self._together)
        self._chunks = spec.chunks(self._together)
        self._features = even_cuts(spec.outputs, _BANK_SUMS // self._together)
        strides = spec.kernel.view.strides
        self._channels_last = strides[1] <= strides[5]

    def run(self, places: list[Places]) -> None:
        """Load the weights, then compute the result's rows by 128, for a range of columns at a
        time.
        """
        spec = self._spec
        weights = [self._weights(*chunk) for chunk in self._chunks]
        size, lines = spec.dtype.itemsize, len(spec.rows.lines)
        width = spec.columns.window // spec.rows.parts
        max_columns = width
        while max_columns > self._together and (
            lines * spec.rows.wide(max_columns) * spec.channels * size > _MAX_TILE_BYTES
            or max_columns * spec.outputs * spec.out.dtype.itemsize > _MAX_TILE_BYTES
        ):
            max_columns = max(self._together, -(-max_columns // 2))
        for row_set in places:
            for first in range(0, width, max_columns):
                self._part(row_set, first, min(max_columns, width - first), weights)

    # -- weights -------------------------------------------------------------------------------

    def _weights(self, first: int, count: int) -> Tile:
        """Return a band (elements of some lines, columns together, outputs)."""
        spec, columns = self._spec, self._spec.columns
        shape = (count * self._run * spec.channels, self._together, spec.outputs)
        tile = nl.ndarray(shape, dtype=spec.dtype, buffer=nl.sbuf)
        if self._run > columns.places:
            nisa.memset(tile, 0)
        for number, (plane, row) in enumerate(spec.rows.lines[first : first + count]):
            for column in range(self._together):
                self._band(tile[:, column], number, (plane, row), column)
        return tile

    def _band(self, tile: Tile, number: int, line: tuple[int, int], column: int) -> None:
        """Load the weights of a line for a column of the result."""
        spec, columns = self._spec, self._spec.columns
        strides, channels = spec.kernel.view.strides, spec.channels
        start = line[0] * strides[3] + line[1] * strides[4]
        begin = column * columns.dilation
        head = number * self._run * channels
        if not self._channels_last:
            for channel in range(channels):
                offset = head + channel * self._run + begin
                self._taps(tile, offset, columns.stride, start + channel * strides[1])
            return
        if columns.stride == 1 and strides[5] == strides[1] * channels:
            count = columns.places * channels
            self._load(tile, head + begin * channels, count, start, strides[1])
            return
        for tap in range(columns.places):
            offset = head + (begin + tap * columns.stride) * channels
            self._load(tile, offset, channels, start + tap * strides[5], strides[1])

    def _taps(self, tile: Tile, offset: int, tap_stride: int, start: int) -> None:
        columns, step = self._spec.columns, self._spec.kernel.view.strides[5]
        if tap_stride == 1:
            self._load(tile, offset, columns.places, start, step)
            return
        for tap in range(columns.places):
            self._load(tile, offset + tap * tap_stride, 1, start + tap * step, step)

    def _load(self, tile: Tile, offset: int, count: int, start: int, step: int) -> None:
        spec = self._spec
        pattern = [[step, count], [spec.kernel.view.strides[2], spec.outputs]]
        nisa.dma_copy(
            tile[offset : offset + count], window(self._kernel, spec.kernel, start, pattern)
        )

    # -- products ------------------------------------------------------------------------------

    def _part(self, locations: Places, first: int, count: int, weights: list[Tile]) -> None:
        """Compute a range of columns of some rows of the result."""
        spec, together = self._spec, self._together
        padded_count = -(-count // together) * together
        rows = spec.rows
        image = rows.tile(
            self._image, locations, (first, padded_count), rows.lines, (0, 0, spec.channels)
        )
        shape, steps = (count, spec.outputs), (spec.out.view.strides[5], spec.out.view.strides[2])
        tile, order = tile_in_memory_order(locations.count, shape, steps, spec.out.dtype)
        result = tile.permute([0, *(1 + order.index(dim) for dim in range(2))])
        blocks_at_once = max(1, _BANK_BYTES // (locations.count * spec.dtype.itemsize))
        for begin in range(0, padded_count, blocks_at_once * together):
            block_count = min(blocks_at_once, (padded_count - begin) // together)
            transposed = [self._seen(image, chunk, begin, block_count) for chunk in self._chunks]
            for features in self._features:
                self._multiply(result, transposed, weights, begin, features)
        for stack in locations.stacks:
            start = (
                stack.channel * spec.out.view.strides[1] + stack.plane * spec.out.view.strides[3]
            )
            width = spec.columns.window // rows.parts
            start += stack.row * spec.out.view.strides[4]
            start += (stack.column_range * width + first) * spec.out.view.strides[5]
            pattern = [
                [spec.out.view.strides[4], stack.count], *([steps[dim], shape[dim]] for dim in order)
            ]  # fmt: skip
            target = window(self._out, spec.out, start, pattern)
            nisa.dma_copy(target, tile[stack.first_partition : stack.first_partition + stack.count])

    def _seen(self, image: Tile, chunk: tuple[int, int], begin: int, count: int) -> Tile:
        """Return (elements of lines, blocks of columns, rows) of adjacent blocks of columns."""
        spec = self._spec
        rows, _, _, channels = image.shape
        shape = (chunk[1] * self._run * channels, count, rows)
        transposed = nl.ndarray(shape, dtype=spec.dtype, buffer=nl.sbuf)
        bank = nl.ndarray(shape, dtype=spec.dtype, buffer=nl.psum) if spec.exact else transposed
        for number in range(count):
            column = (begin + number * self._together) * spec.columns.dilation
            run = image[:, slice_of(chunk), column : column + self._run]
            if not self._channels_last:
                run = run.permute([0, 1, 3, 2])
            if not spec.exact:
                run = _flat(run)
            transpose_into(bank[:, number], run, exact=spec.exact)
        if spec.exact:
            nisa.tensor_copy(transposed, bank)
        return transposed

    def _multiply(
        self, result: Tile, transposed: list[Tile], weights: list[Tile], begin: int,
        features: tuple[int, int],
    ) -> None:  # fmt: skip
        """Compute the columns of the result from the transposed blocks, from column ``begin``
        on.
        """
        together = self._together
        _, blocks, rows = transposed[0].shape
        blocks_at_once = _BANK_SUMS // (together * features[1])
        for first in range(0, blocks, blocks_at_once):
            block_count = min(blocks_at_once, blocks - first)
            shape = (rows, block_count * together, features[1])
            total = nl.ndarray(shape, dtype=F32, buffer=nl.psum)
            for number in range(block_count):
                sums = total[:, number * together : (number + 1) * together]
                for step, (data, band) in enumerate(zip(transposed, weights, strict=True)):
                    moving = band[:, :, slice_of(features)]
                    nisa.nc_matmul(sums, data[:, first + number], moving, accumulate=step > 0)
            column = begin + first * together
            count = min(block_count * together, result.shape[1] - column)
            nisa.tensor_copy(
                result[:, column : column + count, slice_of(features)], total[:, 0:count]
            )


def _flat(tile: Tile) -> Tile:
    """Return a copy (rows, elements), for engines that transpose squares."""
    copy = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(copy, tile)
    return copy.reshape((tile.shape[0], prod(tile.shape[1:])))
