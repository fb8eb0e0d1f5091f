"""Converts float64 from and to two words, by integer operations on the bits.

The engines have no float64. A module may have it as an input or output, and convert it.
"""

from __future__ import annotations

from neff.compiler.lowering.tiles.emitter import Emitter, Tile
from nki_lang.base.dtypes import BY_NAME

__all__ = ["from_words", "to_words"]

F32 = BY_NAME["float32"]
U32 = BY_NAME["uint32"]
U8 = BY_NAME["uint8"]

_SIGN_BIT = 0x8000_0000
_FRACTION_BITS = 0x000F_FFFF
_DROPPED_BITS = 0x1FFF_FFFF
"""Bits of the low word that do not fit into float32."""

_BIAS_DIFFERENCE = 1023 - 127


def from_words(e: Emitter, low: Tile, high: Tile) -> Tile:
    """Return the nearest float32 (ties to even); numbers below 2^-126 become zero."""
    exponent = e.bits("bitwise_and", e.bits("right_shift", high, 20, U32), 0x7FF, U32)
    fraction = e.bits("bitwise_and", high, _FRACTION_BITS, U32)
    top = e.bits(
        "bitwise_or",
        e.bits("left_shift", fraction, 3, U32),
        e.bits("right_shift", low, 29, U32),
        U32,
    )
    moved = e.bits("left_shift", e.words("subtract", exponent, _BIAS_DIFFERENCE, U32), 23, U32)
    bits = e.words("add", e.words("add", moved, top, U32), _rounding(e, low, top), U32)
    small = e.copy(e.words("less", exponent, _BIAS_DIFFERENCE + 1, U32), U8)
    large = e.copy(e.words("greater", exponent, _BIAS_DIFFERENCE + 254, U32), U8)
    bits = e.select(small, 0, bits, U32)
    bits = e.select(large, 0x7F80_0000, bits, U32)
    bits = e.select(_is_nan(e, exponent, fraction, low), 0x7FC0_0000, bits, U32)
    sign = e.bits("bitwise_and", high, _SIGN_BIT, U32)
    return e.bits("bitwise_or", bits, sign, U32).view(F32)


def _rounding(e: Emitter, low: Tile, top: Tile) -> Tile:
    """Return 1 where the dropped bits round the number up."""
    half = (_DROPPED_BITS + 1) // 2
    dropped = e.bits("bitwise_and", low, _DROPPED_BITS, U32)
    tie = e.bits("bitwise_and", e.words("equal", dropped, half, U32), top, U32)
    return e.bits("bitwise_or", e.words("greater", dropped, half, U32), tie, U32)


def _is_nan(e: Emitter, exponent: Tile, fraction: Tile, low: Tile) -> Tile:
    has_fraction = e.words("not_equal", e.bits("bitwise_or", fraction, low, U32), 0, U32)
    last = e.words("equal", exponent, 0x7FF, U32)
    return e.copy(e.bits("bitwise_and", has_fraction, last, U32), U8)


def to_words(e: Emitter, value: Tile) -> tuple[Tile, Tile]:
    """Return (low, high) of a float32 tile, exact; numbers below 2^-126 become zero."""
    bits = value.view(U32)
    exponent = e.bits("bitwise_and", e.bits("right_shift", bits, 23, U32), 0xFF, U32)
    fraction = e.bits("bitwise_and", bits, 0x7F_FFFF, U32)
    moved = e.bits("left_shift", e.words("add", exponent, _BIAS_DIFFERENCE, U32), 20, U32)
    last = e.copy(e.words("equal", exponent, 0xFF, U32), U8)
    moved = e.select(last, 0x7FF0_0000, moved, U32)
    high = e.bits("bitwise_or", moved, e.bits("right_shift", fraction, 3, U32), U32)
    zero = e.copy(e.words("equal", exponent, 0, U32), U8)
    high = e.select(zero, 0, high, U32)
    low = e.select(zero, 0, e.bits("left_shift", fraction, 29, U32), U32)
    return low, e.bits("bitwise_or", high, e.bits("bitwise_and", bits, _SIGN_BIT, U32), U32)
