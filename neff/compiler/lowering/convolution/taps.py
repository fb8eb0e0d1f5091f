"""The geometry of a direct convolution: its views, packed columns, and how it is cut.

Three spatial dimensions are distinguished: ``planes``, ``columns`` and ``rows``; missing ones have one
element. Channels are on partitions. If half or more of the partitions are free, ``packed`` neighboring
columns of the image share them, and a product computes the ``together`` columns of the result that
begin in such a group. With 32 channels, ``packed`` 4, stride 1 and a window of 3 columns::

    partition   0: channels of column 0   weights of results  0  1  2  3
               32: channels of column 1          column 0    t0  .  .  .
               64: channels of column 2          column 1    t1 t0  .  .
               96: channels of column 3          column 2    t2 t1 t0  .
                                                 column 3     . t2 t1 t0   (then the next group)

The weights are a band of the taps, zero where a column of the image is outside a result's window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

from neff.compiler.expansions.spans import Span
from neff.compiler.expansions.windows import bundled, groups_of
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.views import View
from neff.compiler.lowering.tiles.task import Port
from nki_lang.base.dtypes import DType

__all__ = [
    "Axis",
    "Box",
    "Plan",
    "Tap",
    "arranged",
    "arranged_in_rows",
    "in_bundles",
    "planned",
    "views_of",
]

PARTITIONS = 128

IMAGE_BYTES_PER_PARTITION = 40 * 1024
"""Bytes of each partition for a band of the image."""

WEIGHT_BYTES_PER_PARTITION = 72 * 1024
"""Bytes of each partition for the weights of a block of outputs."""

_MAX_MOVING_COLUMNS = 512
"""Columns of one product are at most this: a bank of PSUM."""

_PACKED_CHANNELS = (32, 64)
"""Numbers of channels that are packed: instructions start at partitions 0, 32, 64 and 96."""

_MAX_STORED_BYTES = 8 * 1024
"""Limit on the bytes of each partition of a store."""

_MIN_STORES = 8
"""Stores of a band, so that the last one is short."""

_MIN_MOVING_COLUMNS = 96
"""A product of fewer columns takes no less time."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A spatial dimension.

    Attributes:
        size: elements of the image.
        places: elements of the result.
        window: taps.
        stride, dilation: stride and dilation of the window.
        holes: distance of the image's elements, 1 if they are adjacent.
        low: padding in front, negative if elements are cut off.
    """

    size: int
    places: int
    window: int
    stride: int = 1
    dilation: int = 1
    holes: int = 1
    low: int = 0

    @property
    def period(self) -> int:
        """Return the number of neighboring results that read different taps: 1 without holes."""
        return self.holes // gcd(self.holes, self.stride)

    @property
    def blocks(self) -> int:
        """Return the periods of the result; the last one may be partial."""
        return -(-self.places // self.period)

    @property
    def step(self) -> int:
        """Return the elements of the image from one period of the result to the next."""
        return self.stride * self.period // self.holes

    @property
    def phases(self) -> list[list[tuple[int, int]]]:
        """Return the (tap, element of the image) pairs that each result of a period reads."""
        reads = [
            [
                (tap, phase * self.stride + tap * self.dilation - self.low)
                for tap in range(self.window)
            ]
            for phase in range(self.period)
        ]
        return [
            [
                (tap, position // self.holes)
                for tap, position in phase_reads
                if position % self.holes == 0
            ]
            for phase_reads in reads
        ]

    @property
    def ends(self) -> tuple[int, int]:
        """Return the first and the last element of the image that the first period reads."""
        if self.holes == 1:
            return -self.low, (self.window - 1) * self.dilation - self.low
        elements = [element for phase in self.phases for _, element in phase]
        return min(elements, default=0), max(elements, default=0)

    @property
    def reach(self) -> int:
        """Return the padded elements that a period reads."""
        first, last = self.ends
        return last - first + 1

    def exchanged(self) -> Axis:
        """Return the axis of the weight gradient: output and window swapped."""
        return replace(
            self, places=self.window, window=self.places, stride=self.dilation, dilation=self.stride
        )

    def padded(self, blocks: int) -> int:
        """Return the padded elements that ``blocks`` adjacent periods need."""
        return (blocks - 1) * self.step + self.reach

    def inside(self, begin: int, count: int) -> tuple[int, int, int]:
        """Return the first element of the image of a padded range, their number, and their offset
        in it.
        """
        low = -self.ends[0]
        first = max(0, begin - low)
        last = min(self.size, begin + count - low)
        return first, max(0, last - first), low + first - begin


@dataclass(frozen=True, slots=True)
class Box:
    """Results that are stored together.

    Attributes:
        images, planes, blocks, rows: first and number of each; planes and rows in periods, a block
            has ``width`` columns.
        lanes: blocks of one product; the next product has their neighbors.
    """

    images: tuple[int, int]
    planes: tuple[int, int]
    blocks: tuple[int, int]
    rows: tuple[int, int]
    lanes: int = 1

    @property
    def run(self) -> int:
        """Return the adjacent blocks of a lane."""
        return -(-self.blocks[1] // self.lanes)

    @property
    def last_lane_blocks(self) -> int:
        """Return the blocks of the last lane, which may have fewer."""
        return self.blocks[1] - (self.lanes - 1) * self.run

    def lanes_of(self, block: int) -> int:
        """Return the number of lanes that have a block of this number."""
        return self.lanes if block < self.last_lane_blocks else self.lanes - 1

    def size_of(self, block: int) -> int:
        """Return the partitions, or columns, of the product of one block of each lane."""
        return self.lanes_of(block) * self.images[1] * self.rows[1]

    @property
    def size(self) -> int:
        """Return the partitions, or columns, of the largest product."""
        return self.size_of(0)


@dataclass(frozen=True, slots=True)
class Tap:
    """A product: the number of its weights, and its offset in the image.

    The offset is the plane, group of packed columns and row that the first result reads.
    """

    weights: int
    offset: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a convolution's kernel.

    Attributes:
        image: (groups, images, channels, planes, columns, rows); groups are bundles.
        kernel: (groups, channels, outputs, planes, columns, rows), of single groups.
        out: (groups, images, outputs, planes, columns, rows).
        axes: planes, columns, rows.
        dtype: type in which the tensor engine reads.
        packed: columns of the image that share the partitions.
        together: columns of the result that one product computes.
        by_rows: results are on partitions and features in the free dimension; else the reverse.
        bundle: groups of features in one product.
    """

    image: Port
    kernel: Port
    out: Port
    axes: tuple[Axis, Axis, Axis]
    dtype: DType
    packed: int
    together: int
    by_rows: bool
    bundle: int = 1

    @property
    def channels(self) -> int:
        return self.image.view.shape[2]

    @property
    def outputs(self) -> int:
        return self.out.view.shape[2]

    @property
    def width(self) -> int:
        """Return the columns of the result in a block."""
        return self.together * self.axes[1].period

    @property
    def step(self) -> int:
        """Return the groups of packed columns from one block of results to the next."""
        return self.together * self.axes[1].step // self.packed

    @property
    def reach(self) -> int:
        """Return the groups of packed columns that a block reads."""
        columns = self.axes[1]
        return columns.reach if columns.period > 1 else len(self.band)

    @property
    def band(self) -> list[list[tuple[int, int, int]]]:
        """Return the weights that are not zero for each group of packed columns that a block reads.

        A weight is (position in the group, column of the block, tap). With holes results read different
        taps, so each tap has a group.
        """
        columns = self.axes[1]
        if columns.holes > 1:
            return [[(0, 0, tap)] for tap in range(columns.window)]
        return _band(columns, self.packed, self.together)

    @property
    def used(self) -> list[list[tuple[int, int, int]]]:
        """Return the groups of the band that are not empty: each has weights of its own."""
        return [group for group in self.band if group]

    @property
    def phases(self) -> list[tuple[tuple[int, int, int], list[Tap]]]:
        """Return the products for each (plane, column, row) of a period."""
        planes, columns, rows = self.axes
        groups = [number for number, used in enumerate(self.band) if used]
        across = [list(enumerate(groups))] if columns.holes == 1 else columns.phases
        first = (planes.ends[0], 0 if columns.holes == 1 else columns.ends[0], rows.ends[0])
        phases: list[tuple[tuple[int, int, int], list[Tap]]] = []
        for phase in product(range(planes.period), range(len(across)), range(rows.period)):
            lines = planes.phases[phase[0]], across[phase[1]], rows.phases[phase[2]]
            taps = [
                Tap((plane[0] * len(self.used) + column[0]) * rows.window + row[0],
                    (plane[1] - first[0], column[1] - first[1], row[1] - first[2]))
                for plane, column, row in product(*lines)
            ]  # fmt: skip
            phases.append((phase, taps))
        return phases

    @property
    def blocks(self) -> int:
        return -(-self.axes[1].places // self.width)

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """Return (first, count) of channels that are contracted at a time."""
        return [
            (first, min(PARTITIONS, self.channels - first))
            for first in range(0, self.channels, PARTITIONS)
        ]

    @property
    def taps(self) -> int:
        """Return the number of tiles of weights, for each chunk of channels; one product each
        without holes.
        """
        return self.axes[0].window * len(self.used) * self.axes[2].window

    @property
    def outputs_at_once(self) -> int:
        """Return the outputs of one product whose weights fit into SBUF."""
        widest = (_MAX_MOVING_COLUMNS if self.by_rows else PARTITIONS) // self.together
        output_bytes = self.taps * len(self.chunks) * self.together * self.dtype.itemsize
        return max(1, min(self.outputs, widest, WEIGHT_BYTES_PER_PARTITION // output_bytes))

    def extents(self, box: Box) -> tuple[int, int, int, int]:
        """Return images, planes, groups of columns and rows of the image that a box needs."""
        planes, _, rows = self.axes
        groups = (box.blocks[1] - 1) * self.step + self.reach
        return box.images[1], planes.padded(box.planes[1]), groups, rows.padded(box.rows[1])

    def bands(self) -> Iterator[Box]:
        """Yield boxes whose band of the image fits into SBUF, in order."""
        planes, _, rows = self.axes
        extents = [self.image.view.shape[1], planes.blocks, self.blocks, rows.blocks]
        sizes = list(extents)
        for dim in range(4):
            while sizes[dim] > 1 and self._bytes(sizes) > IMAGE_BYTES_PER_PARTITION:
                sizes[dim] = -(-sizes[dim] // 2)
        cuts = [_cuts((0, extent), size) for extent, size in zip(extents, sizes, strict=True)]
        for images, planes, blocks, rows in product(*cuts):
            yield Box(images, planes, blocks, rows)

    def _bytes(self, sizes: list[int]) -> int:
        images, planes, blocks, rows = ((0, size) for size in sizes)
        box = Box(images, planes, blocks, rows)
        return prod(self.extents(box)) * len(self.chunks) * self.dtype.itemsize

    def boxes(self, band: Box) -> Iterator[Box]:
        """Yield the products of a band; a partial last block or period is a box of its own."""
        columns, rows = self.axes[1:]
        blocks = _wholes(band.blocks, columns.places // self.width)
        for block_range, row_range in product(
            blocks, _wholes(band.rows, rows.places // rows.period)
        ):
            yield from self._even_boxes(replace(band, blocks=block_range, rows=row_range))

    def _even_boxes(self, band: Box) -> Iterator[Box]:
        """Yield equal parts of a band in which all blocks and periods are full, or all are
        partial.
        """
        (images, blocks, rows), lanes = self._beside(band) if self.by_rows else self._along(band)
        cuts = _cuts(band.images, images), _cuts(band.blocks, blocks), _cuts(band.rows, rows)
        planes = range(band.planes[0], sum(band.planes))
        for image, plane, block, row in product(cuts[0], planes, cuts[1], cuts[2]):
            run = -(-block[1] // min(lanes, block[1]))
            yield Box(image, (plane, 1), block, row, -(-block[1] // run))

    def _along(self, band: Box) -> tuple[tuple[int, int, int], int]:
        """Return images, blocks, rows and lanes of a box with positions in the free dimension."""
        rows = _even(band.rows[1], _MAX_MOVING_COLUMNS)
        blocks = _even(band.blocks[1], _MAX_MOVING_COLUMNS // rows)
        images = _MAX_MOVING_COLUMNS // (rows * blocks) if blocks == band.blocks[1] else 1
        return (_even(band.images[1], max(1, images)), blocks, rows), blocks

    def _beside(self, band: Box) -> tuple[tuple[int, int, int], int]:
        """Return images, blocks, rows and lanes of a box with positions on partitions.

        Partitions take full images first, then lanes of blocks; blocks of a lane are adjacent when
        stored.
        """
        rows = _even(band.rows[1], PARTITIONS)
        images = _even(band.images[1], PARTITIONS // rows)
        lanes = PARTITIONS // (rows * images) if images == band.images[1] else 1
        block_bytes = (
            self.width * self.axes[2].period * self.outputs_at_once * self.out.dtype.itemsize
        )
        other_stores = -(-band.images[1] // images) * -(-band.rows[1] // rows) * band.planes[1]
        parts = max(1, _MIN_STORES // other_stores)
        run = min(_MAX_STORED_BYTES // block_bytes, -(-band.blocks[1] // (lanes * parts)))
        blocks = _even(band.blocks[1], lanes * max(1, run))
        return (images, blocks, rows), lanes


def _wholes(span: tuple[int, int], full: int) -> list[tuple[int, int]]:
    """Return (first, count) of the elements below ``full``, and of the elements from it on."""
    first, last = span[0], sum(span)
    parts = [(first, min(last, full)), (max(first, full), last)]
    return [(begin, end - begin) for begin, end in parts if end > begin]


def _cuts(span: tuple[int, int], size: int) -> list[tuple[int, int]]:
    first, last = span[0], sum(span)
    return [(begin, min(size, last - begin)) for begin in range(first, last, size)]


def _even(extent: int, max_size: int) -> int:
    """Return the size of equal parts of at most ``max_size``."""
    parts = -(-extent // max(1, max_size))
    return -(-extent // parts)


def _band(columns: Axis, packed: int, together: int) -> list[list[tuple[int, int, int]]]:
    last = (together - 1) * columns.stride + columns.reach - 1
    groups: list[list[tuple[int, int, int]]] = [[] for _ in range(last // packed + 1)]
    for column, tap in product(range(together), range(columns.window)):
        group, position = divmod(column * columns.stride + tap * columns.dilation, packed)
        groups[group].append((position, column, tap))
    return groups


# -- from a node ----------------------------------------------------------------------------------


def planned(ports: tuple[Port, Port, Port], axes: tuple[Axis, Axis, Axis], dtype: DType) -> Plan:
    """Return the plan that takes the least time.

    Args:
        ports: image, kernel and result of :class:`Plan`.
        axes: planes, columns, rows.
        dtype: type in which the tensor engine reads.
    """
    image, kernel, out = ports
    channels = image.view.shape[2]
    by_rows = out.view.strides[2] == 1
    bundle = kernel.view.shape[0] // image.view.shape[0]
    sizes = [1]
    if bundle == 1 and channels in _PACKED_CHANNELS and axes[1].window > 1 and axes[1].holes == 1:
        sizes += [size for size in (2, 4) if size * channels <= PARTITIONS]
    plans = [
        Plan(*ports, axes, dtype, size, size // gcd(size, axes[1].stride), by_rows, bundle)
        for size in sizes
    ]
    return min(plans, key=_cost)


def _cost(plan: Plan) -> float:
    positions = (
        plan.image.view.shape[1] * plan.blocks * prod(axis.blocks for axis in plan.axes[::2])
    )
    columns = plan.together * plan.outputs
    if plan.by_rows:
        parts = -(-columns // _MAX_MOVING_COLUMNS)
        column_cost = (
            max(_MIN_MOVING_COLUMNS, columns / parts) * parts * -(-positions // PARTITIONS)
        )
    else:
        column_cost = -(-columns // PARTITIONS) * max(_MIN_MOVING_COLUMNS, positions)
    return column_cost * plan.taps * len(plan.chunks)


def views_of(node: Node, image: View, kernel: View, out: View) -> tuple[View, View, View]:
    """Return the three views with the dimensions of :class:`Plan`, but spatial ones in HLO's
    order.
    """
    features, batches = groups_of(node)
    groups = features * batches
    images: tuple[int, ...] = node.attributes["input"]
    batch, feature, *spatial = images
    samples, channels = image.shape[batch] // batches, image.shape[feature] // features
    leap = image.strides[feature] * channels if batches == 1 else image.strides[batch] * samples
    left = _restrided(
        image, [(groups, leap), (samples, image.strides[batch]), (channels, image.strides[feature])],
        spatial,
    )  # fmt: skip
    weights: tuple[int, ...] = node.attributes["kernel"]
    source, target, *taps = weights
    spans: tuple[Span, ...] = node.attributes["spans"]
    kernel = kernel.reverse(
        tuple(dim for dim, span in zip(taps, spans, strict=True) if span.reversed)
    )
    outputs, along = kernel.shape[target] // groups, kernel.strides[target]
    right = _restrided(
        kernel,
        [(groups, outputs * along), (channels, kernel.strides[source]), (outputs, along)], taps,
    )  # fmt: skip
    results: tuple[int, ...] = node.attributes["output"]
    batch, feature, *positions = results
    along = out.strides[feature]
    result_view = _restrided(
        out, [(groups, outputs * along), (samples, out.strides[batch]), (outputs, along)], positions
    )
    return left, right, result_view


def in_bundles(views: tuple[View, View, View]) -> tuple[View, View, View]:
    """Return the views with several groups of features joined, but the kernel's groups separate."""
    image, kernel, out = views
    bundle = bundled(kernel.shape[0], kernel.shape[1], kernel.shape[2])
    return _joined(image, bundle), kernel, _joined(out, bundle)


def _joined(view: View, bundle: int) -> View:
    shape = (view.shape[0] // bundle, view.shape[1], view.shape[2] * bundle, *view.shape[3:])
    along = view.strides[2] if view.shape[2] > 1 else view.strides[0]
    strides = (view.strides[0] * bundle, view.strides[1], along, *view.strides[3:])
    return View(view.buffer, shape, strides, view.offset)


def _restrided(view: View, head: list[tuple[int, int]], spatial: list[int]) -> View:
    dims = [*head, *((view.shape[dim], view.strides[dim]) for dim in spatial)]
    return View(
        view.buffer,
        tuple(extent for extent, _ in dims),
        tuple(step for _, step in dims),
        view.offset,
    )


def arranged(
    views: tuple[View, View, View], spans: tuple[Span, ...]
) -> tuple[tuple[View, View, View], tuple[Axis, Axis, Axis]]:
    """Return the views with planes, columns and rows, and these axes.

    An image whose channels are innermost is loaded by rows and transposed: its columns are the innermost
    spatial dimension. Any other image is loaded in memory order: its rows are innermost.
    """
    image = views[0]
    order = _outermost_first(image)
    if (
        image.strides[2] == 1
        and len(order) > 1
        and 4 * image.shape[3 + order[-2]] >= image.shape[3 + order[-1]]
    ):
        order[-2:] = order[:-3:-1]
    return _with_axes(views, spans, order)


def arranged_in_rows(
    views: tuple[View, View, View], spans: tuple[Span, ...]
) -> tuple[tuple[View, View, View], tuple[Axis, Axis, Axis]]:
    """Return the views with planes, rows and columns, and these axes; columns are innermost."""
    return _with_axes(views, spans, _outermost_first(views[0]))


def _outermost_first(image: View) -> list[int]:
    return sorted(range(len(image.shape) - 3), key=lambda dim: -abs(image.strides[3 + dim]))


def _with_axes(
    views: tuple[View, View, View], spans: tuple[Span, ...], order: list[int]
) -> tuple[tuple[View, View, View], tuple[Axis, Axis, Axis]]:
    image, _, out = views
    axes = [
        Axis(
            image.shape[3 + dim], out.shape[3 + dim], span.size, span.stride, span.window_dilation,
            span.base_dilation, span.low,
        )
        for dim, span in enumerate(spans)
    ]  # fmt: skip
    missing = 3 - len(order)
    padded = tuple(_ordered(view, order, missing) for view in views)
    all_axes = [Axis(1, 1, 1)] * missing + [axes[dim] for dim in order]
    return (padded[0], padded[1], padded[2]), (all_axes[0], all_axes[1], all_axes[2])


def _ordered(view: View, order: list[int], missing: int) -> View:
    dims = [3 + dim for dim in order]
    shape = (*view.shape[:3], *(1,) * missing, *(view.shape[dim] for dim in dims))
    strides = (*view.strides[:3], *(0,) * missing, *(view.strides[dim] for dim in dims))
    return View(view.buffer, shape, strides, view.offset)
