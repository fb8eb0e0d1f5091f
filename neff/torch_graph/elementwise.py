"""Operators that compute each element by itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.elementwise import LOWERINGS
from hlo_tools.trace.graph import Node, Operand
from neff.torch_graph.operator_call import BOOL, F32, OperatorCall, Row

__all__ = ["ELEMENTWISE"]


def _unary(ufunc: np.ufunc) -> Row:
    """The result has the operand's dtype, or the float that PyTorch makes of an integer."""

    def row(call: OperatorCall, x: Node) -> Node:
        return LOWERINGS[ufunc](call.node(x, call.dtype))

    return row


def _test(ufunc: np.ufunc) -> Row:
    """A boolean of each element."""

    def row(call: OperatorCall, x: Node) -> Node:
        return LOWERINGS[ufunc](x)

    return row


def _binary(ufunc: np.ufunc) -> Row:
    def row(call: OperatorCall, x: Operand, y: Operand) -> Node:
        return LOWERINGS[ufunc](*call.like_result(x, y))

    return row


def _compared(ufunc: np.ufunc) -> Row:
    def row(call: OperatorCall, x: Operand, y: Operand) -> Node:
        return LOWERINGS[ufunc](*call.promoted(x, y))

    return row


def _logical(opcode: str) -> Row:
    def row(call: OperatorCall, *operands: Operand) -> Node:
        nodes = [hlo.broadcast(call.node(x, BOOL), call.shape) for x in operands]
        return hlo.elementwise(opcode, *nodes)

    return row


def _scaled(ufunc: np.ufunc) -> Row:
    """``x + alpha * y`` and ``x - alpha * y``."""

    def row(call: OperatorCall, x: Operand, y: Operand, alpha: Operand = 1) -> Node:
        left, right = call.like_result(x, y)
        if alpha != 1:
            right = LOWERINGS[np.multiply](right, call.node(alpha, call.dtype, call.shape))
        return LOWERINGS[ufunc](left, right)

    return row


def _rsub(call: OperatorCall, x: Operand, y: Operand, alpha: Operand = 1) -> Node:
    left, right, factor = call.like_result(y, x, alpha)
    if alpha != 1:
        right = hlo.elementwise("multiply", right, factor)
    return hlo.elementwise("subtract", left, right)


_ROUNDED_QUOTIENTS: dict[str | None, Callable[[Node, Node], Node]] = {
    None: LOWERINGS[np.divide],
    "floor": LOWERINGS[np.floor_divide],
}


def _quotient(call: OperatorCall, x: Operand, y: Operand, rounding_mode: str | None = None) -> Node:
    left, right = call.like_result(x, y)
    if rounding_mode != "trunc":
        return _ROUNDED_QUOTIENTS[rounding_mode](left, right)
    if left.dtype.kind in "iu":
        zero = hlo.compare("EQ", right, call.full(0))
        return hlo.elementwise("divide", left, hlo.select(zero, call.full(1), right))
    return LOWERINGS[np.trunc](hlo.elementwise("divide", left, right))


def _floor_quotient(call: OperatorCall, x: Operand, y: Operand) -> Node:
    return _quotient(call, x, y, "floor")


def _power(call: OperatorCall, x: Operand, exponent: Operand) -> Node:
    left = call.node(x, call.dtype, call.shape)
    if isinstance(exponent, (int, float)) and exponent in _POWERS:
        return _POWERS[exponent](left)
    if call.dtype == BOOL:
        raise call.refused("for booleans")
    return hlo.elementwise("power", left, call.node(exponent, call.dtype, call.shape))


def _product(*nodes: Node) -> Node:
    product = nodes[0]
    for node in nodes[1:]:
        product = LOWERINGS[np.multiply](product, node)
    return product


def _inverse(node: Node) -> Node:
    return hlo.elementwise("divide", hlo.full(node.graph, node.shape, 1, node.dtype), node)


_POWERS: dict[float, Callable[[Node], Node]] = {
    1: lambda x: x,
    2: lambda x: _product(x, x),
    3: lambda x: _product(x, x, x),
    4: lambda x: _product(_product(x, x), _product(x, x)),
    0.5: LOWERINGS[np.sqrt],
    -0.5: lambda x: hlo.elementwise("rsqrt", x),
    -1: _inverse,
    -2: lambda x: _inverse(_product(x, x)),
}
"""Powers that PyTorch computes without the general function, too."""


def _clamped(call: OperatorCall, x: Operand, low: Operand = None, high: Operand = None) -> Node:
    node = call.node(x, call.dtype, call.shape)
    if low is not None:
        node = LOWERINGS[np.maximum](node, call.node(low, call.dtype, call.shape))
    if high is not None:
        node = LOWERINGS[np.minimum](node, call.node(high, call.dtype, call.shape))
    return node


def _clamped_above(call: OperatorCall, x: Operand, high: Operand) -> Node:
    return _clamped(call, x, None, high)


def _reciprocal(call: OperatorCall, x: Node) -> Node:
    return _inverse(call.node(x, call.dtype))


def _relu(call: OperatorCall, x: Node) -> Node:
    return LOWERINGS[np.maximum](x, call.full(0))


def _direct(opcode: str) -> Row:
    def row(call: OperatorCall, x: Node) -> Node:
        return hlo.elementwise(opcode, call.node(x, call.dtype))

    return row


def _where(call: OperatorCall, condition: Node, x: Operand, y: Operand) -> Node:
    chosen = hlo.broadcast(call.node(condition, BOOL), call.shape)
    return hlo.select(chosen, *call.like_result(x, y))


def _absolute(call: OperatorCall, x: Node) -> Node:
    return LOWERINGS[np.absolute](x)


def _sign(call: OperatorCall, x: Node) -> Node:
    """1, 0 or -1; PyTorch's sign of NaN is 0."""
    if x.dtype == BOOL:
        return x
    sign = LOWERINGS[np.sign](x)
    return hlo.select(hlo.compare("NE", x, x), call.full(0), sign) if _is_float(x) else sign


def _is_float(node: Node) -> bool:
    return node.dtype.kind not in "biuc"


def _round_decimals(call: OperatorCall, x: Node, decimals: int) -> Node:
    if not _is_float(x):
        raise call.refused("for integers with decimals")
    if not decimals:
        return hlo.elementwise("round-nearest-even", x)
    wide = call.node(x, F32 if x.dtype.itemsize < 4 else x.dtype)
    unit = hlo.full(call.graph, x.shape, 10.0 ** abs(decimals), wide.dtype)
    to, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    rounded = hlo.elementwise("round-nearest-even", hlo.elementwise(to, wide, unit))
    return call.node(hlo.elementwise(back, rounded, unit), call.dtype)


def _erfc(call: OperatorCall, x: Node) -> Node:
    """1 - erf(x) near zero; else Numerical Recipes' erfcc, of relative error 1.2e-7."""
    node = call.node(x, F32)
    size = hlo.elementwise("abs", node)

    def constant(value: float) -> Node:
        return hlo.full(call.graph, node.shape, value, F32)

    half = hlo.elementwise("multiply", size, constant(0.5))
    t = _inverse(hlo.elementwise("add", half, constant(1)))
    total = constant(_ERFC[-1])
    for coefficient in reversed(_ERFC[:-1]):
        total = hlo.elementwise("add", hlo.elementwise("multiply", total, t), constant(coefficient))
    exponent = hlo.elementwise("subtract", total, hlo.elementwise("multiply", size, size))
    tail = hlo.elementwise("multiply", t, hlo.elementwise("exponential", exponent))
    mirrored = hlo.elementwise("subtract", constant(2), tail)
    negative = hlo.compare("LT", node, constant(0))
    far = hlo.select(negative, mirrored, tail)
    near = hlo.elementwise("subtract", constant(1), hlo.elementwise("erf", node))
    chosen = hlo.select(hlo.compare("LT", size, constant(0.5)), near, far)
    return call.node(chosen, call.dtype)


_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398,
    1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip
"""Coefficients of erfcc (Press et al., Numerical Recipes in C, section 6.2)."""

_NAN_TESTS = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit}

_UNARY = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atanh": np.arctanh, "bitwise_not": np.invert, "ceil": np.ceil,
    "conj_physical": np.conjugate, "_conj_physical": np.conjugate, "_conj": np.conjugate,
    "cos": np.cos, "cosh": np.cosh, "deg2rad": np.deg2rad, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "floor": np.floor, "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "neg": np.negative, "positive": np.positive, "rad2deg": np.rad2deg,
    "round": np.rint, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "square": np.square,
    "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
}  # fmt: skip
_DIRECT = {"erf": "erf", "rsqrt": "rsqrt", "sigmoid": "logistic"}
_BINARY = {
    "atan2": np.arctan2, "bitwise_and.Scalar": np.bitwise_and, "bitwise_and.Tensor": np.bitwise_and,
    "bitwise_left_shift.Tensor": np.left_shift, "bitwise_left_shift.Tensor_Scalar": np.left_shift,
    "bitwise_or.Scalar": np.bitwise_or, "bitwise_or.Tensor": np.bitwise_or,
    "bitwise_right_shift.Tensor": np.right_shift,
    "bitwise_right_shift.Tensor_Scalar": np.right_shift, "bitwise_xor.Scalar": np.bitwise_xor,
    "bitwise_xor.Tensor": np.bitwise_xor, "copysign.Scalar": np.copysign,
    "copysign.Tensor": np.copysign, "fmax": np.fmax, "fmin": np.fmin, "fmod.Scalar": np.fmod,
    "fmod.Tensor": np.fmod, "hypot": np.hypot, "maximum": np.maximum, "minimum": np.minimum,
    "mul.Scalar": np.multiply, "mul.Tensor": np.multiply, "remainder.Scalar": np.remainder,
    "remainder.Scalar_Tensor": np.remainder, "remainder.Tensor": np.remainder,
}  # fmt: skip
_COMPARISONS = {
    "eq": np.equal, "ge": np.greater_equal, "gt": np.greater, "le": np.less_equal,
    "lt": np.less, "ne": np.not_equal,
}  # fmt: skip
_LOGICAL = {"logical_and": "and", "logical_not": "not", "logical_or": "or", "logical_xor": "xor"}


def _full_name(name: str) -> str:
    return f"aten.{name}" if "." in name else f"aten.{name}.default"


ELEMENTWISE: dict[str, Row] = {
    **{_full_name(name): _unary(ufunc) for name, ufunc in _UNARY.items()},
    **{_full_name(name): _direct(opcode) for name, opcode in _DIRECT.items()},
    **{_full_name(name): _test(ufunc) for name, ufunc in _NAN_TESTS.items()},
    **{_full_name(name): _binary(ufunc) for name, ufunc in _BINARY.items()},
    **{
        f"aten.{name}.{kind}": _compared(ufunc)
        for name, ufunc in _COMPARISONS.items()
        for kind in ("Tensor", "Scalar")
    },
    **{_full_name(name): _logical(opcode) for name, opcode in _LOGICAL.items()},
    "aten.abs.default": _absolute,
    "aten.add.Scalar": _scaled(np.add),
    "aten.add.Tensor": _scaled(np.add),
    "aten.clamp.Tensor": _clamped,
    "aten.clamp.default": _clamped,
    "aten.clamp_max.Tensor": _clamped_above,
    "aten.clamp_max.default": _clamped_above,
    "aten.clamp_min.Tensor": _clamped,
    "aten.clamp_min.default": _clamped,
    "aten.div.Scalar": _quotient,
    "aten.div.Scalar_mode": _quotient,
    "aten.div.Tensor": _quotient,
    "aten.div.Tensor_mode": _quotient,
    "aten.erfc.default": _erfc,
    "aten.floor_divide.Scalar": _floor_quotient,
    "aten.floor_divide.default": _floor_quotient,
    "aten.pow.Scalar": _power,
    "aten.pow.Tensor_Scalar": _power,
    "aten.pow.Tensor_Tensor": _power,
    "aten.reciprocal.default": _reciprocal,
    "aten.relu.default": _relu,
    "aten.round.decimals": _round_decimals,
    "aten.rsub.Scalar": _rsub,
    "aten.rsub.Tensor": _rsub,
    "aten.sgn.default": _sign,
    "aten.sign.default": _sign,
    "aten.sub.Scalar": _scaled(np.subtract),
    "aten.sub.Tensor": _scaled(np.subtract),
    "aten.where.ScalarOther": _where,
    "aten.where.ScalarSelf": _where,
    "aten.where.self": _where,
    **{f"prims.{name}.default": _unary(ufunc) for name, ufunc in _UNARY.items()},
    "prims.abs.default": _absolute,
    "prims.add.default": _binary(np.add),
    "prims.div.default": _quotient,
    "prims.erf.default": _direct("erf"),
    "prims.maximum.default": _binary(np.maximum),
    "prims.minimum.default": _binary(np.minimum),
    "prims.mul.default": _binary(np.multiply),
    "prims.pow.default": _power,
    "prims.rsqrt.default": _direct("rsqrt"),
    "prims.sub.default": _binary(np.subtract),
    "prims.where.default": _where,
}
"""Operator -> its lowering."""
