"""Computes sine, cosine and tangent of every float32, however large.

The scalar engine's sine is accurate on [-pi, pi] only. A larger argument is multiplied by 1 / (2 pi)
piece by piece, as Payne and Hanek do ("Radian reduction for trigonometric functions", 1983): the
pieces are so short that each product is exact, and full revolutions are dropped after each.
"""

from __future__ import annotations

import numpy as np

from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.lowering.tiles.emitter import Emitter, Tile, Value
from nki_lang.base.dtypes import DType, dtype_of

__all__ = ["cosine", "sine", "tangent"]

F32 = dtype_of("float32")
U32 = dtype_of("uint32")
U8 = dtype_of("uint8")

_INVERSE_PERIOD = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E410
"""1 / (2 pi), times 2^192."""

_PIECE_BITS = 11
"""Bits of a piece: the high half of a float32's 24 bits times a piece is exact."""

_FIRST_SCALED_PIECE = 8
"""From this piece on, pieces are too small for a float32 times 2^-128: both are scaled."""

_SCALE = 2.0**64

_MIN_INTEGRAL_PRODUCT = 2.0**22
"""Products from here on are integers; a float32 below it is rounded by adding _ROUNDER."""

_ROUNDER = 1.5 * 2.0**23

_HIGH_BITS, _SIGN_BIT = 0xFFFF_F000, 1 << 31

_PI = float(np.float32(np.pi))
_PI_LOW = np.pi - _PI
_QUARTER, _QUARTER_LOW = _PI / 2, _PI_LOW / 2


def _pieces() -> list[float]:
    """Return 1 / (2 pi) as a sum of pieces, each rounded to nearest, so of either sign."""
    remainder = _INVERSE_PERIOD
    pieces: list[float] = []
    for number in range(1, 192 // _PIECE_BITS + 1):
        unit = 1 << (192 - _PIECE_BITS * number)
        count = (remainder + unit // 2) // unit
        remainder -= count * unit
        pieces.append(count * 2.0 ** (-_PIECE_BITS * number))
    return pieces


_PIECES = _pieces()
_MAX_EXPONENTS = {"float16": 16}
"""Type -> binary exponent that its finite values stay below; 128 for the others."""
_FRACTION_BITS = 30
"""Bits of the fraction of a revolution that are computed."""


def _revolutions(e: Emitter, parts: list[Tile], max_exponent: int) -> Tile:
    """Return ``x / (2 pi)`` minus the nearest integer, in [-1/2, 1/2].

    Args:
        parts: values of at most 12 bits, the higher first, whose sum is x.
        max_exponent: |x| is below 2 to this power.
    """
    halves = {0: parts}
    steps = min((max_exponent + _FRACTION_BITS) // _PIECE_BITS + 1, len(_PIECES))
    if steps > _FIRST_SCALED_PIECE:
        halves[1] = [e.binary("multiply", value, 1 / _SCALE, F32) for value in parts]
    fraction: Value = None
    for step in range(steps):
        scale = _SCALE if step >= _FIRST_SCALED_PIECE else 1.0
        total = fraction
        for half, piece in zip(
            halves[step >= _FIRST_SCALED_PIECE], _PIECES[step::-1], strict=False
        ):
            piece *= scale
            if total is None:
                total = e.binary("multiply", half, piece, F32)
            else:
                total = e.fused(half, "multiply", piece, "add", total)
        fraction = _fraction(e, total, max_exponent - _PIECE_BITS * step)
    return fraction


def _fraction(e: Emitter, value: Tile, max_exponent: int) -> Tile:
    """Return ``value`` (below 2 to the power ``max_exponent``) minus the nearest integer."""
    if max_exponent < -1:
        return value
    if max_exponent > 20:
        value = e.twice(value, "minimum", _MIN_INTEGRAL_PRODUCT, "maximum", -_MIN_INTEGRAL_PRODUCT)
    integer = e.twice(value, "add", _ROUNDER, "subtract", _ROUNDER)
    return e.binary("subtract", value, integer, F32)


def _angle(e: Emitter, a: Value) -> Tile:
    """Return the angle in [-pi, pi] (float32) with the same sine and cosine; NaN for infinity."""
    x = e.tile(a, F32)
    max_exponent = _MAX_EXPONENTS.get(x.dtype.name, 128)
    if x.dtype == F32:
        high = e.bits("bitwise_and", x.view(U32), _HIGH_BITS, U32).view(F32)
        parts = [high, e.binary("subtract", x, high, F32)]
    else:
        x = e.copy(x, F32)
        parts = [x]
    fraction = _revolutions(e, parts, max_exponent)
    angle = e.binary("multiply", fraction, 2 * np.pi, F32)
    angle = e.fused(x, "multiply", 0.0, "add", angle)
    near = e.binary("less_equal", e.activation("abs", x, F32), _PI, U8)
    return e.select(near, x, angle, F32)


def _sine_of(e: Emitter, angle: Tile, dtype: DType) -> Tile:
    """Return sin(r) = sin(pi - |r|) with the sign of r, for an angle in [-pi, pi]."""
    size = e.activation("abs", angle, F32)
    supplement = e.twice(size, "subtract", _PI, "add", _PI_LOW, reverse=True)
    far = e.binary("greater", size, _QUARTER, U8)
    sine_bits = e.activation("sin", e.select(far, supplement, size, F32), F32).view(U32)
    sign = e.bits("bitwise_and", angle.view(U32), _SIGN_BIT, U32)
    return e.copy(e.bits("bitwise_xor", sine_bits, sign, U32).view(F32), dtype)


def _cosine_of(e: Emitter, angle: Tile, dtype: DType) -> Tile:
    """Return cos(r) = sin(pi/2 - |r|) for an angle in [-pi, pi]."""
    size = e.activation("abs", angle, F32)
    complement = e.twice(size, "subtract", _QUARTER, "add", _QUARTER_LOW, reverse=True)
    return e.activation("sin", complement, dtype)


def sine(e: Emitter, node: Node, a: Value) -> Value:
    """Compute the opcode ``sine``."""
    return _sine_of(e, _angle(e, a), held_as(node).tile)


def cosine(e: Emitter, node: Node, a: Value) -> Value:
    """Compute the opcode ``cosine``."""
    return _cosine_of(e, _angle(e, a), held_as(node).tile)


def tangent(e: Emitter, node: Node, a: Value) -> Value:
    """Compute the opcode ``tan``."""
    angle = _angle(e, a)
    divisor = e.reciprocal(_cosine_of(e, angle, F32), F32)
    return e.binary("multiply", _sine_of(e, angle, F32), divisor, held_as(node).tile)
