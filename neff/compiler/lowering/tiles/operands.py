"""Loads operands of matrix products to SBUF: the contraction on partitions, 128 at a time.

An operand whose contraction is innermost in memory is transposed while it is loaded: by the DMA
engines if its elements have two bytes, else by the tensor engine, which does it bit for bit (arch
guide trainium2, 194-204), and on trn1, where it does not, by the vector engine. Any other operand is
loaded in memory order.
"""

from __future__ import annotations

from dataclasses import dataclass

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.task import Port, window
from nki_lang.base.dtypes import DType

__all__ = ["PSUM_COLUMNS", "Matrix", "blocks", "transpose_into", "transposed_blocks"]

PSUM_COLUMNS = 1024
"""Columns of a product that are computed at a time: two banks of PSUM."""

_BLOCK_ROWS = 128

_MAX_TRANSFER_BYTES = 1 << 20
"""Limit on the bytes of a transfer, so that the first products need not wait for all of an
operand.
"""

_SQUARE_ROWS = 32
"""Rows and columns that the vector engine transposes at a time."""

_BANK_BYTES = 2048
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
        """Return True if the contraction is innermost in memory."""
        return self.down == 1 and self.along != 1 and self.count > 1 and self.depth > 1


def blocks(tensor: Tile, matrix: Matrix, start: int, begin: int, count: int) -> list[Tile]:
    """Load tiles (at most 128, count) of columns from ``begin``, one for each 128 of the depth.

    Args:
        tensor: the buffer.
        matrix: the matrix.
        start: element at which the matrix begins, relative to the view's offset.
        begin, count: range of the other dimension.
    """
    start += begin * matrix.along
    if not matrix.lies_across:
        return _in_memory_order(tensor, matrix, start, count)
    if matrix.dtype.itemsize == 2 and matrix.port.dtype == matrix.dtype:
        return _transposed(tensor, matrix, start, count)
    parts: list[list[Tile]] = []
    for first in range(0, count, _BLOCK_ROWS):
        rows = min(_BLOCK_ROWS, count - first)
        staging = nl.ndarray((rows, matrix.depth), dtype=matrix.dtype, buffer=nl.sbuf)
        pattern = [[matrix.along, rows], [1, matrix.depth]]
        offset = start + first * matrix.along
        nisa.dma_copy(staging, window(tensor, matrix.port, offset, pattern))
        parts.append(transposed_blocks(staging, matrix.dtype, exact=matrix.exact))
    return parts[0] if len(parts) == 1 else _joined(parts, count)


def _joined(parts: list[list[Tile]], count: int) -> list[Tile]:
    joined: list[Tile] = []
    for pieces in zip(*parts, strict=True):
        tile = nl.ndarray((pieces[0].shape[0], count), dtype=pieces[0].dtype, buffer=nl.sbuf)
        for number, piece in enumerate(pieces):
            first = number * _BLOCK_ROWS
            nisa.tensor_copy(tile[:, first : first + piece.shape[1]], piece)
        joined.append(tile)
    return joined


def _in_memory_order(tensor: Tile, matrix: Matrix, start: int, count: int) -> list[Tile]:
    full_blocks, remainder = divmod(matrix.depth, _BLOCK_ROWS)
    tiles: list[Tile] = []
    blocks_at_once = max(1, _MAX_TRANSFER_BYTES // (_BLOCK_ROWS * count * matrix.dtype.itemsize))
    for first in range(0, full_blocks, blocks_at_once):
        block_count = min(blocks_at_once, full_blocks - first)
        block = nl.ndarray((_BLOCK_ROWS, block_count, count), dtype=matrix.dtype, buffer=nl.sbuf)
        pattern = [
            [matrix.down, _BLOCK_ROWS],
            [matrix.down * _BLOCK_ROWS, block_count],
            [matrix.along, count],
        ]
        offset = start + first * _BLOCK_ROWS * matrix.down
        nisa.dma_copy(block, window(tensor, matrix.port, offset, pattern))
        tiles += [block[:, number] for number in range(block_count)]
    if remainder:
        tile = nl.ndarray((remainder, count), dtype=matrix.dtype, buffer=nl.sbuf)
        pattern = [[matrix.down, remainder], [matrix.along, count]]
        offset = start + full_blocks * _BLOCK_ROWS * matrix.down
        nisa.dma_copy(tile, window(tensor, matrix.port, offset, pattern))
        tiles.append(tile)
    return tiles


def _transposed(tensor: Tile, matrix: Matrix, start: int, count: int) -> list[Tile]:
    full_blocks, remainder = divmod(matrix.depth, _BLOCK_ROWS)
    tiles: list[Tile] = []
    if full_blocks:
        block = nl.ndarray((_BLOCK_ROWS, full_blocks, count), dtype=matrix.dtype, buffer=nl.sbuf)
        pattern = [[matrix.along, count], [_BLOCK_ROWS, full_blocks], [1, _BLOCK_ROWS]]
        nisa.dma_transpose(block, window(tensor, matrix.port, start, pattern))
        tiles = [block[:, number] for number in range(full_blocks)]
    if remainder:
        tile = nl.ndarray((remainder, count), dtype=matrix.dtype, buffer=nl.sbuf)
        pattern = [[matrix.along, count], [1, remainder]]
        offset = start + full_blocks * _BLOCK_ROWS
        nisa.dma_transpose(tile, window(tensor, matrix.port, offset, pattern))
        tiles.append(tile)
    return tiles


def transposed_blocks(source: Tile, dtype: DType, *, exact: bool = True) -> list[Tile]:
    """Return tiles (at most 128, rows) of a tile (rows, depth), transposed on chip.

    The tensor engine transposes if it is ``exact``, else the vector engine. Several blocks share a PSUM
    bank, so that few copies bring them back to SBUF. Long tiles of two bytes are left to the DMA
    engines, which are idle where a product follows in SBUF.
    """
    rows, depth = source.shape
    min_dma_depth = 2 * _BLOCK_ROWS if exact else _SQUARE_ROWS
    if source.dtype.itemsize == 2 and source.dtype == dtype and depth >= min_dma_depth:
        return _transposed_by_dma(source, dtype)
    if not exact:
        return _transposed_by_squares(source, dtype)
    blocks_per_bank = max(1, _BANK_BYTES // (rows * source.dtype.itemsize))
    full_blocks, remainder = divmod(depth, _BLOCK_ROWS)
    sizes = [
        min(blocks_per_bank, full_blocks - first)
        for first in range(0, full_blocks, blocks_per_bank)
    ]
    tiles: list[Tile] = []
    column = 0
    for block_count in sizes:
        bank = nl.ndarray((_BLOCK_ROWS, block_count, rows), dtype=source.dtype, buffer=nl.psum)
        for number in range(block_count):
            block_source = source[:, column : column + _BLOCK_ROWS]
            nisa.nc_transpose(bank[:, number], block_source, engine=nisa.engine.tensor)
            column += _BLOCK_ROWS
        block = nl.ndarray((_BLOCK_ROWS, block_count, rows), dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(block, bank)
        tiles += [block[:, number] for number in range(block_count)]
    if remainder:
        bank = nl.ndarray((remainder, rows), dtype=source.dtype, buffer=nl.psum)
        nisa.nc_transpose(bank, source[:, column : column + remainder], engine=nisa.engine.tensor)
        tile = nl.ndarray((remainder, rows), dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(tile, bank)
        tiles.append(tile)
    return tiles


def _transposed_by_squares(source: Tile, dtype: DType) -> list[Tile]:
    rows, depth = source.shape
    if source.dtype != dtype:
        copied = nl.ndarray(source.shape, dtype=dtype, buffer=nl.sbuf)
        nisa.tensor_copy(copied, source)
        source = copied
    tiles: list[Tile] = []
    for first in range(0, depth, _BLOCK_ROWS):
        tile = nl.ndarray((min(_BLOCK_ROWS, depth - first), rows), dtype=dtype, buffer=nl.sbuf)
        transpose_into(tile, source[:, first : first + tile.shape[0]], exact=False)
        tiles.append(tile)
    return tiles


def _transposed_by_dma(source: Tile, dtype: DType) -> list[Tile]:
    rows, depth = source.shape
    full_blocks, remainder = divmod(depth, _BLOCK_ROWS)
    tiles: list[Tile] = []
    if full_blocks:
        block = nl.ndarray((_BLOCK_ROWS, full_blocks, rows), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_transpose(
            block,
            source[:, 0 : full_blocks * _BLOCK_ROWS].reshape((rows, full_blocks, _BLOCK_ROWS)),
        )
        tiles = [block[:, number] for number in range(full_blocks)]
    if remainder:
        tile = nl.ndarray((remainder, rows), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_transpose(tile, source[:, full_blocks * _BLOCK_ROWS : depth])
        tiles.append(tile)
    return tiles


def transpose_into(target: Tile, source: Tile, *, exact: bool) -> None:
    """Transpose a tile of at most 128 x 128, bit for bit.

    Args:
        target: (columns, rows); in PSUM if the tensor engine transposes.
        source: (rows, columns), in SBUF.
        exact: the tensor engine transposes bit for bit; else the vector engine does, square by
            square.
    """
    if exact:
        nisa.nc_transpose(target, source, engine=nisa.engine.tensor)
        return
    rows, columns = source.shape
    for top in range(0, rows, _SQUARE_ROWS):
        for left in range(0, columns, _SQUARE_ROWS):
            down, along = (
                slice(top, min(top + _SQUARE_ROWS, rows)),
                slice(left, min(left + _SQUARE_ROWS, columns)),
            )
            nisa.nc_transpose(target[along, down], source[down, along], engine=nisa.engine.vector)
