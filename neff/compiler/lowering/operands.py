"""Operands of matrix products in SBUF: the contraction on partitions, 128 at a time.

An operand that has its contraction along its rows in memory is transposed on its way: by the DMA
engines when its elements have two bytes, else by the tensor engine, which does it bit for bit (arch
guide trainium2, 194-204), and on trn1, where it does not, by the vector engine. Any other is loaded as
it lies.
"""

from __future__ import annotations

from dataclasses import dataclass

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.emitter import Tile
from neff.compiler.lowering.task import Port, window
from nki_lang.base.dtypes import DType

__all__ = ["PSUM_COLUMNS", "Matrix", "blocks", "turned", "turned_into"]

PSUM_COLUMNS = 1024
"""Columns of a product that are worked on at once: two banks of PSUM."""

_ROWS = 128

_AT_ONCE = 1 << 20
"""Bytes of one transfer at most, so that the first products need not wait for all of an operand."""

_SQUARE = 32
"""Rows and columns that the vector engine transposes at once."""

_BANK = 2048
"""Bytes of a PSUM bank in each partition."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix in HBM: ``depth`` (the contraction) by ``count``, with a stride for each.

    Attributes:
        port: the buffer.
        depth, count: extents.
        down, along: steps of the contraction and of the other dimension, in elements.
        dtype: type of the tiles.
        exact: the tensor engine transposes bit for bit (not on trn1).
    """

    port: Port
    depth: int
    count: int
    down: int
    along: int
    dtype: DType
    exact: bool = True

    @property
    def lies_across(self) -> bool:
        """True when the contraction lies along the rows in memory."""
        return self.down == 1 and self.along != 1 and self.count > 1 and self.depth > 1


def blocks(tensor: Tile, matrix: Matrix, start: int, begin: int, count: int) -> list[Tile]:
    """Tiles (at most 128, count) of columns ``begin`` and following, one for each 128 of the depth.

    Args:
        tensor: the buffer.
        matrix: what is loaded.
        start: element at which the matrix begins, relative to the view's own offset.
        begin, count: which of the other dimension.
    """
    start += begin * matrix.along
    if not matrix.lies_across:
        return _lying(tensor, matrix, start, count)
    if matrix.dtype.itemsize == 2 and matrix.port.dtype == matrix.dtype:
        return _transposed(tensor, matrix, start, count)
    parts: list[list[Tile]] = []
    for first in range(0, count, _ROWS):
        rows = min(_ROWS, count - first)
        lying = nl.ndarray((rows, matrix.depth), dtype=matrix.dtype, buffer=nl.sbuf)
        pattern = [[matrix.along, rows], [1, matrix.depth]]
        at = start + first * matrix.along
        nisa.dma_copy(lying, window(tensor, matrix.port, at, pattern))
        parts.append(turned(lying, matrix.dtype, exact=matrix.exact))
    return parts[0] if len(parts) == 1 else _beside(parts, count)


def _beside(parts: list[list[Tile]], count: int) -> list[Tile]:
    joined: list[Tile] = []
    for pieces in zip(*parts, strict=True):
        tile = nl.ndarray((pieces[0].shape[0], count), dtype=pieces[0].dtype, buffer=nl.sbuf)
        for number, piece in enumerate(pieces):
            first = number * _ROWS
            nisa.tensor_copy(tile[:, first : first + piece.shape[1]], piece)
        joined.append(tile)
    return joined


def _lying(tensor: Tile, matrix: Matrix, start: int, count: int) -> list[Tile]:
    whole, rest = divmod(matrix.depth, _ROWS)
    tiles: list[Tile] = []
    together = max(1, _AT_ONCE // (_ROWS * count * matrix.dtype.itemsize))
    for first in range(0, whole, together):
        some = min(together, whole - first)
        block = nl.ndarray((_ROWS, some, count), dtype=matrix.dtype, buffer=nl.sbuf)
        pattern = [[matrix.down, _ROWS], [matrix.down * _ROWS, some], [matrix.along, count]]
        at = start + first * _ROWS * matrix.down
        nisa.dma_copy(block, window(tensor, matrix.port, at, pattern))
        tiles += [block[:, number] for number in range(some)]
    if rest:
        tile = nl.ndarray((rest, count), dtype=matrix.dtype, buffer=nl.sbuf)
        pattern = [[matrix.down, rest], [matrix.along, count]]
        at = start + whole * _ROWS * matrix.down
        nisa.dma_copy(tile, window(tensor, matrix.port, at, pattern))
        tiles.append(tile)
    return tiles


def _transposed(tensor: Tile, matrix: Matrix, start: int, count: int) -> list[Tile]:
    whole, rest = divmod(matrix.depth, _ROWS)
    tiles: list[Tile] = []
    if whole:
        block = nl.ndarray((_ROWS, whole, count), dtype=matrix.dtype, buffer=nl.sbuf)
        pattern = [[matrix.along, count], [_ROWS, whole], [1, _ROWS]]
        nisa.dma_transpose(block, window(tensor, matrix.port, start, pattern))
        tiles = [block[:, number] for number in range(whole)]
    if rest:
        tile = nl.ndarray((rest, count), dtype=matrix.dtype, buffer=nl.sbuf)
        pattern = [[matrix.along, count], [1, rest]]
        at = start + whole * _ROWS
        nisa.dma_transpose(tile, window(tensor, matrix.port, at, pattern))
        tiles.append(tile)
    return tiles


def turned(lying: Tile, dtype: DType, *, exact: bool = True) -> list[Tile]:
    """Tiles (at most 128, rows) of a tile (rows, depth), by the tensor engine; where that is not
    ``exact``, by the vector engine.

    Several blocks share a PSUM bank, so that few copies bring them back to SBUF. Long ones of two
    bytes are left to the DMA engines, which are idle where a product follows in SBUF.
    """
    rows, depth = lying.shape
    least = 2 * _ROWS if exact else _SQUARE
    if lying.dtype.itemsize == 2 and lying.dtype == dtype and depth >= least:
        return _turned_by_dma(lying, dtype)
    if not exact:
        return _turned_by_squares(lying, dtype)
    together = max(1, _BANK // (rows * lying.dtype.itemsize))
    whole, rest = divmod(depth, _ROWS)
    sizes = [min(together, whole - first) for first in range(0, whole, together)]
    tiles: list[Tile] = []
    at = 0
    for some in sizes:
        bank = nl.ndarray((_ROWS, some, rows), dtype=lying.dtype, buffer=nl.psum)
        for number in range(some):
            part = lying[:, at : at + _ROWS]
            nisa.nc_transpose(bank[:, number], part, engine=nisa.engine.tensor)
            at += _ROWS
        block = nl.ndarray((_ROWS, some, rows), dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(block, bank)
        tiles += [block[:, number] for number in range(some)]
    if rest:
        bank = nl.ndarray((rest, rows), dtype=lying.dtype, buffer=nl.psum)
        nisa.nc_transpose(bank, lying[:, at : at + rest], engine=nisa.engine.tensor)
        tile = nl.ndarray((rest, rows), dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(tile, bank)
        tiles.append(tile)
    return tiles


def _turned_by_squares(lying: Tile, dtype: DType) -> list[Tile]:
    rows, depth = lying.shape
    if lying.dtype != dtype:
        copied = nl.ndarray(lying.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(copied, lying)
        lying = copied
    tiles: list[Tile] = []
    for first in range(0, depth, _ROWS):
        tile = nl.ndarray((min(_ROWS, depth - first), rows), dtype=dtype, buffer=nl.sbuf)
        turned_into(tile, lying[:, first : first + tile.shape[0]], exact=False)
        tiles.append(tile)
    return tiles


def _turned_by_dma(lying: Tile, dtype: DType) -> list[Tile]:
    rows, depth = lying.shape
    whole, rest = divmod(depth, _ROWS)
    tiles: list[Tile] = []
    if whole:
        block = nl.ndarray((_ROWS, whole, rows), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_transpose(block, lying[:, 0 : whole * _ROWS].reshape((rows, whole, _ROWS)))
        tiles = [block[:, number] for number in range(whole)]
    if rest:
        tile = nl.ndarray((rest, rows), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_transpose(tile, lying[:, whole * _ROWS : depth])
        tiles.append(tile)
    return tiles


def turned_into(made: Tile, lying: Tile, *, exact: bool) -> None:
    """The transpose of a tile of at most 128 x 128, bit for bit.

    Args:
        made: (columns, rows); in PSUM when the tensor engine makes it.
        lying: (rows, columns), in SBUF.
        exact: the tensor engine transposes bit for bit; else the vector engine does, square by
            square.
    """
    if exact:
        nisa.nc_transpose(made, lying, engine=nisa.engine.tensor)
        return
    rows, columns = lying.shape
    for top in range(0, rows, _SQUARE):
        for left in range(0, columns, _SQUARE):
            down, along = (
                slice(top, min(top + _SQUARE, rows)),
                slice(left, min(left + _SQUARE, columns)),
            )
            nisa.nc_transpose(made[along, down], lying[down, along], engine=nisa.engine.vector)
