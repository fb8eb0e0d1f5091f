"""Expands hyperbolic functions and inverse functions into functions that the engines have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from neff.compiler.graph.nodes import Node, derived

__all__ = ["FUNCTIONS"]


def _number(like: Node, value: float) -> Node:
    scalar = derived(
        like, "constant", (), (), like.element, value=np.asarray(value, like.element.dtype)
    )
    return derived(like, "broadcast", (scalar,), like.shape, dimensions=())


def _in_float32(rule: Callable[[Node], Node]) -> Callable[[Node], Node]:
    """Return a rewrite that computes in float32 for any real float type; others are unchanged."""

    def rewrite(node: Node) -> Node:
        if node.element.kind != "float" or node.element.name == "f64":
            return node
        (operand,) = node.operands
        wide = operand.like("convert", operand, element="f32")
        return node.like("convert", rule(operand if operand.element.name == "f32" else wide))

    return rewrite


def _sum(a: Node, b: Node) -> Node:
    return a.like("add", a, b)


def _difference(a: Node, b: Node) -> Node:
    return a.like("subtract", a, b)


def _product(a: Node, b: Node) -> Node:
    return a.like("multiply", a, b)


def _compare(direction: str, a: Node, b: Node) -> Node:
    return a.like("compare", a, b, element="pred", direction=direction)


def _less(a: Node, b: Node) -> Node:
    return _compare("LT", a, b)


def _negative(x: Node) -> Node:
    """Return True where the sign bit is set."""
    bits = x.like("bitcast-convert", x, element="s32")
    return _less(bits, _number(bits, 0))


def _signed(value: Node, sign: Node) -> Node:
    """Return a nonnegative value with the sign of another value."""
    return value.like("select", _negative(sign), value.like("negate", value), value)


_ARCTAN = (
    9.9999999755e-01, -3.3333282296e-01, 1.9998230640e-01, -1.4261573680e-01, 1.0940198964e-01,
    -8.3720639438e-02, 5.7463557778e-02, -3.0717508836e-02, 1.0680719410e-02, -1.7437011358e-03,
)  # fmt: skip
"""Coefficients of arctan(x) / x as a polynomial in x * x on [0, 1]: a Chebyshev fit, error below
9e-8.
"""


_MIN_RATIO_OPERAND = 2.0**-64


def _arctan2(node: Node) -> Node:
    """Return the angle of (x, y): the arctangent of the lesser over the greater, then its
    octant.
    """
    if node.element.kind != "float":
        return node
    y, x = (operand.like("convert", operand, element="f32") for operand in node.operands)
    high, wide = y.like("abs", y), x.like("abs", x)
    big = y.like("maximum", high, wide)
    zero = _number(y, 0)
    tiny = _compare(
        "GT", _number(y, _MIN_RATIO_OPERAND), big
    )  # its reciprocal may overflow float32
    scale = y.like("select", tiny, _number(y, 1 / _MIN_RATIO_OPERAND), _number(y, 1))
    high, wide, big = (_product(operand, scale) for operand in (high, wide, big))
    safe = y.like("select", _compare("EQ", big, zero), _number(y, 1), big)
    ratio = y.like("divide", y.like("minimum", high, wide), safe)
    same = y.like("and", _compare("EQ", high, wide), _compare("GT", big, zero), element="pred")
    ratio = y.like("select", same, _number(y, 1), ratio)  # also for infinity over infinity
    square = y.like("multiply", ratio, ratio)
    angle = _number(y, _ARCTAN[-1])
    for factor in _ARCTAN[-2::-1]:
        angle = y.like("add", y.like("multiply", angle, square), _number(y, factor))
    angle = y.like("multiply", angle, ratio)
    steep = y.like("subtract", _number(y, np.pi / 2), angle)
    angle = y.like("select", _compare("GT", high, wide), steep, angle)
    back = _negative(x)
    angle = y.like("select", back, y.like("subtract", _number(y, np.pi), angle), angle)
    down = _negative(y)
    angle = y.like("select", down, y.like("negate", angle), angle)
    is_nan = y.like("or", _compare("NE", x, x), _compare("NE", y, y), element="pred")
    return node.like("convert", y.like("select", is_nan, _number(y, np.nan), angle))


def _cosh(x: Node) -> Node:
    """Return (e^(|x| - ln 2) + e^(-|x| - ln 2)), which overflows only where cosh does."""
    log2, size = _number(x, np.log(2)), x.like("abs", x)
    up = x.like("exponential", _difference(size, log2))
    return _sum(up, x.like("exponential", _difference(x.like("negate", size), log2)))


def _sinh(x: Node) -> Node:
    """Use e^|x| - 1 where that is exact enough, and e^(|x| - ln 2) for larger |x|."""
    size, half = x.like("abs", x), _number(x, 0.5)
    less = x.like("exponential-minus-one", size)
    ratio = x.like("divide", less, _sum(less, _number(x, 1)))
    near = _product(half, _sum(less, ratio))
    log2 = _number(x, np.log(2))
    far = x.like("exponential", _difference(size, log2))
    far = _difference(
        far, x.like("exponential", _difference(x.like("negate", size), log2))
    )  # fmt: skip
    return _signed(x.like("select", _less(size, _number(x, 1)), near, far), x)


def _asin(x: Node) -> Node:
    """Return atan2(x, sqrt((1 - x) * (1 + x)))."""
    unit = _number(x, 1)
    side = x.like("sqrt", _product(_difference(unit, x), _sum(unit, x)))
    return _arctan2(x.like("atan2", x, side))


def _acos(x: Node) -> Node:
    unit = _number(x, 1)
    side = x.like("sqrt", _product(_difference(unit, x), _sum(unit, x)))
    return _arctan2(x.like("atan2", side, x))


def _asinh(x: Node) -> Node:
    """Return log1p(|x| + x^2 / (1 + sqrt(1 + x^2))); log(2 |x|) where the square overflows."""
    unit, size = _number(x, 1), x.like("abs", x)
    square = _product(size, size)
    root = x.like("sqrt", _sum(unit, square))
    near = _sum(size, x.like("divide", square, _sum(unit, root)))
    near = x.like("log-plus-one", near)
    far = _sum(x.like("log", size), _number(x, np.log(2)))
    return _signed(x.like("select", _less(size, _number(x, 1e9)), near, far), x)


def _acosh(x: Node) -> Node:
    """Return log1p(t + sqrt(t) sqrt(t + 2)) with t = x - 1, NaN below 1; log(2 x) for large x."""
    t = _difference(x, _number(x, 1))
    root = _product(x.like("sqrt", t), x.like("sqrt", _sum(t, _number(x, 2))))
    near = x.like("log-plus-one", _sum(t, root))
    far = _sum(x.like("log", x), _number(x, np.log(2)))
    return x.like("select", _less(_number(x, 1e9), x), far, near)


def _atanh(x: Node) -> Node:
    """Return (log1p(|x|) - log1p(-|x|)) / 2."""
    size = x.like("abs", x)
    above = x.like("log-plus-one", size)
    below = x.like("log-plus-one", x.like("negate", size))
    return _signed(_product(_number(x, 0.5), _difference(above, below)), x)


def _exp2(x: Node) -> Node:
    """Return the power of two, which is exact for integers; e^(x ln 2) is not."""
    return x.like("power", _number(x, 2), x)


def _log2(x: Node) -> Node:
    """Return log(x) / ln 2, and the exponent itself where x is a power of two."""
    ratio = _product(x.like("log", x), _number(x, 1 / np.log(2)))
    exponent = x.like("round-nearest-even", ratio)
    return x.like("select", _compare("EQ", _exp2(exponent), x), exponent, ratio)


FUNCTIONS: dict[str, Callable[[Node], Node]] = {
    "acos": _in_float32(_acos),
    "acosh": _in_float32(_acosh),
    "asin": _in_float32(_asin),
    "asinh": _in_float32(_asinh),
    "atan2": _arctan2,
    "atanh": _in_float32(_atanh),
    "cosh": _in_float32(_cosh),
    "exp2": _in_float32(_exp2),
    "log2": _in_float32(_log2),
    "sinh": _in_float32(_sinh),
}
"""Opcode -> its expansion."""
