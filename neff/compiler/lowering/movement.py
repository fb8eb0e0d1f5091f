"""Kernels that fill and move: iota, fills, copies between buffers of one type."""

from __future__ import annotations

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.tiles.emitter import Constants, Emitter, Tile
from neff.compiler.lowering.tiles.task import Port, Task, window
from neff.compiler.lowering.tiles.tiling import nest, tiles
from neff.compiler.lowering.tiles.wide import store_value

__all__ = ["fill_task", "iota_task", "move_task", "words_task"]

_MAX_FILLED_ELEMENTS = 2048
_MAX_MOVED_ELEMENTS = 16 * 1024


def iota_task(name: str, target: Port) -> Task:
    """Return a kernel that writes 0, 1, 2, ... to a buffer of one dimension."""

    def body(tensors: dict[str, Tile]) -> None:
        constants: Constants = {}
        for piece in tiles(nest([target.view]), _MAX_FILLED_ELEMENTS, 1):
            rows, elements = piece.partition.extent, piece.elements
            tile = nl.ndarray((rows, elements), dtype=target.dtype, buffer=nl.sbuf)
            nisa.iota(tile, [[1, elements]], offset=piece.offsets[0], channel_multiplier=elements)
            emitter = Emitter(rows, elements, constants)
            store_value(emitter, tensors[target.view.buffer], target, piece, 0, tile)

    return Task(name, [], [target.view.buffer], body)


def fill_task(name: str, target: Port, value: np.generic | int) -> Task:
    """Return a kernel that writes one number everywhere."""

    def body(tensors: dict[str, Tile]) -> None:
        filled: dict[tuple[int, int], Tile] = {}
        constants: Constants = {}
        for piece in tiles(nest([target.view]), _MAX_FILLED_ELEMENTS, 1):
            emitter = Emitter(piece.partition.extent, piece.elements, constants)
            shape = piece.partition.extent, piece.elements
            tile = filled.get(shape)
            if (
                tile is None
            ):  # a tile of each size: a transfer would read a repeated element each time
                tile = filled[shape] = emitter.copy(value, target.dtype)
            store_value(emitter, tensors[target.view.buffer], target, piece, 0, tile)

    return Task(name, [], [target.view.buffer], body)


def move_task(name: str, source: Port, target: Port) -> Task:
    """Return a kernel that copies from HBM to HBM by DMA alone; both have the same type."""

    def body(tensors: dict[str, Tile]) -> None:
        read, write = tensors[source.view.buffer], tensors[target.view.buffer]
        for piece in tiles(nest([source.view, target.view]), _MAX_MOVED_ELEMENTS, 2):
            for word in range(1 + source.wide):
                nisa.dma_copy(
                    window(write, target, piece.offsets[1], piece.pattern(1), word),
                    window(read, source, piece.offsets[0], piece.pattern(0), word),
                )

    return Task(name, [source.view.buffer], [target.view.buffer], body)


def words_task(name: str, moves: list[tuple[Port, int, Port, int]]) -> Task:
    """Return a kernel that copies words by DMA: (source, its word, target, its word)."""

    def body(tensors: dict[str, Tile]) -> None:
        for source, source_word, target, target_word in moves:
            read, write = tensors[source.view.buffer], tensors[target.view.buffer]
            for piece in tiles(nest([source.view, target.view]), _MAX_MOVED_ELEMENTS, 2):
                nisa.dma_copy(
                    window(write, target, piece.offsets[1], piece.pattern(1), target_word),
                    window(read, source, piece.offsets[0], piece.pattern(0), source_word),
                )

    reads = list(dict.fromkeys(source.view.buffer for source, _, _, _ in moves))
    writes = list(dict.fromkeys(target.view.buffer for _, _, target, _ in moves))
    return Task(name, reads, writes, body)
