"""Scatters that add: up to 128 updates at a time, those of one place added up first.

Updates are on partitions. A product with the matrix of which of them go to the same place gives each of
these the sum of all, so the new values of equal places are equal, and it does not matter which is stored
last. Numbers that are not finite are kept from the product, where they would reach every place, and
counted by sign: NaN counts as both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import Dim, merge
from neff.compiler.lowering.emitter import Constants, Emitter, Tile
from neff.compiler.lowering.indexed import (
    Scatter,
    components_of,
    inside_of,
    offsets_of,
    repeated,
)
from neff.compiler.lowering.task import Moved, Task, window
from neff.compiler.lowering.tiling import PARTITIONS, affordable
from nki_lang.base.dtypes import BY_NAME

__all__ = ["adds", "sums_task"]

F32, BF16, I32, U8 = (BY_NAME[name] for name in ("float32", "bfloat16", "int32", "uint8"))
_FLOATS = frozenset({"float32", "bfloat16", "float16"})
_FEWEST = 16
"""Updates from which on it is worth while."""

_COLUMNS = 1024
"""Elements of a window that are worked on at once."""

_MOVING = 512
_UNROLLED, _TURN = 64, 2
"""Tiles that are written down, else tiles of one turn of a loop."""

_LARGEST = float(np.finfo(np.float32).max)
_OUTSIDE = 1 << 30
"""An offset that no tensor has: its update is left out."""

Same = dict[str, Tile]
"""1 where two updates go to the same place, (updates, updates), by type."""


def _elements(scatter: Scatter) -> Dim | None:
    """The elements of a window with their steps in the target and in the updates; None where they
    are not one dimension."""
    view = scatter.updates[0].view
    steps = zip(scatter.strides, view.strides[1:], strict=True)
    dims = merge([Dim(n, step) for n, step in zip(view.shape[1:], steps, strict=True)])
    return None if len(dims) > 1 else dims[0] if dims else Dim(1, (1, 1))


def adds(scatter: Scatter, applied: str) -> bool:
    """True for a scatter that :func:`sums_task` can do."""
    if applied != "add" or len(scatter.targets) > 1 or _elements(scatter) is None:
        return False
    types = {port.dtype.name for port in (*scatter.targets, *scatter.updates)}
    return types <= _FLOATS and len(types) == 1 and scatter.updates[0].view.shape[0] >= _FEWEST


def sums_task(name: str, scatter: Scatter) -> Task:
    """The kernel of a scatter that adds floats to one operand."""
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
        turns, rest = divmod(count, PARTITIONS)
        parts = -(-self.window.extent // _COLUMNS)
        group = turns if turns * parts <= _UNROLLED else _TURN
        affordable(2 * min(turns, 2 * group) * parts)
        outside = self.constants
        inside: Constants = {}

        def tile(begin: int, moved: Moved | None) -> None:
            self.constants = outside if moved is None else inside
            self._tile(begin, PARTITIONS, moved)

        repeated(turns, group, PARTITIONS, tile)
        self.constants = outside
        if rest:
            self._tile(turns * PARTITIONS, rest, None)

    def _tile(self, begin: int, count: int, moved: Moved | None) -> None:
        """Updates ``begin + moved`` and on, in parts of their windows."""
        read, written, same = self._places(begin, count, moved)
        for first in range(0, self.window.extent, _COLUMNS):
            columns = min(_COLUMNS, self.window.extent - first)
            e = Emitter(count, columns, self.constants)
            total = self._total(e, self._updates(e, begin, first, moved), same)
            old = self._old(read, first, columns)
            made = e.binary("add", old, total, old.dtype)
            place = self._target(written, first, columns)
            nisa.dma_copy(place, made, oob_mode=nisa.oob_mode.skip)

    def _places(self, begin: int, count: int, moved: Moved | None) -> tuple[Tile, Tile, Same]:
        """Where each update reads and writes, in elements, and which go to the same place."""
        scatter = self.scatter
        tensor = self.tensors[scatter.indices.view.buffer]
        numbers = len(scatter.components)
        own = components_of(tensor, scatter.indices, numbers, [[1, count], [1, 1]], begin, moved)
        e = Emitter(count, 1, self.constants)
        offsets = offsets_of(e, own, scatter.components, True)
        inside = inside_of(e, own, scatter.components)
        written = e.select(inside, offsets, np.int32(_OUTSIDE), I32)
        every = [[0, count], [1, count]]
        others = components_of(tensor, scatter.indices, numbers, every, begin, moved)
        wide = Emitter(count, count, self.constants)
        other = offsets_of(wide, others, scatter.components, True)
        same = wide.words("equal", other, offsets.broadcast(1, count), I32)
        same = wide.bits("bitwise_and", wide.copy(same, U8), inside.broadcast(1, count), U8)
        types = (self.scatter.updates[0].dtype, BF16)
        return offsets, written, {dtype.name: wide.copy(same, dtype) for dtype in types}

    def _updates(self, e: Emitter, begin: int, first: int, moved: Moved | None) -> Tile:
        port = self.scatter.updates[0]
        step, along = port.view.strides[0], self.window.steps[1]
        tile = e.new(port.dtype)
        further = None if moved is None else moved.times(step)
        pattern = [[step, e.partitions], [along, e.elements]]
        tensor = self.tensors[port.view.buffer]
        nisa.dma_copy(
            tile, window(tensor, port, begin * step + first * along, pattern, moved=further)
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

    def _total(self, e: Emitter, updates: Tile, same: Same) -> Tile:
        """For each update the sum of all that go to its place."""
        finite = e.new(U8)
        nisa.tensor_scalar(finite, updates, nl.multiply, 0.0, False, nl.equal, 0.0)
        given = e.select(finite, updates, np.float32(0), updates.dtype)
        total = self._product(e, same, given)
        for sign, op in ((1.0, "less_equal"), (-1.0, "greater_equal")):
            beyond = e.new(BF16)
            limit = sign * _LARGEST
            nisa.tensor_scalar(beyond, updates, getattr(nl, op), limit, False, nl.equal, 0.0)
            count = self._product(e, same, beyond)
            infinite = e.twice(count, "multiply", sign * _LARGEST, "multiply", _LARGEST)
            total = e.binary("add", total, infinite, F32)
        return total

    def _product(self, e: Emitter, same: Same, given: Tile) -> Tile:
        chosen = same[given.dtype.name]
        made = nl.ndarray((e.partitions, e.elements), dtype=F32, buffer=nl.psum)
        for first in range(0, e.elements, _MOVING):
            last = min(first + _MOVING, e.elements)
            nisa.nc_matmul(made[:, first:last], chosen, given[:, first:last])
        return made
