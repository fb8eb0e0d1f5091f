"""Products of a few rows of each batch index with a long matrix, as the scores of a decoding step.

Each index has at most 32 rows, so that four indices share the partitions of PSUM: index ``i`` of four
writes partitions ``32 i`` to ``32 i + 31``, and one copy brings the products of all four to SBUF. The
right operand comes with its contraction on partitions, each element once.
"""

from __future__ import annotations

from itertools import product as indices
from math import prod

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.products.product import Product
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.operands import Matrix, blocks
from neff.compiler.lowering.tiles.task import Port, Task, core_share, window

__all__ = ["few_row_products_task", "has_few_rows"]

_SLOT_ROWS = 32
"""Partitions of an index: products start at multiples of it."""

_SLOTS = 4
"""Indices that share the partitions."""

_MAX_DEPTH = 128
_MIN_COLUMNS = 512
_MIN_INDICES = 8
_SPAN_COLUMNS = 2048
"""Columns of the right operand that are in SBUF at a time."""

_CHUNK_COLUMNS = 1024
_BANK_COLUMNS = 512


def has_few_rows(spec: Product) -> bool:
    """Return True if the kernel covers a product: floats, with the contraction innermost in memory
    on the right.
    """
    *batch, rows, depth = spec.lhs.view.shape
    right = spec.rhs.view
    return (
        spec.kind == "float"
        and rows <= _SLOT_ROWS
        and depth <= _MAX_DEPTH
        and right.shape[-1] >= _MIN_COLUMNS
        and right.strides[-2] == 1
        and spec.rhs.dtype == spec.dtype
        and prod(batch) >= _MIN_INDICES
    )


def few_row_products_task(spec: Product) -> Task:
    """Return the kernel of a product that :func:`has_few_rows` takes."""
    reads = list(dict.fromkeys(port.view.buffer for port in (spec.lhs, spec.rhs)))

    def body(tensors: dict[str, Tile]) -> None:
        items = list(indices(*map(range, spec.lhs.view.shape[:-2])))
        groups = [items[first : first + _SLOTS] for first in range(0, len(items), _SLOTS)]
        for group in core_share(groups):
            _Group(spec, tensors, group).run()

    return Task("few_row_products", reads, [spec.out.view.buffer], body, divides=True)


def _offset(port: Port, index: tuple[int, ...]) -> int:
    return sum(position * step for position, step in zip(index, port.view.strides, strict=False))


class _Group:
    """The products of up to four indices."""

    def __init__(
        self, spec: Product, tensors: dict[str, Tile], group: list[tuple[int, ...]]
    ) -> None:
        self._spec, self._tensors, self._indices = spec, tensors, group
        self._rows, self._depth = spec.lhs.view.shape[-2:]

    def run(self) -> None:
        """Multiply span by span of the columns."""
        lefts = [self._left(index) for index in self._indices]
        columns = self._spec.rhs.view.shape[-1]
        for first in range(0, columns, _SPAN_COLUMNS):
            span = range(first, min(first + _SPAN_COLUMNS, columns))
            rights = [self._matrix(self._spec.rhs, index, span, True) for index in self._indices]
            self._store(span, self._products(lefts, rights, len(span)))

    def _matrix(self, port: Port, index: tuple[int, ...], span: range, is_right: bool) -> Tile:
        """Return the depth by a range of an operand's other dimension."""
        down, along = port.view.strides[-2:] if is_right else port.view.strides[:-3:-1]
        count = port.view.shape[-1 if is_right else -2]
        matrix = Matrix(
            port, self._depth, count, down, along, self._spec.dtype, self._spec.transposes
        )
        tensor = self._tensors[port.view.buffer]
        (tile,) = blocks(tensor, matrix, _offset(port, index), span.start, len(span))
        return tile

    def _left(self, index: tuple[int, ...]) -> Tile:
        """Return the rows of an index and zeros, (depth, 32): all partitions of a slot are written."""
        rows = self._matrix(self._spec.lhs, index, range(self._rows), False)
        if self._rows == _SLOT_ROWS:
            return rows
        padded = nl.ndarray((self._depth, _SLOT_ROWS), dtype=self._spec.dtype, buffer=nl.sbuf)
        nisa.memset(padded, 0)
        nisa.tensor_copy(padded[:, 0 : self._rows], rows)
        return padded

    def _products(self, lefts: list[Tile], rights: list[Tile], count: int) -> Tile:
        """Return the products of all indices with ``count`` columns, (slots, columns)."""
        partitions = _SLOT_ROWS * len(lefts)
        result = nl.ndarray((partitions, count), dtype=self._spec.out.dtype, buffer=nl.sbuf)
        for begin in range(0, count, _CHUNK_COLUMNS):
            stop = min(begin + _CHUNK_COLUMNS, count)
            total = nl.ndarray((partitions, stop - begin), dtype=nl.float32, buffer=nl.psum)
            for slot, (left, right) in enumerate(zip(lefts, rights, strict=True)):
                rows = slice(slot * _SLOT_ROWS, (slot + 1) * _SLOT_ROWS)
                for first in range(begin, stop, _BANK_COLUMNS):
                    last = min(first + _BANK_COLUMNS, stop)
                    nisa.nc_matmul(
                        total[rows, first - begin : last - begin], left, right[:, first:last]
                    )
            nisa.tensor_copy(result[:, begin:stop], total)
        return result

    def _store(self, span: range, result: Tile) -> None:
        out = self._spec.out
        down, along = out.view.strides[-2:]
        tensor = self._tensors[out.view.buffer]
        for slot, index in enumerate(self._indices):
            start = _offset(out, index) + span.start * along
            pattern = [[down, self._rows], [along, len(span)]]
            first = slot * _SLOT_ROWS
            nisa.dma_copy(window(tensor, out, start, pattern), result[first : first + self._rows])
