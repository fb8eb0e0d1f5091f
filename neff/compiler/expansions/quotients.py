"""Expands quotients that are rounded once, for the floor division of NumPy and JAX.

These divide ``a - a % b`` by ``b``. The remainder of a product with the reciprocal moves the quotient
to the next integer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neff.compiler.graph.nodes import Node, derived

__all__ = ["exact_quotient", "is_floor_quotient"]

_MIN_DIVISOR, _SCALE_UP, _SCALE_DOWN = 2.0**-64, 2.0**64, 2.0**-16
"""Divisors below the first are multiplied by the second, others by the third, so that they have a
reciprocal with all its bits. A dividend that overflows by this scale has an infinite quotient.
"""

_QUOTIENT_SCALE = 2.0**-16
"""The quotient is computed smaller by this factor, so that no intermediate overflows before it
does.
"""

_HALF_UNIT = np.float32(2.0**-24 * (1 + 2.0**-23))
"""``x + |x| * _HALF_UNIT`` is the next float32 (Rump and others, "Computing predecessor and successor in
rounding to nearest", algorithm 1)."""

_VELTKAMP_FACTOR = 4097
"""Veltkamp's factor: it splits float32 into 12 bits and 11."""

_HIGH_BITS, _SIGN_BIT, _POWER_BITS = 0xFFFFF000, 0x80000000, 0xFF800000
"""Bits of a float32: all but the last 12, its sign, its sign and exponent."""


def is_floor_quotient(node: Node) -> bool:
    """Return True for a division ``(a - remainder(a, b)) / b`` of float32.

    JAX divides ``a`` where b is 0.
    """
    if node.opcode != "divide" or node.element.name != "f32":
        return False
    dividend, b = node.operands
    if dividend.opcode == "select" and b.splat is None:  # XLA takes the reciprocal of a number
        _, default, difference = dividend.operands
        dividend = (
            difference
            if difference.operands and _same(difference.operands[0], default)
            else dividend
        )
    if dividend.opcode != "subtract" or dividend.operands[1].opcode != "remainder":
        return False
    a, remainder = dividend.operands
    same = _same(remainder.operands[0], a) and _same(remainder.operands[1], b)
    return same and (b.splat is None or not _is_power(b.splat))


def _is_power(number: Any) -> bool:
    """Return True if products with the reciprocal of a number are exact."""
    return bool(np.frexp(number)[0] in (0.5, -0.5)) and 2.0**-126 <= abs(number) <= 2.0**126


def _same(a: Node, b: Node) -> bool:
    """Return True for the same node, or for two broadcasts of the same number."""
    if a is b:
        return True
    x, y = a.splat, b.splat
    return x is not None and y is not None and x.tobytes() == y.tobytes()


@dataclass(frozen=True, slots=True)
class _Divisor:
    """A divisor, scaled by a power of two with its sign to a number from a half to one.

    Attributes:
        value: the scaled divisor.
        high, low: its two parts of 12 bits.
        first, power: the power of two, in two factors.
        reciprocal: reciprocal of the divisor times ``first``.
    """

    value: Node
    high: Node
    low: Node
    first: Node
    power: Node
    reciprocal: Node


def exact_quotient(node: Node) -> Node:
    """Return a float32 quotient of at least 1, of zero or by zero, rounded to nearest.

    The product with the reciprocal is less than two units off. Its remainder, from exact products
    (Dekker), shows on which side the quotient is, and whether it is off by more than half a unit.
    """
    a, b = node.operands
    d = _divisor(b) if b.splat is None else _constant_divisor(node, b.splat)
    n = _product(_product(a, d.first), _number(a, _QUOTIENT_SCALE))
    q = _product(n, d.reciprocal)
    remainder = _remainder(_product(n, d.power), q, d)
    step = _product(_abs(q), _number(q, _HALF_UNIT))
    step = _cast(_or(_masked(remainder, _SIGN_BIT), _bits(step)))
    near = _sum(q, step)
    half = _product(_difference(near, q), d.value)
    over = q.like(
        "compare", _abs(_sum(remainder, remainder)), _abs(half), element="pred", direction="GT"
    )
    return _product(q.like("select", over, near, q), _number(q, 1 / _QUOTIENT_SCALE))


def _remainder(n: Node, q: Node, d: _Divisor) -> Node:
    """Return ``n - q * d``; each product and each difference is exact."""
    grown = _product(q, _number(q, _VELTKAMP_FACTOR))
    high = _difference(grown, _difference(grown, q))
    low = _difference(q, high)
    for x, y in ((high, d.high), (high, d.low), (low, d.high), (low, d.low)):
        n = _difference(n, _product(x, y))
    return n


def _divisor(b: Node) -> _Divisor:
    small = b.like("compare", _abs(b), _number(b, _MIN_DIVISOR), element="pred", direction="LT")
    first = b.like("select", small, _number(b, _SCALE_UP), _number(b, _SCALE_DOWN))
    value = _product(b, first)
    reciprocal = b.like("divide", _number(b, 1), value)
    power = _cast(_masked(reciprocal, _POWER_BITS))
    value = _product(value, power)
    high = _cast(_masked(value, _HIGH_BITS))
    return _Divisor(value, high, _difference(value, high), first, power, reciprocal)


@np.errstate(all="ignore")
def _constant_divisor(node: Node, number: Any) -> _Divisor:
    """Return the divisor if it is a constant."""

    def masked(value: Any, mask: int) -> Any:
        return (value.view(np.uint32) & np.uint32(mask)).view(np.float32)

    first = np.float32(_SCALE_UP if abs(number) < _MIN_DIVISOR else _SCALE_DOWN)
    value = np.float32(number) * first
    reciprocal = np.float32(1) / value
    power = masked(reciprocal, _POWER_BITS)
    value = value * power
    high = masked(value, _HIGH_BITS)
    parts = value, high, value - high, first, power, reciprocal
    return _Divisor(*(_number(node, number) for number in parts))


def _bits(a: Node) -> Node:
    return a.like("bitcast-convert", a, element="u32")


def _masked(a: Node, mask: int) -> Node:
    """Return the selected bits of a float32."""
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
