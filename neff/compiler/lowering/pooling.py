"""Sums and extremes of sliding windows, as pooling takes them: one reduction of a tile of the image.

Where channels stand in front of the image, they lie on partitions with their whole planes, or bands of
them. Where they are innermost in memory, rows of the result lie on partitions, with all rows of the image that
their windows see (``image_rows.py``). A window is then two dimensions of an access pattern that
overlaps its neighbours', and the vector engine reduces them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.expansions.spans import Span
from neff.compiler.expansions.windows import pooled_dims
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.views import Dim, View, merge
from neff.compiler.lowering.emitter import Tile
from neff.compiler.lowering.image_rows import ImageRows, even_cuts, tile_in_memory_order
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.taps import PARTITIONS, Axis
from neff.compiler.lowering.task import Port, Task, window
from neff.compiler.lowering.tiling import affordable

__all__ = ["pool"]

_SPACE = 32 * 1024
"""Bytes of each partition for a part of the image."""

_MANY = 32
"""Channels in front of the image from which on they lie on partitions."""

_OPERATORS = {"add": nl.add, "maximum": nl.maximum, "minimum": nl.minimum}


def pool(lowerer: Lowerer, node: Node) -> None:
    """A ``reduce-window`` that :func:`neff.compiler.expansions.windows.is_pool` takes."""
    source, target = lowerer.view(node.operands[0]), lowerer.home(node)
    spans: tuple[Span, ...] = tuple(node.attributes["spans"])
    image, out = _arranged(source, spans), _arranged(target, spans)
    if image is None:
        image = _arranged(lowerer.compact(source, node), spans)
    scratch = target if out is not None else lowerer.scratch(node.shape, lowerer.port(target).dtype)
    out = out or _arranged(scratch, spans)
    assert image is not None and out is not None
    axes = _axes(image, out, spans)
    start = lowerer.number(node.operands[1])
    assert start is not None
    spec = Pool(lowerer.port(image), lowerer.port(out), axes, node.attributes["applied"], start)
    in_front = image.shape[1] == 1 and image.shape[2] >= _MANY and spec.fits_whole

    def body(tensors: dict[str, Tile]) -> None:
        (_in_planes if in_front else _in_rows)(spec, tensors)

    lowerer.call(Task("pool", [image.buffer], [out.buffer], body), node)
    if scratch is not target:
        lowerer.copy(scratch, target, node)


@dataclass(frozen=True, slots=True)
class Pool:
    """A reduction of windows.

    Attributes:
        image, out: (1, samples, stacks, planes, rows, columns): what is behind the windows' dimensions, and
            what is in front of them.
        axes: planes, rows, columns; of none are there holes.
        op: as HLO names it.
        start: around the image; it changes nothing.
    """

    image: Port
    out: Port
    axes: tuple[Axis, Axis, Axis]
    op: str
    start: np.generic

    @property
    def fits_whole(self) -> bool:
        """A row of results of a plane fits into SBUF."""
        _, rows, columns = self.axes
        return rows.reach * columns.padded(columns.places) * self.image.dtype.itemsize <= _SPACE


def _arranged(view: View, spans: tuple[Span, ...]) -> View | None:
    """(1, behind, in front, planes, rows, columns); None when a part takes several strides."""
    first, last = pooled_dims(spans)
    front = _one(view, 0, first)
    behind = _one(view, last + 1, len(spans))
    if front is None or behind is None:
        return None
    inside = [(view.shape[dim], view.strides[dim]) for dim in range(first, last + 1)]
    dims = [(1, 0), behind, front, *[(1, 0)] * (3 - len(inside)), *inside]
    return View(
        view.buffer, tuple(n for n, _ in dims), tuple(step for _, step in dims), view.offset
    )


def _one(view: View, begin: int, end: int) -> tuple[int, int] | None:
    dims = merge(
        [
            Dim(n, (step,))
            for n, step in zip(view.shape[begin:end], view.strides[begin:end], strict=True)
        ]
    )
    if len(dims) > 1:
        return None
    return (dims[0].extent, dims[0].steps[0]) if dims else (1, 0)


def _axes(image: View, out: View, spans: tuple[Span, ...]) -> tuple[Axis, Axis, Axis]:
    first, last = pooled_dims(spans)
    given = spans[first : last + 1]
    found = [Axis(1, 1, 1)] * (3 - len(given))
    for span, size, places in zip(
        given, image.shape[6 - len(given) :], out.shape[6 - len(given) :], strict=True
    ):
        found.append(Axis(size, places, span.size, span.stride, span.window_dilation, 1, span.low))
    return found[0], found[1], found[2]


# -- channels in front ----------------------------------------------------------------------------


def _in_planes(spec: Pool, tensors: dict[str, Tile]) -> None:
    """Channels on partitions; bands of rows of each plane, one for each plane of a window."""
    planes, rows, columns = spec.axes
    width = columns.padded(columns.places) * spec.image.dtype.itemsize
    most = rows.places
    while most > 1 and rows.padded(most) * width > _SPACE:
        most = -(-most // 2)
    stacks = even_cuts(spec.image.view.shape[2], PARTITIONS)
    bands = even_cuts(rows.places, most)
    affordable(len(stacks) * len(bands) * planes.places * planes.window)
    for stack, plane, band in product(stacks, range(planes.places), bands):
        made: Tile = None
        for depth in range(planes.window):
            number = plane * planes.stride + depth * planes.dilation - planes.low
            if not 0 <= number < planes.size:
                continue
            part = _plane(spec, tensors, stack, number, band)
            if made is not None:
                joined = nl.ndarray(part.shape, dtype=part.dtype, buffer=nl.sbuf)
                nisa.tensor_tensor(joined, made, part, _OPERATORS[spec.op])
                part = joined
            made = part
        if made is None:
            made = nl.ndarray((stack[1], band[1], columns.places), nl.float32, buffer=nl.sbuf)
            nisa.memset(made, float(spec.start))
        _store(spec, tensors, made, stack, plane, band)


def _plane(
    spec: Pool, tensors: dict[str, Tile], stack: tuple[int, int], plane: int, band: tuple[int, int]
) -> Tile:
    """(channels, rows, columns): the windows' values of one plane, in float32."""
    _, rows, columns = spec.axes
    _, _, channel, depth, row, column = spec.image.view.strides
    high, wide = rows.padded(band[1]), columns.padded(columns.places)
    tile = nl.ndarray((stack[1], high, wide), dtype=spec.image.dtype, buffer=nl.sbuf)
    top, height, at = rows.inside(band[0] * rows.stride, high)
    left, width, begin = columns.inside(0, wide)
    if (height, width) != (high, wide):
        nisa.memset(tile, float(spec.start))
    if height and width:
        start = stack[0] * channel + plane * depth + top * row + left * column
        pattern = [[channel, stack[1]], [row, height], [column, width]]
        source = window(tensors[spec.image.view.buffer], spec.image, start, pattern)
        nisa.dma_copy(tile[:, at : at + height, begin : begin + width], source)
    made = nl.ndarray((stack[1], band[1], columns.places), dtype=nl.float32, buffer=nl.sbuf)
    seen = tile.ap(
        [
            [high * wide, stack[1]], [rows.stride * wide, band[1]],
            [columns.stride, columns.places], [rows.dilation * wide, rows.window],
            [columns.dilation, columns.window],
        ]
    )  # fmt: skip
    nisa.tensor_reduce(made, _OPERATORS[spec.op], seen, axis=(3, 4))
    return made


def _store(
    spec: Pool, tensors: dict[str, Tile], made: Tile, stack: tuple[int, int], plane: int,
    band: tuple[int, int],
) -> None:  # fmt: skip
    _, _, channel, depth, row, column = spec.out.view.strides
    start = stack[0] * channel + plane * depth + band[0] * row
    pattern = [[channel, stack[1]], [row, band[1]], [column, made.shape[2]]]
    target = window(tensors[spec.out.view.buffer], spec.out, start, pattern)
    nisa.dma_copy(target, _typed(spec, made))


def _typed(spec: Pool, made: Tile) -> Tile:
    if made.dtype == spec.out.dtype:
        return made
    found = nl.ndarray(made.shape, dtype=spec.out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(found, made)
    return found


# -- channels innermost ---------------------------------------------------------------------------


def _in_rows(spec: Pool, tensors: dict[str, Tile]) -> None:
    """Rows of the result on partitions, with what their windows see of some samples."""
    turned = tuple(axis.exchanged() for axis in spec.axes)
    axes = turned[0], turned[1], turned[2]
    rows = ImageRows(spec.image, axes, spec.image.dtype, float(spec.start))
    width = axes[2].window // rows.parts
    size = len(rows.lines) * spec.image.dtype.itemsize
    samples = even_cuts(spec.image.view.shape[1], _SPACE // (size * rows.wide(1)))
    most = width
    while most > 1 and rows.wide(most) * samples[0][1] * size > _SPACE:
        most = -(-most // 2)
    columns = even_cuts(width, most)
    affordable(len(rows.places) * len(samples) * len(columns))
    for places, some, part in product(rows.places, samples, columns):
        image = tensors[spec.image.view.buffer]
        tile = rows.tile(image, places, part, rows.lines, (0, *some))
        _, line, column, sample = tile.strides
        axis = spec.axes[2]
        shape = (places.count, part[1], some[1])
        steps = (spec.out.view.strides[5], spec.out.view.strides[1])
        made, order = tile_in_memory_order(places.count, shape[1:], steps, spec.out.dtype)
        seen = tile.ap(
            [
                [tile.strides[0], places.count], [column * axis.stride, part[1]],
                [sample, some[1]], [line, len(rows.lines)], [column * axis.dilation, axis.window],
            ]
        )  # fmt: skip
        whole = made.permute([0, *(1 + order.index(dim) for dim in range(2))])
        nisa.tensor_reduce(whole, _OPERATORS[spec.op], seen, axis=(3, 4))
        for one in places.stacks:
            strides = spec.out.view.strides
            start = one.channel * strides[2] + one.plane * strides[3] + one.row * strides[4]
            start += (one.part * width + part[0]) * strides[5] + some[0] * strides[1]
            dims = [[steps[dim], shape[1 + dim]] for dim in order]
            pattern = [[strides[4], one.count], *dims]
            target = window(tensors[spec.out.view.buffer], spec.out, start, pattern)
            nisa.dma_copy(target, made[one.first_partition : one.first_partition + one.count])
