"""64-bit integer arithmetic on pairs of 32-bit words, with XLA's results for every value.

A pair is two u32 arrays of one shape. Shifts of a word by 32 or more give 0 (or the sign), as in HLO.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.expansions.arithmetic import REWRITES
from neff.compiler.expansions.bit_patterns import high_half
from neff.compiler.graph.nodes import Node, derived

__all__ = [
    "Pair", "absolute", "add", "compared", "constant", "divided", "extreme", "from_float",
    "from_word", "full", "leading_zeros", "multiply", "negate", "number", "ones", "select", "shift_left",
    "shift_right", "sign", "subtract", "to_float", "to_index",
]  # fmt: skip

_U32 = BY_NAME["u32"]
_SIGN = 1 << 31


class Pair(NamedTuple):
    """A low and a high word."""

    low: Node
    high: Node


def full(like: Node, value: float, element: str = "u32") -> Node:
    """Return a number, broadcast to the shape of ``like``."""
    kind = BY_NAME[element]
    number = np.asarray(value).astype(kind.dtype)
    scalar = derived(like, "constant", (), (), kind, value=number)
    return derived(like, "broadcast", (scalar,), like.shape, kind, dimensions=())


def _do(opcode: str, a: Node, b: Node) -> Node:
    return a.like(opcode, a, b)


def _test(a: Node, direction: str, b: Node) -> Node:
    return a.like("compare", a, b, element="pred", direction=direction)


def _and(a: Node, b: Node) -> Node:
    return a.like("and", a, b)


def _or(a: Node, b: Node) -> Node:
    return a.like("or", a, b)


def _choose(choice: Node, a: Node, b: Node) -> Node:
    return a.like("select", choice, a, b)


def _bits(word: Node, element: str) -> Node:
    return (
        word
        if word.element.name == element
        else word.like("bitcast-convert", word, element=element)
    )


def _count(truth: Node) -> Node:
    """Return 1 where a predicate is true, else 0."""
    return truth.like("convert", truth, element="u32")


def _negative(pair: Pair) -> Node:
    return _test(_bits(pair.high, "s32"), "LT", full(pair.high, 0, "s32"))


def constant(like: Node, value: npt.NDArray[np.integer]) -> Pair:
    """Return the words of an array of 64-bit integers."""
    words = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<")).view(np.uint32)
    words = words.reshape((*value.shape, 2))
    low, high = (
        derived(
            like, "constant", (), value.shape, _U32, value=np.ascontiguousarray(words[..., word])
        )
        for word in (0, 1)
    )
    return Pair(low, high)


def number(like: Node, value: int) -> Pair:
    """Return a pair, broadcast to the shape of ``like``."""
    value &= (1 << 64) - 1
    return Pair(full(like, value & 0xFFFFFFFF), full(like, value >> 32))


def select(choice: Node, a: Pair, b: Pair) -> Pair:
    """Return ``a`` where the predicate is true, else ``b``."""
    return Pair(_choose(choice, a.low, b.low), _choose(choice, a.high, b.high))


# -- sums and products ----------------------------------------------------------------------------


def add(a: Pair, b: Pair) -> Pair:
    """Return the sum, which wraps around."""
    low = _do("add", a.low, b.low)
    carry = _count(_test(low, "LT", a.low))
    return Pair(low, _do("add", _do("add", a.high, b.high), carry))


def subtract(a: Pair, b: Pair) -> Pair:
    """Return the difference, which wraps around."""
    borrow = _count(_test(a.low, "LT", b.low))
    low = _do("subtract", a.low, b.low)
    return Pair(low, _do("subtract", _do("subtract", a.high, b.high), borrow))


def negate(a: Pair) -> Pair:
    """Return the negated value, which wraps around."""
    return subtract(number(a.low, 0), a)


def multiply(a: Pair, b: Pair) -> Pair:
    """Return the product, which wraps around."""
    high = high_half(a.low.like("mulhi", a.low, b.low))
    for word, factor in ((a.low, b.high), (a.high, b.low)):
        high = _do("add", high, _do("multiply", word, factor))
    return Pair(_do("multiply", a.low, b.low), high)


def absolute(a: Pair) -> Pair:
    """Return the absolute value; the least number is unchanged."""
    return select(_negative(a), negate(a), a)


def sign(a: Pair, signed: bool) -> Pair:
    """Return -1, 0 or 1."""
    nonzero = _test(_or(a.low, a.high), "NE", full(a.low, 0))
    positive = Pair(_count(nonzero), full(a.low, 0))
    return select(_negative(a), number(a.low, -1), positive) if signed else positive


def divided(a: Pair, b: Pair, signed: bool) -> tuple[Pair, Pair]:
    """Return quotient towards zero and remainder; by zero -1 (all ones), and the dividend."""
    if not signed:
        return _long_division(a, b)
    quotient, remainder = _long_division(absolute(a), absolute(b))
    below = _negative(a)
    signs_differ = below.like("xor", below, _negative(b))
    quotient = select(signs_differ, negate(quotient), quotient)
    by_zero = _test(_or(b.low, b.high), "EQ", full(b.low, 0))
    quotient = select(by_zero, number(a.low, -1), quotient)
    return quotient, select(by_zero, a, select(below, negate(remainder), remainder))


def _long_division(a: Pair, b: Pair) -> tuple[Pair, Pair]:
    """Divide bit by bit from the top, unsigned."""
    remainder, quotient = number(a.low, 0), number(a.low, 0)
    unit = full(a.low, 1)
    for bit in range(63, -1, -1):
        word = a.high if bit >= 32 else a.low
        top = _do("and", _do("shift-right-logical", word, full(word, bit % 32)), unit)
        over = _test(remainder.high, "GE", full(remainder.high, _SIGN))
        moved = _doubled(remainder)
        remainder = Pair(_do("or", moved.low, top), moved.high)
        fits = _or(over, compared(remainder, "GE", b, signed=False))
        remainder = select(fits, subtract(remainder, b), remainder)
        moved = _doubled(quotient)
        quotient = Pair(_do("or", moved.low, _count(fits)), moved.high)
    return quotient, remainder


def _doubled(a: Pair) -> Pair:
    unit = full(a.low, 1)
    carry = _do("shift-right-logical", a.low, full(a.low, 31))
    return Pair(
        _do("shift-left", a.low, unit), _do("or", _do("shift-left", a.high, unit), carry)
    )  # fmt: skip


# -- order ----------------------------------------------------------------------------------------

_SWAPPED = {"GT": "LT", "LE": "GE"}


def compared(a: Pair, direction: str, b: Pair, *, signed: bool) -> Node:
    """Return the predicate of a comparison."""
    if direction in ("EQ", "NE"):
        differing_bits = _do("or", _do("xor", a.low, b.low), _do("xor", a.high, b.high))
        return _test(differing_bits, direction, full(differing_bits, 0))
    if direction in _SWAPPED:
        return compared(b, _SWAPPED[direction], a, signed=signed)
    kind = "s32" if signed else "u32"
    first, second = _bits(a.high, kind), _bits(b.high, kind)
    above = _test(first, direction[0] + "T", second)
    equal = _and(_test(first, "EQ", second), _test(a.low, direction, b.low))
    return _or(above, equal)


def extreme(a: Pair, b: Pair, largest: bool, signed: bool) -> Pair:
    """Return the maximum or the minimum."""
    return select(compared(a, "GE" if largest else "LT", b, signed=signed), a, b)


# -- bits -----------------------------------------------------------------------------------------


def _distance(by: Pair) -> Node:
    """Return a distance as a word; 64 for larger distances."""
    near = _and(
        _test(by.high, "EQ", full(by.high, 0)), _test(by.low, "LT", full(by.low, 64))
    )  # fmt: skip
    return _choose(near, by.low, full(by.low, 64))


def shift_left(a: Pair, by: Pair) -> Pair:
    """Shift left; for distances below 32 the third term is 0, for larger ones the second."""
    near = _distance(by)
    back, far = _do("subtract", full(near, 32), near), _do("subtract", near, full(near, 32))
    high = _do("or", _do("shift-left", a.high, near), _do("shift-right-logical", a.low, back))
    high = _do("or", high, _do("shift-left", a.low, far))
    return Pair(_do("shift-left", a.low, near), high)


def shift_right(a: Pair, by: Pair, keep_sign: bool) -> Pair:
    """Shift right; zeros come in from the left, or the sign."""
    near = _distance(by)
    back, far = _do("subtract", full(near, 32), near), _do("subtract", near, full(near, 32))
    low = _do(
        "or", _do("shift-right-logical", a.low, near), _do("shift-left", a.high, back)
    )  # fmt: skip
    if not keep_sign:
        low = _do("or", low, _do("shift-right-logical", a.high, far))
        return Pair(low, _do("shift-right-logical", a.high, near))
    low = _choose(
        _test(near, "LT", full(near, 32)), low, _do("shift-right-arithmetic", a.high, far)
    )  # fmt: skip
    return Pair(low, _do("shift-right-arithmetic", a.high, near))


def _rewritten(opcode: str, word: Node) -> Node:
    return REWRITES[opcode](word.like(opcode, word))


def ones(a: Pair) -> Pair:
    """Return the number of set bits."""
    total = _do("add", _rewritten("popcnt", a.low), _rewritten("popcnt", a.high))
    return Pair(total, full(total, 0))


def leading_zeros(a: Pair) -> Pair:
    """Return the number of zero bits above the first set bit."""
    high_is_zero = _test(a.high, "EQ", full(a.high, 0))
    low = _do("add", _rewritten("count-leading-zeros", a.low), full(a.low, 32))
    zeros = _choose(high_is_zero, low, _rewritten("count-leading-zeros", a.high))
    return Pair(zeros, full(zeros, 0))


# -- conversions ----------------------------------------------------------------------------------


def from_word(operand: Node) -> Pair:
    """Convert an integer of at most 32 bits, or a predicate."""
    if operand.element.kind != "int":
        low = (
            operand
            if operand.element.name == "u32"
            else operand.like("convert", operand, element="u32")
        )
        return Pair(low, full(low, 0))
    word = (
        operand
        if operand.element.name == "s32"
        else operand.like("convert", operand, element="s32")
    )
    high = word.like("shift-right-arithmetic", word, full(word, 31, "s32"))
    return Pair(_bits(word, "u32"), _bits(high, "u32"))


def from_float(operand: Node, signed: bool) -> Pair:
    """Round towards zero; clamp to the range, and convert NaN to zero."""
    x = (
        operand
        if operand.element.name == "f32"
        else operand.like("convert", operand, element="f32")
    )
    size = x.like("abs", x)
    upper = x.like("floor", _do("multiply", size, full(x, 2.0**-32, "f32")))
    lower = _do("subtract", size, _do("multiply", upper, full(x, 2.0**32, "f32")))
    converted = Pair(
        x.like("convert", lower, element="u32"), x.like("convert", upper, element="u32")
    )  # fmt: skip
    below = _test(x, "LT", full(x, 0, "f32"))
    large = _test(size, "GE", full(x, 2.0**63 if signed else 2.0**64, "f32"))
    if signed:
        converted = select(below, negate(converted), converted)
        ends = select(below, number(x, -(1 << 63)), number(x, (1 << 63) - 1))
    else:
        ends = number(x, -1)
    converted = select(large, ends, converted)
    is_invalid = _test(x, "NE", x)
    if not signed:
        is_invalid = _or(is_invalid, below)
    return select(is_invalid, number(x, 0), converted)


def to_float(a: Pair, signed: bool) -> Node:
    """Return the nearest float32 (ties to even): the top 32 bits, the others as their last bit."""
    size = absolute(a) if signed else a
    zeros = _rewritten("count-leading-zeros", size.high)
    moved = shift_left(size, Pair(zeros, full(zeros, 0)))
    sticky = _count(_test(moved.low, "NE", full(moved.low, 0)))
    top = _do("or", moved.high, sticky)
    high_is_zero = _test(size.high, "EQ", full(size.high, 0))
    exponent = _do("subtract", full(zeros, 127 + 32), zeros)
    exponent = _choose(high_is_zero, full(zeros, 127), exponent)
    scale = _bits(_do("shift-left", exponent, full(exponent, 23)), "f32")
    word = _choose(high_is_zero, size.low, top)
    converted = _do("multiply", word.like("convert", word, element="f32"), scale)
    if not signed:
        return converted
    return _choose(_negative(a), converted.like("negate", converted), converted)


def to_index(a: Pair, signed: bool) -> Node:
    """Return s32; out of its range the limit, which is outside of every array."""
    ends = full(a.low, 2**31 - 1, "s32")
    high, low = _bits(a.high, "s32"), _bits(a.low, "s32")
    fits = _test(high, "EQ", low.like("shift-right-arithmetic", low, full(low, 31, "s32")))
    if not signed:
        fits = _and(fits, _test(high, "EQ", full(high, 0, "s32")))
        return _choose(fits, low, ends)
    below = full(a.low, -(2**31), "s32")
    return _choose(fits, low, _choose(_negative(a), below, ends))
