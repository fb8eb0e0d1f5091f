"""Sums and extremes of sliding windows (pooling): one reduction of a tile of the image.

Channels that precede the image in memory are on partitions with their planes, or bands of them. If
channels are innermost in memory, rows of the result are on partitions, with all rows of the image
that their windows read (``image_rows.py``). A window is then two dimensions of an access pattern that
overlaps its neighbors', and the vector engine reduces them.
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
from neff.compiler.lowering.convolution.image_rows import ImageRows, even_cuts, tile_in_memory_order
from neff.compiler.lowering.convolution.taps import PARTITIONS, Axis
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.task import Port, Task, window
from neff.compiler.lowering.tiles.tiling import affordable

__all__ = ["pool"]

_MAX_TILE_BYTES = 32 * 1024
"""Bytes of each partition for a band of the image."""

_MIN_CHANNELS = 32
"""From this many leading channels on they are put on partitions."""

_OPERATORS = {"add": nl.add, "maximum": nl.maximum, "minimum": nl.minimum}


def pool(lowerer: Lowerer, node: Node) -> None:
    """Lower a ``reduce-window`` that :func:`neff.compiler.expansions.windows.is_pool` accepts."""
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
    in_front = image.shape[1] == 1 and image.shape[2] >= _MIN_CHANNELS and spec.fits_whole

    def body(tensors: dict[str, Tile]) -> None:
        (_in_planes if in_front else _in_rows)(spec, tensors)

    lowerer.call(Task("pool", [image.buffer], [out.buffer], body), node)
    if scratch is not target:
        lowerer.copy(scratch, target, node)


@dataclass(frozen=True, slots=True)
class Pool:
    """A reduction of windows.

    Attributes:
        image, out: (1, samples, stacks, planes, rows, columns): samples are the dimensions after the
            windows', stacks the dimensions before them.
        axes: planes, rows, columns; none has holes.
        op: HLO's opcode of the reduction.
        start: the padding value, the neutral element.
    """

    image: Port
    out: Port
    axes: tuple[Axis, Axis, Axis]
    op: str
    start: np.generic

    @property
    def fits_whole(self) -> bool:
        """Return True if a row of results of a plane fits into SBUF."""
        _, rows, columns = self.axes
        return (
            rows.reach * columns.padded(columns.places) * self.image.dtype.itemsize
            <= _MAX_TILE_BYTES
        )


def _arranged(view: View, spans: tuple[Span, ...]) -> View | None:
    """Return (1, after, before, planes, rows, columns); None if one of them needs several
    strides.
    """
    first, last = pooled_dims(spans)
    front = _single_dim(view, 0, first)
    behind = _single_dim(view, last + 1, len(spans))
    if front is None or behind is None:
        return None
    inside = [(view.shape[dim], view.strides[dim]) for dim in range(first, last + 1)]
    dims = [(1, 0), behind, front, *[(1, 0)] * (3 - len(inside)), *inside]
    return View(
        view.buffer,
        tuple(extent for extent, _ in dims),
        tuple(step for _, step in dims),
        view.offset,
    )


def _single_dim(view: View, begin: int, end: int) -> tuple[int, int] | None:
    dims = merge(
        [
            Dim(extent, (step,))
            for extent, step in zip(view.shape[begin:end], view.strides[begin:end], strict=True)
        ]
    )
    if len(dims) > 1:
        return None
    return (dims[0].extent, dims[0].steps[0]) if dims else (1, 0)


def _axes(image: View, out: View, spans: tuple[Span, ...]) -> tuple[Axis, Axis, Axis]:
    first, last = pooled_dims(spans)
    window_spans = spans[first : last + 1]
    axes = [Axis(1, 1, 1)] * (3 - len(window_spans))
    for span, size, positions in zip(
        window_spans,
        image.shape[6 - len(window_spans) :],
        out.shape[6 - len(window_spans) :],
        strict=True,
    ):
        axes.append(
            Axis(size, positions, span.size, span.stride, span.window_dilation, 1, span.low)
        )
    return axes[0], axes[1], axes[2]


# -- channels in front ----------------------------------------------------------------------------


def _in_planes(spec: Pool, tensors: dict[str, Tile]) -> None:
    """Put channels on partitions; reduce bands of rows of each plane, one for each plane of a
    window.
    """
    planes, rows, columns = spec.axes
    width = columns.padded(columns.places) * spec.image.dtype.itemsize
    max_rows = rows.places
    while max_rows > 1 and rows.padded(max_rows) * width > _MAX_TILE_BYTES:
        max_rows = -(-max_rows // 2)
    stacks = even_cuts(spec.image.view.shape[2], PARTITIONS)
    bands = even_cuts(rows.places, max_rows)
    affordable(len(stacks) * len(bands) * planes.places * planes.window)
    for stack, plane, band in product(stacks, range(planes.places), bands):
        total: Tile | None = None
        for depth in range(planes.window):
            number = plane * planes.stride + depth * planes.dilation - planes.low
            if not 0 <= number < planes.size:
                continue
            plane_total = _plane(spec, tensors, stack, number, band)
            if total is not None:
                joined = nl.ndarray(plane_total.shape, dtype=plane_total.dtype, buffer=nl.sbuf)
                nisa.tensor_tensor(joined, total, plane_total, _OPERATORS[spec.op])
                plane_total = joined
            total = plane_total
        if total is None:
            total = nl.ndarray((stack[1], band[1], columns.places), nl.float32, buffer=nl.sbuf)
            nisa.memset(total, float(spec.start))
        _store(spec, tensors, total, stack, plane, band)


def _plane(
    spec: Pool, tensors: dict[str, Tile], stack: tuple[int, int], plane: int, band: tuple[int, int]
) -> Tile:
    """Return (channels, rows, columns): the windows' values of one plane, in float32."""
    _, rows, columns = spec.axes
    _, _, channel, depth, row, column = spec.image.view.strides
    high, wide = rows.padded(band[1]), columns.padded(columns.places)
    tile = nl.ndarray((stack[1], high, wide), dtype=spec.image.dtype, buffer=nl.sbuf)
    top, height, top_row = rows.inside(band[0] * rows.stride, high)
    left, width, begin = columns.inside(0, wide)
    if (height, width) != (high, wide):
        nisa.memset(tile, float(spec.start))
    if height and width:
        start = stack[0] * channel + plane * depth + top * row + left * column
        pattern = [[channel, stack[1]], [row, height], [column, width]]
        source = window(tensors[spec.image.view.buffer], spec.image, start, pattern)
        nisa.dma_copy(tile[:, top_row : top_row + height, begin : begin + width], source)
    reduced = nl.ndarray((stack[1], band[1], columns.places), dtype=nl.float32, buffer=nl.sbuf)
    windows = tile.ap(
        [
            [high * wide, stack[1]], [rows.stride * wide, band[1]],
            [columns.stride, columns.places], [rows.dilation * wide, rows.window],
            [columns.dilation, columns.window],
        ]
    )  # fmt: skip
    nisa.tensor_reduce(reduced, _OPERATORS[spec.op], windows, axis=(3, 4))
    return reduced


def _store(
    spec: Pool, tensors: dict[str, Tile], tile: Tile, stack: tuple[int, int], plane: int,
    band: tuple[int, int],
) -> None:  # fmt: skip
    _, _, channel, depth, row, column = spec.out.view.strides
    start = stack[0] * channel + plane * depth + band[0] * row
    pattern = [[channel, stack[1]], [row, band[1]], [column, tile.shape[2]]]
    target = window(tensors[spec.out.view.buffer], spec.out, start, pattern)
    nisa.dma_copy(target, _typed(spec, tile))


def _typed(spec: Pool, tile: Tile) -> Tile:
    if tile.dtype == spec.out.dtype:
        return tile
    converted = nl.ndarray(tile.shape, dtype=spec.out.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(converted, tile)
    return converted


# -- channels innermost ---------------------------------------------------------------------------


def _in_rows(spec: Pool, tensors: dict[str, Tile]) -> None:
    """Put rows of the result on partitions, with the elements that their windows read of some
    samples.
    """
    exchanged = tuple(axis.exchanged() for axis in spec.axes)
    axes = exchanged[0], exchanged[1], exchanged[2]
    rows = ImageRows(spec.image, axes, spec.image.dtype, float(spec.start))
    width = axes[2].window // rows.parts
    size = len(rows.lines) * spec.image.dtype.itemsize
    samples = even_cuts(spec.image.view.shape[1], _MAX_TILE_BYTES // (size * rows.wide(1)))
    max_columns = width
    while max_columns > 1 and rows.wide(max_columns) * samples[0][1] * size > _MAX_TILE_BYTES:
        max_columns = -(-max_columns // 2)
    columns = even_cuts(width, max_columns)
    affordable(len(rows.places) * len(samples) * len(columns))
    for positions, sample_range, column_range in product(rows.places, samples, columns):
        image = tensors[spec.image.view.buffer]
        tile = rows.tile(image, positions, column_range, rows.lines, (0, *sample_range))
        _, line, column, sample = tile.strides
        axis = spec.axes[2]
        shape = (positions.count, column_range[1], sample_range[1])
        steps = (spec.out.view.strides[5], spec.out.view.strides[1])
        reduced, order = tile_in_memory_order(positions.count, shape[1:], steps, spec.out.dtype)
        windows = tile.ap(
            [
                [tile.strides[0], positions.count], [column * axis.stride, column_range[1]],
                [sample, sample_range[1]], [line, len(rows.lines)], [column * axis.dilation, axis.window],
            ]
        )  # fmt: skip
        target_order = reduced.permute([0, *(1 + order.index(dim) for dim in range(2))])
        nisa.tensor_reduce(target_order, _OPERATORS[spec.op], windows, axis=(3, 4))
        for stack in positions.stacks:
            strides = spec.out.view.strides
            start = stack.channel * strides[2] + stack.plane * strides[3] + stack.row * strides[4]
            start += (stack.column_range * width + column_range[0]) * strides[5] + sample_range[
                0
            ] * strides[1]
            dims = [[steps[dim], shape[1 + dim]] for dim in order]
            pattern = [[strides[4], stack.count], *dims]
            target = window(tensors[spec.out.view.buffer], spec.out, start, pattern)
            nisa.dma_copy(
                target, reduced[stack.first_partition : stack.first_partition + stack.count]
            )
