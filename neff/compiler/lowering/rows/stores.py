"""Stores result rows of the tiles of a kernel: one transfer stores several tiles if rows are short.

Starting a transfer costs an engine the same time for any size, as for :mod:`.loads`. The tiles of a
transfer are collected side by side in SBUF.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.rows.reaches import Reach
from neff.compiler.lowering.rows.row_groups import DMA_DIMENSIONS
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.task import window
from neff.compiler.lowering.tiles.tiling import Piece

__all__ = ["Stores"]

_MAX_TRANSFER_BYTES = 2048
"""Limit on the bytes of each partition that a transfer of several tiles stores."""

_MIN_TILES = 4
"""Fewer tiles are stored alone: copying them together costs time, too."""


@dataclass(slots=True)
class _Collected:
    """Tiles of one transfer: (partitions, tiles, columns), and how many are not there yet."""

    tile: Tile
    missing: int


class Stores:
    """The rows of results on their way to HBM.

    Args:
        tensors: tensors of the kernel, by buffer.
        reaches: results by ``id`` of the node, each with the number of its view of the tiles.
        pieces: the tiles in order, with one row in each partition.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tile],
        reaches: Mapping[int, tuple[int, Reach]],
        pieces: Sequence[Piece],
    ) -> None:
        self._tensors, self._pieces = tensors, pieces
        self._positions: dict[int, dict[int, tuple[int, int]]] = {}
        self._numbers: dict[int, int] = {}
        self._collected: dict[tuple[int, int], _Collected] = {}
        self.resident = 0
        for key, (number, reach) in reaches.items():
            max_tiles = _MAX_TRANSFER_BYTES // (reach.count * reach.port.dtype.itemsize)
            if max_tiles < _MIN_TILES or len(reach.columns) + 2 > DMA_DIMENSIONS:
                continue
            self._numbers[key] = number
            self._positions[number] = _positions(pieces, number, max_tiles)
            self.resident += 2 * _MAX_TRANSFER_BYTES

    def collects(self, key: int, piece: Piece) -> bool:
        """Return True if a tile of a result shares its transfer with others."""
        number = self._numbers.get(key)
        return number is not None and piece.offsets[number] in self._positions[number]

    def tile(self, number: int, reach: Reach, piece: Piece) -> Tile:
        """Return where the rows of a tile of a result go: (partitions, columns) in SBUF."""
        first, count = self._positions[number][piece.offsets[number]]
        collected = self._collected.get((number, first))
        if collected is None:
            shape = (piece.partition.extent, count, reach.count)
            tile = nl.ndarray(shape, dtype=reach.port.dtype, buffer=nl.sbuf)
            collected = self._collected[number, first] = _Collected(tile, count)
        start, step = self._start_and_step(number, first)
        return collected.tile[:, (piece.offsets[number] - start) // step]

    def store(self, number: int, reach: Reach, piece: Piece) -> bool:
        """Start the transfer of a tile if its rows were the last; return True then."""
        first, count = self._positions[number][piece.offsets[number]]
        collected = self._collected[number, first]
        collected.missing -= 1
        if collected.missing:
            return False
        start, step = self._start_and_step(number, first)
        pattern = [piece.pattern(number)[0], [step, count], *reach.columns]
        target = window(self._tensors[reach.port.view.buffer], reach.port, start, pattern)
        nisa.dma_copy(target, self._collected.pop((number, first)).tile)
        return True

    def _start_and_step(self, number: int, first: int) -> tuple[int, int]:
        """Return the offset of a transfer's first tile, and the elements from one to the next."""
        start = self._pieces[first].offsets[number]
        return start, self._pieces[first + 1].offsets[number] - start


def _positions(pieces: Sequence[Piece], number: int, max_tiles: int) -> dict[int, tuple[int, int]]:
    """Return the offset of each tile -> (first tile of its transfer, tiles of it)."""
    positions: dict[int, tuple[int, int]] = {}
    first = 0
    while first < len(pieces):
        count = _run(pieces[first : first + max_tiles], number)
        if count >= _MIN_TILES:
            for piece in pieces[first : first + count]:
                positions[piece.offsets[number]] = first, count
        first += count
    return positions


def _run(pieces: Sequence[Piece], number: int) -> int:
    """Return how many tiles from the first have equal extents and are evenly spaced."""
    if len(pieces) < 2:
        return 1
    step = pieces[1].offsets[number] - pieces[0].offsets[number]
    count = 1
    for before, piece in pairwise(pieces):
        is_even = piece.offsets[number] - before.offsets[number] == step != 0
        if not is_even or piece.partition != before.partition or piece.free != before.free:
            break
        count += 1
    return count
