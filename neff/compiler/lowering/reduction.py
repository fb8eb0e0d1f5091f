"""Reductions: what is kept lies on partitions, what is reduced in the free dimension."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import Dim, View, merge
from neff.compiler.lowering.emitter import Emitter
from neff.compiler.lowering.task import Port, Task, window
from neff.compiler.lowering.tiling import Piece, affordable, tiles
from neff.compiler.lowering.wide import high_words
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = [
    "IDENTITIES",
    "MANY_ROWS",
    "NARROW",
    "REDUCERS",
    "Reduction",
    "changes_nothing",
    "chunks",
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
"""Operation that a reduce applies -> operator of the engines."""

IDENTITIES = {"add": 0, "multiply": 1, "or": 0, "xor": 0}
"""Initial values that change nothing; of maximum, minimum and ``and`` they depend on the type."""

_ELEMENTS = 4096
NARROW, MANY_ROWS = 128, 1 << 12
"""Rows with fewer columns, if they are so many, are summed up many at a time in each partition: one
in each partition would be little work for an instruction, and little for a transfer."""

_RUN = 128
"""Elements of a partition that are loaded from one place, where several results allow it."""

_LOADED = 1024
"""Elements of a partition that are loaded at once where several loads are needed anyway, and each is
followed by one instruction: then little is left to do behind the last."""

F32 = BY_NAME["float32"]
I32 = BY_NAME["int32"]


@dataclass(slots=True)
class Reduction:
    """One reduction.

    Attributes:
        source: the operand; its dimensions are the kept ones, then the reduced ones.
        target: the result, with the shape of the kept dimensions.
        kept: how many dimensions are kept.
        op: as HLO names it (``"add"``).
        kind: how the values are held (``float``, ``word``, ``small``, ``pred``).
        initial: a number that the result starts from, None when it changes nothing.
        initial_port: where that number is when it is not known while compiling.
        is_total: the kept elements of the source are added up too, by a product with ones on the
            tensor engine; the target is one element. Only sums of floats, of at most 128 kept.
        rest: elements that are added besides to a total, all of them reduced.
    """

    source: Port
    target: Port
    kept: int
    op: str
    kind: str
    initial: np.generic | None = None
    initial_port: Port | None = None
    is_total: bool = False
    rest: View | None = None

    @property
    def work_dtype(self) -> DType:
        """The type that partial results have."""
        if self.kind == "float":
            return F32
        if self.kind == "small" or (self.kind == "pred"):
            return I32
        return self.source.dtype


def reduction_task(name: str, reduction: Reduction) -> Task:
    """The kernel of a reduction."""
    reads = [reduction.source.view.buffer]
    if reduction.initial_port is not None:
        reads.append(reduction.initial_port.view.buffer)
    writes = [reduction.target.view.buffer]

    def body(tensors: dict[str, Any]) -> None:
        _Reducer(reduction, tensors).run()

    return Task(name, list(dict.fromkeys(reads)), writes, body)


class _Reducer:
    def __init__(self, reduction: Reduction, tensors: dict[str, Any]) -> None:
        self._reduction = reduction
        source, target = reduction.source.view, reduction.target.view
        self._source = tensors[source.buffer]
        self._target = tensors[target.buffer]
        self._tensors = tensors
        kept = reduction.kept
        steps = (0,) * kept if reduction.is_total else target.strides
        self._kept = merge(
            [
                Dim(extent, (step, other))
                for extent, step, other in zip(
                    source.shape[:kept], source.strides[:kept], steps, strict=True
                )
            ]
        )
        self._reduced = _dims(source, kept)
        self._constants: dict[Any, Any] = {}

    def run(self) -> None:
        total = prod(dim.extent for dim in self._reduced)
        affordable(prod(dim.extent for dim in self._kept) * total // (128 * _ELEMENTS))
        limit = max(1, _ELEMENTS // min(total, _ELEMENTS // 16), self._run())
        for piece in tiles(self._kept, limit, 2, least=1):
            self._piece(piece)

    def _run(self) -> int:
        """Kept elements that stand next to each other in memory, for each reduced one."""
        if not self._kept or not self._reduced:
            return 1
        extent, steps = self._kept[-1]
        nearest = min(abs(dim.steps[0]) for dim in self._reduced)
        return min(extent, _RUN) if abs(steps[0]) < nearest else 1

    def _piece(self, piece: Piece) -> None:
        reduction = self._reduction
        emitter = Emitter(piece.partition.extent, piece.elements, self._constants)
        found = self._reduction_of(piece, emitter, self._reduced)
        pattern = piece.pattern(1)
        if reduction.is_total:
            found = self._total(found)
            emitter, pattern = Emitter(1, 1, self._constants), [[1, 1], [1, 1]]
        found = self._with_initial(emitter, found)
        found = self._narrowed(emitter, found)
        port = reduction.target
        nisa.dma_copy(window(self._target, port, piece.offsets[1], pattern), found)
        if port.wide:
            high = high_words(emitter, found)
            nisa.dma_copy(window(self._target, port, piece.offsets[1], pattern, 1), high)

    def _reduction_of(self, piece: Piece, emitter: Emitter, reduced: list[Dim]) -> Any:
        """A tile (partitions, kept elements) of the reduced elements of each; None when there are none."""
        found = None
        total = prod(dim.extent for dim in reduced)
        is_long = total > _ELEMENTS and self._reduction.kind == "float"
        size = _LOADED if is_long else _ELEMENTS
        for offset, dims in chunks(reduced, max(1, size // piece.elements)):
            partial = self._partial(piece, emitter, offset, dims)
            found = partial if found is None else self._combine(emitter, found, partial)
        return found

    def _total(self, found: Any) -> Any:
        """The sum over the partitions of a tile of one column, and of the rest: (1, 1)."""
        ones = Emitter(128, 1, self._constants).filled(np.float32(1), F32)
        summed = nl.ndarray((1, 1), dtype=F32, buffer=nl.psum)
        nisa.nc_matmul(summed, found, ones[0 : found.shape[0]])
        rest = self._reduction.rest
        if rest is not None:
            start = rest.offset - self._reduction.source.view.offset
            one = Piece((start, 0), Dim(1, (0, 0)), (Dim(1, (0, 0)),))
            left = self._reduction_of(one, Emitter(1, 1, self._constants), _dims(rest, 0))
            nisa.nc_matmul(summed, left, ones[0:1], accumulate=True)
        return Emitter(1, 1, self._constants).copy(summed, F32)

    def _partial(self, piece: Piece, emitter: Emitter, offset: int, dims: list[Dim]) -> Any:
        """The reduction of one chunk: a tile (partitions, kept elements)."""
        rows, kept = piece.partition.extent, piece.elements
        count = prod(dim.extent for dim in dims)
        partition, *free = piece.pattern(0)
        reduced = [[dim.steps[0], dim.extent] for dim in dims]
        inner = min((abs(step) for step, _ in reduced), default=0)
        swap = kept > 1 and min(abs(step) for step, count in free if count > 1) < inner
        pattern = [partition, *reduced, *free] if swap else [partition, *free, *reduced]
        port = self._reduction.source
        shape = (rows, count, kept) if swap else (rows, kept, count)
        tile = nl.ndarray(shape, dtype=port.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, window(self._source, port, piece.offsets[0] + offset, pattern))
        if swap:
            tile = tile.permute((0, 2, 1))
        if self._reduction.kind == "float":
            made = emitter.new(F32)
            nisa.tensor_reduce(
                made.reshape((rows, kept, 1)), _operator(self._reduction.op), tile, axis=2,
                keepdims=True,
            )  # fmt: skip
            return made
        return self._halved(tile, rows, kept, count)

    def _halved(self, tile: Any, rows: int, kept: int, count: int) -> Any:
        """Exact integer reduction: the two halves are combined until one element is left."""
        dtype = self._reduction.work_dtype
        if tile.dtype != dtype:
            wide = nl.ndarray((rows, kept, count), dtype=dtype, buffer=nl.sbuf)
            nisa.tensor_copy(wide, tile)
            tile = wide
        while count > 1:
            half = count // 2
            rest = count - 2 * half
            made = nl.ndarray((rows, kept, half + rest), dtype=dtype, buffer=nl.sbuf)
            self._apply(made[:, :, 0:half], tile[:, :, 0:half], tile[:, :, half : 2 * half])
            if rest:
                nisa.tensor_copy(made[:, :, half : half + 1], tile[:, :, count - 1 : count])
            tile, count = made, half + rest
        return tile.reshape((rows, kept))

    def _apply(self, made: Any, a: Any, b: Any) -> None:
        op = self._reduction.op
        exact = op in ("and", "or", "xor") or self._reduction.kind == "float"
        engine = nisa.engine.unknown if exact else nisa.engine.gpsimd
        nisa.tensor_tensor(made, a, b, _operator(op), engine=engine)

    def _combine(self, emitter: Emitter, a: Any, b: Any) -> Any:
        made = emitter.new(self._reduction.work_dtype)
        self._apply(made, a, b)
        return made

    def _with_initial(self, emitter: Emitter, found: Any) -> Any:
        reduction = self._reduction
        dtype = reduction.work_dtype
        if found is None:
            return emitter.copy(reduction.initial if reduction.initial is not None else 0, dtype)
        if reduction.initial is not None:
            return self._combine(emitter, found, emitter.filled(reduction.initial, dtype))
        port = reduction.initial_port
        if port is None:
            return found
        start = nl.ndarray((emitter.partitions, 1), dtype=dtype, buffer=nl.sbuf)
        tensor = self._tensors[port.view.buffer]
        nisa.dma_copy(start, window(tensor, port, 0, [[0, emitter.partitions], [1, 1]]))
        if emitter.elements > 1:
            start = start.broadcast(1, emitter.elements)
        return self._combine(emitter, found, start)

    def _narrowed(self, emitter: Emitter, found: Any) -> Any:
        dtype = self._reduction.target.dtype
        if found.dtype == dtype:
            return found
        if self._reduction.kind == "small":
            from neff.compiler.lowering.operations import narrow

            return narrow(emitter, found, dtype)
        return emitter.copy(found, dtype)


def _dims(view: View, first: int) -> list[Dim]:
    """The dimensions of a view from ``first`` on, as few as can be."""
    inner = zip(view.shape[first:], view.strides[first:], strict=True)
    return merge([Dim(count, (step,)) for count, step in inner])


def _operator(op: str) -> Any:
    return getattr(nl, REDUCERS[op])


def changes_nothing(op: str, number: np.generic, kind: str) -> bool:
    """True for an initial value that leaves every result as it is."""
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
    """The reduced elements in pieces of at most ``limit``: (offset, dimensions)."""
    free, size = len(dims), 1
    while free and size * dims[free - 1].extent <= limit:
        free -= 1
        size *= dims[free].extent
    if free == 0:
        yield 0, dims
        return
    cut = dims[free - 1]
    chunk = max(1, limit // size)
    for where in product(*(range(dim.extent) for dim in dims[: free - 1])):
        start = sum(index * dim.steps[0] for index, dim in zip(where, dims, strict=False))
        for begin in range(0, cut.extent, chunk):
            part = Dim(min(chunk, cut.extent - begin), cut.steps)
            yield start + begin * cut.steps[0], [part, *dims[free:]]
