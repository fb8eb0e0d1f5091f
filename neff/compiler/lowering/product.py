"""Matrix products on the tensor engine: tiles of 128 x 128 x 512, accumulated in PSUM.

The contraction lies on partitions in both operands. An operand that has it along its rows in
memory is loaded as it lies and transposed by the tensor engine, where that is exact (trn2 and
later); on trn1 its transfer walks the memory across, element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.emitter import Emitter
from neff.compiler.lowering.operations import as_type, narrow
from neff.compiler.lowering.task import Port, Task, own_part, window
from neff.compiler.lowering.tiling import affordable
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["Product", "product_task"]

_ROWS = 128
"""Contraction and stationary extents of one product at most (nl.tile_size)."""

_COLUMNS = 512
"""Moving extent of one product at most: a PSUM bank of float32."""

_MOVING = 80 * 1024
"""Bytes of each partition that the moving operand's tiles may take at once."""

_STATIONARY = 40 * 1024
"""The same for the stationary operand; a contraction that is longer is not kept."""


@dataclass(slots=True)
class Product:
    """``out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]`` for every batch index b.

    Attributes:
        lhs, rhs: views of shape (batch..., M, K) and (batch..., K, N).
        out: view of shape (batch..., M, N).
        dtype: type of the operands' tiles.
        kind: how values of the result are held, see :class:`neff.compiler.graph.types.Held`.
        transposes: the tensor engine transposes bit for bit (arch guide trainium2, 194-204).
    """

    lhs: Port
    rhs: Port
    out: Port
    dtype: DType
    kind: str
    transposes: bool = False

    @property
    def extents(self) -> tuple[int, int, int]:
        """M, K, N."""
        rows, depth = self.lhs.view.shape[-2:]
        return rows, depth, self.rhs.view.shape[-1]


def product_task(name: str, spec: Product) -> Task:
    """The kernel of a product."""
    reads = list(dict.fromkeys((spec.lhs.view.buffer, spec.rhs.view.buffer)))

    def body(tensors: dict[str, Any]) -> None:
        batch = spec.out.view.shape[:-2]
        rows, depth, columns = (max(extent, 1) for extent in spec.extents)
        blocks = (-(-rows // _ROWS), -(-depth // _ROWS), -(-columns // _COLUMNS))
        affordable(prod(batch) * prod(blocks))
        every = list(product(*(range(count) for count in batch)))
        for where in own_part(every) if len(every) > 1 else every:
            _Multiplier(spec, tensors, where, divides=len(every) == 1).run()

    return Task(name, reads, [spec.out.view.buffer], body, divides=True)


def _rounded(total: Any, dtype: DType, kind: str) -> Any:
    """The sums in the result's type: integers wrap around, of truth values one is enough."""
    rows, columns = total.shape
    e = Emitter(rows, columns, {})
    if kind == "float":
        return e.copy(total, dtype)
    if kind == "pred":
        return e.binary("greater", total, 0.0, dtype)
    word = e.copy(total, BY_NAME["int32"])
    return narrow(e, word, dtype) if kind == "small" else as_type(word, dtype)


class _Multiplier:
    """One matrix product of a batch; a core's part of its rows when it ``divides``."""

    def __init__(
        self, spec: Product, tensors: dict[str, Any], where: tuple[int, ...], *, divides: bool
    ) -> None:
        self._spec = spec
        self._tensors = tensors
        self._rows, self._depth, self._columns = spec.extents
        self._starts = {
            name: sum(index * step for index, step in zip(where, port.view.strides, strict=False))
            for name, port in (("lhs", spec.lhs), ("rhs", spec.rhs), ("out", spec.out))
        }
        tops = range(0, self._rows, _ROWS)
        self._tops = own_part(tops) if divides else tops

    def run(self) -> None:
        steps = -(-self._depth // _ROWS)
        size = self._spec.dtype.itemsize
        if steps * _ROWS * size > _STATIONARY:
            self._stream()
            return
        width = max(_MOVING // (steps * size) // _COLUMNS, 1) * _COLUMNS
        for left in range(0, self._columns, width):
            columns = min(width, self._columns - left)
            moving = self._tiles("rhs", left, columns)
            for top in self._tops:
                rows = min(_ROWS, self._rows - top)
                stationary = self._tiles("lhs", top, rows)
                for begin in range(0, columns, _COLUMNS):
                    count = min(_COLUMNS, columns - begin)
                    parts = [
                        (a[:, 0:rows], b[:, begin : begin + count])
                        for a, b in zip(stationary, moving, strict=True)
                    ]
                    self._accumulate(parts, top, rows, left + begin, count)

    def _stream(self) -> None:
        """A contraction too long to keep: operands are loaded for each product."""
        for top in self._tops:
            rows = min(_ROWS, self._rows - top)
            for left in range(0, self._columns, _COLUMNS):
                count = min(_COLUMNS, self._columns - left)
                parts = (
                    (self._tile("lhs", k, top, rows), self._tile("rhs", k, left, count))
                    for k in range(0, self._depth, _ROWS)
                )
                self._accumulate(parts, top, rows, left, count)

    def _accumulate(self, parts: Any, top: int, rows: int, left: int, columns: int) -> None:
        total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
        for number, (stationary, moving) in enumerate(parts):
            nisa.nc_matmul(total, stationary, moving, accumulate=number > 0)
        out = self._spec.out
        result = _rounded(total, out.dtype, self._spec.kind)
        down, across = out.view.strides[-2:]
        start = self._starts["out"] + top * down + left * across
        pattern = [[down, rows], [across, columns]]
        nisa.dma_copy(window(self._tensors[out.view.buffer], out, start, pattern), result)

    def _steps(self, name: str) -> tuple[Port, int, int]:
        """The operand, its step along the contraction and along the other dimension."""
        if name == "lhs":
            along, depth = self._spec.lhs.view.strides[-2:]
            return self._spec.lhs, depth, along
        depth, along = self._spec.rhs.view.strides[-2:]
        return self._spec.rhs, depth, along

    def _tiles(self, name: str, begin: int, count: int) -> list[Any]:
        """All tiles of an operand along the contraction; whole ones come in one transfer."""
        port, depth, along = self._steps(name)
        if self._spec.transposes and depth == 1 and along != 1 and count > 1:
            return self._transposed(name, begin, count)
        whole = self._depth // _ROWS
        tiles: list[Any] = []
        if whole:
            block = nl.ndarray((_ROWS, whole, count), dtype=self._spec.dtype, buffer=nl.sbuf)
            start = self._starts[name] + begin * along
            pattern = [[depth, _ROWS], [depth * _ROWS, whole], [along, count]]
            nisa.dma_copy(block, window(self._tensors[port.view.buffer], port, start, pattern))
            tiles = [block[:, number] for number in range(whole)]
        if self._depth % _ROWS:
            tiles.append(self._tile(name, whole * _ROWS, begin, count))
        return tiles

    def _transposed(self, name: str, begin: int, count: int) -> list[Any]:
        """The same, loaded as it lies in memory and transposed block by block."""
        port, _, along = self._steps(name)
        dtype = self._spec.dtype
        tiles = [
            nl.ndarray((min(_ROWS, self._depth - k), count), dtype=dtype, buffer=nl.sbuf)
            for k in range(0, self._depth, _ROWS)
        ]
        for first in range(0, count, _ROWS):
            rows = min(_ROWS, count - first)
            lying = nl.ndarray((rows, self._depth), dtype=dtype, buffer=nl.sbuf)
            start = self._starts[name] + (begin + first) * along
            pattern = [[along, rows], [1, self._depth]]
            nisa.dma_copy(lying, window(self._tensors[port.view.buffer], port, start, pattern))
            for number, tile in enumerate(tiles):
                depth = tile.shape[0]
                turned = nl.ndarray((depth, rows), dtype=dtype, buffer=nl.psum)
                part = lying[:, number * _ROWS : number * _ROWS + depth]
                nisa.nc_transpose(turned, part, engine=nisa.engine.tensor)
                nisa.tensor_copy(tile[:, first : first + rows], turned)
        return tiles

    def _tile(self, name: str, k: int, begin: int, count: int) -> Any:
        port, depth, along = self._steps(name)
        rows = min(_ROWS, self._depth - k)
        tile = nl.ndarray((rows, count), dtype=self._spec.dtype, buffer=nl.sbuf)
        start = self._starts[name] + k * depth + begin * along
        pattern = [[depth, rows], [along, count]]
        nisa.dma_copy(tile, window(self._tensors[port.view.buffer], port, start, pattern))
        return tile
