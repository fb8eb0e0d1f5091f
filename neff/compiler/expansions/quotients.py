"""Quotients that are rounded once: the floor division of NumPy and JAX divides ``a - a % b`` by ``b``,
and what is left of a product with the reciprocal moves it to the next whole number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neff.compiler.graph.nodes import Node, derived

__all__ = ["exact_quotient", "is_floor_quotient"]

_SMALL, _GROWN, _SHRUNK = 2.0**-64, 2.0**64, 2.0**-16
"""Divisors below the first are multiplied by the second, others by the third, so that they have a
reciprocal with all its bits. A dividend that overflows by that has an infinite quotient."""

_ROOM = 2.0**-16
"""The quotient is computed smaller by this, so that nothing on the way overflows before it does."""

_NEXT = np.float32(2.0**-24 * (1 + 2.0**-23))
"""``x + |x| * _NEXT`` is the next float32 (Rump and others, "Computing predecessor and successor in
rounding to nearest", algorithm 1)."""

_SPLIT = 4097
"""Veltkamp's factor: it splits float32 into 12 bits and 11."""

_HIGH, _SIGN, _POWER = 0xFFFFF000, 0x80000000, 0xFF800000
"""Bits of a float32: all but the last 12, its sign, its sign and exponent."""


def is_floor_quotient(node: Node) -> bool:
    """Whether a division is ``(a - remainder(a, b)) / b`` of float32; JAX takes ``a`` where b is 0."""
    if node.opcode != "divide" or node.element.name != "f32":
        return False
    whole, b = node.operands
    if whole.opcode == "select" and b.splat is None:  # XLA takes the reciprocal of a number
        _, kept, other = whole.operands
        whole = other if other.operands and _same(other.operands[0], kept) else whole
    if whole.opcode != "subtract" or whole.operands[1].opcode != "remainder":
        return False
    a, rest = whole.operands
    same = _same(rest.operands[0], a) and _same(rest.operands[1], b)
    return same and (b.splat is None or not _is_power(b.splat))


def _is_power(number: Any) -> bool:
    """Whether products with the reciprocal of a number are exact."""
    return bool(np.frexp(number)[0] in (0.5, -0.5)) and 2.0**-126 <= abs(number) <= 2.0**126


def _same(one: Node, other: Node) -> bool:
    """Whether two nodes are one, or the same number everywhere."""
    if one is other:
        return True
    x, y = one.splat, other.splat
    return x is not None and y is not None and x.tobytes() == y.tobytes()


@dataclass(frozen=True, slots=True)
class _Divisor:
    """A divisor times a power of two with its sign: a number from a half to one.

    Attributes:
        value: that number.
        high, low: the same in two parts of 12 bits.
        first, power: the power of two, in two factors.
        reciprocal: of the divisor times ``first``.
    """

    value: Node
    high: Node
    low: Node
    first: Node
    power: Node
    reciprocal: Node


def exact_quotient(node: Node) -> Node:
    """A float32 quotient of at least 1, of zero or by zero, rounded to nearest, in operations that the
    engines have.

    The product with the reciprocal is less than two units off. Its remainder, of exact products
    (Dekker), says on which side the quotient is, and whether by more than half a unit.
    """
    a, b = node.operands
    d = _divisor(b) if b.splat is None else _known(node, b.splat)
    n = _product(_product(a, d.first), _number(a, _ROOM))
    q = _product(n, d.reciprocal)
    rest = _remainder(_product(n, d.power), q, d)
    step = _product(_abs(q), _number(q, _NEXT))
    step = _cast(_or(_masked(rest, _SIGN), _bits(step)))
    near = _sum(q, step)
    half = _product(_difference(near, q), d.value)
    over = q.like("compare", _abs(_sum(rest, rest)), _abs(half), element="pred", direction="GT")
    return _product(q.like("select", over, near, q), _number(q, 1 / _ROOM))


def _remainder(n: Node, q: Node, d: _Divisor) -> Node:
    """``n - q * d``, each product and each difference exact."""
    grown = _product(q, _number(q, _SPLIT))
    high = _difference(grown, _difference(grown, q))
    low = _difference(q, high)
    for x, y in ((high, d.high), (high, d.low), (low, d.high), (low, d.low)):
        n = _difference(n, _product(x, y))
    return n


def _divisor(b: Node) -> _Divisor:
    small = b.like("compare", _abs(b), _number(b, _SMALL), element="pred", direction="LT")
    first = b.like("select", small, _number(b, _GROWN), _number(b, _SHRUNK))
    value = _product(b, first)
    reciprocal = b.like("divide", _number(b, 1), value)
    power = _cast(_masked(reciprocal, _POWER))
    value = _product(value, power)
    high = _cast(_masked(value, _HIGH))
    return _Divisor(value, high, _difference(value, high), first, power, reciprocal)


@np.errstate(all="ignore")
def _known(node: Node, number: Any) -> _Divisor:
    """The divisor where it is one number."""

    def masked(value: Any, mask: int) -> Any:
        return (value.view(np.uint32) & np.uint32(mask)).view(np.float32)

    first = np.float32(_GROWN if abs(number) < _SMALL else _SHRUNK)
    value = np.float32(number) * first
    reciprocal = np.float32(1) / value
    power = masked(reciprocal, _POWER)
    value = value * power
    high = masked(value, _HIGH)
    parts = value, high, value - high, first, power, reciprocal
    return _Divisor(*(_number(node, each) for each in parts))


def _bits(a: Node) -> Node:
    return a.like("bitcast-convert", a, element="u32")


def _masked(a: Node, mask: int) -> Node:
    """Some bits of a float32."""
    bits = _bits(a)
    return bits.like("and", bits, _number(bits, mask))


def _or(a: Node, b: Node) -> Node:
    return a.like("or", a, b)


def _cast(bits: Node) -> Node:
    return bits.like("bitcast-convert", bits, element="f32")


def _number(like: Node, value: Any) -> Node:
    scalar = derived(
        like, "constant", (), (), like.element, value=np.asarray(value, like.element.dtype)
    )
    return derived(like, "broadcast", (scalar,), like.shape, like.element, dimensions=())


def _abs(a: Node) -> Node:
    return a.like("abs", a)


def _sum(a: Node, b: Node) -> Node:
    return a.like("add", a, b)


def _difference(a: Node, b: Node) -> Node:
    return a.like("subtract", a, b)


def _product(a: Node, b: Node) -> Node:
    return a.like("multiply", a, b)
