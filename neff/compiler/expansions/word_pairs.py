"""64-bit integer arithmetic on pairs of 32-bit words: XLA's, for every value.

A pair is two u32 arrays of one shape. Shifts by 32 or more give 0 (or the sign), as HLO's do.
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
    """The low and the high words."""

    low: Node
    high: Node


def full(like: Node, value: float, element: str = "u32") -> Node:
    """A number everywhere."""
    kind = BY_NAME[element]
    number = np.asarray(value).astype(kind.dtype)
    scalar = derived(like, "constant", (), (), kind, value=number)
    return derived(like, "broadcast", (scalar,), like.shape, kind, dimensions=())


def _do(opcode: str, a: Node, b: Node) -> Node:
    return a.like(opcode, a, b)


def _test(a: Node, direction: str, b: Node) -> Node:
    return a.like("compare", a, b, element="pred", direction=direction)


def _both(a: Node, b: Node) -> Node:
    return a.like("and", a, b)


def _either(a: Node, b: Node) -> Node:
    return a.like("or", a, b)


def _choose(choice: Node, a: Node, b: Node) -> Node:
    return a.like("select", choice, a, b)


def _bits(one: Node, element: str) -> Node:
    return one if one.element.name == element else one.like("bitcast-convert", one, element=element)


def _count(truth: Node) -> Node:
    """1 where it is true."""
    return truth.like("convert", truth, element="u32")


def _negative(pair: Pair) -> Node:
    return _test(_bits(pair.high, "s32"), "LT", full(pair.high, 0, "s32"))


def constant(like: Node, value: npt.NDArray[np.integer]) -> Pair:
    """The words of an array of 64-bit integers."""
    words = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<")).view(np.uint32)
    words = words.reshape((*value.shape, 2))
    low, high = (
        derived(like, "constant", (), value.shape, _U32, value=np.ascontiguousarray(words[..., at]))
        for at in (0, 1)
    )
    return Pair(low, high)


def number(like: Node, value: int) -> Pair:
    """One number everywhere."""
    value &= (1 << 64) - 1
    return Pair(full(like, value & 0xFFFFFFFF), full(like, value >> 32))


def select(choice: Node, a: Pair, b: Pair) -> Pair:
    """``a`` where the predicate is true."""
    return Pair(_choose(choice, a.low, b.low), _choose(choice, a.high, b.high))


# -- sums and products ----------------------------------------------------------------------------


def add(a: Pair, b: Pair) -> Pair:
    """Wraps around."""
    low = _do("add", a.low, b.low)
    carry = _count(_test(low, "LT", a.low))
    return Pair(low, _do("add", _do("add", a.high, b.high), carry))


def subtract(a: Pair, b: Pair) -> Pair:
    """Wraps around."""
    borrow = _count(_test(a.low, "LT", b.low))
    low = _do("subtract", a.low, b.low)
    return Pair(low, _do("subtract", _do("subtract", a.high, b.high), borrow))


def negate(a: Pair) -> Pair:
    """Wraps around."""
    return subtract(number(a.low, 0), a)


def multiply(a: Pair, b: Pair) -> Pair:
    """Wraps around."""
    high = high_half(a.low.like("mulhi", a.low, b.low))
    for one, other in ((a.low, b.high), (a.high, b.low)):
        high = _do("add", high, _do("multiply", one, other))
    return Pair(_do("multiply", a.low, b.low), high)


def absolute(a: Pair) -> Pair:
    """The size; of the least number itself."""
    return select(_negative(a), negate(a), a)


def sign(a: Pair, signed: bool) -> Pair:
    """-1, 0 or 1."""
    some = _test(_either(a.low, a.high), "NE", full(a.low, 0))
    found = Pair(_count(some), full(a.low, 0))
    return select(_negative(a), number(a.low, -1), found) if signed else found


def divided(a: Pair, b: Pair, signed: bool) -> tuple[Pair, Pair]:
    """Quotient towards zero and remainder; by zero -1 (all ones), and the dividend."""
    if not signed:
        return _long_division(a, b)
    quotient, rest = _long_division(absolute(a), absolute(b))
    below = _negative(a)
    apart = below.like("xor", below, _negative(b))
    quotient = select(apart, negate(quotient), quotient)
    none = _test(_either(b.low, b.high), "EQ", full(b.low, 0))
    quotient = select(none, number(a.low, -1), quotient)
    return quotient, select(none, a, select(below, negate(rest), rest))


def _long_division(a: Pair, b: Pair) -> tuple[Pair, Pair]:
    """Bit by bit from the top, unsigned."""
    rest, quotient = number(a.low, 0), number(a.low, 0)
    one = full(a.low, 1)
    for bit in range(63, -1, -1):
        word = a.high if bit >= 32 else a.low
        top = _do("and", _do("shift-right-logical", word, full(word, bit % 32)), one)
        over = _test(rest.high, "GE", full(rest.high, _SIGN))
        moved = _doubled(rest)
        rest = Pair(_do("or", moved.low, top), moved.high)
        fits = _either(over, compared(rest, "GE", b, signed=False))
        rest = select(fits, subtract(rest, b), rest)
        moved = _doubled(quotient)
        quotient = Pair(_do("or", moved.low, _count(fits)), moved.high)
    return quotient, rest


def _doubled(a: Pair) -> Pair:
    one = full(a.low, 1)
    carry = _do("shift-right-logical", a.low, full(a.low, 31))
    return Pair(
        _do("shift-left", a.low, one), _do("or", _do("shift-left", a.high, one), carry)
    )  # fmt: skip


# -- order ----------------------------------------------------------------------------------------

_SWAPPED = {"GT": "LT", "LE": "GE"}


def compared(a: Pair, direction: str, b: Pair, *, signed: bool) -> Node:
    """A predicate."""
    if direction in ("EQ", "NE"):
        apart = _do("or", _do("xor", a.low, b.low), _do("xor", a.high, b.high))
        return _test(apart, direction, full(apart, 0))
    if direction in _SWAPPED:
        return compared(b, _SWAPPED[direction], a, signed=signed)
    kind = "s32" if signed else "u32"
    first, second = _bits(a.high, kind), _bits(b.high, kind)
    above = _test(first, direction[0] + "T", second)
    equal = _both(_test(first, "EQ", second), _test(a.low, direction, b.low))
    return _either(above, equal)


def extreme(a: Pair, b: Pair, largest: bool, signed: bool) -> Pair:
    """The maximum or the minimum."""
    return select(compared(a, "GE" if largest else "LT", b, signed=signed), a, b)


# -- bits -----------------------------------------------------------------------------------------


def _distance(by: Pair) -> Node:
    """A distance as a word; 64 for all that is beyond it."""
    near = _both(
        _test(by.high, "EQ", full(by.high, 0)), _test(by.low, "LT", full(by.low, 64))
    )  # fmt: skip
    return _choose(near, by.low, full(by.low, 64))


def shift_left(a: Pair, by: Pair) -> Pair:
    """Of a distance below 32 the third term is 0, of one above the second."""
    near = _distance(by)
    back, far = _do("subtract", full(near, 32), near), _do("subtract", near, full(near, 32))
    high = _do("or", _do("shift-left", a.high, near), _do("shift-right-logical", a.low, back))
    high = _do("or", high, _do("shift-left", a.low, far))
    return Pair(_do("shift-left", a.low, near), high)


def shift_right(a: Pair, by: Pair, keep_sign: bool) -> Pair:
    """Zeros come in from the left, or the sign."""
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
    """How many bits are set."""
    found = _do("add", _rewritten("popcnt", a.low), _rewritten("popcnt", a.high))
    return Pair(found, full(found, 0))


def leading_zeros(a: Pair) -> Pair:
    """How many bits are not set above the first that is."""
    none = _test(a.high, "EQ", full(a.high, 0))
    low = _do("add", _rewritten("count-leading-zeros", a.low), full(a.low, 32))
    found = _choose(none, low, _rewritten("count-leading-zeros", a.high))
    return Pair(found, full(found, 0))


# -- conversions ----------------------------------------------------------------------------------


def from_word(one: Node) -> Pair:
    """From an integer of at most 32 bits, or a predicate."""
    if one.element.kind != "int":
        low = one if one.element.name == "u32" else one.like("convert", one, element="u32")
        return Pair(low, full(low, 0))
    word = one if one.element.name == "s32" else one.like("convert", one, element="s32")
    high = word.like("shift-right-arithmetic", word, full(word, 31, "s32"))
    return Pair(_bits(word, "u32"), _bits(high, "u32"))


def from_float(one: Node, signed: bool) -> Pair:
    """Towards zero; beyond the range to its end, NaN to zero."""
    x = one if one.element.name == "f32" else one.like("convert", one, element="f32")
    size = x.like("abs", x)
    upper = x.like("floor", _do("multiply", size, full(x, 2.0**-32, "f32")))
    rest = _do("subtract", size, _do("multiply", upper, full(x, 2.0**32, "f32")))
    found = Pair(
        x.like("convert", rest, element="u32"), x.like("convert", upper, element="u32")
    )  # fmt: skip
    below = _test(x, "LT", full(x, 0, "f32"))
    large = _test(size, "GE", full(x, 2.0**63 if signed else 2.0**64, "f32"))
    if signed:
        found = select(below, negate(found), found)
        ends = select(below, number(x, -(1 << 63)), number(x, (1 << 63) - 1))
    else:
        ends = number(x, -1)
    found = select(large, ends, found)
    lost = _test(x, "NE", x)
    if not signed:
        lost = _either(lost, below)
    return select(lost, number(x, 0), found)


def to_float(a: Pair, signed: bool) -> Node:
    """The nearest float32 (even of two): the top 32 bits, the rest as their last bit."""
    size = absolute(a) if signed else a
    zeros = _rewritten("count-leading-zeros", size.high)
    moved = shift_left(size, Pair(zeros, full(zeros, 0)))
    rest = _count(_test(moved.low, "NE", full(moved.low, 0)))
    top = _do("or", moved.high, rest)
    none = _test(size.high, "EQ", full(size.high, 0))
    exponent = _do("subtract", full(zeros, 127 + 32), zeros)
    exponent = _choose(none, full(zeros, 127), exponent)
    scale = _bits(_do("shift-left", exponent, full(exponent, 23)), "f32")
    word = _choose(none, size.low, top)
    found = _do("multiply", word.like("convert", word, element="f32"), scale)
    if not signed:
        return found
    return _choose(_negative(a), found.like("negate", found), found)


def to_index(a: Pair, signed: bool) -> Node:
    """As s32; beyond its range the end of it, which is outside of every array."""
    ends = full(a.low, 2**31 - 1, "s32")
    high, low = _bits(a.high, "s32"), _bits(a.low, "s32")
    fits = _test(high, "EQ", low.like("shift-right-arithmetic", low, full(low, 31, "s32")))
    if not signed:
        fits = _both(fits, _test(high, "EQ", full(high, 0, "s32")))
        return _choose(fits, low, ends)
    below = full(a.low, -(2**31), "s32")
    return _choose(fits, low, _choose(_negative(a), below, ends))
