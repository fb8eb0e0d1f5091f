"""Algebra: operations whose result is one of their operands, or a simpler operation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.passes.functions import FUNCTIONS, WHOLE_SUMS
from hlo_tools.passes.integers import FAST_SUMS, INTEGERS
from hlo_tools.passes.moving import FAST_MOVING, MOVING
from hlo_tools.passes.reductions import FAST_REDUCTIONS, REDUCTIONS, is_highest, is_lowest
from hlo_tools.passes.slicing import SLICING
from hlo_tools.rewrite.emitting import constant, is_signed_zero, plain, splat
from hlo_tools.rewrite.patterns import (
    FLOAT,
    WHOLE,
    Pattern,
    Rewrite,
    Rules,
    number,
    op,
    rewrite_all,
    splat_where,
)

__all__ = ["EXACT", "FAST", "AlgebraicSimplification"]


@dataclass(frozen=True, slots=True)
class AlgebraicSimplification(Pass):
    """Replace operations by simpler ones that give the same bits.

    ``fast`` adds rules that hold for real numbers but not for all floats: x + 0 (which turns -0
    into 0), x * 0 and x - x (infinities and NaN), log(exp(x)), x / x, x ** 2, sums of sums.

    Attributes:
        fast: use these too.
    """

    name: ClassVar[str] = "algebraic-simplification"

    fast: bool = False

    def run(self, module: Module) -> bool:
        rules = _EXACT_AND_FAST if self.fast else EXACT
        return sum(rewrite_all(rules, computation) for computation in module.computations) > 0


def _kind(view: Instruction) -> str:
    return view.shape.element.kind


def _all_ones(view: Instruction) -> bool:
    constant_value = splat(view)
    return (
        constant_value is not None
        and _kind(view) in WHOLE
        and bool(constant_value == ~np.zeros_like(constant_value))
    )


_ZERO, _ONE, _MINUS_ONE = (number(n, "c") for n in (0, 1, -1))
_LOWEST, _HIGHEST = splat_where(is_lowest), splat_where(is_highest)
_ONES = splat_where(_all_ones, "c")


def _truth_constant(truth: bool) -> Pattern:
    """Match a constant truth value."""

    def where(view: Instruction) -> bool:
        constant_value = splat(view) if _kind(view) == "pred" else None
        return constant_value is not None and bool(constant_value) == truth

    return splat_where(where)


_TRUE, _FALSE = _truth_constant(True), _truth_constant(False)


def _first(it: Instruction, x: Instruction, **_: Instruction) -> Instruction:
    return x


def _zero(it: Instruction, **_: Instruction) -> Instruction:
    return constant(it, 0, it.shape)


def _negated(it: Instruction, x: Instruction, **_: Instruction) -> Instruction:
    return plain(it, "negate", it.shape, [x])


def _compared(it: Instruction, **_: Instruction) -> Instruction:
    return constant(it, it.proto.comparison_direction in ("EQ", "LE", "GE"), it.shape)


def _times_reciprocal(it: Instruction, x: Instruction, c: Instruction) -> Instruction | None:
    """x / 2^n is x * 2^-n to the last bit, as long as 2^-n is a normal number of the type."""
    constant_value = splat(c)
    if constant_value is None or it.shape.element.name not in ("f16", "bf16", "f32", "f64"):
        return None
    divisor = float(constant_value)
    if abs(math.frexp(divisor)[0]) != 0.5:  # so it is finite and not 0
        return None
    with np.errstate(over="ignore"):
        inverse = np.asarray(1 / np.float64(divisor)).astype(it.shape.dtype)
    if float(inverse) * divisor != 1 or abs(float(inverse)) < 2.0**-14:
        return None
    return plain(it, "multiply", it.shape, [x, constant(it, inverse, it.shape)])


def _holds(outer: str, inner: str) -> bool:
    """Return True if a type has every value of another."""
    return (inner, outer) in _WIDER


_INTEGERS = [("s2", 2), ("s4", 4), ("s8", 8), ("s16", 16), ("s32", 32), ("s64", 64)]
_UNSIGNED = [("u2", 2), ("u4", 4), ("u8", 8), ("u16", 16), ("u32", 32), ("u64", 64)]
_WIDER = frozenset(
    [(a, b) for kind in (_INTEGERS, _UNSIGNED) for a, n in kind for b, m in kind if n <= m]
    + [(a, b) for a, n in _UNSIGNED for b, m in _INTEGERS if n < m]
    + [(small, wide) for small in ("f16", "bf16", "f32") for wide in ("f32", "f64")
       if (small, wide) != ("f32", "f32")]
    + [(small, wide) for small in ("f8e5m2", "f8e4m3fn", "f8e4m3") for wide in ("f16", "f32", "f64")]
)  # fmt: skip


def _converted_twice(it: Instruction, inner: Instruction, x: Instruction) -> Instruction | None:
    """The type in between loses nothing: one conversion, or none."""
    source, between = x.shape.element.name, inner.shape.element.name
    if not _holds(between, source):
        return None
    if source == it.shape.element.name:
        return x
    return plain(it, "convert", it.shape, [x])


def _part_of_tuple(it: Instruction, tuple_inst: Instruction) -> Instruction:
    return tuple_inst.operands[it.proto.tuple_index]


def _tuple_again(it: Instruction) -> Instruction | None:
    """A tuple of all parts of a tuple, in order."""
    operands = it.operands
    if not operands or any(element.opcode != "get-tuple-element" for element in operands):
        return None
    source = operands[0].operands[0]
    numbers = [element.proto.tuple_index for element in operands]
    same = all(element.operands[0] is source for element in operands)
    is_complete = len(source.shape.tuple_shapes) == len(operands)
    return source if same and is_complete and numbers == list(range(len(operands))) else None


def _chosen_branch(it: Instruction) -> Instruction | None:
    """Replace a conditional with a constant index by a call; out of range selects the last."""
    choice = splat(it.operands[0])
    if choice is None:
        return None
    branches = list(it.proto.called_computation_ids)
    branch = (0 if choice else 1) if _kind(it.operands[0]) == "pred" else int(choice)
    branch = branch if 0 <= branch < len(branches) else len(branches) - 1
    operand = it.operands[branch + 1]
    return plain(it, "call", it.shape, [operand], called_computation_ids=[branches[branch]])


def _compared_with(truth: bool) -> Rewrite:
    """A truth value compared with a constant: itself, or its opposite."""

    def rewrite(it: Instruction, p: Instruction) -> Instruction | None:
        direction = it.proto.comparison_direction
        if direction not in ("EQ", "NE"):
            return None
        return p if (direction == "EQ") == truth else plain(it, "not", it.shape, [p])

    return rewrite


def _swapped(it: Instruction, p: Instruction, x: Instruction, y: Instruction) -> Instruction:
    return plain(it, "select", it.shape, [p, y, x])


def _both(opcode: str) -> Rewrite:
    def rewrite(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
        return plain(it, opcode, it.shape, [x, y])

    return rewrite


def _size(it: Instruction, x: Instruction) -> Instruction:
    return plain(it, "abs", it.shape, [x])


def _same_type(it: Instruction, x: Instruction) -> Instruction | None:
    return x if x.shape.proto == it.shape.proto else None


EXACT = (
    Rules(
        # Sums
        (op("add", "x", _ZERO, commutes=True, kinds=WHOLE), _first),
        (op("add", "x", splat_where(is_signed_zero), commutes=True), _first),
        (op("subtract", "x", _ZERO), _first),
        (op("subtract", "x", "x", kinds=WHOLE), _zero),
        (op("add", "x", op("negate", "y"), commutes=True), _both("subtract")),
        (op("subtract", "x", op("negate", "y")), _both("add")),
        # Products
        (op("multiply divide", "x", _ONE), _first),
        (op("multiply", _ONE, "x"), _first),
        (op("multiply", "x", _ZERO, commutes=True, kinds=WHOLE), _zero),
        (op("multiply", "x", _MINUS_ONE, commutes=True), _negated),
        (op("divide", "x", op("constant broadcast", capture="c"), kinds=FLOAT), _times_reciprocal),
        (op("power", "x", _ONE), _first),
        # Bits
        (op("and", "x", _ONES, commutes=True), _first),
        (op("and", "x", _ZERO, commutes=True), _zero),
        (op("or xor", "x", _ZERO, commutes=True), _first),
        (op("and or", "x", "x"), _first),
        (op("xor", "x", "x"), _zero),
        (op("shift-left shift-right-logical shift-right-arithmetic", "x", _ZERO), _first),
        (op("not", op("not", "x")), _first),
        # Choices
        (op("maximum minimum", "x", "x"), _first),
        (op("maximum", "x", _LOWEST, commutes=True), _first),
        (op("minimum", "x", _HIGHEST, commutes=True), _first),
        (op("compare", "p", _TRUE, commutes=True), _compared_with(True)),
        (op("compare", "p", _FALSE, commutes=True), _compared_with(False)),
        (op("compare", "x", "x", where=lambda view: _kind(view.operands[0]) in WHOLE), _compared),
        (op("select", "p", "x", "x"), _first),
        (op("select", _TRUE, "x", "y"), _first),
        (op("select", _FALSE, "y", "x"), _first),
        (op("select", op("not", "p"), "x", "y"), _swapped),
        (op("conditional"), _chosen_branch),
        # One operand
        (op("negate", op("negate", "x")), _first),
        (op("abs", op("abs", capture="x")), _first),
        (op("abs", op("negate", "x")), _size),
        (op("real", op("complex", "x", "y")), _first),
        (op("imag", op("complex", "y", "x")), _first),
        (op("convert copy", "x"), _same_type),
        (op("convert", op("convert", "x", capture="inner")), _converted_twice),
        # Tuples
        (op("get-tuple-element", op("tuple", capture="tuple_inst")), _part_of_tuple),
        (op("tuple"), _tuple_again),
    )
    + SLICING
    + REDUCTIONS
    + INTEGERS
    + MOVING
    + WHOLE_SUMS
)  # fmt: skip
"""Rules that hold to the last bit."""


def _square(it: Instruction, x: Instruction, c: Instruction) -> Instruction:
    return plain(it, "multiply", it.shape, [x, x])


def _one(it: Instruction, x: Instruction) -> Instruction:
    return constant(it, 1, it.shape)


def _times_rsqrt(it: Instruction, x: Instruction, y: Instruction) -> Instruction:
    return plain(it, "multiply", it.shape, [x, plain(it, "rsqrt", it.shape, [y])])


FAST = Rules(
    (op("add", "x", _ZERO, commutes=True), _first),
    (op("multiply", "x", _ZERO, commutes=True), _zero),
    (op("subtract", "x", "x"), _zero),
    (op("divide", "x", "x", kinds=FLOAT), _one),
    (op("log", op("exponential", "x")), _first),
    (op("exponential", op("log", "x")), _first),
    (op("power", "x", number(2, "c")), _square),
    (op("divide", "x", op("sqrt", "y")), _times_rsqrt),
)  # fmt: skip
"""Rules that hold for real numbers."""

_EXACT_AND_FAST = EXACT + FAST + FAST_REDUCTIONS + FAST_SUMS + FUNCTIONS + FAST_MOVING
