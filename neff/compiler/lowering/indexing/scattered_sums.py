"""Scatters that add: up to 128 updates at a time; updates of the same element are summed first.

Updates are on partitions. A matrix marks the pairs of updates with the same target; the product with
it gives each update the sum of all with its target. So the new values of equal targets are equal, and
the order of their stores does not matter. Numbers that are not finite are excluded from the product,
where they would reach every target, and counted by sign: NaN counts as both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import Dim, merge
from neff.compiler.lowering.indexing.index_kernels import (
    Scatter,
    components_of,
    inside_of,
    offsets_of,
    repeated,
)
from neff.compiler.lowering.tiles.emitter import Constants, Emitter, Tile
from neff.compiler.lowering.tiles.task import Moved, Task, window
from neff.compiler.lowering.tiles.tiling import PARTITIONS, affordable
from nki_lang.base.dtypes import BY_NAME

__all__ = ["adds", "sums_task"]

F32, BF16, I32, U8 = (BY_NAME[name] for name in ("float32", "bfloat16", "int32", "uint8"))
_FLOATS = frozenset({"float32", "bfloat16", "float16"})
_MIN_UPDATES = 16
"""From this number of updates on the product is faster."""

_MAX_COLUMNS = 1024
"""Elements of a window that are processed at a time."""

_MAX_MOVING_COLUMNS = 512
_MAX_UNROLLED_TILES, _TILES_PER_ITERATION = 64, 2
"""Limit on unrolled tiles, else the tiles of an iteration of a loop."""

_MAX_FLOAT = float(np.finfo(np.float32).max)
_INVALID_OFFSET = 1 << 30
"""An offset out of bounds of any tensor: its update is dropped."""

SameTarget = dict[str, Tile]
"""Type -> matrix (updates, updates) with 1 where two updates have the same target."""


def _elements(scatter: Scatter) -> Dim | None:
    """Return a window's elements with steps in target and updates; None if they need several
    dimensions.
    """
    view = scatter.updates[0].view
    steps = zip(scatter.strides, view.strides[1:], strict=True)
    dims = merge([Dim(extent, step) for extent, step in zip(view.shape[1:], steps, strict=True)])
    return None if len(dims) > 1 else dims[0] if dims else Dim(1, (1, 1))


def adds(scatter: Scatter, applied: str) -> bool:
    """Return True for a scatter that :func:`sums_task` can do."""
    if applied != "add" or len(scatter.targets) > 1 or _elements(scatter) is None:
        return False
    types = {port.dtype.name for port in (*scatter.targets, *scatter.updates)}
    return types <= _FLOATS and len(types) == 1 and scatter.updates[0].view.shape[0] >= _MIN_UPDATES


def sums_task(name: str, scatter: Scatter) -> Task:
    """Return the kernel of a scatter that adds floats to one operand."""
    views = [scatter.indices.view.buffer, scatter.updates[0].view.buffer]

    def body(tensors: dict[str, Tile]) -> None:
        elements = _elements(scatter)
        assert elements is not None
        _Adder(scatter, tensors, elements).run()

    return Task(name, list(dict.fromkeys(views)), [scatter.targets[0].view.buffer], body)


@dataclass(slots=True)
class _Adder:
    scatter: Scatter
    tensors: dict[str, Tile]
    window: Dim
    constants: Constants = field(default_factory=Constants)

    def run(self) -> None:
        count = self.scatter.updates[0].view.shape[0]
        iterations, remainder = divmod(count, PARTITIONS)
        parts = -(-self.window.extent // _MAX_COLUMNS)
        group = iterations if iterations * parts <= _MAX_UNROLLED_TILES else _TILES_PER_ITERATION
        affordable(2 * min(iterations, 2 * group) * parts)
        outside = self.constants
        inside: Constants = {}

        def tile(begin: int, moved: Moved | None) -> None:
            self.constants = outside if moved is None else inside
            self._tile(begin, PARTITIONS, moved)

        repeated(iterations, group, PARTITIONS, tile)
        self.constants = outside
        if remainder:
            self._tile(iterations * PARTITIONS, remainder, None)

    def _tile(self, begin: int, count: int, moved: Moved | None) -> None:
        """Add the updates from ``begin + moved``, in column ranges of their windows."""
        read, written, same = self._places(begin, count, moved)
        for first in range(0, self.window.extent, _MAX_COLUMNS):
            columns = min(_MAX_COLUMNS, self.window.extent - first)
            e = Emitter(count, columns, self.constants)
            total = self._total(e, self._updates(e, begin, first, moved), same)
            old = self._old(read, first, columns)
            new = e.binary("add", old, total, old.dtype)
            target = self._target(written, first, columns)
            nisa.dma_copy(target, new, oob_mode=nisa.oob_mode.skip)

    def _places(self, begin: int, count: int, moved: Moved | None) -> tuple[Tile, Tile, SameTarget]:
        """Return the offsets that each update reads and writes, and the matrix of equal targets."""
        scatter = self.scatter
        tensor = self.tensors[scatter.indices.view.buffer]
        numbers = len(scatter.components)
        components = components_of(
            tensor, scatter.indices, numbers, [[1, count], [1, 1]], begin, moved
        )
        e = Emitter(count, 1, self.constants)
        offsets = offsets_of(e, components, scatter.components, True)
        inside = inside_of(e, components, scatter.components)
        written = e.select(inside, offsets, np.int32(_INVALID_OFFSET), I32)
        pattern = [[0, count], [1, count]]
        row_components = components_of(tensor, scatter.indices, numbers, pattern, begin, moved)
        wide = Emitter(count, count, self.constants)
        row_offsets = offsets_of(wide, row_components, scatter.components, True)
        same = wide.words("equal", row_offsets, offsets.broadcast(1, count), I32)
        same = wide.bits("bitwise_and", wide.copy(same, U8), inside.broadcast(1, count), U8)
        types = (self.scatter.updates[0].dtype, BF16)
        return offsets, written, {dtype.name: wide.copy(same, dtype) for dtype in types}

    def _updates(self, e: Emitter, begin: int, first: int, moved: Moved | None) -> Tile:
        port = self.scatter.updates[0]
        step, along = port.view.strides[0], self.window.steps[1]
        tile = e.new(port.dtype)
        loop_offset = None if moved is None else moved.times(step)
        pattern = [[step, e.partitions], [along, e.elements]]
        tensor = self.tensors[port.view.buffer]
        nisa.dma_copy(
            tile, window(tensor, port, begin * step + first * along, pattern, moved=loop_offset)
        )
        return tile

    def _target(self, offsets: Tile, first: int, columns: int) -> Tile:
        port, step = self.scatter.targets[0], self.window.steps[0]
        return self.tensors[port.view.buffer].ap(
            pattern=[[1, offsets.shape[0]], [step, columns]],
            offset=port.view.offset + first * step,
            vector_offset=offsets,
            indirect_dim=0,
        )

    def _old(self, offsets: Tile, first: int, columns: int) -> Tile:
        dtype = self.scatter.targets[0].dtype
        tile = nl.ndarray((offsets.shape[0], columns), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, self._target(offsets, first, columns))
        return tile

    def _total(self, e: Emitter, updates: Tile, same: SameTarget) -> Tile:
        """Return for each update the sum of all updates of its target."""
        finite = e.new(U8)
        nisa.tensor_scalar(finite, updates, nl.multiply, 0.0, False, nl.equal, 0.0)
        finite_updates = e.select(finite, updates, np.float32(0), updates.dtype)
        total = self._product(e, same, finite_updates)
        for sign, op in ((1.0, "less_equal"), (-1.0, "greater_equal")):
            beyond = e.new(BF16)
            limit = sign * _MAX_FLOAT
            nisa.tensor_scalar(beyond, updates, getattr(nl, op), limit, False, nl.equal, 0.0)
            count = self._product(e, same, beyond)
            infinite = e.twice(count, "multiply", sign * _MAX_FLOAT, "multiply", _MAX_FLOAT)
            total = e.binary("add", total, infinite, F32)
        return total

    def _product(self, e: Emitter, same: SameTarget, updates: Tile) -> Tile:
        mask = same[updates.dtype.name]
        sums = nl.ndarray((e.partitions, e.elements), dtype=F32, buffer=nl.psum)
        for first in range(0, e.elements, _MAX_MOVING_COLUMNS):
            last = min(first + _MAX_MOVING_COLUMNS, e.elements)
            nisa.nc_matmul(sums[:, first:last], mask, updates[:, first:last])
        return sums
