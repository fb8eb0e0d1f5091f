"""Loads operand rows for the tiles of a kernel: one transfer loads several tiles if rows are short.

Starting a transfer costs an engine the same time for any size, so short transfers keep this engine
busy and the DMA engines idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.rows.reaches import Reach
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.task import window
from neff.compiler.lowering.tiles.tiling import Piece

__all__ = ["Loads"]

_MAX_TRANSFER_BYTES = 2048
"""Limit on the bytes of each partition that a transfer for several tiles loads."""

_MAX_KEPT_BYTES = 8192
"""Limit on the bytes of each partition of an operand kept for all tiles, as a mask for all
heads.
"""

_DMA_DIMENSIONS = 5
"""Dimensions of a DMA (arch guide trainium_inferentia2, access patterns)."""


class Loads:
    """The operands' rows that are in SBUF.

    Args:
        tensors: tensors of the kernel, by buffer.
        reaches: operands, each with the number of its view of the tiles.
        pieces: the tiles in order.
        together: rows of a partition in one tile.
        block: columns of a pass, 0 for all.
        repeatable: numbers of the views whose readers take a tile that repeats rows.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tile],
        reaches: Sequence[tuple[int, Reach]],
        pieces: Sequence[Piece],
        together: int,
        block: int,
        repeatable: frozenset[int] = frozenset(),
    ) -> None:
        self._tensors, self._block, self._repeatable = tensors, block, repeatable
        self._pieces = pieces if together == 1 else ()
        self._tiles: dict[int, dict[int, Tile]] = {}
        self._first: dict[int, dict[int, int]] = {}
        for number, _ in reaches:
            first_pieces = self._first[number] = {}
            for index, piece in enumerate(self._pieces):
                first_pieces.setdefault(piece.offsets[number], index)
        self.resident = sum(self._bytes(number, reach) for number, reach in reaches)

    def forget(self) -> None:
        """Drop all tiles: other columns come next."""
        self._tiles.clear()

    def _bytes(self, number: int, reach: Reach) -> int:
        """Return the bytes of a partition that an operand takes besides those of a tile."""
        size = min(reach.count, self._block or reach.count) * reach.port.dtype.itemsize
        if self._is_kept(number, size):
            return size * len(self._first[number])
        return 2 * _MAX_TRANSFER_BYTES if self._pieces and 2 * size <= _MAX_TRANSFER_BYTES else 0

    def _is_kept(self, number: int, size: int) -> bool:
        first_pieces = self._first[number]
        return len(first_pieces) < len(self._pieces) and size * len(first_pieces) <= _MAX_KEPT_BYTES

    def tile(self, number: int, reach: Reach, piece: Piece, cut: tuple[int, int]) -> Tile:
        """Return a tile (partitions, elements) with an operand's rows.

        Args:
            number: the number of the operand's view.
            reach: the operand.
            piece: the tile.
            cut: first and number of the columns of this pass.
        """
        loaded = self._tiles.setdefault(number, {})
        offset, partitions = piece.offsets[number], piece.partition.extent
        tile = loaded.get(offset)
        if tile is not None and tile.shape[0] >= partitions:  # the last tile may have fewer
            return tile if tile.shape[0] == partitions else tile[0:partitions]
        begin, columns = reach.column_range(*cut)
        size = prod(count for _, count in columns) * reach.port.dtype.itemsize
        tile_count = self._run(number, piece, size, len(columns))
        if tile_count == 1:
            tile = self._alone(number, reach, piece, begin, columns)
        if not self._is_kept(number, size):
            loaded.clear()
        if tile is None:
            tile = self._several(number, reach, piece, begin, columns, tile_count)
        elif self._is_kept(number, size):
            loaded[offset] = tile
        return tile

    def _run(self, number: int, piece: Piece, size: int, dimensions: int) -> int:
        """Return the number of consecutive tiles that one DMA can load: equal extents, evenly
        spaced.
        """
        first = self._first[number].get(piece.offsets[number])
        if first is None or dimensions + 2 > _DMA_DIMENSIONS:
            return 1
        pieces = self._pieces[first : first + max(1, _MAX_TRANSFER_BYTES // size)]
        if len(pieces) < 2:
            return 1
        step = pieces[1].offsets[number] - pieces[0].offsets[number]
        tile_count = 1
        for before, piece_after in pairwise(pieces):
            is_even = piece_after.offsets[number] - before.offsets[number] == step != 0
            if not is_even or piece_after.partition.extent != piece.partition.extent:
                break
            tile_count += 1
        return tile_count

    def _alone(
        self, number: int, reach: Reach, piece: Piece, begin: int, columns: list[list[int]]
    ) -> Tile:
        partition, *rows = piece.pattern(number)
        rows = [] if piece.elements == 1 and columns else rows
        # One element a row is repeated along its row later, for which the rows must be dense.
        can_repeat = number in self._repeatable and reach.count > 1
        repeats = can_repeat and any(not step for step, _ in rows)
        loaded_rows = [dim for dim in rows if dim[0]] if repeats else rows
        pattern = [partition, *loaded_rows, *columns]
        tensor = self._tensors[reach.port.view.buffer]
        source = window(tensor, reach.port, piece.offsets[number] + begin, pattern)
        shape = (piece.partition.extent, prod(source.shape[1:]))
        tile = nl.ndarray(shape, dtype=reach.port.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, source)
        return _repeated(tile, rows, reach.count) if repeats else tile

    def _several(
        self, number: int, reach: Reach, piece: Piece, begin: int, columns: list[list[int]],
        tile_count: int,
    ) -> Tile:  # fmt: skip
        first = self._first[number][piece.offsets[number]]
        offsets = [later.offsets[number] for later in self._pieces[first : first + tile_count]]
        pattern = [piece.pattern(number)[0], [offsets[1] - offsets[0], tile_count], *columns]
        tensor = self._tensors[reach.port.view.buffer]
        source = window(tensor, reach.port, piece.offsets[number] + begin, pattern)
        shape = (piece.partition.extent, tile_count, prod(source.shape[2:]))
        tile = nl.ndarray(shape, dtype=reach.port.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, source)
        loaded = self._tiles[number]
        loaded.update({offset: tile[:, index] for index, offset in enumerate(offsets)})
        return loaded[offsets[0]]


def _repeated(tile: Tile, rows: list[list[int]], columns: int) -> Tile:
    """Return a view of a tile that repeats its rows where ``rows`` has a step of 0."""
    extents = [count if step else 1 for step, count in rows]
    view = tile.reshape((tile.shape[0], *extents, columns))
    for dim, (step, count) in enumerate(rows, start=1):
        view = view if step else view.broadcast(dim, count)
    return view
