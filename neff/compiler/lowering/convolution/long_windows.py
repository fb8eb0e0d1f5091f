"""Convolutions whose window is larger than their result, as gradients by weights are.

The summed positions of the window are on partitions: rows of the window (of all images, and of ranges
of their columns if that leaves partitions free) with its columns along them. A column of the kernel
is then the stationary operand of a product, and the elements that all positions of the result read at
it are the moving columns: a few runs of one tile of the image. The rows of the image are loaded once
for each row of the result. Sums stay in PSUM until the last position.

If 32 or 64 features of the kernel leave half of the result's partitions free, ``together``
neighboring columns of the window share a product, and their sums are added at the end. Batch groups
share products: only a block on the diagonal is kept for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
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

__all__ = ["LongWindow", "multiply"]

_BANK_SUMS = 512
"""Sums in each partition of a PSUM bank."""

_MAX_BANKS = 6
"""Banks of sums in progress at a time."""

_MAX_IMAGE_BYTES = 32 * 1024
"""Bytes of each partition for a band of the image."""

_PACKED_FEATURES = (32, 64)
"""Numbers of features of the kernel for which several columns share a product."""

_MIN_TRANSPOSED_RESULTS = 4096
"""From this many results on they are transposed if that makes transfers of full rows."""

F32 = BY_NAME["float32"]


@dataclass(frozen=True, slots=True)
class LongWindow:
    """The data of this kernel's convolution.

    Attributes:
        rows: the image (groups, samples, channels, planes, rows, columns), with rows of the window on
            partitions; samples become results.
        kernel: (groups, channels, features, planes, rows, columns).
        out: (groups, samples, features, planes, rows, columns).
        exact: the tensor engine transposes bit for bit.
    """

    rows: ImageRows
    kernel: Port
    out: Port
    exact: bool

    @property
    def axes(self) -> tuple[Axis, Axis, Axis]:
        """Return planes, rows, columns."""
        return self.rows.axes

    @property
    def dtype(self) -> DType:
        """Return the type in which the tensor engine reads."""
        return self.rows.dtype

    @property
    def image(self) -> Port:
        return self.rows.port

    @property
    def groups(self) -> int:
        return self.image.view.shape[0]

    @property
    def samples(self) -> int:
        """Return the number of samples of a group."""
        return self.image.view.shape[1]

    @property
    def features(self) -> int:
        """Return the number of features of a group."""
        return self.kernel.view.shape[2]

    @property
    def together(self) -> int:
        """Return the columns of the window in one product."""
        columns = self.axes[2]
        if self.groups > 1 or self.features not in _PACKED_FEATURES or columns.stride > 1:
            return 1
        return max(1, min(PARTITIONS // self.features, columns.window // self.rows.parts))

    @property
    def blocks(self) -> list[_Block]:
        """Return the blocks of results that are summed at a time: as many as PSUM holds."""
        return [
            _Block(*groups, *features, *lines, *samples)
            for groups, features in self._stationary()
            for samples in self._samples(groups[1])
            for lines in self._lines(groups[1] * samples[1])
        ]

    def _stationary(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        max_groups = min(_BANK_SUMS, _BANK_SUMS * _MAX_BANKS // self.run) // self.samples
        groups_per_block = max(1, min(PARTITIONS // self.features, max_groups, self.groups))
        for group in range(0, self.groups, groups_per_block):
            for first in range(0, self.features, PARTITIONS):
                count = min(PARTITIONS, self.features - first)
                yield (group, min(groups_per_block, self.groups - group)), (first, count)

    def _samples(self, groups: int) -> list[tuple[int, int]]:
        run = self.run
        max_samples = _MAX_BANKS * (_BANK_SUMS // run) if groups == 1 else self.samples
        max_samples = min(
            max_samples,
            max(1, _MAX_IMAGE_BYTES // (self.dtype.itemsize * self.rows.wide(self.together))),
        )
        return even_cuts(self.samples, max_samples)

    def _lines(self, samples: int) -> list[tuple[int, int]]:
        run = self.run
        in_bank = _BANK_SUMS // (run * samples)
        max_lines = (
            in_bank * _MAX_BANKS
            if in_bank
            else max(1, _MAX_BANKS // -(-samples // (_BANK_SUMS // run)))
        )
        width = self.rows.wide(self.together) * samples * self.dtype.itemsize
        return even_cuts(len(self.rows.lines), min(max_lines, max(1, _MAX_IMAGE_BYTES // width)))

    @property
    def run(self) -> int:
        """Return the columns of the image that one product needs."""
        columns = self.axes[2]
        return (self.together - 1) * columns.dilation + columns.places


@dataclass(frozen=True, slots=True)
class _Block:
    """Results that are summed at a time: first and number of each dimension."""

    group: int
    groups: int
    feature: int
    features: int
    line: int
    lines: int
    sample: int
    samples: int

    @property
    def rows(self) -> int:
        """Return the partitions of the sums, for each column together."""
        return self.groups * self.features

    @property
    def along(self) -> int:
        """Return the samples of all its groups."""
        return self.groups * self.samples


def multiply(spec: LongWindow, tensors: dict[str, Tile]) -> None:
    """Emit the body of the kernel."""
    blocks, positions = spec.blocks, spec.rows.places
    affordable(len(blocks) * len(positions) * spec.axes[2].window)
    for block in blocks:
        _Sums(spec, tensors, block).run(positions)


class _Sums:
    def __init__(self, spec: LongWindow, tensors: dict[str, Tile], block: _Block) -> None:
        self._spec, self._block = spec, block
        ports = {"image": spec.image, "kernel": spec.kernel, "out": spec.out}
        self._ports = ports
        self._tensors = {name: tensors[port.view.buffer] for name, port in ports.items()}
        together, run = spec.together, spec.run
        self._runs = [
            (lines, samples, nl.ndarray(
                (together * block.rows, lines[1], run, samples[1]), dtype=F32, buffer=nl.psum
            ))
            for lines, samples in self._slices()
        ]  # fmt: skip
        self._started = False

    def _slices(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Yield (lines, samples) of each bank, relative to the block."""
        block, run = self._block, self._spec.run
        in_bank = _BANK_SUMS // (run * block.along)
        if in_bank:
            for lines in even_cuts(block.lines, in_bank):
                yield lines, (0, block.along)
            return
        for line in range(block.lines):
            for samples in even_cuts(block.along, _BANK_SUMS // run):
                yield (line, 1), samples

    def run(self, places: list[Places]) -> None:
        spec, block = self._spec, self._block
        columns = spec.axes[2].window // spec.rows.parts
        column_bytes = spec.dtype.itemsize * block.lines * block.along
        max_columns = columns
        while (
            max_columns > spec.together
            and spec.rows.wide(max_columns) * column_bytes > _MAX_IMAGE_BYTES
        ):
            max_columns = -(-max_columns // 2)
        for row_set in places:
            for first in range(0, columns, max_columns):
                self._add(row_set, first, min(max_columns, columns - first))
        self._finish()

    def _add(self, locations: Places, first: int, count: int) -> None:
        """Add the products of a range of columns of the window."""
        spec, columns = self._spec, self._spec.axes[2]
        image, kernel = self._image(locations, first, count), self._kernel(locations, first, count)
        for begin in range(0, count, spec.together):
            column_count = min(spec.together, count - begin)
            run = (column_count - 1) * columns.dilation + columns.places
            offset = begin * columns.dilation
            span = slice(offset, offset + (run - 1) * columns.stride + 1, columns.stride)
            for lines, samples, total in self._runs:
                moving = image[:, slice_of(lines), span, slice_of(samples)]
                sums = total[0 : column_count * self._block.rows, :, 0:run]
                nisa.nc_matmul(
                    sums, kernel[:, begin : begin + column_count], moving, accumulate=self._started
                )
            self._started = True

    # -- operands ------------------------------------------------------------------------------

    def _load(self, tile: Tile, name: str, start: int, pattern: list[list[int]]) -> None:
        nisa.dma_copy(tile, window(self._tensors[name], self._ports[name], start, pattern))

    def _kernel(self, locations: Places, first: int, count: int) -> Tile:
        """Load (rows, columns, features of the block)."""
        spec, block = self._spec, self._block
        strides = spec.kernel.view.strides
        shape, steps = (count, block.rows), (strides[5], strides[2])
        tile, order = tile_in_memory_order(locations.count, shape, steps, spec.dtype)
        width = spec.axes[2].window // spec.rows.parts
        head = block.group * strides[0] + block.feature * strides[2]
        for stack in locations.stacks:
            start = head + stack.channel * strides[1] + stack.plane * strides[3]
            start += stack.row * strides[4] + (stack.column_range * width + first) * strides[5]
            pattern = [[strides[4], stack.count], *([steps[dim], shape[dim]] for dim in order)]
            self._load(
                tile[stack.first_partition : stack.first_partition + stack.count],
                "kernel",
                start,
                pattern,
            )
        return tile.permute([0, *(1 + order.index(dim) for dim in range(2))])

    def _image(self, locations: Places, first: int, count: int) -> Tile:
        """Load (rows, lines, columns, samples of the block)."""
        block, rows = self._block, self._spec.rows
        lines = rows.lines[block.line : block.line + block.lines]
        samples = block.group, block.sample, block.along
        return rows.tile(self._tensors["image"], locations, (first, count), lines, samples)

    # -- results -------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Store the sums of a block: add the columns together, and select the groups' blocks."""
        spec, block = self._spec, self._block
        shape = (block.rows, block.lines, spec.axes[2].places, block.along)
        dtype = F32 if block.groups > 1 or spec.together > 1 else spec.out.dtype
        dims = self._out_dims()
        if block.groups > 1:
            sums = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
            order = [0, 1, 2]
        else:
            order = sorted(range(3), key=lambda dim: -abs(dims[dim][0]))
            tile = nl.ndarray(
                (shape[0], *(shape[1 + dim] for dim in order)), dtype=dtype, buffer=nl.sbuf
            )
            sums = tile.permute([0, *(1 + order.index(dim) for dim in range(3))])
        self._drain(sums)
        if block.groups > 1:
            sums = self._diagonal(sums)
        self._store(sums)

    def _drain(self, sums: Tile) -> None:
        spec, block = self._spec, self._block
        columns = spec.axes[2]
        for lines, samples, total in self._runs:
            target = sums[:, slice_of(lines), :, slice_of(samples)]
            nisa.tensor_copy(target, total[0 : block.rows, :, 0 : columns.places])
            for column in range(1, spec.together):
                partition, first = column * block.rows, column * columns.dilation
                addend = nl.ndarray(target.shape, dtype=F32, buffer=nl.sbuf)
                columns_read = slice(first, first + columns.places)
                nisa.tensor_copy(addend, total[partition : partition + block.rows, :, columns_read])
                nisa.tensor_tensor(target, target, addend, nl.add)

    def _diagonal(self, sums: Tile) -> Tile:
        """Select from each row the samples of its group.

        The operand is (rows, lines, columns, groups and samples), the result (rows, lines, columns,
        samples).
        """
        block, features = self._block, self._spec.features
        rows, lines, columns, _ = sums.shape
        count = block.samples
        flat = sums.reshape((rows, lines * columns, block.groups, count))
        for sign, offset in ((1, 0), (-1, features - 1)):
            masked = nl.ndarray(flat.shape, dtype=F32, buffer=nl.sbuf)
            pattern = [[0, lines * columns], [-sign * features, block.groups], [0, count]]
            nisa.affine_select(
                masked, pattern, sign, flat, 0.0, cmp_op=nl.greater_equal, offset=offset
            )
            flat = masked
        total = nl.ndarray((rows, lines * columns, count), dtype=F32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, flat.permute([0, 1, 3, 2]), axis=3)
        return total.reshape((rows, lines, columns, count))

    def _out_dims(self) -> list[tuple[int, int]]:
        """Return (step, count) of a block's lines, columns and samples; lines have one step."""
        spec, block = self._spec, self._block
        _, samples, _, _, row, column = spec.out.view.strides
        return [(row, block.lines), (column, spec.axes[2].places), (samples, block.samples)]

    def _store(self, sums: Tile) -> None:
        """Store (features, lines, columns, samples), line by line if the block has several
        planes.
        """
        spec, block = self._spec, self._block
        strides = spec.out.view.strides
        start = block.group * strides[0] + block.feature * strides[2] + block.sample * strides[1]
        lines = spec.rows.lines[block.line : block.line + block.lines]
        for plane in sorted({plane for plane, _ in lines}):
            rows = [row for number, row in lines if number == plane]
            first = lines.index((plane, rows[0]))
            self._store_plane(
                sums[:, first : first + len(rows)],
                start + plane * strides[3] + rows[0] * strides[4],
            )

    def _store_plane(self, sums: Tile, start: int) -> None:
        strides = self._spec.out.view.strides
        steps = (strides[4], strides[5], strides[1])
        if sums.shape[0] > 1 and strides[2] == 1 and prod(sums.shape) >= _MIN_TRANSPOSED_RESULTS:
            self._store_turned(sums, start, steps)
            return
        order = sorted(range(3), key=lambda dim: -abs(steps[dim]))
        dims = [[steps[dim], sums.shape[1 + dim]] for dim in order]
        tile = sums.permute([0, *(1 + dim for dim in order)])
        target = self._reached(start, [[strides[2], sums.shape[0]], *dims])
        nisa.dma_copy(target, _typed(tile, self._spec.out.dtype))

    def _store_turned(self, sums: Tile, start: int, steps: tuple[int, int, int]) -> None:
        """Store with features innermost: transpose 128 samples of a position at a time."""
        spec = self._spec
        count, lines, columns, samples = sums.shape
        sums = _typed(sums, spec.out.dtype)
        for line, column in product(range(lines), range(columns)):
            for first in range(0, samples, PARTITIONS):
                sample_count = min(PARTITIONS, samples - first)
                buffer = nl.psum if spec.exact else nl.sbuf
                transposed = nl.ndarray((sample_count, count), dtype=sums.dtype, buffer=buffer)
                transpose_into(
                    transposed,
                    sums[:, line, column, first : first + sample_count],
                    exact=spec.exact,
                )
                if spec.exact:
                    copied = nl.ndarray((sample_count, count), dtype=sums.dtype, buffer=nl.sbuf)
                    nisa.tensor_copy(copied, transposed)
                    transposed = copied
                offset = start + line * steps[0] + column * steps[1] + first * steps[2]
                nisa.dma_copy(
                    self._reached(offset, [[steps[2], sample_count], [1, count]]), transposed
                )

    def _reached(self, start: int, pattern: list[list[int]]) -> Tile:
        return window(self._tensors["out"], self._ports["out"], start, pattern)


def _typed(tile: Tile, dtype: DType) -> Tile:
    if tile.dtype == dtype:
        return tile
    converted = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(converted, tile)
    return converted
