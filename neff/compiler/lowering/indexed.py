"""Kernels that read or write at an index: gather, scatter.

Indices are a buffer of 32-bit integers, one row for each component; a kernel turns them into
element offsets on GpSimd, clamped or checked as HLO defines, and hands those to the DMA.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.emitter import Emitter, Value
from neff.compiler.lowering.reduction import chunks
from neff.compiler.lowering.task import Port, Task, load, window
from neff.compiler.lowering.tiling import Piece, affordable, nest, tiles
from neff.compiler.views import Dim, View, merge
from nki_lang.dtypes import BY_NAME

__all__ = ["Component", "gather_task", "scatter_task"]

I32 = BY_NAME["int32"]
U8 = BY_NAME["uint8"]
_ELEMENTS = 4096
_INDICES = 1024
"""Indices of a scatter whose offsets are computed at once."""


@dataclass(frozen=True, slots=True)
class Component:
    """One component of an index.

    Attributes:
        stride: elements that one step moves by.
        last: the greatest value at which the window is inside.
    """

    stride: int
    last: int


def _offsets(emitter: Emitter, rows: list[Any], components: list[Component], clamp: bool) -> Any:
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


def _rows(tensor: Any, port: Port, count: int, pattern: list[list[int]], begin: int) -> list[Any]:
    """The components of indices ``begin`` and on: a tile for each, shaped by ``pattern``."""
    total = port.view.shape[1]
    found: list[Any] = []
    for component in range(count):
        tile = nl.ndarray((pattern[0][1], pattern[1][1]), dtype=I32, buffer=nl.sbuf)
        nisa.dma_copy(tile, window(tensor, port, component * total + begin, pattern))
        found.append(tile)
    return found


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
    count, size = target.view.shape

    def body(tensors: dict[str, Any]) -> None:
        constants: dict[Any, Any] = {}
        table, out = tensors[source.view.buffer], tensors[target.view.buffer]
        affordable((-(-count // 128)) * (-(-size // _ELEMENTS)))
        for begin in range(0, count, 128):
            rows = min(128, count - begin)
            emitter = Emitter(rows, 1, constants)
            wanted = [[1, rows], [1, 1]]
            parts = _rows(tensors[indices.view.buffer], indices, len(components), wanted, begin)
            offsets = _offsets(emitter, parts, components, True)
            done = 0
            for start, part in chunks(dims, _ELEMENTS):
                inner = [[dim.steps[0], dim.extent] for dim in part] or [[1, 1]]
                elements = prod(step_count[1] for step_count in inner)
                tile = nl.ndarray((rows, elements), dtype=source.dtype, buffer=nl.sbuf)
                picked = table.ap(
                    pattern=[[1, rows], *inner],
                    offset=source.view.offset + start,
                    vector_offset=offsets,
                    indirect_dim=0,
                )
                nisa.dma_copy(tile, picked)
                place = window(out, target, begin * size + done, [[size, rows], [1, elements]])
                nisa.dma_copy(place, tile)
                done += elements

    reads = list(dict.fromkeys((source.view.buffer, indices.view.buffer)))
    return Task(name, reads, [target.view.buffer], body)


@dataclass(slots=True)
class Scatter:
    """One scatter.

    Attributes:
        targets: whole buffers of one shape that have the operands' values already.
        indices: (components, N).
        updates: one for each target: (batch dimensions of N elements..., window dimensions...).
        batch: how many dimensions of the updates are batch dimensions.
        components: what the rows of ``indices`` mean.
        strides: steps of the window's dimensions in the targets.
        combine: (emitter, old values and then updates, as tiles) -> new values.
    """

    targets: list[Port]
    indices: Port
    updates: list[Port]
    batch: int
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
        windows = [View("", scatter.updates[0].view.shape[scatter.batch :], scatter.strides)]
        for port in scatter.updates:
            view = port.view
            shape, strides = view.shape[scatter.batch :], view.strides[scatter.batch :]
            windows.append(View(view.buffer, shape, strides))
        self._dims = nest(windows)
        self._constants: dict[Any, Any] = {}

    def run(self) -> None:
        scatter = self._scatter
        shape = scatter.updates[0].view.shape
        batch = list(product(*(range(count) for count in shape[: scatter.batch])))
        affordable(len(batch) * max(1, prod(dim.extent for dim in self._dims) // (128 * _ELEMENTS)))
        for begin in range(0, len(batch), _INDICES):
            part = batch[begin : begin + _INDICES]
            offsets, inside = self._prepared(begin, len(part))
            for number, where in enumerate(part):
                for piece in tiles(self._dims, _ELEMENTS, 1 + len(scatter.updates)):
                    self._update(piece, where, offsets[0:1, number : number + 1],
                                 inside[:, number : number + 1])  # fmt: skip

    def _prepared(self, begin: int, count: int) -> tuple[Any, Any]:
        """Offsets and whether they are inside, for some indices, on every partition."""
        scatter = self._scatter
        emitter = Emitter(128, count, self._constants)
        wanted = [[0, 128], [1, count]]
        rows = _rows(self._indices, scatter.indices, len(scatter.components), wanted, begin)
        inside = emitter.filled(1, U8)
        for row, component in zip(rows, scatter.components, strict=True):
            low = emitter.words("greater_equal", row, 0, I32)
            high = emitter.words("less_equal", row, component.last, I32)
            both = emitter.copy(emitter.bits("bitwise_and", low, high, I32), U8)
            inside = emitter.bits("bitwise_and", inside, both, U8)
        return _offsets(emitter, rows, scatter.components, True), inside

    def _update(self, piece: Piece, where: tuple[int, ...], offset: Any, inside: Any) -> None:
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
        updates = [self._loaded(piece, where, number) for number in range(len(scatter.updates))]
        new = scatter.combine(emitter, [*values, *updates])
        valid = inside[0:rows]
        if elements > 1:
            valid = valid.broadcast(1, elements)
        for place, target, before, after in zip(places, scatter.targets, values, new, strict=True):
            nisa.dma_copy(place, emitter.select(valid, after, before, target.dtype))

    def _loaded(self, piece: Piece, where: tuple[int, ...], number: int) -> Any:
        """A tile of one update."""
        port = self._scatter.updates[number]
        start = sum(index * step for index, step in zip(where, port.view.strides, strict=False))
        offsets = list(piece.offsets)
        offsets[number + 1] += start
        moved = Piece(tuple(offsets), piece.partition, piece.free)
        return load(self._tensors[port.view.buffer], port, moved, number + 1)


def window_dims(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[Dim]:
    """A window as few dimensions as can be."""
    return merge([Dim(extent, (step,)) for extent, step in zip(shape, strides, strict=True)])
