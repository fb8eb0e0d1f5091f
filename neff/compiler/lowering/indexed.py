"""Kernels that read or write at an index: gather, scatter.

Indices are a buffer of 32-bit integers, one row for each component; a kernel turns them into
element offsets on GpSimd, clamped or checked as HLO defines, and hands those to the DMA. Few
indices are worked off one after the other in the program, many by a loop on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import Dim, View, merge
from neff.compiler.lowering.emitter import Emitter, Value
from neff.compiler.lowering.reduction import chunks
from neff.compiler.lowering.task import Moved, Port, Task, load, window
from neff.compiler.lowering.tiling import Piece, affordable, nest, tiles
from nki_lang.base.dtypes import BY_NAME
from nki_lang.frontend.tensor import NkiTensor

__all__ = [
    "Component", "Scatter", "components_of", "gather_task", "inside_of", "offsets_of", "repeated",
    "scatter_task",
]  # fmt: skip

I32 = BY_NAME["int32"]
U8 = BY_NAME["uint8"]
_ELEMENTS = 4096
_TILES = 256
"""Tiles of a gather whose offsets are computed at once."""

_UNROLLED = 64
"""Gathers or updates that are written down; more are turns of a loop on the device."""

_TURN = 32
"""Gathers or updates of one turn, so that they take longer than the engines' meeting at its end."""

_TURN_ELEMENTS = 1024
"""Elements in each partition of a turn's updates: its tiles hold their memory for the whole loop."""

_RING = 3
"""Tiles that the gathers of a loop take in turn, for the same reason."""


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
) -> Any:
    """Element offsets of indices that are tiles of one component each."""
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
    """1 for indices of which no component is out of bounds, else 0."""
    inside = emitter.filled(1, U8)
    for row, component in zip(rows, components, strict=True):
        low = emitter.words("greater_equal", row, 0, I32)
        high = emitter.words("less_equal", row, component.last, I32)
        both = emitter.copy(emitter.bits("bitwise_and", low, high, I32), U8)
        inside = emitter.bits("bitwise_and", inside, both, U8)
    return inside


def components_of(
    tensor: NkiTensor,
    port: Port,
    count: int,
    pattern: list[list[int]],
    begin: int,
    moved: Moved | None = None,
) -> list[NkiTensor]:
    """The components of indices ``begin + moved`` and on: a tile for each, shaped by ``pattern``."""
    total = port.view.shape[1]
    found: list[NkiTensor] = []
    for component in range(count):
        tile = nl.ndarray((pattern[0][1], pattern[1][1]), dtype=I32, buffer=nl.sbuf)
        nisa.dma_copy(tile, window(tensor, port, component * total + begin, pattern, moved=moved))
        found.append(tile)
    return found


def repeated(turns: int, group: int, step: int, body: Callable[[int, Moved | None], None]) -> None:
    """``body(begin, None)`` for begin = 0, step, ... (``turns`` of them) if they are few; else a
    loop on the device, of ``group`` at a time: ``body(begin, register)`` for begin + register."""
    loops = turns // group if turns > group else 0
    if loops:

        def turn(register: object) -> None:
            for number in range(group):
                body(number * step, Moved(register))

        nl.fori_loop(0, loops * group * step, turn, group * step)
    for number in range(loops * group, turns):
        body(number * step, None)


def gather_task(
    name: str,
    source: Port,
    indices: Port,
    target: Port,
    components: list[Component],
    dims: list[Dim],
) -> Task:
    """``target[n] = window of the source at index n``.

    Args:
        source: a whole buffer.
        indices: (components, N).
        target: (N, elements of the window).
        components: what the rows of ``indices`` mean.
        dims: the window: extents and steps in the source.
    """

    def body(tensors: dict[str, Any]) -> None:
        _Gatherer(source, indices, target, components, dims, tensors).run()

    reads = list(dict.fromkeys((source.view.buffer, indices.view.buffer)))
    return Task(name, reads, [target.view.buffer], body)


@dataclass(slots=True)
class _Gatherer:
    """One gather under trace; the fields are those of :func:`gather_task`."""

    source: Port
    indices: Port
    target: Port
    components: list[Component]
    dims: list[Dim]
    tensors: dict[str, NkiTensor]
    ring: list[NkiTensor] = field(default_factory=list[NkiTensor])

    def run(self) -> None:
        count, size = self.target.view.shape
        parts = list(chunks(self.dims, _ELEMENTS))
        most = max(1, min(_TILES, _ELEMENTS // max(size, 1)))
        begin = 0
        while begin < count:
            tiles = min(-(-(count - begin) // 128), most)
            rows = min(128, (count - begin) // tiles)
            turns = (count - begin) // (rows * tiles)
            taken = tiles * len(parts)
            group = turns if turns * taken <= _UNROLLED else max(1, _TURN // taken)
            self._blocks(begin, rows, tiles, turns, group, parts)
            begin += rows * tiles * turns

    def _blocks(
        self, first: int, rows: int, tiles: int, turns: int, group: int,
        parts: list[tuple[int, list[Dim]]],
    ) -> None:  # fmt: skip
        """``turns`` blocks of indices from ``first`` on; ``tiles`` neighbours to a partition."""
        affordable(min(turns, 2 * group) * tiles * len(parts))
        constants: dict[object, NkiTensor] = {}
        inside: dict[object, NkiTensor] = {}

        def block(begin: int, moved: Moved | None) -> None:
            numbers = constants if moved is None else inside
            offsets = self._offsets(first + begin, rows, tiles, moved, numbers)
            done = 0
            for start, part in parts:
                done += self._move(start, part, done, first + begin, moved, offsets)

        self.ring.clear()
        repeated(turns, group, rows * tiles, block)

    def _offsets(
        self,
        begin: int,
        rows: int,
        tiles: int,
        moved: Moved | None,
        constants: dict[object, NkiTensor],
    ) -> NkiTensor:
        """Element offsets of (rows, tiles) indices."""
        wanted = [[tiles, rows], [1, tiles]]
        tensor = self.tensors[self.indices.view.buffer]
        parts = components_of(tensor, self.indices, len(self.components), wanted, begin, moved)
        return offsets_of(Emitter(rows, tiles, constants), parts, self.components, True)

    def _move(
        self,
        start: int,
        part: list[Dim],
        done: int,
        begin: int,
        moved: Moved | None,
        offsets: NkiTensor,
    ) -> int:
        """A part of the windows of indices ``begin + moved`` and on; its elements."""
        rows, tiles = offsets.shape
        size = self.target.view.shape[1]
        inner = [[dim.steps[0], dim.extent] for dim in part] or [[1, 1]]
        elements = prod(count for _, count in inner)
        table = self.tensors[self.source.view.buffer]
        tile = self._tile(rows, tiles * elements, moved)
        for number in range(tiles):
            picked = table.ap(
                pattern=[[1, rows], *inner],
                offset=self.source.view.offset + start,
                vector_offset=offsets[:, number : number + 1],
                indirect_dim=0,
            )
            nisa.dma_copy(tile[:, number * elements : (number + 1) * elements], picked)
        pattern = [[tiles * size, rows], [1, tiles * elements]]  # a part of a window is alone
        place = window(
            self.tensors[self.target.view.buffer], self.target, begin * size + done, pattern,
            moved=None if moved is None else moved.times(size),
        )  # fmt: skip
        nisa.dma_copy(place, tile)
        return elements

    def _tile(self, rows: int, elements: int, moved: Moved | None) -> NkiTensor:
        """A new tile, or in a loop the one of the ring that was not used for longest."""
        if moved is None:
            return nl.ndarray((rows, elements), dtype=self.source.dtype, buffer=nl.sbuf)
        if len(self.ring) < _RING:
            shape = (rows, _ELEMENTS)
            self.ring.append(nl.ndarray(shape, dtype=self.source.dtype, buffer=nl.sbuf))
        else:
            self.ring.append(self.ring.pop(0))
        return self.ring[-1][:, :elements]


@dataclass(slots=True)
class Scatter:
    """One scatter.

    Attributes:
        targets: whole buffers of one shape that have the operands' values already.
        indices: (components, N).
        updates: one for each target: (N, window dimensions...).
        components: what the rows of ``indices`` mean.
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
    """The kernel of a scatter: update by update, for two may go to the same place."""
    views = [scatter.indices.view.buffer, *(port.view.buffer for port in scatter.updates)]

    def body(tensors: dict[str, Any]) -> None:
        _Scatterer(scatter, tensors).run()

    return Task(
        name, list(dict.fromkeys(views)), [port.view.buffer for port in scatter.targets], body
    )


class _Scatterer:
    def __init__(self, scatter: Scatter, tensors: dict[str, Any]) -> None:
        self._scatter = scatter
        self._tensors = tensors
        self._indices = tensors[scatter.indices.view.buffer]
        windows = [View("", scatter.updates[0].view.shape[1:], scatter.strides)]
        for port in scatter.updates:
            view = port.view
            windows.append(View(view.buffer, view.shape[1:], view.strides[1:]))
        self._dims = nest(windows)
        self._constants: dict[Any, Any] = {}

    def run(self) -> None:
        scatter = self._scatter
        count = scatter.updates[0].view.shape[0]
        pieces = list(tiles(self._dims, _ELEMENTS, 1 + len(scatter.updates)))
        elements = sum(piece.elements for piece in pieces)
        if count * len(pieces) <= _UNROLLED or elements > _TURN_ELEMENTS:
            affordable(count * len(pieces))
            for begin in range(0, count, _UNROLLED):
                self._block(begin, min(_UNROLLED, count - begin), None, pieces)
            return
        step = min(_TURN, _TURN_ELEMENTS // elements)
        outside, self._constants = self._constants, {}
        nl.fori_loop(
            0, count // step * step, lambda at: self._block(0, step, Moved(at), pieces), step
        )
        self._constants = outside
        if count % step:
            self._block(count // step * step, count % step, None, pieces)

    def _block(self, begin: int, count: int, moved: Moved | None, pieces: list[Piece]) -> None:
        """Some updates, one after the other, from ``begin + moved`` on."""
        offsets, inside = self._prepared(begin, count, moved)
        for number in range(count):
            offset, valid = offsets[0:1, number : number + 1], inside[:, number : number + 1]
            for piece in pieces:
                self._update(piece, begin + number, moved, offset, valid)

    def _prepared(self, begin: int, count: int, moved: Moved | None) -> tuple[NkiTensor, NkiTensor]:
        """Offsets and whether they are inside, for some indices, on every partition."""
        scatter = self._scatter
        emitter = Emitter(128, count, self._constants)
        wanted = [[0, 128], [1, count]]
        rows = components_of(
            self._indices, scatter.indices, len(scatter.components), wanted, begin, moved
        )
        inside = inside_of(emitter, rows, scatter.components)
        return offsets_of(emitter, rows, scatter.components, True), inside

    def _update(
        self, piece: Piece, where: int, moved: Moved | None, offset: NkiTensor, inside: NkiTensor
    ) -> None:
        scatter = self._scatter
        rows, elements = piece.partition.extent, piece.elements
        emitter = Emitter(rows, elements, self._constants)
        places: list[Any] = []
        values: list[Value] = []
        for target in scatter.targets:
            place = self._tensors[target.view.buffer].ap(
                pattern=piece.pattern(0),
                offset=target.view.offset + piece.offsets[0],
                scalar_offset=offset,
                indirect_dim=0,
            )
            old = nl.ndarray((rows, elements), dtype=target.dtype, buffer=nl.sbuf)
            nisa.dma_copy(old, place)
            places.append(place)
            values.append(old)
        numbers = range(len(scatter.updates))
        updates = [self._loaded(piece, where, moved, number) for number in numbers]
        new = scatter.combine(emitter, [*values, *updates])
        valid = inside[0:rows]
        if elements > 1:
            valid = valid.broadcast(1, elements)
        for place, target, before, after in zip(places, scatter.targets, values, new, strict=True):
            nisa.dma_copy(place, emitter.select(valid, after, before, target.dtype))

    def _loaded(self, piece: Piece, where: int, moved: Moved | None, number: int) -> NkiTensor:
        """A tile of one update."""
        port = self._scatter.updates[number]
        step = port.view.strides[0]
        offsets = list(piece.offsets)
        offsets[number + 1] += where * step
        shifted = Piece(tuple(offsets), piece.partition, piece.free)
        further = None if moved is None else moved.times(step)
        return load(self._tensors[port.view.buffer], port, shifted, number + 1, moved=further)


def window_dims(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[Dim]:
    """A window as few dimensions as can be."""
    return merge([Dim(extent, (step,)) for extent, step in zip(shape, strides, strict=True)])
