"""Reductions: kept dimensions are on partitions, reduced ones in the free dimension."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import Dim, View, merge
from neff.compiler.lowering.tiles.emitter import Constants, Emitter, Tile, Value
from neff.compiler.lowering.tiles.task import Port, Task, window
from neff.compiler.lowering.tiles.tiling import Piece, affordable, tiles
from neff.compiler.lowering.tiles.wide import high_words
from nki_lang.base.dtypes import BY_NAME, DType
from nki_lang.frontend.operators import Operator

__all__ = [
    "IDENTITIES",
    "MAX_NARROW_COLUMNS",
    "MIN_NARROW_ROWS",
    "REDUCERS",
    "Reduction",
    "chunks",
    "is_neutral",
    "reduction_task",
]

REDUCERS = {
    "add": "add",
    "multiply": "multiply",
    "maximum": "maximum",
    "minimum": "minimum",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
"""Opcode that a reduce applies -> operator of the engines."""

IDENTITIES = {"add": 0, "multiply": 1, "or": 0, "xor": 0}
"""Neutral initial values; for maximum, minimum and ``and`` they depend on the type."""

_MAX_TILE_ELEMENTS = 4096
MAX_NARROW_COLUMNS, MIN_NARROW_ROWS = 128, 1 << 12
"""Rows with fewer columns than the first, if at least the second number of rows exist, are summed
in groups in each partition: a row in each partition would be little work for an instruction and a
transfer.
"""

_MAX_RUN_ELEMENTS = 128
"""Elements of a partition that are loaded from one location, where several results allow it."""

_MAX_CHUNK_ELEMENTS = 1024
"""Elements of a partition that are loaded at a time if several loads are needed anyway, and one
instruction follows each: then little work is left after the last load.
"""

F32 = BY_NAME["float32"]
I32 = BY_NAME["int32"]


@dataclass(slots=True)
class Reduction:
    """The data of a reduction.

    Attributes:
        source: the operand; its dimensions are the kept ones, then the reduced ones.
        target: the result, with the shape of the kept dimensions.
        kept_dims: number of kept dimensions.
        op: HLO's opcode (``"add"``).
        kind: representation of the values (``float``, ``word``, ``small``, ``pred``).
        initial: the initial number; None if it is neutral.
        initial_port: location of the initial number if it is not known while compiling.
        is_total: the kept elements of the source are summed too, by a product with ones on the
            tensor engine; the target is one element. Only for sums of at most 128 floats.
        remainder: elements that are added to a total, all of them reduced.
    """

    source: Port
    target: Port
    kept_dims: int
    op: str
    kind: str
    initial: np.generic | None = None
    initial_port: Port | None = None
    is_total: bool = False
    remainder: View | None = None

    @property
    def work_dtype(self) -> DType:
        """Return the type of partial results."""
        if self.kind == "float":
            return F32
        if self.kind == "small" or (self.kind == "pred"):
            return I32
        return self.source.dtype


def reduction_task(name: str, reduction: Reduction) -> Task:
    """Return the kernel of a reduction."""
    reads = [reduction.source.view.buffer]
    if reduction.initial_port is not None:
        reads.append(reduction.initial_port.view.buffer)
    writes = [reduction.target.view.buffer]

    def body(tensors: dict[str, Tile]) -> None:
        _Reducer(reduction, tensors).run()

    return Task(name, list(dict.fromkeys(reads)), writes, body)


class _Reducer:
    def __init__(self, reduction: Reduction, tensors: dict[str, Tile]) -> None:
        self._reduction = reduction
        source, target = reduction.source.view, reduction.target.view
        self._source = tensors[source.buffer]
        self._target = tensors[target.buffer]
        self._tensors = tensors
        kept_dims = reduction.kept_dims
        steps = (0,) * kept_dims if reduction.is_total else target.strides
        self._kept_nest = merge(
            [
                Dim(extent, (step, target_step))
                for extent, step, target_step in zip(
                    source.shape[:kept_dims], source.strides[:kept_dims], steps, strict=True
                )
            ]
        )
        self._reduced = _dims(source, kept_dims)
        self._constants: Constants = {}

    def run(self) -> None:
        total = prod(dim.extent for dim in self._reduced)
        affordable(
            prod(dim.extent for dim in self._kept_nest) * total // (128 * _MAX_TILE_ELEMENTS)
        )
        limit = max(1, _MAX_TILE_ELEMENTS // min(total, _MAX_TILE_ELEMENTS // 16), self._run())
        for piece in tiles(self._kept_nest, limit, 2, least=1):
            self._piece(piece)

    def _run(self) -> int:
        """Return the kept elements that are adjacent in memory, for each reduced element."""
        if not self._kept_nest or not self._reduced:
            return 1
        extent, steps = self._kept_nest[-1]
        nearest = min(abs(dim.steps[0]) for dim in self._reduced)
        return min(extent, _MAX_RUN_ELEMENTS) if abs(steps[0]) < nearest else 1

    def _piece(self, piece: Piece) -> None:
        reduction = self._reduction
        emitter = Emitter(piece.partition.extent, piece.elements, self._constants)
        total = self._reduction_of(piece, emitter, self._reduced)
        pattern = piece.pattern(1)
        if reduction.is_total:
            total = self._total(total)
            emitter, pattern = Emitter(1, 1, self._constants), [[1, 1], [1, 1]]
        total = self._with_initial(emitter, total)
        total = self._narrowed(emitter, total)
        port = reduction.target
        nisa.dma_copy(window(self._target, port, piece.offsets[1], pattern), total)
        if port.wide:
            high = high_words(emitter, total)
            nisa.dma_copy(window(self._target, port, piece.offsets[1], pattern, 1), high)

    def _reduction_of(self, piece: Piece, emitter: Emitter, reduced: list[Dim]) -> Value:
        """Return a tile (partitions, kept elements) of reduced values; None without reduced
        elements.
        """
        accumulated = None
        total = prod(dim.extent for dim in reduced)
        is_long = total > _MAX_TILE_ELEMENTS and self._reduction.kind == "float"
        size = _MAX_CHUNK_ELEMENTS if is_long else _MAX_TILE_ELEMENTS
        for offset, dims in chunks(reduced, max(1, size // piece.elements)):
            partial = self._partial(piece, emitter, offset, dims)
            accumulated = (
                partial if accumulated is None else self._combine(emitter, accumulated, partial)
            )
        return accumulated

    def _total(self, column: Tile) -> Tile:
        """Return the sum over the partitions of a tile of one column, and of the remainder: (1,
        1).
        """
        ones = Emitter(128, 1, self._constants).filled(np.float32(1), F32)
        summed = nl.ndarray((1, 1), dtype=F32, buffer=nl.psum)
        nisa.nc_matmul(summed, column, ones[0 : column.shape[0]])
        remainder = self._reduction.remainder
        if remainder is not None:
            start = remainder.offset - self._reduction.source.view.offset
            piece = Piece((start, 0), Dim(1, (0, 0)), (Dim(1, (0, 0)),))
            remainder_sum = self._reduction_of(
                piece, Emitter(1, 1, self._constants), _dims(remainder, 0)
            )
            nisa.nc_matmul(summed, remainder_sum, ones[0:1], accumulate=True)
        return Emitter(1, 1, self._constants).copy(summed, F32)

    def _partial(self, piece: Piece, emitter: Emitter, offset: int, dims: list[Dim]) -> Tile:
        """Reduce one chunk to a tile (partitions, kept elements)."""
        rows, kept_elements = piece.partition.extent, piece.elements
        count = prod(dim.extent for dim in dims)
        partition, *free = piece.pattern(0)
        reduced = [[dim.steps[0], dim.extent] for dim in dims]
        inner = min((abs(step) for step, _ in reduced), default=0)
        swap = kept_elements > 1 and min(abs(step) for step, count in free if count > 1) < inner
        pattern = [partition, *reduced, *free] if swap else [partition, *free, *reduced]
        port = self._reduction.source
        shape = (rows, count, kept_elements) if swap else (rows, kept_elements, count)
        tile = nl.ndarray(shape, dtype=port.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, window(self._source, port, piece.offsets[0] + offset, pattern))
        if swap:
            tile = tile.permute((0, 2, 1))
        if self._reduction.kind == "float":
            reduced_tile = emitter.new(F32)
            nisa.tensor_reduce(
                reduced_tile.reshape((rows, kept_elements, 1)), _operator(self._reduction.op), tile, axis=2,
                keepdims=True,
            )  # fmt: skip
            return reduced_tile
        return self._halved(tile, rows, kept_elements, count)

    def _halved(self, tile: Tile, rows: int, kept_elements: int, count: int) -> Tile:
        """Reduce integers exactly: combine the two halves until one element is left."""
        dtype = self._reduction.work_dtype
        if tile.dtype != dtype:
            wide = nl.ndarray((rows, kept_elements, count), dtype=dtype, buffer=nl.sbuf)
            nisa.tensor_copy(wide, tile)
            tile = wide
        while count > 1:
            half = count // 2
            odd = count - 2 * half
            combined = nl.ndarray((rows, kept_elements, half + odd), dtype=dtype, buffer=nl.sbuf)
            self._apply(combined[:, :, 0:half], tile[:, :, 0:half], tile[:, :, half : 2 * half])
            if odd:
                nisa.tensor_copy(combined[:, :, half : half + 1], tile[:, :, count - 1 : count])
            tile, count = combined, half + odd
        return tile.reshape((rows, kept_elements))

    def _apply(self, target: Tile, a: Tile, b: Tile) -> None:
        op = self._reduction.op
        exact = op in ("and", "or", "xor") or self._reduction.kind == "float"
        engine = nisa.engine.unknown if exact else nisa.engine.gpsimd
        nisa.tensor_tensor(target, a, b, _operator(op), engine=engine)

    def _combine(self, emitter: Emitter, a: Tile, b: Tile) -> Tile:
        target = emitter.new(self._reduction.work_dtype)
        self._apply(target, a, b)
        return target

    def _with_initial(self, emitter: Emitter, value: Tile | None) -> Tile:
        reduction = self._reduction
        dtype = reduction.work_dtype
        if value is None:
            return emitter.copy(reduction.initial if reduction.initial is not None else 0, dtype)
        if reduction.initial is not None:
            return self._combine(emitter, value, emitter.filled(reduction.initial, dtype))
        port = reduction.initial_port
        if port is None:
            return value
        start = nl.ndarray((emitter.partitions, 1), dtype=dtype, buffer=nl.sbuf)
        tensor = self._tensors[port.view.buffer]
        nisa.dma_copy(start, window(tensor, port, 0, [[0, emitter.partitions], [1, 1]]))
        if emitter.elements > 1:
            start = start.broadcast(1, emitter.elements)
        return self._combine(emitter, value, start)

    def _narrowed(self, emitter: Emitter, value: Tile) -> Tile:
        dtype = self._reduction.target.dtype
        if value.dtype == dtype:
            return value
        if self._reduction.kind == "small":
            from neff.compiler.lowering.tiles.operations import narrow

            return narrow(emitter, value, dtype)
        return emitter.copy(value, dtype)


def _dims(view: View, first: int) -> list[Dim]:
    """Return the dimensions of a view from ``first`` on, merged."""
    inner = zip(view.shape[first:], view.strides[first:], strict=True)
    return merge([Dim(count, (step,)) for count, step in inner])


def _operator(op: str) -> Operator:
    return getattr(nl, REDUCERS[op])


def is_neutral(op: str, number: np.generic, kind: str) -> bool:
    """Return True for an initial value that changes no result."""
    if op in IDENTITIES:
        return bool(number == IDENTITIES[op])
    if kind == "pred":
        return bool(number) == (op in ("and", "minimum"))
    if op in ("maximum", "minimum"):
        if kind == "float":
            limit = -np.inf if op == "maximum" else np.inf
        else:
            info = np.iinfo(number.dtype.name)
            limit = info.min if op == "maximum" else info.max
        return bool(number == limit)
    return bool(op == "and" and np.invert(number) == 0)


def chunks(dims: list[Dim], limit: int) -> Iterator[tuple[int, list[Dim]]]:
    """Yield the reduced elements in chunks of at most ``limit``: (offset, dimensions)."""
    free, size = len(dims), 1
    while free and size * dims[free - 1].extent <= limit:
        free -= 1
        size *= dims[free].extent
    if free == 0:
        yield 0, dims
        return
    cut = dims[free - 1]
    chunk = max(1, limit // size)
    for indices in product(*(range(dim.extent) for dim in dims[: free - 1])):
        start = sum(index * dim.steps[0] for index, dim in zip(indices, dims, strict=False))
        for begin in range(0, cut.extent, chunk):
            chunk_dim = Dim(min(chunk, cut.extent - begin), cut.steps)
            yield start + begin * cut.steps[0], [chunk_dim, *dims[free:]]
