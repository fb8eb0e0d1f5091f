"""Direct convolution: sums of products over the taps, channels on partitions, in PSUM.

A band of the image is in SBUF with its padding (``taps.py`` describes the layout); every tap of the
window reads the same tile at another offset. The weights of a block of outputs are loaded once. An
image whose channels are innermost in memory is loaded row by row and transposed by the tensor engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from math import prod

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.expansions.windows import groups_of, has_few_channels, is_long
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.views import View
from neff.compiler.lowering.convolution.few_channels import FewChannels, multiply_few
from neff.compiler.lowering.convolution.image_rows import ImageRows
from neff.compiler.lowering.convolution.long_windows import LongWindow, multiply
from neff.compiler.lowering.convolution.results import Results, merged
from neff.compiler.lowering.convolution.taps import (
    PARTITIONS,
    Axis,
    Box,
    Plan,
    arranged,
    arranged_in_rows,
    in_bundles,
    planned,
    views_of,
)
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.products.dots import tile_type
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.operands import transpose_into
from neff.compiler.lowering.tiles.task import Task, window
from neff.compiler.lowering.tiles.tiling import affordable
from nki_lang.base.dtypes import DType

__all__ = ["convolution"]

_BANK_BYTES = 2048
"""Bytes of a PSUM bank in each partition."""

_MIN_ROW_BYTES = 512
"""Transfers of single rows shorter than this are slow."""

_MAX_STAGING_BYTES = 16 * 1024
"""Bytes of each partition for rows of the image that wait to be transposed."""


def convolution(lowerer: Lowerer, node: Node) -> None:
    """Lower a convolution that :func:`neff.compiler.expansions.windows.is_direct` accepts."""
    image, kernel = (lowerer.view(operand) for operand in node.operands)
    views = views_of(node, image, kernel, lowerer.home(node))
    if is_long(node):
        _long_window(lowerer, node, views)
        return
    if has_few_channels(node):
        _few_channels(lowerer, node, views)
        return
    if groups_of(node)[0] > 1:
        views = in_bundles(views)
    views, axes = arranged(views, node.attributes["spans"])
    ports = (lowerer.port(views[0]), lowerer.port(views[1]), lowerer.port(views[2]))
    plan = planned(ports, axes, tile_type(lowerer, node, views[0].shape[2]))
    exact = lowerer.parts.target.generation >= 3
    _call(lowerer, node, views, lambda tensors: _Convolution(plan, tensors, exact).run())


def _long_window(lowerer: Lowerer, node: Node, views: tuple[View, View, View]) -> None:
    views, axes = arranged_in_rows(views, node.attributes["spans"])
    image, kernel, out = (lowerer.port(view) for view in views)
    rows = ImageRows(image, axes, _type_of(lowerer, node, views, axes))
    spec = LongWindow(rows, kernel, out, lowerer.parts.target.generation >= 3)
    _call(lowerer, node, views, lambda tensors: multiply(spec, tensors))


def _few_channels(lowerer: Lowerer, node: Node, views: tuple[View, View, View]) -> None:
    """Exchange the roles: rows of the result act as rows of the window, and images as channels."""
    views, axes = arranged_in_rows(views, node.attributes["spans"])
    exchanged = tuple(axis.exchanged() for axis in axes)
    image, kernel, out = (lowerer.port(view) for view in views)
    image = replace(image, view=image.view.transpose((0, 2, 1, 3, 4, 5)))
    dtype = _type_of(lowerer, node, views, axes)
    rows = ImageRows(image, (exchanged[0], exchanged[1], exchanged[2]), dtype)
    spec = FewChannels(rows, kernel, out, lowerer.parts.target.generation >= 3)
    _call(lowerer, node, views, lambda tensors: multiply_few(spec, tensors))


def _type_of(
    lowerer: Lowerer, node: Node, views: tuple[View, View, View], axes: tuple[Axis, Axis, Axis]
) -> DType:
    depth = prod(axis.window for axis in axes) * views[0].shape[2]
    return tile_type(lowerer, node, depth)


def _call(
    lowerer: Lowerer,
    node: Node,
    views: tuple[View, View, View],
    body: Callable[[dict[str, Tile]], None],
) -> None:
    image, kernel, out = (view.buffer for view in views)
    reads = list(dict.fromkeys((image, kernel)))
    lowerer.call(Task("convolution", reads, [out], body), node)


class _Convolution:
    def __init__(self, plan: Plan, tensors: dict[str, Tile], exact: bool) -> None:
        self._plan, self._exact = plan, exact
        ports = {"image": plan.image, "kernel": plan.kernel, "out": plan.out}
        self._ports = ports
        self._tensors = {name: tensors[port.view.buffer] for name, port in ports.items()}

    def run(self) -> None:
        plan = self._plan
        bands = list(plan.bands())
        boxes = [list(plan.boxes(band)) for band in bands]
        groups, step = plan.image.view.shape[0], plan.outputs_at_once
        output_starts = range(0, plan.outputs, step)
        products = sum(len(taps) for _, taps in plan.phases)
        affordable(groups * len(output_starts) * sum(map(len, boxes)) * products * len(plan.chunks))
        for group in range(groups):
            for first in output_starts:
                outputs = (first, min(step, plan.outputs - first))
                self._part(group, outputs, bands, boxes)

    def _part(
        self, group: int, outputs: tuple[int, int], bands: list[Box], boxes: list[list[Box]]
    ) -> None:
        """Compute some outputs of a group; the image of a product is loaded while the previous
        runs.
        """
        results: Results | None = None
        waiting: tuple[_Image, Box] | None = None
        for band, band_boxes in zip(bands, boxes, strict=True):
            image = _Image(self, group, band)
            for box in band_boxes:
                image.reach(box)
                if results is None:
                    weights = _Weights(self, group, outputs).tiles()
                    tensor = self._tensors["out"]
                    results = Results(self._plan, tensor, weights, group, outputs)
                if waiting is not None:
                    results.multiply(waiting[0].tap, waiting[1])
                waiting = image, box
        if results is not None and waiting is not None:
            results.multiply(waiting[0].tap, waiting[1])

    def reached(self, name: str, start: int, pattern: list[list[int]]) -> Tile:
        """Return elements of an operand or of the result."""
        return window(self._tensors[name], self._ports[name], start, pattern)

    @property
    def plan(self) -> Plan:
        return self._plan

    def transpose(self, target: Tile, staging: Tile) -> None:
        """Transpose a tile (rows, columns) of at most 128 each."""
        transpose_into(target, staging, exact=self._exact)

    def transposed_tile(self, shape: tuple[int, ...]) -> Tile:
        """Return a tile for transposes: in PSUM, or in SBUF if the vector engine makes them."""
        return nl.ndarray(shape, dtype=self._plan.dtype, buffer=nl.psum if self._exact else nl.sbuf)


class _Weights:
    """The weights of a group's outputs: for each chunk of channels a tile (packed channels, taps,
    columns and outputs)."""

    def __init__(self, owner: _Convolution, group: int, outputs: tuple[int, int]) -> None:
        self._owner, self._plan = owner, owner.plan
        strides = self._plan.kernel.view.strides
        self._start = group * self._plan.bundle * strides[0] + outputs[0] * strides[2]
        self._outputs = outputs[1]

    def tiles(self) -> list[Tile]:
        plan = self._plan
        if plan.bundle > 1:
            return [self._bundle()]
        strides = plan.kernel.view.strides
        make = self._load
        if strides[2] != 1 and self._outputs > 1:
            make = self._spread if abs(strides[1]) > abs(strides[2]) else self._turn
        weights: list[Tile] = []
        for first, count in plan.chunks:
            shape = (plan.packed * count, plan.taps, plan.together, self._outputs)
            tile = nl.ndarray(shape, dtype=plan.dtype, buffer=nl.sbuf)
            if sum(map(len, plan.used)) < plan.packed * plan.together * len(plan.used):
                nisa.memset(tile, 0)
            make(tile, first, count)
            weights.append(tile.reshape((*shape[:2], shape[2] * shape[3])))
        return weights

    def _bundle(self) -> Tile:
        """Return the weights of some groups: zero where channel and output are of two groups."""
        plan, view = self._plan, self._plan.kernel.view
        count, outputs = view.shape[1:3]
        planes, columns, rows = (axis.window for axis in plan.axes)
        shape = (plan.bundle, count, planes, columns, rows, outputs)
        staging = nl.ndarray((plan.channels, *shape[2:]), dtype=plan.dtype, buffer=nl.sbuf)
        for channel, depth in product(range(count), range(planes)):
            start = self._start + channel * view.strides[1] + depth * view.strides[3]
            pattern = [
                [view.strides[0], plan.bundle], [view.strides[4], columns],
                [view.strides[5], rows], [view.strides[2], outputs],
            ]  # fmt: skip
            source = self._owner.reached("kernel", start, pattern)
            nisa.dma_copy(staging[channel::count, depth], source)
        taps = planes * columns * rows
        weights = staging.reshape((plan.channels, taps, 1, outputs)).broadcast(2, plan.bundle)
        for sign, offset in ((1, 0), (-1, count - 1)):
            masked = nl.ndarray(weights.shape, dtype=plan.dtype, buffer=nl.sbuf)
            steps = [[0, taps], [-sign * count, plan.bundle], [0, outputs]]
            nisa.affine_select(
                masked, steps, sign, weights, 0.0, cmp_op=nl.greater_equal, offset=offset
            )
            weights = masked
        return weights.reshape((plan.channels, taps, plan.outputs))

    def _positions(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (tap, index of its group among those used, position, column) of weights."""
        for number, used in enumerate(self._plan.used):
            for position, column, tap in used:
                yield tap, number, position, column

    def _taps(self, tile: Tile) -> Tile:
        """Return a tile's taps as planes, groups and rows."""
        planes, _, rows = self._plan.axes
        shape = tile.shape
        return tile.reshape(
            (shape[0], planes.window, len(self._plan.used), rows.window, *shape[2:])
        )

    def _load(self, tile: Tile, first: int, count: int) -> None:
        """Load weights in memory order, for outputs are innermost; copy them to several
        positions.
        """
        planes, columns, rows = (axis.window for axis in self._plan.axes)
        strides = self._plan.kernel.view.strides
        start = self._start + first * strides[1]
        spread = self._taps(tile)
        is_plain = self._plan.packed == self._plan.together == 1
        shape = (count, planes, columns, rows, self._outputs)
        staging = nl.ndarray(shape, dtype=self._plan.dtype, buffer=nl.sbuf)
        if is_plain:
            staging = spread[:, :, :, :, 0]
        for depth in range(planes):
            pattern = [
                [strides[1], count], [strides[4], columns], [strides[5], rows],
                [strides[2], self._outputs],
            ]  # fmt: skip
            source = self._owner.reached("kernel", start + depth * strides[3], pattern)
            nisa.dma_copy(staging[:, depth], source)
        if is_plain:
            return
        for tap, number, position, column in self._positions():
            target = spread[position * count : (position + 1) * count, :, number, :, column]
            nisa.tensor_copy(target, staging[:, :, tap])

    def _spread(self, tile: Tile, first: int, count: int) -> None:
        """Load weights whose channels are outermost, and bring outputs together on chip."""
        spread = self._taps(tile)
        strides = self._plan.kernel.view.strides
        channel_dim, output_dim = (strides[1], count), (strides[2], self._outputs)
        weights_at = self._weights_in_memory_order(
            self._start + first * strides[1], channel_dim, output_dim
        )
        planes, _, rows = self._plan.axes
        for depth, row in product(range(planes.window), range(rows.window)):
            for tap, number, position, column in self._positions():
                target = spread[
                    position * count : (position + 1) * count, depth, number, row, column
                ]
                nisa.tensor_copy(target, weights_at(depth, tap, row))

    def _turn(self, tile: Tile, first: int, count: int) -> None:
        """Load outputs on partitions, then transpose tap by tap."""
        strides = self._plan.kernel.view.strides
        for begin in range(0, self._outputs, PARTITIONS):
            output_count = min(PARTITIONS, self._outputs - begin)
            start = self._start + first * strides[1] + begin * strides[2]
            weights_at = self._weights_in_memory_order(
                start, (strides[2], output_count), (strides[1], count)
            )
            self._turn_block(tile, weights_at, count, (begin, output_count))

    def _weights_in_memory_order(
        self, start: int, partition_dim: tuple[int, int], free_dim: tuple[int, int]
    ) -> Callable[[int, int, int], Tile]:
        """Return a function (plane, column, row) of a tap -> its weights (partitions, others).

        Args:
            start: the first element.
            partition_dim: stride and extent of the dimension on partitions.
            free_dim: stride and extent of the other dimension of a tap.
        """
        plan = self._plan
        windows = [axis.window for axis in plan.axes]
        dims = [free_dim, *zip(plan.kernel.view.strides[3:], windows, strict=True)]
        order = sorted(range(4), key=lambda dim: -abs(dims[dim][0]))
        start += sum((count - 1) * step for step, count in dims if step < 0)
        pattern = [[*partition_dim], *([abs(dims[dim][0]), dims[dim][1]] for dim in order)]
        shape = (partition_dim[1], *(dims[dim][1] for dim in order))
        staging = nl.ndarray(shape, dtype=plan.dtype, buffer=nl.sbuf)
        nisa.dma_copy(staging, self._owner.reached("kernel", start, merged(pattern)))
        staging = staging.permute([0, *(1 + order.index(dim) for dim in range(4))])

        def weights(*tap: int) -> Tile:
            indices = (
                count - 1 - index if step < 0 else index
                for index, (step, count) in zip(tap, dims[1:], strict=True)
            )
            return staging[:, :, *indices]

        return weights

    def _turn_block(
        self,
        tile: Tile,
        weights_at: Callable[[int, int, int], Tile],
        count: int,
        outputs: tuple[int, int],
    ) -> None:
        begin, output_count = outputs
        planes, columns, rows = (axis.window for axis in self._plan.axes)
        spread = self._taps(tile)
        rows_per_bank = max(1, _BANK_BYTES // (output_count * self._plan.dtype.itemsize))
        for depth, tap, top in product(
            range(planes), range(columns), range(0, rows, rows_per_bank)
        ):
            row_count = min(rows_per_bank, rows - top)
            bank = self._owner.transposed_tile((count, row_count, output_count))
            for row in range(row_count):
                self._owner.transpose(bank[:, row], weights_at(depth, tap, top + row))
            for used_tap, number, position, column in self._positions():
                if used_tap == tap:
                    partitions = slice(position * count, (position + 1) * count)
                    span = slice(begin, begin + output_count)
                    nisa.tensor_copy(
                        spread[partitions, depth, number, top : top + row_count, column, span], bank
                    )


def _clear(tile: Tile, dim: int, inside: tuple[int, int, int], packed: int) -> None:
    """Set the elements without data of the image to zero along a dimension.

    Args:
        tile: a tile of the image, or of rows of it.
        dim: the dimension.
        inside: the result of :meth:`Axis.inside`.
        packed: elements of the image in one element of the dimension.
    """
    _, count, offset = inside
    extent = tile.shape[dim]
    first, last = -(-offset // packed), (offset + count) // packed
    for begin, end in [(0, first), (last, extent)] if count else [(0, extent)]:
        if begin < end:
            nisa.memset(tile.slice(dim, begin, end), 0)


class _Image:
    """A band of the image with its padding: for each chunk of channels a tile (packed channels,
    images, planes, groups of columns, rows)."""

    def __init__(self, owner: _Convolution, group: int, band: Box) -> None:
        self._owner, self._plan, self._band = owner, owner.plan, band
        plan = self._plan
        planes, columns, rows = plan.axes
        self._extents = plan.extents(band)
        self._tiles = [
            nl.ndarray((plan.packed * count, *self._extents), dtype=plan.dtype, buffer=nl.sbuf)
            for _, count in plan.chunks
        ]
        _, depth, groups, height = self._extents
        first = band.blocks[0] * plan.step * plan.packed
        self._planes = planes.inside(band.planes[0] * planes.step, depth)
        self._columns = columns.inside(first, groups * plan.packed)
        self._rows = rows.inside(band.rows[0] * rows.step, height)
        strides = plan.image.view.strides
        self._start = group * strides[0] + band.images[0] * strides[1]
        channels_innermost = strides[2] == 1 and plan.channels > 1
        self._steps = self._transposed_columns() if channels_innermost else self._loaded()
        self._ready = 0
        for tile in self._tiles:
            _clear(tile, 2, self._planes, 1)
            _clear(tile, 4, self._rows, 1)
            if not channels_innermost:
                _clear(tile, 3, self._columns, plan.packed)

    def reach(self, box: Box) -> None:
        """Load the columns that a box needs, and a few more."""
        plan = self._plan
        first = (box.blocks[0] - self._band.blocks[0]) * plan.step
        last = first + (box.blocks[1] - 1) * plan.step + plan.reach
        while self._ready < last:
            self._ready = next(self._steps)

    def tap(self, chunk: int, box: Box, block: int, tap_offset: tuple[int, int, int]) -> Tile:
        """Return the elements that a box's windows read at a tap, for one block of each lane.

        ``tap_offset`` is the plane, group of columns and row that the first window reads.
        """
        plan, band = self._plan, self._band
        planes, _, rows = plan.axes
        depth = (box.planes[0] - band.planes[0]) * planes.step + tap_offset[0]
        group = (box.blocks[0] + block - band.blocks[0]) * plan.step + tap_offset[1]
        row = (box.rows[0] - band.rows[0]) * rows.step + tap_offset[2]
        image = box.images[0] - band.images[0]
        lanes, step = box.lanes_of(block), box.run * plan.step
        windows = self._tiles[chunk][
            :, image : image + box.images[1], depth,
            group : group + (lanes - 1) * step + 1 : step,
            row : row + (box.rows[1] - 1) * rows.step + 1 : rows.step,
        ]  # fmt: skip
        return windows.permute([0, 2, 1, 3]) if plan.by_rows else windows

    # -- channels apart in memory ----------------------------------------------------------

    def _loaded(self) -> Iterator[int]:
        """Load the image in memory order; short rows are staged and then spread on chip."""
        rows, height = self._rows[1], self._extents[3]
        is_padded = rows < height or self._plan.packed > 1
        is_short = rows * self._plan.image.dtype.itemsize < _MIN_ROW_BYTES
        load = self._spread if is_padded and is_short else self._straight
        if rows and self._columns[1]:
            for chunk, (depth, number) in product(range(len(self._tiles)), self._planes_of_band()):
                load(chunk, depth, number)
        yield self._extents[2]

    def _straight(self, chunk: int, depth: int, plane: int) -> None:
        for position, first, count in self._positions():
            nisa.dma_copy(
                self._part(chunk, depth, position, first, (0, self._extents[0])),
                self._source(chunk, plane, (0, self._extents[0]), first, count, self._plan.packed),
            )

    def _spread(self, chunk: int, depth: int, plane: int) -> None:
        images, count, rows = self._extents[0], self._columns[1], self._rows[1]
        dtype, channels = self._plan.image.dtype, self._plan.chunks[chunk][1]
        images_at_once = min(images, max(1, _MAX_STAGING_BYTES // (count * rows * dtype.itemsize)))
        for begin in range(0, images, images_at_once):
            image_range = (begin, min(images_at_once, images - begin))
            staging = nl.ndarray(
                (channels, image_range[1], count, rows), dtype=dtype, buffer=nl.sbuf
            )
            nisa.dma_copy(staging, self._source(chunk, plane, image_range, 0, count, 1))
            for position, first, _ in self._positions():
                target = self._part(chunk, depth, position, first, image_range)
                nisa.tensor_copy(target, staging[:, :, first :: self._plan.packed])

    def _positions(self) -> Iterator[tuple[int, int, int]]:
        """Yield (position in a group, its first column in the image, column count) without empty
        ones.
        """
        (_, count, offset), packed = self._columns, self._plan.packed
        for position in range(packed):
            first = (position - offset) % packed
            if first < count:
                yield position, first, -(-(count - first) // packed)

    def _part(
        self, chunk: int, depth: int, position: int, first: int, images: tuple[int, int]
    ) -> Tile:
        """Return the target of every ``packed``-th column from ``first`` on."""
        (_, count, offset), (_, rows, top) = self._columns, self._rows
        packed, channels = self._plan.packed, self._plan.chunks[chunk][1]
        column_count, begin = -(-(count - first) // packed), (offset + first) // packed
        return self._tiles[chunk][
            position * channels : (position + 1) * channels, images[0] : sum(images), depth,
            begin : begin + column_count, top : top + rows,
        ]  # fmt: skip

    def _source(
        self, chunk: int, plane: int, images: tuple[int, int], first: int, count: int, step: int
    ) -> Tile:
        """Return channels, images, columns from ``first`` on, and rows, in HBM."""
        _, image, channel, depth, column, row = self._plan.image.view.strides
        begin, channels = self._plan.chunks[chunk]
        start = self._start + begin * channel + images[0] * image + plane * depth
        start += (self._columns[0] + first) * column + self._rows[0] * row
        pattern = [
            [channel, channels], [image, images[1]], [column * step, count], [row, self._rows[1]],
        ]  # fmt: skip
        return self._owner.reached("image", start, pattern)

    def _planes_of_band(self) -> Iterator[tuple[int, int]]:
        """Yield (index in the tile, index in the image) of every plane."""
        first, count, offset = self._planes
        for number in range(count):
            yield offset + number, first + number

    # -- channels innermost ----------------------------------------------------------------

    def _transposed_columns(self) -> Iterator[int]:
        """Load rows of the image on partitions, and transpose them for each group of columns."""
        plan = self._plan
        groups = self._extents[2]
        width = plan.packed * plan.channels
        groups_at_once = max(1, _MAX_STAGING_BYTES // (width * plan.dtype.itemsize))
        groups_at_once = -(-groups // -(-groups // groups_at_once))
        groups_at_once = min(groups_at_once, max(1, -(-groups // 4)))
        for begin in range(0, groups, groups_at_once):
            count = min(groups_at_once, groups - begin)
            for depth, number in self._planes_of_band():
                for image, images, top, rows in self._pieces():
                    staging = self._rows_of(image, images, number, top, rows, begin, count)
                    self._turn(staging, image, images, depth, top, rows, begin)
            yield begin + count

    def _pieces(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield (image, images, row, rows) that fit on the partitions."""
        images, rows = self._extents[0], self._rows[1]
        if not rows:
            return
        images_at_once = max(1, PARTITIONS // rows)
        for image in range(0, images, images_at_once):
            for top in range(0, rows, PARTITIONS):
                yield image, min(images_at_once, images - image), top, min(PARTITIONS, rows - top)

    def _rows_of(
        self, image: int, images: int, plane: int, top: int, rows: int, begin: int, count: int
    ) -> Tile:
        plan = self._plan
        packed, channels = plan.packed, plan.channels
        shape = (images * rows, count * packed, channels)
        staging = nl.ndarray(shape, dtype=plan.dtype, buffer=nl.sbuf)
        band, columns = self._band, plan.axes[1]
        first = (band.blocks[0] * plan.step + begin) * packed
        index, columns_inside, offset = columns.inside(first, count * packed)
        _clear(staging, 1, (index, columns_inside, offset), 1)
        if not columns_inside:
            return staging
        strides = plan.image.view.strides
        start = self._start + image * strides[1] + plane * strides[3] + index * strides[4]
        start += (self._rows[0] + top) * strides[5]
        for number in range(images):
            pattern = [[strides[5], rows], [strides[4], columns_inside], [1, channels]]
            target = staging[number * rows : (number + 1) * rows, offset : offset + columns_inside]
            nisa.dma_copy(
                target, self._owner.reached("image", start + number * strides[1], pattern)
            )
        return staging

    def _turn(
        self, staging: Tile, image: int, images: int, depth: int, top: int, rows: int, begin: int
    ) -> None:
        plan = self._plan
        count = staging.shape[1] // plan.packed
        groups_per_bank = max(1, _BANK_BYTES // (images * rows * plan.dtype.itemsize))
        first = self._rows[2] + top
        span = slice(first, first + rows)
        for number, (channel, channel_count) in enumerate(plan.chunks):
            for head in range(0, count, groups_per_bank):
                group_count = min(groups_per_bank, count - head)
                bank = self._owner.transposed_tile(
                    (plan.packed * channel_count, group_count, images * rows)
                )
                for index in range(group_count):
                    column = (head + index) * plan.packed
                    source = staging[
                        :, column : column + plan.packed, channel : channel + channel_count
                    ]
                    flat = source.reshape((images * rows, plan.packed * channel_count))
                    self._owner.transpose(bank[:, index], flat)
                group_span = slice(begin + head, begin + head + group_count)
                tile = self._tiles[number][:, image : image + images, depth, group_span, span]
                shape = (plan.packed * channel_count, group_count, images, rows)
                nisa.tensor_copy(tile, bank.reshape(shape).permute([0, 2, 1, 3]))
