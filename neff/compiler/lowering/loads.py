"""Rows of operands for the tiles of a kernel: a transfer has those of several tiles where they are short.

A transfer takes an engine as long to start whatever it moves, so short ones keep that engine busy and
the DMA engines idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.emitter import Tile
from neff.compiler.lowering.reaches import Reach
from neff.compiler.lowering.task import window
from neff.compiler.lowering.tiling import Piece

__all__ = ["Loads"]

_TOGETHER = 2048
"""Bytes of each partition that one transfer for several tiles brings at most."""

_KEPT = 8192
"""Bytes of each partition of an operand that is kept for all tiles, as a mask is that all heads read."""

_DIMENSIONS = 5
"""Of a DMA (arch guide trainium_inferentia2, access patterns)."""


class Loads:
    """The operands' rows that are in SBUF.

    Args:
        tensors: of the kernel, by buffer.
        reaches: operands, and the number of the view of the tiles that walks each.
        pieces: the tiles in order.
        together: rows of a partition in one tile.
        block: columns that are worked on at once, 0 for all.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tile],
        reaches: Sequence[tuple[int, Reach]],
        pieces: Sequence[Piece],
        together: int,
        block: int,
    ) -> None:
        self._tensors, self._block = tensors, block
        self._pieces = pieces if together == 1 else ()
        self._tiles: dict[int, dict[int, Tile]] = {}
        self._first: dict[int, dict[int, int]] = {}
        for number, _ in reaches:
            places = self._first[number] = {}
            for index, piece in enumerate(self._pieces):
                places.setdefault(piece.offsets[number], index)
        self.resident = sum(self._bytes(number, reach) for number, reach in reaches)

    def forget(self) -> None:
        """Other columns come next."""
        self._tiles.clear()

    def _bytes(self, number: int, reach: Reach) -> int:
        """Bytes of a partition that an operand takes beside those of a tile."""
        size = min(reach.count, self._block or reach.count) * reach.port.dtype.itemsize
        if self._is_kept(number, size):
            return size * len(self._first[number])
        return 2 * _TOGETHER if self._pieces and 2 * size <= _TOGETHER else 0

    def _is_kept(self, number: int, size: int) -> bool:
        places = self._first[number]
        return len(places) < len(self._pieces) and size * len(places) <= _KEPT

    def tile(self, number: int, reach: Reach, piece: Piece, cut: tuple[int, int]) -> Tile:
        """A tile (partitions, elements) with an operand's rows.

        Args:
            number: of the view that walks the operand.
            reach: the operand.
            piece: the tile.
            cut: first and number of the columns that are worked on.
        """
        known = self._tiles.setdefault(number, {})
        offset, partitions = piece.offsets[number], piece.partition.extent
        found = known.get(offset)
        if found is not None and found.shape[0] >= partitions:  # the last tile may have fewer
            return found if found.shape[0] == partitions else found[0:partitions]
        begin, columns = reach.part(*cut)
        size = prod(count for _, count in columns) * reach.port.dtype.itemsize
        some = self._run(number, piece, size, len(columns))
        if some == 1:
            found = self._alone(number, reach, piece, begin, columns)
        if not self._is_kept(number, size):
            known.clear()
        if found is None:
            found = self._several(number, reach, piece, begin, columns, some)
        elif self._is_kept(number, size):
            known[offset] = found
        return found

    def _run(self, number: int, piece: Piece, size: int, dimensions: int) -> int:
        """Tiles from one on whose rows come by one transfer: as many partitions, evenly spaced."""
        first = self._first[number].get(piece.offsets[number])
        if first is None or dimensions + 2 > _DIMENSIONS:
            return 1
        pieces = self._pieces[first : first + max(1, _TOGETHER // size)]
        if len(pieces) < 2:
            return 1
        step = pieces[1].offsets[number] - pieces[0].offsets[number]
        some = 1
        for before, one in pairwise(pieces):
            even = one.offsets[number] - before.offsets[number] == step != 0
            if not even or one.partition.extent != piece.partition.extent:
                break
            some += 1
        return some

    def _alone(
        self, number: int, reach: Reach, piece: Piece, begin: int, columns: list[list[int]]
    ) -> Tile:
        pattern = piece.pattern(number)
        pattern = [*(pattern[:1] if piece.elements == 1 and columns else pattern), *columns]
        tensor = self._tensors[reach.port.view.buffer]
        source = window(tensor, reach.port, piece.offsets[number] + begin, pattern)
        shape = (piece.partition.extent, prod(source.shape[1:]))
        tile = nl.ndarray(shape, dtype=reach.port.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, source)
        return tile

    def _several(
        self, number: int, reach: Reach, piece: Piece, begin: int, columns: list[list[int]],
        some: int,
    ) -> Tile:  # fmt: skip
        first = self._first[number][piece.offsets[number]]
        offsets = [one.offsets[number] for one in self._pieces[first : first + some]]
        pattern = [piece.pattern(number)[0], [offsets[1] - offsets[0], some], *columns]
        tensor = self._tensors[reach.port.view.buffer]
        source = window(tensor, reach.port, piece.offsets[number] + begin, pattern)
        shape = (piece.partition.extent, some, prod(source.shape[2:]))
        tile = nl.ndarray(shape, dtype=reach.port.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, source)
        known = self._tiles[number]
        known.update({offset: tile[:, place] for place, offset in enumerate(offsets)})
        return known[offsets[0]]
