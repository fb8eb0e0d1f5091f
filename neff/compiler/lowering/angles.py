"""Sine, cosine and tangent of every float32, however large.

The scalar engine's sine holds on [-pi, pi] only. A larger argument is multiplied by 1 / (2 pi)
piece by piece, as Payne and Hanek do ("Radian reduction for trigonometric functions", 1983): the
pieces are so short that each product is exact, and whole turns are dropped after each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.lowering.emitter import Emitter, Value
from nki_lang.base.dtypes import DType, dtype_of

__all__ = ["cosine", "sine", "tangent"]

F32 = dtype_of("float32")
U32 = dtype_of("uint32")
U8 = dtype_of("uint8")

_INVERSE_TURN = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E410
"""1 / (2 pi), times 2^192."""

_PIECE = 11
"""Bits of a piece: half of a float32's 24 and a piece multiply exactly."""

_FAR = 8
"""From this piece on, pieces are too small for a float32 times 2^-128: both are scaled."""

_SCALE = 2.0**64

_WHOLE = 2.0**22
"""A product from here on is a whole number; a float32 below it is rounded by adding _ROUNDER."""

_ROUNDER = 1.5 * 2.0**23

_HIGH, _SIGN = 0xFFFF_F000, 1 << 31

_PI = float(np.float32(np.pi))
_PI_REST = np.pi - _PI
_QUARTER, _QUARTER_REST = _PI / 2, _PI_REST / 2


def _pieces() -> list[float]:
    """1 / (2 pi) as a sum of pieces, each rounded to nearest, so of either sign."""
    rest = _INVERSE_TURN
    pieces: list[float] = []
    for number in range(1, 192 // _PIECE + 1):
        unit = 1 << (192 - _PIECE * number)
        count = (rest + unit // 2) // unit
        rest -= count * unit
        pieces.append(count * 2.0 ** (-_PIECE * number))
    return pieces


_PIECES = _pieces()
_MOST = {"float16": 16}
"""Binary exponent that finite values of a type stay below; 128 for the others."""
_DIGITS = 30
"""Bits of a turn that are found behind the point."""


def _turns(e: Emitter, parts: list[Any], most: int) -> Any:
    """``x / (2 pi)`` less its whole part, in [-1/2, 1/2].

    Args:
        parts: what x is the sum of, each of 12 bits at most, one behind the other.
        most: |x| is below 2 to that power.
    """
    halves = {0: parts}
    steps = min((most + _DIGITS) // _PIECE + 1, len(_PIECES))
    if steps > _FAR:
        halves[1] = [e.binary("multiply", part, 1 / _SCALE, F32) for part in parts]
    turns: Any = None
    for step in range(steps):
        scale = _SCALE if step >= _FAR else 1.0
        found = turns
        for half, piece in zip(halves[step >= _FAR], _PIECES[step::-1], strict=False):
            piece *= scale
            if found is None:
                found = e.binary("multiply", half, piece, F32)
            else:
                found = e.fused(half, "multiply", piece, "add", found)
        turns = _fraction(e, found, most - _PIECE * step)
    return turns


def _fraction(e: Emitter, value: Any, most: int) -> Any:
    """``value`` less the nearest whole number; it is below 2 to the power ``most``."""
    if most < -1:
        return value
    if most > 20:
        value = e.twice(value, "minimum", _WHOLE, "maximum", -_WHOLE)
    whole = e.twice(value, "add", _ROUNDER, "subtract", _ROUNDER)
    return e.binary("subtract", value, whole, F32)


def _angle(e: Emitter, a: Value) -> Any:
    """The angle in [-pi, pi] (float32) that has the same sine and cosine; NaN of infinity."""
    x = e.tile(a, F32)
    most = _MOST.get(x.dtype.name, 128)
    if x.dtype == F32:
        high = e.bits("bitwise_and", x.view(U32), _HIGH, U32).view(F32)
        parts = [high, e.binary("subtract", x, high, F32)]
    else:
        x = e.copy(x, F32)
        parts = [x]
    turns = _turns(e, parts, most)
    angle = e.binary("multiply", turns, 2 * np.pi, F32)
    angle = e.fused(x, "multiply", 0.0, "add", angle)
    near = e.binary("less_equal", e.activation("abs", x, F32), _PI, U8)
    return e.select(near, x, angle, F32)


def _sine_of(e: Emitter, angle: Any, dtype: DType) -> Any:
    """sin(r) = sin(pi - |r|) with the sign of r, of an angle in [-pi, pi]."""
    size = e.activation("abs", angle, F32)
    rest = e.twice(size, "subtract", _PI, "add", _PI_REST, reverse=True)
    far = e.binary("greater", size, _QUARTER, U8)
    found = e.activation("sin", e.select(far, rest, size, F32), F32).view(U32)
    sign = e.bits("bitwise_and", angle.view(U32), _SIGN, U32)
    return e.copy(e.bits("bitwise_xor", found, sign, U32).view(F32), dtype)


def _cosine_of(e: Emitter, angle: Any, dtype: DType) -> Any:
    """cos(r) = sin(pi/2 - |r|) of an angle in [-pi, pi]."""
    size = e.activation("abs", angle, F32)
    rest = e.twice(size, "subtract", _QUARTER, "add", _QUARTER_REST, reverse=True)
    return e.activation("sin", rest, dtype)


def sine(e: Emitter, node: Node, a: Value) -> Value:
    """The rule of ``sine``."""
    return _sine_of(e, _angle(e, a), held_as(node).tile)


def cosine(e: Emitter, node: Node, a: Value) -> Value:
    """The rule of ``cosine``."""
    return _cosine_of(e, _angle(e, a), held_as(node).tile)


def tangent(e: Emitter, node: Node, a: Value) -> Value:
    """The rule of ``tan``."""
    angle = _angle(e, a)
    divisor = e.reciprocal(_cosine_of(e, angle, F32), F32)
    return e.binary("multiply", _sine_of(e, angle, F32), divisor, held_as(node).tile)
