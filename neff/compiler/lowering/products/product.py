"""Matrix products on the tensor engine: tiles of 128 x 128 x 512, accumulated in PSUM.

The contraction is on partitions in both operands. An operand whose contraction is innermost in
memory is loaded in memory order and transposed by the tensor engine, where that is exact (trn2 and
later); on trn1 its transfer strides over the memory, element by element.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.tiles.emitter import Emitter, Tile
from neff.compiler.lowering.tiles.operands import Matrix, blocks
from neff.compiler.lowering.tiles.operations import as_type, narrow
from neff.compiler.lowering.tiles.task import Port, Task, core_share, window
from neff.compiler.lowering.tiles.tiling import affordable
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["Product", "product_task"]

_MAX_STATIONARY_EXTENT = 128
"""Contraction and stationary extents of one product are at most this (nl.tile_size)."""

_MAX_MOVING_EXTENT = 512
"""Moving extent of one product is at most this: a PSUM bank of float32."""

_MAX_MOVING_BYTES = 80 * 1024
"""Bytes of each partition that the moving operand's tiles may occupy at a time."""

_MAX_STATIONARY_BYTES = 40 * 1024
"""The same limit for the stationary operand; a longer contraction is not kept."""


_MAX_PANEL_BYTES = 48 * 1024
"""Bytes of each partition for a panel of the left operand of a longer contraction."""

_MAX_PANEL_TILES = 32
"""Tiles along the contraction of a panel: 4096 elements, so that products begin early."""

_MAX_SUMS_BYTES = 64 * 1024
"""Bytes of each partition for the sums of a longer contraction."""


@dataclass(slots=True)
class Product:
    """``out[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n]`` for every batch index b.

    Attributes:
        lhs, rhs: views of shape (batch..., M, K) and (batch..., K, N).
        out: view of shape (batch..., M, N).
        dtype: type of the operands' tiles.
        kind: representation of the result on chip, see :class:`neff.compiler.graph.types.Held`.
        transposes: the tensor engine transposes bit for bit (arch guide trainium2, 194-204).
        exact_depth: summands of an integer product whose sum float32 holds; 0 for floats.
    """

    lhs: Port
    rhs: Port
    out: Port
    dtype: DType
    kind: str
    transposes: bool = False
    exact_depth: int = 0

    @property
    def extents(self) -> tuple[int, int, int]:
        """Return M, K, N."""
        rows, depth = self.lhs.view.shape[-2:]
        return rows, depth, self.rhs.view.shape[-1]


def product_task(name: str, spec: Product) -> Task:
    """Return the kernel of a product."""
    reads = list(dict.fromkeys((spec.lhs.view.buffer, spec.rhs.view.buffer)))

    def body(tensors: dict[str, Tile]) -> None:
        batch = spec.out.view.shape[:-2]
        rows, depth, columns = (max(extent, 1) for extent in spec.extents)
        blocks = (
            -(-rows // _MAX_STATIONARY_EXTENT),
            -(-depth // _MAX_STATIONARY_EXTENT),
            -(-columns // _MAX_MOVING_EXTENT),
        )
        affordable(prod(batch) * prod(blocks))
        batch_indices = list(product(*(range(count) for count in batch)))
        for batch_index in core_share(batch_indices) if len(batch_indices) > 1 else batch_indices:
            _Multiplier(spec, tensors, batch_index, divides=len(batch_indices) == 1).run()

    return Task(name, reads, [spec.out.view.buffer], body, divides=True)


def _rounded(total: Tile, dtype: DType, kind: str) -> Tile:
    """Convert sums to the result's type: integers wrap around, a predicate is true if any term
    is.
    """
    rows, columns = total.shape
    e = Emitter(rows, columns, {})
    if kind == "float":
        return e.copy(total, dtype)
    if kind == "pred":
        return e.binary("greater", total, 0.0, dtype)
    word = total if total.dtype.kind == "int" else e.copy(total, BY_NAME["int32"])
    return narrow(e, word, dtype) if kind == "small" else as_type(word, dtype)


def _add_product(summed: Tile, lefts: list[Tile], rights: list[Tile], *, is_first: bool) -> None:
    """Add a product to sums in SBUF; the first product replaces them."""
    total = nl.ndarray(summed.shape, dtype=nl.float32, buffer=nl.psum)
    for number, (stationary, moving) in enumerate(zip(lefts, rights, strict=True)):
        nisa.nc_matmul(total, stationary, moving, accumulate=number > 0)
    if is_first:
        nisa.tensor_copy(summed, total)
        return
    if summed.dtype.kind == "int":
        word = nl.ndarray(summed.shape, dtype=summed.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(word, total)
        total = word
    nisa.tensor_tensor(summed, summed, total, op=nl.add)


class _Multiplier:
    """One matrix product of a batch; only this core's share of its rows if it ``divides``."""

    def __init__(
        self, spec: Product, tensors: dict[str, Tile], where: tuple[int, ...], *, divides: bool
    ) -> None:
        self._spec = spec
        self._tensors = tensors
        self._rows, self._depth, self._columns = spec.extents
        self._starts = {
            name: sum(index * step for index, step in zip(where, port.view.strides, strict=False))
            for name, port in (("lhs", spec.lhs), ("rhs", spec.rhs), ("out", spec.out))
        }
        tops = range(0, self._rows, _MAX_STATIONARY_EXTENT)
        self._tops = core_share(tops) if divides else tops

    def run(self) -> None:
        steps = -(-self._depth // _MAX_STATIONARY_EXTENT)
        size = self._spec.dtype.itemsize
        is_inexact = 0 < self._spec.exact_depth < self._depth
        if is_inexact or steps * _MAX_STATIONARY_EXTENT * size > _MAX_STATIONARY_BYTES:
            self._panels()
            return
        width = (
            max(_MAX_MOVING_BYTES // (steps * size) // _MAX_MOVING_EXTENT, 1) * _MAX_MOVING_EXTENT
        )
        for left in range(0, self._columns, width):
            columns = min(width, self._columns - left)
            moving = self._tiles("rhs", left, columns)
            for top in self._tops:
                rows = min(_MAX_STATIONARY_EXTENT, self._rows - top)
                stationary = self._tiles("lhs", top, rows)
                for begin in range(0, columns, _MAX_MOVING_EXTENT):
                    count = min(_MAX_MOVING_EXTENT, columns - begin)
                    parts = [
                        (a[:, 0:rows], b[:, begin : begin + count])
                        for a, b in zip(stationary, moving, strict=True)
                    ]
                    self._accumulate(parts, top, rows, left + begin, count)

    def _panels(self) -> None:
        """Multiply panels of a contraction that is too long to keep, and sum them up in SBUF.

        All rows of a panel of the left operand stay in SBUF while the right operand's panel passes
        once. Each bank of sums is added to a tile of float32, in as many columns as fit; sums of
        integers are exact in a panel, and are added to words.
        """
        dtype = BY_NAME["int32" if self._spec.exact_depth else "float32"]
        starts = [(top, min(_MAX_STATIONARY_EXTENT, self._rows - top)) for top in self._tops]
        if not starts:  # the other core has all of them
            return
        first, rows = starts[0][0], sum(count for _, count in starts)
        width = max(1, _MAX_SUMS_BYTES // (4 * len(starts) * _MAX_MOVING_EXTENT))
        panel_tiles = _MAX_PANEL_BYTES // (rows * self._spec.dtype.itemsize)
        depth = min(max(1, panel_tiles), _MAX_PANEL_TILES) * _MAX_STATIONARY_EXTENT
        depth = min(depth, self._spec.exact_depth or depth)
        for left in range(0, self._columns, width * _MAX_MOVING_EXTENT):
            columns = min(width * _MAX_MOVING_EXTENT, self._columns - left)
            sums = [
                nl.ndarray((count, columns), dtype=dtype, buffer=nl.sbuf) for _, count in starts
            ]
            for k in range(0, self._depth, depth):
                stationary = self._panel("lhs", k, depth, first, rows)
                for begin in range(0, columns, _MAX_MOVING_EXTENT):
                    count = min(_MAX_MOVING_EXTENT, columns - begin)
                    moving = self._panel("rhs", k, depth, left + begin, count)
                    for (top, height), total in zip(starts, sums, strict=True):
                        lefts = [tile[:, top - first : top - first + height] for tile in stationary]
                        summed = total[:, begin : begin + count]
                        _add_product(summed, lefts, moving, is_first=not k)
            for (top, height), total in zip(starts, sums, strict=True):
                self._store(total, top, height, left, columns)

    def _panel(self, name: str, k: int, depth: int, begin: int, count: int) -> list[Tile]:
        """Return the tiles of an operand for at most ``depth`` of the contraction, from ``k``."""
        port, down, along = self._steps(name)
        matrix = Matrix(
            port, min(depth, self._depth - k), count, down, along, self._spec.dtype,
            self._spec.transposes,
        )  # fmt: skip
        start = self._starts[name] + k * down
        return blocks(self._tensors[port.view.buffer], matrix, start, begin, count)

    def _accumulate(
        self, parts: list[tuple[Tile, Tile]], top: int, rows: int, left: int, columns: int
    ) -> None:
        total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
        for number, (stationary, moving) in enumerate(parts):
            nisa.nc_matmul(total, stationary, moving, accumulate=number > 0)
        self._store(total, top, rows, left, columns)

    def _store(self, total: Tile, top: int, rows: int, left: int, columns: int) -> None:
        out = self._spec.out
        result = _rounded(total, out.dtype, self._spec.kind)
        down, across = out.view.strides[-2:]
        start = self._starts["out"] + top * down + left * across
        pattern = [[down, rows], [across, columns]]
        nisa.dma_copy(window(self._tensors[out.view.buffer], out, start, pattern), result)

    def _steps(self, name: str) -> tuple[Port, int, int]:
        """Return the operand, its step along the contraction and along the other dimension."""
        if name == "lhs":
            along, depth = self._spec.lhs.view.strides[-2:]
            return self._spec.lhs, depth, along
        depth, along = self._spec.rhs.view.strides[-2:]
        return self._spec.rhs, depth, along

    def _tiles(self, name: str, begin: int, count: int) -> list[Tile]:
        """Return all tiles of an operand along the contraction; full tiles come in one transfer."""
        port, depth, along = self._steps(name)
        if self._spec.transposes and depth == 1 and along != 1 and count > 1:
            return self._transposed(name, begin, count)
        full_tiles = self._depth // _MAX_STATIONARY_EXTENT
        tiles: list[Tile] = []
        if full_tiles:
            block = nl.ndarray(
                (_MAX_STATIONARY_EXTENT, full_tiles, count), dtype=self._spec.dtype, buffer=nl.sbuf
            )
            start = self._starts[name] + begin * along
            pattern = [
                [depth, _MAX_STATIONARY_EXTENT],
                [depth * _MAX_STATIONARY_EXTENT, full_tiles],
                [along, count],
            ]
            nisa.dma_copy(block, window(self._tensors[port.view.buffer], port, start, pattern))
            tiles = [block[:, number] for number in range(full_tiles)]
        if self._depth % _MAX_STATIONARY_EXTENT:
            tiles.append(self._tile(name, full_tiles * _MAX_STATIONARY_EXTENT, begin, count))
        return tiles

    def _transposed(self, name: str, begin: int, count: int) -> list[Tile]:
        """Return the same tiles, loaded in memory order and transposed block by block."""
        port, _, along = self._steps(name)
        dtype = self._spec.dtype
        tiles = [
            nl.ndarray(
                (min(_MAX_STATIONARY_EXTENT, self._depth - k), count), dtype=dtype, buffer=nl.sbuf
            )
            for k in range(0, self._depth, _MAX_STATIONARY_EXTENT)
        ]
        for first in range(0, count, _MAX_STATIONARY_EXTENT):
            rows = min(_MAX_STATIONARY_EXTENT, count - first)
            staging = nl.ndarray((rows, self._depth), dtype=dtype, buffer=nl.sbuf)
            start = self._starts[name] + (begin + first) * along
            pattern = [[along, rows], [1, self._depth]]
            nisa.dma_copy(staging, window(self._tensors[port.view.buffer], port, start, pattern))
            for number, tile in enumerate(tiles):
                depth = tile.shape[0]
                transposed = nl.ndarray((depth, rows), dtype=dtype, buffer=nl.psum)
                block = staging[
                    :, number * _MAX_STATIONARY_EXTENT : number * _MAX_STATIONARY_EXTENT + depth
                ]
                nisa.nc_transpose(transposed, block, engine=nisa.engine.tensor)
                nisa.tensor_copy(tile[:, first : first + rows], transposed)
        return tiles

    def _tile(self, name: str, k: int, begin: int, count: int) -> Tile:
        port, depth, along = self._steps(name)
        rows = min(_MAX_STATIONARY_EXTENT, self._depth - k)
        tile = nl.ndarray((rows, count), dtype=self._spec.dtype, buffer=nl.sbuf)
        start = self._starts[name] + k * depth + begin * along
        pattern = [[depth, rows], [along, count]]
        nisa.dma_copy(tile, window(self._tensors[port.view.buffer], port, start, pattern))
        return tile
