"""Direct convolution: sums of products over the taps, channels on partitions, in PSUM.

A part of the image lies in SBUF with its padding (``taps.py`` says how); every tap of the window is
the same tile, begun elsewhere. The weights of a block of outputs are loaded once. An image whose
channels are innermost in memory comes row by row and is transposed by the tensor engine.
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
from neff.compiler.lowering.emitter import Tile
from neff.compiler.lowering.families import tile_type
from neff.compiler.lowering.few_channels import FewChannels, multiply_few
from neff.compiler.lowering.image_rows import ImageRows
from neff.compiler.lowering.long_windows import LongWindow, multiply
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.operands import turned_into
from neff.compiler.lowering.results import Results, merged
from neff.compiler.lowering.taps import (
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
from neff.compiler.lowering.task import Task, window
from neff.compiler.lowering.tiling import affordable
from nki_lang.base.dtypes import DType

__all__ = ["convolution"]

_BANK = 2048
"""Bytes of a PSUM bank in each partition."""

_SHORT = 512
"""Bytes of a row below which a transfer of single rows is slow."""

_LYING = 16 * 1024
"""Bytes of each partition for rows of the image that wait to be transposed."""


def convolution(lowerer: Lowerer, node: Node) -> None:
    """A convolution that :func:`neff.compiler.expansions.windows.is_direct` takes."""
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
    """Rows of the result take the part of the window's, and images that of channels."""
    views, axes = arranged_in_rows(views, node.attributes["spans"])
    turned = tuple(axis.exchanged() for axis in axes)
    image, kernel, out = (lowerer.port(view) for view in views)
    image = replace(image, view=image.view.transpose((0, 2, 1, 3, 4, 5)))
    dtype = _type_of(lowerer, node, views, axes)
    rows = ImageRows(image, (turned[0], turned[1], turned[2]), dtype)
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
        parts = range(0, plan.outputs, step)
        products = sum(len(taps) for _, taps in plan.phases)
        affordable(groups * len(parts) * sum(map(len, boxes)) * products * len(plan.chunks))
        for group in range(groups):
            for first in parts:
                outputs = (first, min(step, plan.outputs - first))
                self._part(group, outputs, bands, boxes)

    def _part(
        self, group: int, outputs: tuple[int, int], bands: list[Box], boxes: list[list[Box]]
    ) -> None:
        """Some outputs of a group; a product's part of the image is there before it is needed."""
        results: Results | None = None
        waiting: tuple[_Image, Box] | None = None
        for band, some in zip(bands, boxes, strict=True):
            image = _Image(self, group, band)
            for box in some:
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
        """Elements of an operand or of the result."""
        return window(self._tensors[name], self._ports[name], start, pattern)

    @property
    def plan(self) -> Plan:
        return self._plan

    def turned(self, made: Tile, lying: Tile) -> None:
        """The transpose of a tile (rows, columns) of at most 128 each."""
        turned_into(made, lying, exact=self._exact)

    def turned_tile(self, shape: tuple[int, ...]) -> Tile:
        """Where transposes come to: PSUM, or SBUF when the vector engine makes them."""
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
        made: list[Tile] = []
        for first, count in plan.chunks:
            shape = (plan.packed * count, plan.taps, plan.together, self._outputs)
            tile = nl.ndarray(shape, dtype=plan.dtype, buffer=nl.sbuf)
            if sum(map(len, plan.used)) < plan.packed * plan.together * len(plan.used):
                nisa.memset(tile, 0)
            make(tile, first, count)
            made.append(tile.reshape((*shape[:2], shape[2] * shape[3])))
        return made

    def _bundle(self) -> Tile:
        """Weights of some groups: zero where channel and output are of two groups."""
        plan, view = self._plan, self._plan.kernel.view
        count, outputs = view.shape[1:3]
        planes, columns, rows = (axis.window for axis in plan.axes)
        shape = (plan.bundle, count, planes, columns, rows, outputs)
        lying = nl.ndarray((plan.channels, *shape[2:]), dtype=plan.dtype, buffer=nl.sbuf)
        for channel, depth in product(range(count), range(planes)):
            start = self._start + channel * view.strides[1] + depth * view.strides[3]
            pattern = [
                [view.strides[0], plan.bundle], [view.strides[4], columns],
                [view.strides[5], rows], [view.strides[2], outputs],
            ]  # fmt: skip
            source = self._owner.reached("kernel", start, pattern)
            nisa.dma_copy(lying[channel::count, depth], source)
        taps = planes * columns * rows
        found = lying.reshape((plan.channels, taps, 1, outputs)).broadcast(2, plan.bundle)
        for sign, offset in ((1, 0), (-1, count - 1)):
            kept = nl.ndarray(found.shape, dtype=plan.dtype, buffer=nl.sbuf)
            steps = [[0, taps], [-sign * count, plan.bundle], [0, outputs]]
            nisa.affine_select(
                kept, steps, sign, found, 0.0, cmp_op=nl.greater_equal, offset=offset
            )
            found = kept
        return found.reshape((plan.channels, taps, plan.outputs))

    def _spots(self) -> Iterator[tuple[int, int, int, int]]:
        """(tap, number of the group among those used, place, column) of weights."""
        for number, used in enumerate(self._plan.used):
            for place, column, tap in used:
                yield tap, number, place, column

    def _taps(self, tile: Tile) -> Tile:
        """A tile's taps as planes, groups and rows."""
        planes, _, rows = self._plan.axes
        shape = tile.shape
        return tile.reshape(
            (shape[0], planes.window, len(self._plan.used), rows.window, *shape[2:])
        )

    def _load(self, tile: Tile, first: int, count: int) -> None:
        """As it lies, for outputs are innermost; copied to its places when there are several."""
        planes, columns, rows = (axis.window for axis in self._plan.axes)
        strides = self._plan.kernel.view.strides
        start = self._start + first * strides[1]
        spread = self._taps(tile)
        is_plain = self._plan.packed == self._plan.together == 1
        shape = (count, planes, columns, rows, self._outputs)
        lying = nl.ndarray(shape, dtype=self._plan.dtype, buffer=nl.sbuf)
        if is_plain:
            lying = spread[:, :, :, :, 0]
        for depth in range(planes):
            pattern = [
                [strides[1], count], [strides[4], columns], [strides[5], rows],
                [strides[2], self._outputs],
            ]  # fmt: skip
            source = self._owner.reached("kernel", start + depth * strides[3], pattern)
            nisa.dma_copy(lying[:, depth], source)
        if is_plain:
            return
        for tap, number, place, at in self._spots():
            part = spread[place * count : (place + 1) * count, :, number, :, at]
            nisa.tensor_copy(part, lying[:, :, tap])

    def _spread(self, tile: Tile, first: int, count: int) -> None:
        """Channels are outermost: outputs are brought beside each other on chip."""
        spread = self._taps(tile)
        strides = self._plan.kernel.view.strides
        own, other = (strides[1], count), (strides[2], self._outputs)
        lying = self._lying(self._start + first * strides[1], own, other)
        planes, _, rows = self._plan.axes
        for depth, row in product(range(planes.window), range(rows.window)):
            for tap, number, place, at in self._spots():
                part = spread[place * count : (place + 1) * count, depth, number, row, at]
                nisa.tensor_copy(part, lying(depth, tap, row))

    def _turn(self, tile: Tile, first: int, count: int) -> None:
        """Outputs on partitions first, then transposed tap by tap."""
        strides = self._plan.kernel.view.strides
        for begin in range(0, self._outputs, PARTITIONS):
            some = min(PARTITIONS, self._outputs - begin)
            start = self._start + first * strides[1] + begin * strides[2]
            lying = self._lying(start, (strides[2], some), (strides[1], count))
            self._turn_block(tile, lying, count, (begin, some))

    def _lying(
        self, start: int, own: tuple[int, int], other: tuple[int, int]
    ) -> Callable[[int, int, int], Tile]:
        """(plane, column, row) of a tap -> its weights, (own, other), of a tile in the order of memory.

        Args:
            start: the first element.
            own: stride and extent of what lies on partitions.
            other: of what else a tap has.
        """
        plan = self._plan
        windows = [axis.window for axis in plan.axes]
        dims = [other, *zip(plan.kernel.view.strides[3:], windows, strict=True)]
        order = sorted(range(4), key=lambda dim: -abs(dims[dim][0]))
        start += sum((count - 1) * step for step, count in dims if step < 0)
        pattern = [[*own], *([abs(dims[dim][0]), dims[dim][1]] for dim in order)]
        shape = (own[1], *(dims[dim][1] for dim in order))
        lying = nl.ndarray(shape, dtype=plan.dtype, buffer=nl.sbuf)
        nisa.dma_copy(lying, self._owner.reached("kernel", start, merged(pattern)))
        lying = lying.permute([0, *(1 + order.index(dim) for dim in range(4))])

        def weights(*tap: int) -> Tile:
            turned = (
                count - 1 - at if step < 0 else at
                for at, (step, count) in zip(tap, dims[1:], strict=True)
            )
            return lying[:, :, *turned]

        return weights

    def _turn_block(
        self, tile: Tile, lying: Callable[[int, int, int], Tile], count: int, part: tuple[int, int]
    ) -> None:
        begin, some = part
        planes, columns, rows = (axis.window for axis in self._plan.axes)
        spread = self._taps(tile)
        room = max(1, _BANK // (some * self._plan.dtype.itemsize))
        for depth, tap, top in product(range(planes), range(columns), range(0, rows, room)):
            taken = min(room, rows - top)
            bank = self._owner.turned_tile((count, taken, some))
            for row in range(taken):
                self._owner.turned(bank[:, row], lying(depth, tap, top + row))
            for one, number, place, at in self._spots():
                if one == tap:
                    where = slice(place * count, (place + 1) * count)
                    span = slice(begin, begin + some)
                    nisa.tensor_copy(
                        spread[where, depth, number, top : top + taken, at, span], bank
                    )


def _clear(tile: Tile, dim: int, inside: tuple[int, int, int], packed: int) -> None:
    """Zeros where the image has nothing along a dimension.

    Args:
        tile: of the image, or rows of it.
        dim: which dimension.
        inside: as :meth:`Axis.inside` returns it.
        packed: elements that stand in one of the dimension.
    """
    _, count, at = inside
    extent = tile.shape[dim]
    first, last = -(-at // packed), (at + count) // packed
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
        lies = strides[2] == 1 and plan.channels > 1
        self._steps = self._turned() if lies else self._loaded()
        self._ready = 0
        for tile in self._tiles:
            _clear(tile, 2, self._planes, 1)
            _clear(tile, 4, self._rows, 1)
            if not lies:
                _clear(tile, 3, self._columns, plan.packed)

    def reach(self, box: Box) -> None:
        """Load what a box needs, and a little more."""
        plan = self._plan
        first = (box.blocks[0] - self._band.blocks[0]) * plan.step
        last = first + (box.blocks[1] - 1) * plan.step + plan.reach
        while self._ready < last:
            self._ready = next(self._steps)

    def tap(self, chunk: int, box: Box, block: int, at: tuple[int, int, int]) -> Tile:
        """What a box's windows, of one block of each lane, see of the plane, group of columns and row
        that the first one sees at a place."""
        plan, band = self._plan, self._band
        planes, _, rows = plan.axes
        depth = (box.planes[0] - band.planes[0]) * planes.step + at[0]
        group = (box.blocks[0] + block - band.blocks[0]) * plan.step + at[1]
        row = (box.rows[0] - band.rows[0]) * rows.step + at[2]
        image = box.images[0] - band.images[0]
        lanes, apart = box.lanes_of(block), box.run * plan.step
        seen = self._tiles[chunk][
            :, image : image + box.images[1], depth,
            group : group + (lanes - 1) * apart + 1 : apart,
            row : row + (box.rows[1] - 1) * rows.step + 1 : rows.step,
        ]  # fmt: skip
        return seen.permute([0, 2, 1, 3]) if plan.by_rows else seen

    # -- channels apart in memory ----------------------------------------------------------

    def _loaded(self) -> Iterator[int]:
        """Loaded as it lies; short rows lie beside each other first, and are put apart on chip."""
        rows, height = self._rows[1], self._extents[3]
        apart = rows < height or self._plan.packed > 1
        is_short = rows * self._plan.image.dtype.itemsize < _SHORT
        load = self._spread if apart and is_short else self._straight
        if rows and self._columns[1]:
            for chunk, (depth, number) in product(range(len(self._tiles)), self._each_plane()):
                load(chunk, depth, number)
        yield self._extents[2]

    def _straight(self, chunk: int, depth: int, plane: int) -> None:
        for place, first, count in self._places():
            nisa.dma_copy(
                self._part(chunk, depth, place, first, (0, self._extents[0])),
                self._source(chunk, plane, (0, self._extents[0]), first, count, self._plan.packed),
            )

    def _spread(self, chunk: int, depth: int, plane: int) -> None:
        images, count, rows = self._extents[0], self._columns[1], self._rows[1]
        dtype, channels = self._plan.image.dtype, self._plan.chunks[chunk][1]
        at_once = min(images, max(1, _LYING // (count * rows * dtype.itemsize)))
        for begin in range(0, images, at_once):
            some = (begin, min(at_once, images - begin))
            lying = nl.ndarray((channels, some[1], count, rows), dtype=dtype, buffer=nl.sbuf)
            nisa.dma_copy(lying, self._source(chunk, plane, some, 0, count, 1))
            for place, first, _ in self._places():
                part = self._part(chunk, depth, place, first, some)
                nisa.tensor_copy(part, lying[:, :, first :: self._plan.packed])

    def _places(self) -> Iterator[tuple[int, int, int]]:
        """(place in a group, its first column in the image's part, how many) that are not empty."""
        (_, count, at), packed = self._columns, self._plan.packed
        for place in range(packed):
            first = (place - at) % packed
            if first < count:
                yield place, first, -(-(count - first) // packed)

    def _part(
        self, chunk: int, depth: int, place: int, first: int, images: tuple[int, int]
    ) -> Tile:
        """Where every ``packed``-th column from the first on belongs."""
        (_, count, at), (_, rows, top) = self._columns, self._rows
        packed, channels = self._plan.packed, self._plan.chunks[chunk][1]
        taken, begin = -(-(count - first) // packed), (at + first) // packed
        return self._tiles[chunk][
            place * channels : (place + 1) * channels, images[0] : sum(images), depth,
            begin : begin + taken, top : top + rows,
        ]  # fmt: skip

    def _source(
        self, chunk: int, plane: int, images: tuple[int, int], first: int, count: int, step: int
    ) -> Tile:
        """Channels, images, columns from the first on, and rows, in HBM."""
        _, image, channel, depth, column, row = self._plan.image.view.strides
        begin, channels = self._plan.chunks[chunk]
        start = self._start + begin * channel + images[0] * image + plane * depth
        start += (self._columns[0] + first) * column + self._rows[0] * row
        pattern = [
            [channel, channels], [image, images[1]], [column * step, count], [row, self._rows[1]],
        ]  # fmt: skip
        return self._owner.reached("image", start, pattern)

    def _each_plane(self) -> Iterator[tuple[int, int]]:
        """(place in the tile, number in the image) of every plane."""
        first, count, at = self._planes
        for number in range(count):
            yield at + number, first + number

    # -- channels innermost ----------------------------------------------------------------

    def _turned(self) -> Iterator[int]:
        """Rows of the image on partitions, transposed for each group of columns."""
        plan = self._plan
        groups = self._extents[2]
        width = plan.packed * plan.channels
        together = max(1, _LYING // (width * plan.dtype.itemsize))
        together = -(-groups // -(-groups // together))
        together = min(together, max(1, -(-groups // 4)))
        for begin in range(0, groups, together):
            count = min(together, groups - begin)
            for depth, number in self._each_plane():
                for image, images, top, rows in self._pieces():
                    lying = self._rows_of(image, images, number, top, rows, begin, count)
                    self._turn(lying, image, images, depth, top, rows, begin)
            yield begin + count

    def _pieces(self) -> Iterator[tuple[int, int, int, int]]:
        """(image, images, row, rows) that partitions hold at once."""
        images, rows = self._extents[0], self._rows[1]
        if not rows:
            return
        many = max(1, PARTITIONS // rows)
        for image in range(0, images, many):
            for top in range(0, rows, PARTITIONS):
                yield image, min(many, images - image), top, min(PARTITIONS, rows - top)

    def _rows_of(
        self, image: int, images: int, plane: int, top: int, rows: int, begin: int, count: int
    ) -> Tile:
        plan = self._plan
        packed, channels = plan.packed, plan.channels
        shape = (images * rows, count * packed, channels)
        lying = nl.ndarray(shape, dtype=plan.dtype, buffer=nl.sbuf)
        band, columns = self._band, plan.axes[1]
        first = (band.blocks[0] * plan.step + begin) * packed
        index, some, at = columns.inside(first, count * packed)
        _clear(lying, 1, (index, some, at), 1)
        if not some:
            return lying
        strides = plan.image.view.strides
        start = self._start + image * strides[1] + plane * strides[3] + index * strides[4]
        start += (self._rows[0] + top) * strides[5]
        for one in range(images):
            pattern = [[strides[5], rows], [strides[4], some], [1, channels]]
            part = lying[one * rows : (one + 1) * rows, at : at + some]
            nisa.dma_copy(part, self._owner.reached("image", start + one * strides[1], pattern))
        return lying

    def _turn(
        self, lying: Tile, image: int, images: int, depth: int, top: int, rows: int, begin: int
    ) -> None:
        plan = self._plan
        count = lying.shape[1] // plan.packed
        room = max(1, _BANK // (images * rows * plan.dtype.itemsize))
        first = self._rows[2] + top
        span = slice(first, first + rows)
        for number, (channel, some) in enumerate(plan.chunks):
            for head in range(0, count, room):
                taken = min(room, count - head)
                bank = self._owner.turned_tile((plan.packed * some, taken, images * rows))
                for place in range(taken):
                    column = (head + place) * plan.packed
                    part = lying[:, column : column + plan.packed, channel : channel + some]
                    flat = part.reshape((images * rows, plan.packed * some))
                    self._owner.turned(bank[:, place], flat)
                where = slice(begin + head, begin + head + taken)
                tile = self._tiles[number][:, image : image + images, depth, where, span]
                shape = (plan.packed * some, taken, images, rows)
                nisa.tensor_copy(tile, bank.reshape(shape).permute([0, 2, 1, 3]))
