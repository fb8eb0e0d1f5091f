"""The geometry of a direct convolution: its views, what is packed, and how it is cut.

Three spatial dimensions are told apart: ``planes``, ``columns`` and ``rows``; missing ones have one
element. Channels lie on partitions. Where they leave half or more of them free, neighbouring
columns of the image stand side by side there (``packed``), and a product makes as many columns of
the result as begin in one such group (``together``): the weights are a band of the taps, zero where
a column of the image is outside a result's window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import gcd, prod

from neff.compiler.expansions.windows import Span, bundled, groups_of
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.views import View
from neff.compiler.lowering.task import Port
from nki_lang.dtypes import DType

__all__ = [
    "Axis",
    "Box",
    "Plan",
    "arranged",
    "arranged_in_rows",
    "in_bundles",
    "planned",
    "views_of",
]

PARTITIONS = 128

IMAGE = 40 * 1024
"""Bytes of each partition for the part of an image that is worked on."""

WEIGHTS = 72 * 1024
"""Bytes of each partition for the weights of one block of outputs."""

_MOVING = 512
"""Columns of one product at most: a bank of PSUM."""

_PACKED = (32, 64)
"""Channels that are packed: instructions start at partitions 0, 32, 64 and 96."""

_FEWEST = 96
"""Columns of a product below which it takes no less time."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial dimension.

    Attributes:
        size: elements of the image.
        places: elements of the result.
        window: taps.
        stride, dilation: of the window.
        holes: distance of the image's elements, 1 when they are neighbours.
        low: padding in front, negative when it is cut.
    """

    size: int
    places: int
    window: int
    stride: int = 1
    dilation: int = 1
    holes: int = 1
    low: int = 0

    @property
    def reach(self) -> int:
        """Padded elements from the first to the last tap."""
        return (self.window - 1) * self.dilation + 1

    def exchanged(self) -> Axis:
        """The same dimension with result and window in each other's part."""
        return replace(
            self, places=self.window, window=self.places, stride=self.dilation, dilation=self.stride
        )

    def padded(self, places: int) -> int:
        """Padded elements that so many results in a row need."""
        return (places - 1) * self.stride + self.reach

    def inside(self, begin: int, count: int) -> tuple[int, int, int]:
        """Of ``count`` padded elements: the first of the image, how many, and the place of the
        first among them."""
        first = max(0, -((self.low - begin) // self.holes))
        last = min(self.size, -((self.low - begin - count) // self.holes))
        return first, max(0, last - first), self.low + first * self.holes - begin


@dataclass(frozen=True, slots=True)
class Box:
    """Results: images, planes, blocks of columns (``together`` each), rows; (first, count)."""

    images: tuple[int, int]
    planes: tuple[int, int]
    blocks: tuple[int, int]
    rows: tuple[int, int]

    @property
    def size(self) -> int:
        """Blocks times rows times images: partitions, or columns, of one product."""
        return self.images[1] * self.blocks[1] * self.rows[1]


@dataclass(frozen=True, slots=True)
class Plan:
    """A convolution as its kernel does it.

    Attributes:
        image: (groups, images, channels, planes, columns, rows); groups are bundles.
        kernel: (groups, channels, outputs, planes, columns, rows), of single groups.
        out: (groups, images, outputs, planes, columns, rows).
        axes: planes, columns, rows.
        dtype: type in which the tensor engine reads.
        packed: columns of the image side by side on the partitions.
        together: columns of the result that one product makes.
        by_rows: results lie on partitions, their features along them; else the other way round.
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
    def step(self) -> int:
        """Groups of packed columns from one block of results to the next."""
        return self.together * self.axes[1].stride // self.packed

    @property
    def band(self) -> list[list[tuple[int, int, int]]]:
        """For each group of packed columns that a block needs: (place in the group, column of the
        block, tap) of the weights that are not zero."""
        return _band(self.axes[1], self.packed, self.together)

    @property
    def blocks(self) -> int:
        return -(-self.axes[1].places // self.together)

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """(first, count) of channels that are contracted at once."""
        return [
            (first, min(PARTITIONS, self.channels - first))
            for first in range(0, self.channels, PARTITIONS)
        ]

    @property
    def taps(self) -> list[tuple[int, int, int]]:
        """(plane, group of columns, row): one product each, for each chunk of channels."""
        planes, _, rows = self.axes
        groups = [number for number, used in enumerate(self.band) if used]
        return list(product(range(planes.window), groups, range(rows.window)))

    @property
    def outputs_at_once(self) -> int:
        """Outputs of one product, whose weights fit into SBUF."""
        widest = (_MOVING if self.by_rows else PARTITIONS) // self.together
        each = len(self.taps) * len(self.chunks) * self.together * self.dtype.itemsize
        return max(1, min(self.outputs, widest, WEIGHTS // each))

    def extents(self, box: Box) -> tuple[int, int, int, int]:
        """Images, planes, groups of columns and rows of the image that a box needs."""
        planes, _, rows = self.axes
        groups = (box.blocks[1] - 1) * self.step + len(self.band)
        return box.images[1], planes.padded(box.planes[1]), groups, rows.padded(box.rows[1])

    def bands(self) -> Iterator[Box]:
        """Boxes whose part of the image fits into SBUF, in order."""
        planes, _, rows = self.axes
        whole = [self.image.view.shape[1], planes.places, self.blocks, rows.places]
        sizes = list(whole)
        for which in range(4):
            while sizes[which] > 1 and self._bytes(sizes) > IMAGE:
                sizes[which] = -(-sizes[which] // 2)
        cuts = [_cuts(extent, size) for extent, size in zip(whole, sizes, strict=True)]
        for one in product(*cuts):
            yield Box(*one)

    def _bytes(self, sizes: list[int]) -> int:
        box = Box(*((0, size) for size in sizes))
        return prod(self.extents(box)) * len(self.chunks) * self.dtype.itemsize

    def boxes(self, band: Box) -> Iterator[Box]:
        """A band cut into products; a last block with fewer columns is a box of its own."""
        most = PARTITIONS if self.by_rows else _MOVING
        first, count = band.blocks
        full = self.axes[1].places // self.together
        parts = [(first, min(count, full - first)), (full, first + count - full)]
        for begin, some in parts:
            if some <= 0 or begin < first:
                continue
            rows = _even(band.rows[1], most)
            blocks = _even(some, most // rows)
            images = _even(band.images[1], max(1, most // (rows * some)) if blocks == some else 1)
            planes = range(band.planes[0], sum(band.planes))
            cuts = _cuts(band.images[1], images), _cuts(some, blocks), _cuts(band.rows[1], rows)
            for image, plane, block, row in product(cuts[0], planes, cuts[1], cuts[2]):
                yield Box(
                    (band.images[0] + image[0], image[1]), (plane, 1),
                    (begin + block[0], block[1]), (band.rows[0] + row[0], row[1]),
                )  # fmt: skip


def _cuts(extent: int, size: int) -> list[tuple[int, int]]:
    return [(first, min(size, extent - first)) for first in range(0, extent, size)]


def _even(extent: int, most: int) -> int:
    """The size of equal parts, none longer than ``most``."""
    parts = -(-extent // max(1, most))
    return -(-extent // parts)


def _band(columns: Axis, packed: int, together: int) -> list[list[tuple[int, int, int]]]:
    last = (together - 1) * columns.stride + columns.reach - 1
    found: list[list[tuple[int, int, int]]] = [[] for _ in range(last // packed + 1)]
    for column, tap in product(range(together), range(columns.window)):
        group, place = divmod(column * columns.stride + tap * columns.dilation, packed)
        found[group].append((place, column, tap))
    return found


# -- from a node ----------------------------------------------------------------------------------


def planned(ports: tuple[Port, Port, Port], axes: tuple[Axis, Axis, Axis], dtype: DType) -> Plan:
    """The plan that takes least time.

    Args:
        ports: image, kernel and result as :class:`Plan` has them.
        axes: planes, columns, rows.
        dtype: type in which the tensor engine reads.
    """
    image, kernel, out = ports
    channels = image.view.shape[2]
    by_rows = out.view.strides[2] == 1
    bundle = kernel.view.shape[0] // image.view.shape[0]
    sizes = [1]
    if bundle == 1 and channels in _PACKED and axes[1].window > 1 and axes[1].holes == 1:
        sizes += [size for size in (2, 4) if size * channels <= PARTITIONS]
    plans = [
        Plan(*ports, axes, dtype, size, size // gcd(size, axes[1].stride), by_rows, bundle)
        for size in sizes
    ]
    return min(plans, key=_cost)


def _cost(plan: Plan) -> float:
    places = plan.image.view.shape[1] * plan.blocks * prod(axis.places for axis in plan.axes[::2])
    columns = plan.together * plan.outputs
    if plan.by_rows:
        parts = -(-columns // _MOVING)
        each = max(_FEWEST, columns / parts) * parts * -(-places // PARTITIONS)
    else:
        each = -(-columns // PARTITIONS) * max(_FEWEST, places)
    return each * len(plan.taps) * len(plan.chunks)


def views_of(node: Node, image: View, kernel: View, out: View) -> tuple[View, View, View]:
    """The three views with the dimensions of :class:`Plan`, but spatial ones in HLO's order."""
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
    batch, feature, *places = results
    along = out.strides[feature]
    made = _restrided(
        out, [(groups, outputs * along), (samples, out.strides[batch]), (outputs, along)], places
    )
    return left, right, made


def in_bundles(views: tuple[View, View, View]) -> tuple[View, View, View]:
    """The views with several groups of features as one, those of the kernel apart."""
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
        view.buffer, tuple(n for n, _ in dims), tuple(step for _, step in dims), view.offset
    )


def arranged(
    views: tuple[View, View, View], spans: tuple[Span, ...]
) -> tuple[tuple[View, View, View], tuple[Axis, Axis, Axis]]:
    """The views with planes, columns and rows, and these axes.

    Of an image whose channels are innermost the columns are what stands next in memory, for it is
    loaded by rows and transposed; of any other the rows, which are loaded as they lie.
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
    """The views with planes, rows and columns, and these axes; columns stand next in memory."""
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
    found = [Axis(1, 1, 1)] * missing + [axes[dim] for dim in order]
    return (padded[0], padded[1], padded[2]), (found[0], found[1], found[2])


def _ordered(view: View, order: list[int], missing: int) -> View:
    dims = [3 + dim for dim in order]
    shape = (*view.shape[:3], *(1,) * missing, *(view.shape[dim] for dim in dims))
    strides = (*view.strides[:3], *(0,) * missing, *(view.strides[dim] for dim in dims))
    return View(view.buffer, shape, strides, view.offset)
