"""Loads and stores tiles of any buffer, 64-bit numbers too."""

from __future__ import annotations

from neff.compiler.lowering.tiles.doubles import from_words, to_words
from neff.compiler.lowering.tiles.emitter import Emitter, Tile
from neff.compiler.lowering.tiles.task import Port, load, store
from neff.compiler.lowering.tiles.tiling import Piece
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["high_words", "load_value", "store_value"]

U32 = BY_NAME["uint32"]


def load_value(
    emitter: Emitter,
    tensor: Tile,
    port: Port,
    piece: Piece,
    number: int,
    dtype: DType | None = None,
) -> Tile:
    """Return a tile with the values of view ``number`` of a piece, in their type on chip."""
    if not port.double:
        return load(tensor, port, piece, number, dtype)
    low, high = (load(tensor, port, piece, number, U32, word) for word in (0, 1))
    value = from_words(emitter, low, high)
    return value if dtype is None or dtype == port.dtype else emitter.copy(value, dtype)


def store_value(
    emitter: Emitter, tensor: Tile, port: Port, piece: Piece, number: int, tile: Tile
) -> None:
    """Write a tile in its type on chip to view ``number`` of a piece."""
    if not port.wide:
        store(tensor, port, piece, number, tile)
        return
    low, high = to_words(emitter, tile) if port.double else (tile, high_words(emitter, tile))
    store(tensor, port, piece, number, low)
    store(tensor, port, piece, number, high, 1)


def high_words(emitter: Emitter, low: Tile) -> Tile:
    """Return the high words of 64-bit integers that fit into 32 bits."""
    if low.dtype.kind == "uint":
        return emitter.filled(0, low.dtype)
    sign = emitter.bits("right_shift", low.view(U32), 31, U32)
    return emitter.words("subtract", 0, sign, U32).view(low.dtype)
