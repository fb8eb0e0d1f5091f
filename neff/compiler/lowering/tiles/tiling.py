"""Cuts loop nests into tiles of at most 128 partitions.

Several views walk a nest of dimensions together. One dimension spans the partitions, and its inner
part may be in the free dimension; dimensions after it are free; the others are loops. The cut with the
fewest tiles is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from neff.compiler.graph.views import Dim, View, merge

__all__ = ["PARTITIONS", "Piece", "TooLarge", "affordable", "nest", "stacked", "tiles"]

PARTITIONS = 128

_FREE_DIMS = 3
"""Entire dimensions in the free dimension of a tile; with the partition dimension and its inner
part, a DMA has at most five (arch guide trainium_inferentia2, access patterns).
"""

_MIN_FREE_ELEMENTS = 16
"""With fewer elements in each partition, fewer partitions are better than shorter transfers."""


_MAX_TILES = 1 << 21
"""Limit on tiles or products of a kernel: each becomes several instructions of about a kilobyte
while compiling, so more would exhaust memory.
"""


class TooLarge(Exception):
    """A kernel would need too many tiles."""

    def __init__(self, tile_count: int) -> None:
        super().__init__(f"it takes {tile_count} tiles, at most {_MAX_TILES} are compiled")


def affordable(tile_count: int) -> None:
    """Check the number of tiles or products of a kernel.

    Raises:
        TooLarge: it has more than can be compiled.
    """
    if tile_count > _MAX_TILES:
        raise TooLarge(tile_count)


@dataclass(frozen=True, slots=True)
class Piece:
    """One tile of a nest.

    Attributes:
        offsets: for each view, the element where the tile starts, relative to the view's offset.
        partition: extent of the partition dimension and the views' steps along it.
        free: the same for the free dimensions.
        further: offsets of tiles of this shape on the next partitions (:func:`stacked`).
    """

    offsets: tuple[int, ...]
    partition: Dim
    free: tuple[Dim, ...]
    further: tuple[tuple[int, ...], ...] = ()

    @property
    def partitions(self) -> int:
        """Partitions of the tile, and of those behind it."""
        return self.partition.extent * (1 + len(self.further))

    @property
    def elements(self) -> int:
        """Elements in each partition."""
        return prod(dim.extent for dim in self.free)

    def pattern(self, view: int) -> list[list[int]]:
        """[[step, count], ...] of one view, the partition dimension first."""
        return [[dim.steps[view], dim.extent] for dim in (self.partition, *self.free)]


def nest(views: list[View]) -> list[Dim]:
    """The loop nest of views of one shape, as few dimensions as can be."""
    shape = views[0].shape
    return merge(
        [Dim(count, tuple(view.strides[dim] for view in views)) for dim, count in enumerate(shape)]
    )


def tiles(
    dims: list[Dim], limit: int, views: int, least: int = _MIN_FREE_ELEMENTS
) -> Iterator[Piece]:
    """Yield the tiles of a nest.

    Args:
        dims: merged dimensions, outermost first.
        limit: limit on the elements in each partition.
        views: number of views that walk the nest.
        least: with fewer elements in each partition, fewer partitions are used.

    Raises:
        TooLarge: more tiles than can be compiled.
    """
    origin = (0,) * views
    if any(dim.extent == 0 for dim in dims):
        return
    if not dims:
        yield Piece(origin, Dim(1, origin), (Dim(1, origin),))
        return
    best = min(range(len(dims)), key=lambda dim: (_cut(dims, dim, limit, least).tiles, dim))
    cut = _cut(dims, best, limit, least)
    affordable(cut.tiles)
    yield from _walk(dims, best, cut, views)


def stacked(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Stack tiles of few partitions: an instruction takes the same time for 28 as for 112
    partitions.

    The order changes: no tile may write what another reads.
    """
    waiting: dict[tuple[Dim, tuple[Dim, ...]], list[Piece]] = {}
    for piece in pieces:
        alike = waiting.setdefault((piece.partition, piece.free), [])
        alike.append(piece)
        if len(alike) >= PARTITIONS // piece.partition.extent:
            yield _on_top(alike)
            alike.clear()
    yield from (_on_top(alike) for alike in waiting.values() if alike)


def _on_top(alike: list[Piece]) -> Piece:
    first, *stacked_pieces = alike
    return replace(first, further=tuple(piece.offsets for piece in stacked_pieces))


@dataclass(frozen=True, slots=True)
class _Cut:
    """The cut of a nest at one dimension.

    Attributes:
        within: elements of the partition dimension in one partition.
        free: first of the entirely free dimensions; dimensions between the partition dimension
            and it are loops.
        chunk: elements of dimension ``free - 1`` in one tile, 0 if it is not in the tile.
        tiles: the number of tiles.
    """

    within: int
    free: int
    chunk: int
    tiles: int


def _cut(dims: list[Dim], partition_dim: int, limit: int, least: int) -> _Cut:
    free, size = len(dims), 1
    while (
        free > partition_dim + 1
        and len(dims) - free < _FREE_DIMS
        and size * dims[free - 1].extent <= limit
    ):
        free -= 1
        size *= dims[free].extent
    chunk = 0
    loops = prod(dim.extent for dim in dims[:partition_dim]) * prod(
        dim.extent for dim in dims[partition_dim + 1 : free]
    )
    if free > partition_dim + 1:
        if len(dims) - free < _FREE_DIMS and limit // size > 1:
            chunk = limit // size
            count = dims[free - 1].extent
            loops = loops // count * -(-count // chunk)
        return _Cut(1, free, chunk, loops * -(-dims[partition_dim].extent // PARTITIONS))
    count = dims[partition_dim].extent
    min_within = max(-(-count // PARTITIONS), -(-least // size))
    within = max(1, min(limit // size, min_within, count))
    full, left = divmod(count, PARTITIONS * within)
    return _Cut(within, free, 0, loops * (full + (left >= within) + (left % within > 0)))


def _walk(dims: list[Dim], partition_dim: int, cut: _Cut, views: int) -> Iterator[Piece]:
    loops = [_points(dim) for dim in dims[:partition_dim]]
    middle = dims[partition_dim + 1 : cut.free]
    tail = tuple(dims[cut.free :])
    if cut.chunk:
        loops += [_points(dim) for dim in middle[:-1]]
        last = list(_chunks(middle[-1], cut.chunk))
    else:
        loops += [_points(dim) for dim in middle]
        last = [((0,) * views, None)]
    blocks = list(_blocks(dims[partition_dim], cut.within))
    for indices in product(*loops):
        for begin, partition, inner in blocks:
            for start, chunk in last:
                free = tuple(dim for dim in (inner, chunk, *tail) if dim is not None)
                offsets = tuple(map(sum, zip(begin, start, *indices, strict=True)))
                yield Piece(offsets, partition, free or (Dim(1, (0,) * views),))


def _points(dim: Dim) -> list[tuple[int, ...]]:
    return [tuple(step * index for step in dim.steps) for index in range(dim.extent)]


def _chunks(dim: Dim, size: int) -> Iterator[tuple[tuple[int, ...], Dim]]:
    for begin in range(0, dim.extent, size):
        yield (
            tuple(step * begin for step in dim.steps),
            Dim(min(size, dim.extent - begin), dim.steps),
        )


def _blocks(dim: Dim, within: int) -> Iterator[tuple[tuple[int, ...], Dim, Dim | None]]:
    """Yield (start, partition dimension, its inner part in each partition)."""
    steps = dim.steps
    wide = tuple(step * within for step in steps)
    begin = 0
    while begin < dim.extent:
        left = dim.extent - begin
        rows = min(PARTITIONS, left // within)
        if rows == 0:
            rows, inner = 1, Dim(left, steps)
            element_count = left
        else:
            inner = Dim(within, steps) if within > 1 else None
            element_count = rows * within
        yield tuple(step * begin for step in steps), Dim(rows, wide), inner
        begin += element_count
