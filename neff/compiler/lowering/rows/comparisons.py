"""Comparisons with a value of each row, and choices between two numbers, in one instruction each.

A value is not a NaN if it is at most infinity, which needs no second tile.

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
from neff.compiler.lowering.rows.positions import MAX_POSITION, Positions
from neff.compiler.lowering.rows.spreads import Lazy, RowEmitter, Spread, Step
from neff.compiler.lowering.tiles.emitter import Emitter, Tile, Value
from neff.compiler.lowering.tiles.operations import COMPARISONS
from nki_lang.base.dtypes import DType, dtype_of

__all__ = ["compared_as_floats", "number_choice"]

F32, U8 = dtype_of("float32"), dtype_of("uint8")


def compared_as_floats(
    e: RowEmitter, node: Node, operands: list[Value], reader: Node | None
) -> Tile | Lazy | None:
    """Return a comparison of floats, or of words of which one is within 24 bits; None for others.

    It is not emitted yet if its only ``reader`` chooses numbers, and does both in one instruction.
    """
    if held_as(node.operands[0]).kind == "float":
        return _compared_floats(e, node, operands)
    if held_as(node.operands[0]).kind != "word" or not any(map(_is_small, node.operands)):
        return None
    if e.per_row is None or all(e.is_number(operand) or _is_row(operand) for operand in operands):
        return None
    op, waits = COMPARISONS[node.attributes["direction"]], _chooses_numbers(reader)
    for positions, label in (operands, operands[::-1]):
        if isinstance(positions, Positions):
            label = _moved(e.per_row, label, positions.begin)
            pair = (positions.numbers, label)
            a, b = pair if positions is operands[0] else pair[::-1]
            return _result(e, op, a, b, waits)
    a, b = (
        Spread(e.per_row.copy(operand.tile, F32), "row") if _is_row(operand) else e.plain(operand)
        for operand in operands
    )
    return _result(e, op, a, b, waits)


def _compared_floats(e: RowEmitter, node: Node, operands: list[Value]) -> Tile | None:
    """Return a test for NaN, or a comparison with a value of each row; None for others."""
    a, b = operands
    direction = node.attributes["direction"]
    if a is b and direction == "NE" and not (e.is_number(a) or isinstance(a, Spread)):
        target = e.new(U8)
        nisa.tensor_scalar(target, e.force(a), nl.less_equal, np.inf, op1=nl.equal, operand1=0.0)
        return target
    if e.per_row is None or sum(map(_is_row, operands)) != 1:
        return None
    return e.binary(COMPARISONS[direction], e.force(a), e.force(b), U8)


def _result(e: RowEmitter, op: str, a: Value, b: Value, waits: bool) -> Tile | Lazy:
    for tile, label, reverse in ((a, b, False), (b, a, True)):
        scalar = e.scalar(label)
        if waits and scalar is not None and not isinstance(tile, Spread):
            return Lazy(tile, [Step(op, scalar, reverse)], U8)
    return e.binary(op, a, b, U8)


def _chooses_numbers(reader: Node | None) -> bool:
    """Return True if the reader of a comparison chooses a number, or zero, in float32."""
    return (
        reader is not None
        and reader.opcode == "select"
        and reader.element.name == "f32"
        and reader.operands[1].splat is not None
        and reader.operands[2].splat == 0
    )


def _moved(rows: Emitter, label: Value, begin: int) -> Value:
    """Return a label relative to the first column of a block.

    Labels that float32 rounds are beyond all positions, before and after the difference.
    """
    if rows.is_number(label):
        return np.float32(label) - np.float32(begin)
    relative = rows.copy(label.tile, F32)
    return Spread(
        rows.binary("subtract", relative, float(begin), F32) if begin else relative, "row"
    )


def _is_small(node: Node) -> bool:
    """Return True if all elements are integers within 24 bits."""
    while node.opcode in VIEWS:
        node = node.operands[0]
    if node.opcode == "iota":
        return max(node.shape, default=0) < MAX_POSITION
    if node.opcode == "convert":
        return held_as(node.operands[0]).kind in ("small", "pred")
    number = node.splat
    return number is not None and abs(int(number)) < MAX_POSITION


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
    if isinstance(predicate, Lazy) and predicate.tile is None and results[1] == 0:
        (first,) = predicate.steps
        nisa.tensor_scalar(
            target, predicate.base, getattr(nl, first.op), first.operand, first.reverse, nl.multiply,
            float(step),
        )  # fmt: skip
        return target
    predicate = e.force(predicate)
    nisa.tensor_scalar(
        target, e.plain(predicate), nl.multiply, float(step), op1=nl.add, operand1=float(otherwise)
    )
    return target
