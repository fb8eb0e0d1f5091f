"""Kernels that read or write at an index: gather, scatter.

Indices are a buffer of 32-bit integers, one row for each component; a kernel turns them into
element offsets on GpSimd, clamped or checked as HLO defines, and passes them to the DMA. Few
indices are unrolled in the program, many are processed by a loop on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import Dim, View, merge
from neff.compiler.lowering.rows.reduction import chunks
from neff.compiler.lowering.tiles.emitter import Constants, Emitter, Tile, Value
from neff.compiler.lowering.tiles.task import Moved, Port, Task, load, window
from neff.compiler.lowering.tiles.tiling import Piece, affordable, nest, tiles
from nki_lang.base.dtypes import BY_NAME
from nki_lang.frontend.tensor import NkiTensor

__all__ = [
    "Component", "Scatter", "components_of", "gather_task", "inside_of", "offsets_of", "repeated",
    "scatter_task",
]  # fmt: skip

I32 = BY_NAME["int32"]
U8 = BY_NAME["uint8"]
_MAX_TILE_ELEMENTS = 4096
_MAX_OFFSET_TILES = 256
"""Tiles of a gather whose offsets are computed at a time."""

_MAX_UNROLLED = 64
"""Limit on unrolled gathers or updates; more become iterations of a loop on the device."""

_UPDATES_PER_ITERATION = 32
"""Gathers or updates of an iteration: they take longer than the engines' meeting at its end."""

_MAX_ITERATION_ELEMENTS = 1024
"""Elements in each partition of an iteration's updates: its tiles hold their memory for the
loop.
"""

_RING_TILES = 3
"""Tiles that the gathers of a loop use in rotation, for the same reason."""


@dataclass(frozen=True, slots=True)
class Component:
    """One component of an index.

    Attributes:
        stride: elements that one step moves by.
        last: the greatest value at which the window is inside.
    """

    stride: int
    last: int


def offsets_of(
    emitter: Emitter, rows: list[NkiTensor], components: list[Component], clamp: bool
) -> Tile:
    """Return element offsets of indices; each component is a tile."""
    total = None
    for row, component in zip(rows, components, strict=True):
        if clamp:
            row = emitter.words(
                "minimum", emitter.words("maximum", row, 0, I32), component.last, I32
            )
        moved = emitter.words("multiply", row, component.stride, I32)
        total = moved if total is None else emitter.words("add", total, moved, I32)
    return total if total is not None else emitter.filled(0, I32)


def inside_of(emitter: Emitter, rows: list[NkiTensor], components: list[Component]) -> NkiTensor:
    """Return 1 for indices whose components are all in bounds, else 0."""
    inside = emitter.filled(1, U8)
    for row, component in zip(rows, components, strict=True):
        low = emitter.words("greater_equal", row, 0, I32)
        high = emitter.words("less_equal", row, component.last, I32)
        in_bounds = emitter.copy(emitter.bits("bitwise_and", low, high, I32), U8)
        inside = emitter.bits("bitwise_and", inside, in_bounds, U8)
    return inside


def components_of(
    tensor: NkiTensor,
    port: Port,
    count: int,
    pattern: list[list[int]],
    begin: int,
    moved: Moved | None = None,
) -> list[NkiTensor]:
    """Return the components of indices from ``begin + moved``: a tile for each, shaped by
    ``pattern``.
    """
    total = port.view.shape[1]
    components: list[NkiTensor] = []
    for row in range(count):
        tile = nl.ndarray((pattern[0][1], pattern[1][1]), dtype=I32, buffer=nl.sbuf)
        nisa.dma_copy(tile, window(tensor, port, row * total + begin, pattern, moved=moved))
        components.append(tile)
    return components


def repeated(
    iterations: int, group: int, step: int, body: Callable[[int, Moved | None], None]
) -> None:
    """Call ``body`` for begin = 0, step, ... (``iterations`` of them).

    Few iterations are unrolled: ``body(begin, None)``. More become a loop on the device over ``group``
    at a time: ``body(begin, register)`` for begin + register.
    """
    loops = iterations // group if iterations > group else 0
    if loops:

        def iteration(register: object) -> None:
            for number in range(group):
                body(number * step, Moved(register))

        nl.fori_loop(0, loops * group * step, iteration, group * step)
    for number in range(loops * group, iterations):
        body(number * step, None)


def gather_task(
    name: str,
    source: Port,
    indices: Port,
    target: Port,
    components: list[Component],
    dims: list[Dim],
) -> Task:
    """Return the kernel of ``target[n] = window of the source at index n``.

    Args:
        source: a contiguous buffer.
        indices: (components, N).
        target: (N, elements of the window).
        components: semantics of the rows of ``indices``.
        dims: the window: extents and steps in the source.
    """

    def body(tensors: dict[str, Tile]) -> None:
        _Gatherer(source, indices, target, components, dims, tensors).run()

    reads = list(dict.fromkeys((source.view.buffer, indices.view.buffer)))
    return Task(name, reads, [target.view.buffer], body)


@dataclass(slots=True)
class _Gatherer:
    """A gather under trace; the fields are the arguments of :func:`gather_task`."""

    source: Port
    indices: Port
    target: Port
    components: list[Component]
    dims: list[Dim]
    tensors: dict[str, NkiTensor]
    ring: list[NkiTensor] = field(default_factory=list[NkiTensor])

    def run(self) -> None:
        count, size = self.target.view.shape
        parts = list(chunks(self.dims, _MAX_TILE_ELEMENTS))
        max_tiles = max(1, min(_MAX_OFFSET_TILES, _MAX_TILE_ELEMENTS // max(size, 1)))
        begin = 0
        while begin < count:
            tiles = min(-(-(count - begin) // 128), max_tiles)
            rows = min(128, (count - begin) // tiles)
            iterations = (count - begin) // (rows * tiles)
            gathers = tiles * len(parts)
            group = (
                iterations
                if iterations * gathers <= _MAX_UNROLLED
                else max(1, _UPDATES_PER_ITERATION // gathers)
            )
            self._blocks(begin, rows, tiles, iterations, group, parts)
            begin += rows * tiles * iterations

    def _blocks(
        self, first: int, rows: int, tiles: int, iterations: int, group: int,
        parts: list[tuple[int, list[Dim]]],
    ) -> None:  # fmt: skip
        """Gather ``iterations`` blocks of indices from ``first``; ``tiles`` neighbors to a
        partition.
        """
        affordable(min(iterations, 2 * group) * tiles * len(parts))
        constants: dict[object, NkiTensor] = {}
        inside: dict[object, NkiTensor] = {}

        def block(begin: int, moved: Moved | None) -> None:
            numbers = constants if moved is None else inside
            offsets = self._offsets(first + begin, rows, tiles, moved, numbers)
            done = 0
            for start, dims in parts:
                done += self._move(start, dims, done, first + begin, moved, offsets)

        self.ring.clear()
        repeated(iterations, group, rows * tiles, block)

    def _offsets(
        self,
        begin: int,
        rows: int,
        tiles: int,
        moved: Moved | None,
        constants: dict[object, NkiTensor],
    ) -> NkiTensor:
        """Return the element offsets of (rows, tiles) indices."""
        pattern = [[tiles, rows], [1, tiles]]
        tensor = self.tensors[self.indices.view.buffer]
        components = components_of(
            tensor, self.indices, len(self.components), pattern, begin, moved
        )
        return offsets_of(Emitter(rows, tiles, constants), components, self.components, True)

    def _move(
        self,
        start: int,
        dims: list[Dim],
        done: int,
        begin: int,
        moved: Moved | None,
        offsets: NkiTensor,
    ) -> int:
        """Move a range of the windows of indices from ``begin + moved``; return its elements."""
        rows, tiles = offsets.shape
        size = self.target.view.shape[1]
        inner = [[dim.steps[0], dim.extent] for dim in dims] or [[1, 1]]
        elements = prod(count for _, count in inner)
        table = self.tensors[self.source.view.buffer]
        tile = self._tile(rows, tiles * elements, moved)
        for number in range(tiles):
            source = table.ap(
                pattern=[[1, rows], *inner],
                offset=self.source.view.offset + start,
                vector_offset=offsets[:, number : number + 1],
                indirect_dim=0,
            )
            nisa.dma_copy(tile[:, number * elements : (number + 1) * elements], source)
        pattern = [
            [tiles * size, rows],
            [1, tiles * elements],
        ]  # a window in several ranges has one tile
        target = window(
            self.tensors[self.target.view.buffer], self.target, begin * size + done, pattern,
            moved=None if moved is None else moved.times(size),
        )  # fmt: skip
        nisa.dma_copy(target, tile)
        return elements

    def _tile(self, rows: int, elements: int, moved: Moved | None) -> NkiTensor:
        """Return a new tile, or in a loop the least recently used tile of the ring."""
        if moved is None:
            return nl.ndarray((rows, elements), dtype=self.source.dtype, buffer=nl.sbuf)
        if len(self.ring) < _RING_TILES:
            shape = (rows, _MAX_TILE_ELEMENTS)
            self.ring.append(nl.ndarray(shape, dtype=self.source.dtype, buffer=nl.sbuf))
        else:
            self.ring.append(self.ring.pop(0))
        return self.ring[-1][:, :elements]


@dataclass(slots=True)
class Scatter:
    """A scatter.

    Attributes:
        targets: contiguous buffers of one shape that have the operands' values already.
        indices: (components, N).
        updates: an array for each target: (N, window dimensions...).
        components: semantics of the rows of ``indices``.
        strides: steps of the window's dimensions in the targets.
        combine: (emitter, old values and then updates, as tiles) -> new values.
    """

    targets: list[Port]
    indices: Port
    updates: list[Port]
    components: list[Component]
    strides: tuple[int, ...]
    combine: Callable[[Emitter, list[Value]], list[Value]]


def scatter_task(name: str, scatter: Scatter) -> Task:
    """Return the kernel of a scatter: updates in sequence, since two may have one target
    element.
    """
    views = [scatter.indices.view.buffer, *(port.view.buffer for port in scatter.updates)]

    def body(tensors: dict[str, Tile]) -> None:
        _Scatterer(scatter, tensors).run()

    return Task(
        name, list(dict.fromkeys(views)), [port.view.buffer for port in scatter.targets], body
    )


class _Scatterer:
    def __init__(self, scatter: Scatter, tensors: dict[str, Tile]) -> None:
        self._scatter = scatter
        self._tensors = tensors
        self._indices = tensors[scatter.indices.view.buffer]
        windows = [View("", scatter.updates[0].view.shape[1:], scatter.strides)]
        for port in scatter.updates:
            view = port.view
            windows.append(View(view.buffer, view.shape[1:], view.strides[1:]))
        self._dims = nest(windows)
        self._constants: Constants = {}

    def run(self) -> None:
        scatter = self._scatter
        count = scatter.updates[0].view.shape[0]
        pieces = list(tiles(self._dims, _MAX_TILE_ELEMENTS, 1 + len(scatter.updates)))
        elements = sum(piece.elements for piece in pieces)
        if count * len(pieces) <= _MAX_UNROLLED or elements > _MAX_ITERATION_ELEMENTS:
            affordable(count * len(pieces))
            for begin in range(0, count, _MAX_UNROLLED):
                self._block(begin, min(_MAX_UNROLLED, count - begin), None, pieces)
            return
        step = min(_UPDATES_PER_ITERATION, _MAX_ITERATION_ELEMENTS // elements)
        outside, self._constants = self._constants, {}
        nl.fori_loop(
            0,
            count // step * step,
            lambda register: self._block(0, step, Moved(register), pieces),
            step,
        )
        self._constants = outside
        if count % step:
            self._block(count // step * step, count % step, None, pieces)

    def _block(self, begin: int, count: int, moved: Moved | None, pieces: list[Piece]) -> None:
        """Do ``count`` updates in sequence, from ``begin + moved``."""
        offsets, inside = self._prepared(begin, count, moved)
        for number in range(count):
            offset, valid = offsets[0:1, number : number + 1], inside[:, number : number + 1]
            for piece in pieces:
                self._update(piece, begin + number, moved, offset, valid)

    def _prepared(self, begin: int, count: int, moved: Moved | None) -> tuple[NkiTensor, NkiTensor]:
        """Return offsets, and if they are in bounds, for some indices, on every partition."""
        scatter = self._scatter
        emitter = Emitter(128, count, self._constants)
        pattern = [[0, 128], [1, count]]
        rows = components_of(
            self._indices, scatter.indices, len(scatter.components), pattern, begin, moved
        )
        inside = inside_of(emitter, rows, scatter.components)
        return offsets_of(emitter, rows, scatter.components, True), inside

    def _update(
        self, piece: Piece, index: int, moved: Moved | None, offset: NkiTensor, inside: NkiTensor
    ) -> None:
        scatter = self._scatter
        rows, elements = piece.partition.extent, piece.elements
        emitter = Emitter(rows, elements, self._constants)
        locations: list[Tile] = []
        values: list[Value] = []
        for target in scatter.targets:
            location = self._tensors[target.view.buffer].ap(
                pattern=piece.pattern(0),
                offset=target.view.offset + piece.offsets[0],
                scalar_offset=offset,
                indirect_dim=0,
            )
            old = nl.ndarray((rows, elements), dtype=target.dtype, buffer=nl.sbuf)
            nisa.dma_copy(old, location)
            locations.append(location)
            values.append(old)
        numbers = range(len(scatter.updates))
        updates = [self._loaded(piece, index, moved, number) for number in numbers]
        new = scatter.combine(emitter, [*values, *updates])
        valid = inside[0:rows]
        if elements > 1:
            valid = valid.broadcast(1, elements)
        for location, target, before, after in zip(
            locations, scatter.targets, values, new, strict=True
        ):
            nisa.dma_copy(location, emitter.select(valid, after, before, target.dtype))

    def _loaded(self, piece: Piece, index: int, moved: Moved | None, number: int) -> NkiTensor:
        """Return a tile of one update."""
        port = self._scatter.updates[number]
        step = port.view.strides[0]
        offsets = list(piece.offsets)
        offsets[number + 1] += index * step
        shifted = Piece(tuple(offsets), piece.partition, piece.free)
        loop_offset = None if moved is None else moved.times(step)
        return load(self._tensors[port.view.buffer], port, shifted, number + 1, moved=loop_offset)


def window_dims(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[Dim]:
    """Return a window as the fewest possible dimensions."""
    return merge([Dim(extent, (step,)) for extent, step in zip(shape, strides, strict=True)])
