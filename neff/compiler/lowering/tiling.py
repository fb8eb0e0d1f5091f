"""Loop nests cut into tiles of at most 128 partitions.

A nest of dimensions is walked by several views at once. One dimension spans the partitions; it
may be cut so that a part of it is in the free dimension too; what follows it is free;
the rest is loops. Of the possible cuts the one with the fewest tiles is taken.
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
"""Whole dimensions in the free dimension of a tile; with the partition dimension and the part
cut from it, a DMA has at most five (arch guide trainium_inferentia2, access patterns)."""

_LEAST_FREE = 16
"""Elements in each partition below which fewer partitions are better than shorter transfers."""


_MOST_TURNS = 1 << 21
"""Tiles or products of one kernel; each is several instructions of about a kilobyte while
compiling, so more would not fit into memory before it ran out of patience."""


class TooLarge(Exception):
    """A kernel would need more tiles than can be written down."""

    def __init__(self, turns: int) -> None:
        super().__init__(f"it takes {turns} tiles, at most {_MOST_TURNS} are compiled")


def affordable(turns: int) -> None:
    """Check the number of tiles or products of a kernel.

    Raises:
        TooLarge: it has more than can be compiled.
    """
    if turns > _MOST_TURNS:
        raise TooLarge(turns)


@dataclass(frozen=True, slots=True)
class Piece:
    """One tile of a nest.

    Attributes:
        offsets: for each view, the element where the tile starts, relative to the view's own.
        partition: extent of the partition dimension and the views' steps along it.
        free: the same for the free dimensions.
        further: offsets of tiles of this form that stand on the partitions behind it (:func:`stacked`).
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


def tiles(dims: list[Dim], limit: int, views: int, least: int = _LEAST_FREE) -> Iterator[Piece]:
    """The tiles of a nest.

    Args:
        dims: merged dimensions, outermost first.
        limit: elements in each partition at most.
        views: how many views walk the nest.
        least: elements in each partition below which fewer partitions are taken.

    Raises:
        TooLarge: there are more than can be compiled.
    """
    none = (0,) * views
    if any(dim.extent == 0 for dim in dims):
        return
    if not dims:
        yield Piece(none, Dim(1, none), (Dim(1, none),))
        return
    best = min(range(len(dims)), key=lambda at: (_cut(dims, at, limit, least).tiles, at))
    cut = _cut(dims, best, limit, least)
    affordable(cut.tiles)
    yield from _walk(dims, best, cut, views)


def stacked(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Tiles of few partitions on top of each other: an instruction takes as long for 28 as for 112.

    The order changes: for tiles of which none writes what another reads.
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
    first, *others = alike
    return replace(first, further=tuple(piece.offsets for piece in others))


@dataclass(frozen=True, slots=True)
class _Cut:
    """How a nest is cut at one dimension.

    Attributes:
        within: elements of the partition dimension that stand in one partition.
        free: first of the dimensions that are free as a whole; those between the partition
            dimension and it are loops.
        chunk: elements of dimension ``free - 1`` in one tile, 0 when it is not a part of it.
        tiles: how many tiles that makes.
    """

    within: int
    free: int
    chunk: int
    tiles: int


def _cut(dims: list[Dim], at: int, limit: int, least: int) -> _Cut:
    free, size = len(dims), 1
    while free > at + 1 and len(dims) - free < _FREE_DIMS and size * dims[free - 1].extent <= limit:
        free -= 1
        size *= dims[free].extent
    chunk = 0
    loops = prod(dim.extent for dim in dims[:at]) * prod(dim.extent for dim in dims[at + 1 : free])
    if free > at + 1:
        if len(dims) - free < _FREE_DIMS and limit // size > 1:
            chunk = limit // size
            count = dims[free - 1].extent
            loops = loops // count * -(-count // chunk)
        return _Cut(1, free, chunk, loops * -(-dims[at].extent // PARTITIONS))
    count = dims[at].extent
    wanted = max(-(-count // PARTITIONS), -(-least // size))
    within = max(1, min(limit // size, wanted, count))
    full, left = divmod(count, PARTITIONS * within)
    return _Cut(within, free, 0, loops * (full + (left >= within) + (left % within > 0)))


def _walk(dims: list[Dim], at: int, cut: _Cut, views: int) -> Iterator[Piece]:
    loops = [_points(dim) for dim in dims[:at]]
    middle = dims[at + 1 : cut.free]
    tail = tuple(dims[cut.free :])
    if cut.chunk:
        loops += [_points(dim) for dim in middle[:-1]]
        last = list(_chunks(middle[-1], cut.chunk))
    else:
        loops += [_points(dim) for dim in middle]
        last = [((0,) * views, None)]
    blocks = list(_blocks(dims[at], cut.within))
    for where in product(*loops):
        for begin, partition, inner in blocks:
            for start, part in last:
                free = tuple(dim for dim in (inner, part, *tail) if dim is not None)
                offsets = tuple(map(sum, zip(begin, start, *where, strict=True)))
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
    """(start, partition dimension, the part of it in each partition)."""
    steps = dim.steps
    wide = tuple(step * within for step in steps)
    begin = 0
    while begin < dim.extent:
        left = dim.extent - begin
        rows = min(PARTITIONS, left // within)
        if rows == 0:
            rows, inner = 1, Dim(left, steps)
            taken = left
        else:
            inner = Dim(within, steps) if within > 1 else None
            taken = rows * within
        yield tuple(step * begin for step in steps), Dim(rows, wide), inner
        begin += taken
