"""Comparisons of small integers as floats, and choices between two numbers, in one instruction each.

32-bit integers are exact on GpSimd only, with two operands from memory. If one side of a comparison is
within 24 bits, as positions are, the other engines compare both as float32 with the same result: numbers
that float32 rounds are beyond that side before and after.
"""

from __future__ import annotations

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import VIEWS
from neff.compiler.lowering.rows.spreads import RowEmitter, Spread
from neff.compiler.lowering.tiles.emitter import Tile, Value
from neff.compiler.lowering.tiles.operations import COMPARISONS
from nki_lang.base.dtypes import DType, dtype_of

__all__ = ["compared_as_floats", "number_choice"]

F32, U8 = dtype_of("float32"), dtype_of("uint8")

_EXACT_LIMIT = 1 << 24
"""Integers below it are exact in float32, and no greater one is rounded to less."""


def compared_as_floats(e: RowEmitter, node: Node, operands: list[Value]) -> Tile | None:
    """Return a comparison of words, one of which is within 24 bits; None for others."""
    if held_as(node.operands[0]).kind != "word" or not any(map(_is_small, node.operands)):
        return None
    if e.per_row is None or all(e.is_number(operand) or _is_row(operand) for operand in operands):
        return None
    a, b = (
        Spread(e.per_row.copy(operand.tile, F32), "row") if _is_row(operand) else e.plain(operand)
        for operand in operands
    )
    return e.binary(COMPARISONS[node.attributes["direction"]], a, b, U8)


def _is_small(node: Node) -> bool:
    """Return True if all elements are integers within 24 bits."""
    while node.opcode in VIEWS:
        node = node.operands[0]
    if node.opcode == "iota":
        return max(node.shape, default=0) < _EXACT_LIMIT
    if node.opcode == "convert":
        return held_as(node.operands[0]).kind in ("small", "pred")
    number = node.splat
    return number is not None and abs(int(number)) < _EXACT_LIMIT


def _is_row(operand: Value) -> bool:
    """Return True for a value of one element for each row."""
    return isinstance(operand, Spread) and operand.axis == "row"


def number_choice(
    e: RowEmitter, predicate: Value, on_true: Value, on_false: Value, dtype: DType
) -> Tile | None:
    """Return ``predicate * (on_true - on_false) + on_false`` if that is exact; else None."""
    if e.is_number(predicate) or not (e.is_number(on_true) and e.is_number(on_false)):
        return None
    with np.errstate(all="ignore"):
        chosen, otherwise = np.float32(on_true), np.float32(on_false)
        step = chosen - otherwise
        results = np.array([1, 0], np.float32) * step + otherwise
    if results.tobytes() != np.array([chosen, otherwise]).tobytes():
        return None
    target = e.new(dtype)
    nisa.tensor_scalar(
        target, e.plain(predicate), nl.multiply, float(step), op1=nl.add, operand1=float(otherwise)
    )
    return target
