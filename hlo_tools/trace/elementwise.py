"""Lowerings of ufuncs to HLO; operands already have one shape and NumPy's dtype."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.graph import Node

__all__ = ["LOWERINGS", "floor_divide", "remainder"]

Lowering = Callable[..., Any]
BOOL = np.dtype(bool)
F32 = np.dtype(np.float32)


def _is_float(node: Node) -> bool:
    return node.dtype.kind not in "biu" and node.dtype.kind != "c"


def _is_bool(node: Node) -> bool:
    return node.dtype == BOOL


def _full(like: Node, value: Any) -> Node:
    return hlo.full(like.graph, like.shape, value, like.dtype)


def _direct(opcode: str) -> Lowering:
    return lambda *nodes: hlo.elementwise(opcode, *nodes)


def _by_kind(numbers: str, booleans: str) -> Lowering:
    """One instruction for numbers, another for booleans."""
    return lambda *nodes: hlo.elementwise(booleans if _is_bool(nodes[0]) else numbers, *nodes)


def _of_floats(opcode: str) -> Lowering:
    """An instruction that leaves integers as they are (floor of an int32 is that int32)."""

    def lower(node: Node) -> Node:
        if node.dtype.kind == "c":
            return _complex(*(hlo.elementwise(opcode, component) for component in _parts(node)))
        return hlo.elementwise(opcode, node) if _is_float(node) else node

    return lower


def _comparison(direction: str) -> Lowering:
    def lower(left: Node, right: Node) -> Node:
        return hlo.compare(direction, left, right)

    return lower


def _logical(opcode: str) -> Lowering:
    return lambda *nodes: hlo.elementwise(opcode, *(hlo.convert(node, BOOL) for node in nodes))


def _scaled(factor: float, opcode: str = "") -> Lowering:
    """An instruction's result (or the operand itself) times a number."""

    def lower(node: Node) -> Node:
        return _times(hlo.elementwise(opcode, node) if opcode else node, factor)

    return lower


def _times(node: Node, factor: float) -> Node:
    """A product with a real number: of each part of a complex one, since inf * 0j is NaN."""
    if node.dtype.kind == "c":
        return _complex(*(_times(component, factor) for component in _parts(node)))
    return hlo.elementwise("multiply", node, _full(node, factor))


def _parts(node: Node) -> tuple[Node, Node]:
    """The real and the imaginary part."""
    return (
        hlo.elementwise("real", node, dtype=F32),
        hlo.elementwise("imag", node, dtype=F32),
    )


def _complex(real: Node, imag: Node) -> Node:
    return hlo.elementwise("complex", real, imag, dtype=np.dtype(np.complex64))


def _real_only(name: str, lower: Lowering, remedy: str) -> Lowering:
    """A function that complex numbers are refused for."""

    def checked(*nodes: Node) -> Any:
        if nodes[0].dtype.kind == "c":
            raise refuse(
                f"numpy.{name} of complex numbers is not supported for traced arrays",
                code="HLO-TRACE-ARGUMENT",
                remedy=remedy,
            )
        return lower(*nodes)

    return checked


def _inverse(name: str, lower: Lowering) -> Lowering:
    """An inverse of a trigonometric or hyperbolic function, of real numbers."""
    return _rounded_once(_real_only(name, lower, "write it with numpy.log and numpy.sqrt"))


def _ordering(name: str, lower: Lowering) -> Lowering:
    """A function that needs an order; HLO has none of complex numbers."""
    return _real_only(name, lower, "order by numpy.real or numpy.abs")


def _square(node: Node) -> Node:
    return hlo.elementwise("and" if _is_bool(node) else "multiply", node, node)


def _reciprocal(node: Node) -> Node:
    if not _is_float(node) and node.dtype.kind in "iu":
        return _integer_reciprocal(node)
    return hlo.elementwise("divide", _full(node, 1), node)


def _integer_reciprocal(node: Node) -> Node:
    """1 and -1 stay, all others are 0; 1 / 0 is what the conversion of inf gives NumPy."""
    ones = _full(node, 1)
    size = node if node.dtype.kind == "u" else hlo.elementwise("abs", node)
    reciprocal = hlo.select(hlo.compare("EQ", size, ones), node, _full(node, 0))
    if node.dtype != np.dtype(np.int32):
        return reciprocal
    zero = hlo.compare("EQ", node, _full(node, 0))
    return hlo.select(zero, _full(node, np.iinfo(np.int32).min), reciprocal)


def _exp2(node: Node) -> Node:
    return hlo.elementwise("power", _full(node, 2), node)


def _trunc(node: Node) -> Node:
    if not _is_float(node):
        return node
    negative = hlo.compare("LT", node, _full(node, 0))
    up, down = hlo.elementwise("ceil", node), hlo.elementwise("floor", node)
    return hlo.select(negative, up, down)


def _absolute(node: Node) -> Node:
    if node.dtype.kind in "bu":
        return node
    if node.dtype.kind == "c":
        return hlo.elementwise("abs", node, dtype=np.dtype(np.float32))
    return hlo.elementwise("abs", node)


def _sign(node: Node) -> Node:
    if node.dtype.kind == "u":
        return hlo.elementwise("minimum", node, _full(node, 1))
    sign = hlo.elementwise("sign", node)
    # NumPy gives 0.0 for -0.0, HLO and ml_dtypes -0.0.
    return hlo.elementwise("add", sign, _full(node, 0)) if node.dtype.kind == "f" else sign


def _of_parts(test: Lowering, combine: str) -> Lowering:
    """A test of floats, of complex numbers combined from that of both parts."""

    def lower(node: Node) -> Node:
        if node.dtype.kind != "c":
            return test(node)
        real, imag = _parts(node)
        return hlo.elementwise(combine, test(real), test(imag))

    return lower


def _positive(node: Node) -> Node:
    return node


def _conjugate(node: Node) -> Node:
    if node.dtype.kind != "c":
        return node
    real, imag = _parts(node)
    return _complex(real, hlo.elementwise("negate", imag))


def _isnan(node: Node) -> Node:
    if not _is_float(node):
        return hlo.full(node.graph, node.shape, False, BOOL)
    return hlo.compare("NE", node, node)


def _isinf(node: Node) -> Node:
    if not _is_float(node):
        return hlo.full(node.graph, node.shape, False, BOOL)
    return hlo.compare("EQ", hlo.elementwise("abs", node), _full(node, math.inf))


def _isfinite(node: Node) -> Node:
    if not _is_float(node):
        return hlo.full(node.graph, node.shape, True, BOOL)
    return hlo.elementwise("is-finite", node, dtype=BOOL)


def _signbit(node: Node) -> Node:
    """The sign of a float is the sign of the integer with its bits."""
    if _is_float(node):
        node = hlo.bitcast(node, f"i{node.dtype.itemsize}")
    return hlo.compare("LT", node, _full(node, 0))


def _copysign(left: Node, right: Node) -> Node:
    size = hlo.elementwise("abs", left)
    return hlo.select(_signbit(right), hlo.elementwise("negate", size), size)


def _arctan(node: Node) -> Node:
    return hlo.elementwise("atan2", node, _full(node, 1))


def _one_minus_square_root(node: Node) -> Node:
    """sqrt((1 - x)(1 + x)), accurate near 1."""
    ones = _full(node, 1)
    product = hlo.elementwise(
        "multiply", hlo.elementwise("subtract", ones, node), hlo.elementwise("add", ones, node)
    )
    return hlo.elementwise("sqrt", product)


def _arcsin(node: Node) -> Node:
    return hlo.elementwise("atan2", node, _one_minus_square_root(node))


def _arccos(node: Node) -> Node:
    return hlo.elementwise("atan2", _one_minus_square_root(node), node)


def _half_difference(sign: str) -> Lowering:
    """(e^x +- e^-x) / 2; for sinh by expm1, which is right near zero. Of x + iy the parts are those of x
    times cos y, and those of the other function times sin y."""

    def sinh(node: Node) -> Node:
        size = hlo.elementwise("abs", node)
        grown = hlo.elementwise("exponential-minus-one", size)
        ratio = hlo.elementwise("divide", grown, hlo.elementwise("add", grown, _full(node, 1)))
        small = _half(hlo.elementwise("add", grown, ratio))
        large = _half_exponential(node)
        far = hlo.compare("GT", size, _full(node, 10))
        return _copysign(hlo.select(far, large, small), node)

    def cosh(node: Node) -> Node:
        size = hlo.elementwise("abs", node)
        grown = hlo.elementwise("exponential", hlo.elementwise("negate", size))
        return hlo.elementwise("add", _half_exponential(node), _half(grown))

    def lower(node: Node) -> Node:
        function, derivative = (sinh, cosh) if sign == "-" else (cosh, sinh)
        if node.dtype.kind != "c":
            return function(node)
        real, imag = _parts(node)
        cosine, sine = hlo.elementwise("cosine", imag), hlo.elementwise("sine", imag)
        return _complex(
            hlo.elementwise("multiply", function(real), cosine),
            hlo.elementwise("multiply", derivative(real), sine),
        )

    return lower


def _half_exponential(node: Node) -> Node:
    """e^(|x| - log 2), which overflows only where the result does."""
    size = hlo.elementwise("abs", node)
    return hlo.elementwise(
        "exponential", hlo.elementwise("subtract", size, _full(node, math.log(2)))
    )


def _half(node: Node) -> Node:
    return _times(node, 0.5)


def _arcsinh(node: Node) -> Node:
    """sign(x) log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))."""
    size = hlo.elementwise("abs", node)
    square = hlo.elementwise("multiply", node, node)
    ones = _full(node, 1)
    root = hlo.elementwise("sqrt", hlo.elementwise("add", square, ones))
    correction = hlo.elementwise("divide", square, hlo.elementwise("add", ones, root))
    near = hlo.elementwise("log-plus-one", hlo.elementwise("add", size, correction))
    # The square overflows where log 2x is as good.
    far = hlo.compare("GT", size, _full(node, 1e4))
    grown = hlo.select(far, _log_of_double(size), near)
    return _copysign(grown, node)


def _arccosh(node: Node) -> Node:
    """log(x + sqrt((x - 1)(x + 1))), which is log(2x) where x is large."""
    ones = _full(node, 1)
    less, more = hlo.elementwise("subtract", node, ones), hlo.elementwise("add", node, ones)
    root = hlo.elementwise("multiply", hlo.elementwise("sqrt", less), hlo.elementwise("sqrt", more))
    near = hlo.elementwise("log", hlo.elementwise("add", node, root))
    return hlo.select(hlo.compare("GT", node, _full(node, 1e4)), _log_of_double(node), near)


def _log_of_double(node: Node) -> Node:
    """log(2x), where 2x may overflow."""
    return hlo.elementwise("add", hlo.elementwise("log", node), _full(node, math.log(2)))


def _arctanh(node: Node) -> Node:
    """(log1p(x) - log1p(-x)) / 2."""
    up = hlo.elementwise("log-plus-one", node)
    down = hlo.elementwise("log-plus-one", hlo.elementwise("negate", node))
    return _half(hlo.elementwise("subtract", up, down))


def _logaddexp(left: Node, right: Node) -> Node:
    """max + log1p(e^-|a - b|); equal infinities give themselves."""
    largest = hlo.elementwise("maximum", left, right)
    gap = hlo.elementwise("abs", hlo.elementwise("subtract", left, right))
    small = hlo.elementwise("exponential", hlo.elementwise("negate", gap))
    sum_ = hlo.elementwise("add", largest, hlo.elementwise("log-plus-one", small))
    same = hlo.compare("EQ", left, right)
    doubled = hlo.elementwise("add", left, _full(left, math.log(2)))
    return hlo.select(same, doubled, sum_)


def _logaddexp2(left: Node, right: Node) -> Node:
    scale, back = _full(left, math.log(2)), _full(left, 1 / math.log(2))
    natural = _logaddexp(
        hlo.elementwise("multiply", left, scale), hlo.elementwise("multiply", right, scale)
    )
    return hlo.elementwise("multiply", natural, back)


def _hypot(left: Node, right: Node) -> Node:
    """largest * sqrt(1 + (smallest / largest)^2), without overflow."""
    a, b = hlo.elementwise("abs", left), hlo.elementwise("abs", right)
    largest, smallest = hlo.elementwise("maximum", a, b), hlo.elementwise("minimum", a, b)
    zero = hlo.compare("EQ", largest, _full(left, 0))
    ratio = hlo.elementwise("divide", smallest, hlo.select(zero, _full(left, 1), largest))
    inner = hlo.elementwise("add", hlo.elementwise("multiply", ratio, ratio), _full(left, 1))
    length = hlo.elementwise("multiply", largest, hlo.elementwise("sqrt", inner))
    infinite = hlo.elementwise("or", _isinf(left), _isinf(right))
    return hlo.select(infinite, _full(left, math.inf), length)


def _ignoring_nan(opcode: str) -> Lowering:
    """fmax and fmin: a NaN loses against a number."""

    def lower(left: Node, right: Node) -> Node:
        extreme = hlo.elementwise(opcode, left, right)
        if not _is_float(left):
            return extreme
        return hlo.select(_isnan(left), right, hlo.select(_isnan(right), left, extreme))

    return lower


def _heaviside(node: Node, at_zero: Node) -> Node:
    ones, zeros = _full(node, 1), _full(node, 0)
    step = hlo.select(hlo.compare("GT", node, zeros), ones, zeros)
    step = hlo.select(hlo.compare("EQ", node, zeros), at_zero, step)
    return hlo.select(_isnan(node), node, step)


def _zero_divisor(right: Node) -> tuple[Node, Node]:
    """Where an integer divisor is 0, and a divisor that is 1 there."""
    zero = hlo.compare("EQ", right, _full(right, 0))
    return zero, hlo.select(zero, _full(right, 1), right)


def _signs_differ(remainders: Node, right: Node) -> Node:
    """Where a remainder is not zero and has another sign than the divisor."""
    zero = _full(right, 0)
    below = (hlo.compare("LT", node, zero) for node in (remainders, right))
    different = hlo.elementwise("xor", *below)
    return hlo.elementwise("and", hlo.compare("NE", remainders, zero), different)


def remainder(left: Node, right: Node) -> Node:
    """NumPy's ``%``: the sign is the divisor's; by 0, integers give 0 and floats NaN."""
    if _is_float(left):
        remainders = hlo.elementwise("remainder", left, right)
        zero = hlo.compare("EQ", remainders, _full(remainders, 0))
        remainders = hlo.select(
            _signs_differ(remainders, right), hlo.elementwise("add", remainders, right), remainders
        )
        return hlo.select(zero, _copysign(_full(remainders, 0), right), remainders)
    zero, divisor = _zero_divisor(right)
    remainders = hlo.elementwise("remainder", left, divisor)
    if left.dtype.kind == "i":
        shifted = hlo.elementwise("add", remainders, divisor)
        remainders = hlo.select(_signs_differ(remainders, divisor), shifted, remainders)
    return hlo.select(zero, _full(left, 0), remainders)


def floor_divide(left: Node, right: Node) -> Node:
    """NumPy's ``//``: rounded down; integers by 0 give 0."""
    if _is_float(left):
        return _float_floor_divide(left, right)
    zero, divisor = _zero_divisor(right)
    quotient = hlo.elementwise("divide", left, divisor)
    if left.dtype.kind == "i":
        remainders = hlo.elementwise("remainder", left, divisor)
        lower = hlo.elementwise("subtract", quotient, _full(left, 1))
        quotient = hlo.select(_signs_differ(remainders, divisor), lower, quotient)
    return hlo.select(zero, _full(left, 0), quotient)


def _float_floor_divide(left: Node, right: Node) -> Node:
    """The quotient of ``left - left % right``, to the nearest whole number, as NumPy has it; ``left / 0``
    where the divisor is 0."""
    remainders = hlo.elementwise("remainder", left, right)
    multiple = hlo.elementwise("subtract", left, remainders)
    if not _is_certain(right):
        multiple = hlo.select(hlo.compare("EQ", right, _full(right, 0)), left, multiple)
    quotient = hlo.elementwise("divide", multiple, right)
    ones = _full(left, 1)
    lower = hlo.elementwise("subtract", quotient, ones)
    quotient = hlo.select(_signs_differ(remainders, right), lower, quotient)
    down = hlo.elementwise("floor", quotient)
    gap = hlo.elementwise("subtract", quotient, down)
    above = hlo.compare("GT", gap, _full(left, 0.5))
    nearest = hlo.select(above, hlo.elementwise("add", down, ones), down)
    sign = hlo.elementwise("xor", *(hlo.bitcast(node, "i4") for node in (left, right)))
    zero = hlo.compare("EQ", quotient, _full(left, 0))
    return hlo.select(zero, _copysign(_full(left, 0), sign), nearest)


def _is_certain(node: Node) -> bool:
    """Return True if a node is one number other than 0 everywhere."""
    scalar = node.operands[0] if node.opcode == "broadcast" else node
    return scalar.opcode == "constant" and not scalar.shape and scalar.attributes["value"] != 0


def _fmod(left: Node, right: Node) -> Node:
    if _is_float(left):
        return hlo.elementwise("remainder", left, right)
    zero, divisor = _zero_divisor(right)
    remainders = hlo.elementwise("remainder", left, divisor)
    return hlo.select(zero, _full(left, 0), remainders)


def _divmod(left: Node, right: Node) -> tuple[Node, Node]:
    return floor_divide(left, right), remainder(left, right)


def _modf(node: Node) -> tuple[Node, Node]:
    integral = _trunc(node)
    fraction = hlo.elementwise("subtract", node, integral)
    fraction = hlo.select(_isinf(node), _full(node, 0), fraction)
    return _copysign(fraction, node), _copysign(integral, node)


def _shift_right(left: Node, right: Node) -> Node:
    kind = "arithmetic" if left.dtype.kind == "i" else "logical"
    return hlo.elementwise(f"shift-right-{kind}", left, right)


def _rounded_once(lower: Lowering) -> Lowering:
    """8 and 16-bit floats are computed in float32, so that several steps round once."""

    def wide(*nodes: Node) -> Any:
        dtype = nodes[0].dtype
        if dtype.itemsize >= 4 or dtype.kind in "biu":
            return lower(*nodes)
        computed = lower(*(hlo.convert(node, F32) for node in nodes))
        if isinstance(computed, tuple):
            nodes = cast("tuple[Node, ...]", computed)
            return tuple(hlo.convert(node, dtype) for node in nodes)
        return hlo.convert(computed, dtype) if computed.dtype == F32 else computed

    return wide


LOWERINGS: dict[np.ufunc, Lowering] = {
    np.add: _by_kind("add", "or"),
    np.subtract: _direct("subtract"),
    np.multiply: _by_kind("multiply", "and"),
    np.divide: _direct("divide"),
    np.floor_divide: _rounded_once(floor_divide),
    np.remainder: _rounded_once(remainder),
    np.fmod: _rounded_once(_fmod),
    np.divmod: _rounded_once(_divmod),
    np.modf: _modf,
    np.power: _direct("power"),
    np.float_power: _direct("power"),
    np.maximum: _ordering("maximum", _by_kind("maximum", "or")),
    np.minimum: _ordering("minimum", _by_kind("minimum", "and")),
    np.fmax: _ordering("fmax", _ignoring_nan("maximum")),
    np.fmin: _ordering("fmin", _ignoring_nan("minimum")),
    np.arctan2: _direct("atan2"),
    np.hypot: _rounded_once(_hypot),
    np.copysign: _copysign,
    np.heaviside: _heaviside,
    np.logaddexp: _rounded_once(_logaddexp),
    np.logaddexp2: _rounded_once(_logaddexp2),
    np.bitwise_and: _direct("and"),
    np.bitwise_or: _direct("or"),
    np.bitwise_xor: _direct("xor"),
    np.left_shift: _direct("shift-left"),
    np.right_shift: _shift_right,
    np.equal: _comparison("EQ"),
    np.not_equal: _comparison("NE"),
    np.less: _ordering("less", _comparison("LT")),
    np.less_equal: _ordering("less_equal", _comparison("LE")),
    np.greater: _ordering("greater", _comparison("GT")),
    np.greater_equal: _ordering("greater_equal", _comparison("GE")),
    np.logical_and: _logical("and"),
    np.logical_or: _logical("or"),
    np.logical_xor: _logical("xor"),
    np.logical_not: _logical("not"),
    np.negative: _direct("negate"),
    np.positive: _positive,
    np.conjugate: _conjugate,
    np.absolute: _absolute,
    np.fabs: _absolute,
    np.sign: _sign,
    np.exp: _direct("exponential"),
    np.exp2: _rounded_once(_exp2),
    np.expm1: _direct("exponential-minus-one"),
    np.log: _direct("log"),
    np.log1p: _direct("log-plus-one"),
    np.log2: _rounded_once(_scaled(1 / math.log(2), "log")),
    np.log10: _rounded_once(_scaled(1 / math.log(10), "log")),
    np.sqrt: _direct("sqrt"),
    np.cbrt: _direct("cbrt"),
    np.square: _square,
    np.reciprocal: _reciprocal,
    np.sin: _direct("sine"),
    np.cos: _direct("cosine"),
    np.tan: _direct("tan"),
    np.tanh: _direct("tanh"),
    np.sinh: _rounded_once(_half_difference("-")),
    np.cosh: _rounded_once(_half_difference("+")),
    np.arcsin: _inverse("arcsin", _arcsin),
    np.arccos: _inverse("arccos", _arccos),
    np.arctan: _inverse("arctan", _arctan),
    np.arcsinh: _inverse("arcsinh", _arcsinh),
    np.arccosh: _rounded_once(_arccosh),
    np.arctanh: _rounded_once(_arctanh),
    np.ceil: _of_floats("ceil"),
    np.floor: _of_floats("floor"),
    np.rint: _of_floats("round-nearest-even"),
    np.trunc: _trunc,
    np.invert: _direct("not"),
    np.isnan: _of_parts(_isnan, "or"),
    np.isinf: _of_parts(_isinf, "or"),
    np.isfinite: _of_parts(_isfinite, "and"),
    np.signbit: _signbit,
    np.degrees: _rounded_once(_scaled(180 / math.pi)),
    np.rad2deg: _rounded_once(_scaled(180 / math.pi)),
    np.radians: _rounded_once(_scaled(math.pi / 180)),
    np.deg2rad: _rounded_once(_scaled(math.pi / 180)),
}
"""Every ufunc that traced arrays take, besides matmul."""
