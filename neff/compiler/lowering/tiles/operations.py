"""Elementwise operations of HLO, each in terms of the emitter.

:data:`OPERATIONS` has a function for each operation. ``node`` is the HLO operation; operands are
tiles of the types in ``neff.compiler.graph.types``, or numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.nodes import Node, uncovered
from neff.compiler.graph.types import held_as, unsupported_type
from neff.compiler.lowering.tiles.angles import cosine, sine, tangent
from neff.compiler.lowering.tiles.emitter import Emitter, Number, Tile, Value
from nki_lang.base.dtypes import DType, dtype_of

__all__ = ["COMPARISONS", "ELEMENTWISE", "FUNCTIONS", "OPERATIONS", "reciprocal_of"]

F32 = dtype_of("float32")
I32 = dtype_of("int32")
U32 = dtype_of("uint32")
U8 = dtype_of("uint8")

_SIGN_BIT = 1 << 31

_MIN_INTEGRAL = float(2**23)
"""From here on every float32 is an integer."""

Rule = Callable[..., Value]


def _arithmetic(op: str) -> Rule:
    def rule(e: Emitter, node: Node, a: Value, b: Value) -> Value:
        on_chip = held_as(node)
        if on_chip.kind == "small":
            return narrow(e, e.words(op, widen(e, a), widen(e, b), I32), on_chip.tile)
        if on_chip.kind == "pred":
            return e.bits(_PREDICATE_OPS[op], a, b, U8)
        return e.binary(op, a, b, on_chip.tile)

    return rule


_PREDICATE_OPS = {
    "add": "bitwise_or", "multiply": "bitwise_and", "maximum": "bitwise_or",
    "minimum": "bitwise_and", "subtract": "bitwise_xor",
}  # fmt: skip


def widen(e: Emitter, value: Value) -> Value:
    """Return a small integer as a word."""
    return value if e.is_number(value) else e.copy(value, I32)


def narrow(e: Emitter, word: Tile, dtype: DType) -> Tile:
    """Return the low bits of a word as a small integer (it wraps around, a cast would saturate)."""
    bits = dtype.itemsize * 8
    low = e.bits("bitwise_and", word, (1 << bits) - 1, I32)
    if dtype.kind == "int":
        half = 1 << (bits - 1)
        low = e.words("subtract", e.bits("bitwise_xor", low, half, I32), half, I32)
    return e.copy(low, dtype)


def _divide(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    on_chip = held_as(node)
    if on_chip.kind != "float":
        quotient, _ = _integer_division(e, node, a, b)
        return quotient
    if e.is_number(b):
        return e.binary("multiply", a, reciprocal_of(b), on_chip.tile)
    return e.binary("multiply", a, e.reciprocal(b, F32), on_chip.tile)


@np.errstate(all="ignore")
def reciprocal_of(number: Number) -> np.generic:
    """Return 1 / x in float32; infinite for zero."""
    return np.float32(1) / np.float32(number)


def _remainder(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    on_chip = held_as(node)
    if on_chip.kind != "float":
        _, remainder = _integer_division(e, node, a, b)
        return remainder
    return e.binary("fmod", a, b, on_chip.tile)  # exact: a rounded quotient loses large remainders


def _integer_division(e: Emitter, node: Node, a: Value, b: Value) -> tuple[Tile, Tile]:
    """Return quotient (towards zero) and remainder of words, exact.

    A float quotient is corrected three times by the quotient of the remainder; each step gains more than
    twenty bits. Division by zero returns the results that HLO defines: -1 and the dividend.
    """
    on_chip = held_as(node)
    if on_chip.kind != "word" or on_chip.tile != I32:
        raise unsupported_type(node, node.opcode)
    a, b = e.tile(a, I32), e.tile(b, I32)
    reciprocal = e.reciprocal(e.copy(b, F32), F32)
    quotient = e.filled(0, I32)
    remainder = a
    for _ in range(3):
        estimate = e.binary("multiply", e.copy(remainder, F32), reciprocal, F32)
        quotient = e.words("add", quotient, e.copy(truncated(e, estimate), I32), I32)
        remainder = e.words("subtract", a, e.words("multiply", quotient, b, I32), I32)
    quotient, remainder = _fix_quotient(e, quotient, remainder, a, b)
    zero = e.copy(e.words("equal", b, 0, I32), U8)
    return e.select(zero, -1, quotient, I32), e.select(zero, a, remainder, I32)


def _fix_quotient(
    e: Emitter, quotient: Tile, remainder: Tile, a: Tile, b: Tile
) -> tuple[Tile, Tile]:
    """Give the remainder the sign of the dividend and a magnitude below the divisor's.

    Magnitudes are compared as unsigned: the lowest divisor's, 2^31, has no signed form. A negative
    remainder also exceeds the magnitude as unsigned, hence twice ``under``.
    """
    sign_b = _word_sign(e, b)
    sign_a = _word_sign(e, a)
    size = e.words("multiply", b, sign_b, I32)
    for _ in range(2):
        along = e.words("multiply", remainder, sign_a, I32)
        under = e.words("less", along, 0, I32)
        over = e.words("greater_equal", as_type(along, U32), as_type(size, U32), U32)
        move = e.words("subtract", as_type(over, I32), e.words("add", under, under, I32), I32)
        move = e.words("multiply", e.words("multiply", move, sign_a, I32), sign_b, I32)
        quotient = e.words("add", quotient, move, I32)
        remainder = e.words("subtract", a, e.words("multiply", quotient, b, I32), I32)
    return quotient, remainder


def _word_sign(e: Emitter, value: Tile) -> Tile:
    """Return -1 or 1; 1 for zero."""
    negative = e.words("less", value, 0, I32)
    return e.words("subtract", 1, e.words("left_shift", negative, 1, I32), I32)


def _power(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    on_chip = held_as(node)
    if on_chip.kind != "float":
        raise unsupported_type(node, "power")
    return e.binary("power", e.tile(a, F32), e.tile(b, F32), on_chip.tile)


def _activation(op: str) -> Rule:
    def rule(e: Emitter, node: Node, a: Value) -> Value:
        on_chip = held_as(node)
        if on_chip.kind != "float":
            raise unsupported_type(node, node.opcode)
        return e.activation(op, a, on_chip.tile)

    return rule


def _log_plus_one(e: Emitter, node: Node, a: Value) -> Value:
    """Compute log(1 + x) accurately near zero: log(u) * x / (u - 1) with u = 1 + x."""
    x = e.tile(a, F32)
    near = e.binary("add", x, 1.0, F32)
    step = e.binary("subtract", near, 1.0, F32)
    ratio = e.binary("multiply", x, e.reciprocal(step, F32), F32)
    logarithm = e.binary("multiply", e.activation("log", near, F32), ratio, F32)
    logarithm = e.select(e.binary("equal", step, 0.0, U8), e.copy(x, F32), logarithm, F32)
    is_infinite = e.binary("equal", x, np.inf, U8)
    return e.copy(e.select(is_infinite, np.float32(np.inf), logarithm, F32), held_as(node).tile)


def _exponential_minus_one(e: Emitter, node: Node, a: Value) -> Value:
    """Compute exp(x) - 1 accurately near zero: (u - 1) * x / log(u) with u = exp(x)."""
    x = e.tile(a, F32)
    power = e.activation("exp", x, F32)
    less = e.binary("subtract", power, 1.0, F32)
    ratio = e.binary("multiply", x, e.reciprocal(e.activation("log", power, F32), F32), F32)
    difference = e.binary("multiply", less, ratio, F32)
    far = e.binary("greater", e.activation("abs", x, F32), 1.0, U8)
    difference = e.select(far, less, difference, F32)
    difference = e.select(e.binary("equal", power, 1.0, U8), e.copy(x, F32), difference, F32)
    return e.copy(difference, held_as(node).tile)


def _cube_root(e: Emitter, node: Node, a: Value) -> Value:
    x = e.tile(a, F32)
    root = e.binary("power", e.activation("abs", x, F32), e.filled(1 / 3, F32), F32)
    return e.copy(with_sign_of(e, root, x), held_as(node).tile)


def with_sign_of(e: Emitter, value: Tile, x: Tile) -> Tile:
    """Return ``value`` (float32), which has no opposite sign, with the sign bit of ``x``.

    A zero gets the sign that arithmetic loses.
    """
    x = x if x.dtype == F32 else e.copy(x, F32)
    sign = e.bits("bitwise_and", as_type(x, U32), _SIGN_BIT, U32)
    return as_type(e.bits("bitwise_or", as_type(value, U32), sign, U32), F32)


def _has_fraction(e: Emitter, x: Tile) -> Tile:
    """Return where |x| < 2^23; false for NaN."""
    return e.binary("less", e.activation("abs", x, F32), _MIN_INTEGRAL, U8)


def truncated(e: Emitter, value: Value) -> Tile:
    """Return the integral part, rounded towards zero (float32)."""
    x = e.tile(value, F32)
    size = e.activation("abs", x, F32)
    integral = e.copy(e.copy(size, I32), F32)
    integral = e.binary("subtract", integral, e.binary("greater", integral, size, F32), F32)
    return e.select(_has_fraction(e, x), with_sign_of(e, integral, x), e.copy(x, F32), F32)


def _rounded(mode: str) -> Rule:
    """Return a rule that rounds to nearest, and corrects the result by one for the other modes."""

    def rule(e: Emitter, node: Node, a: Value) -> Value:
        x = e.tile(a, F32)
        integral = e.copy(e.copy(x, I32), F32)
        if mode == "floor":
            integral = e.binary("subtract", integral, e.binary("greater", integral, x, F32), F32)
        elif mode == "ceil":
            integral = e.binary("add", integral, e.binary("less", integral, x, F32), F32)
        rounded = e.select(_has_fraction(e, x), with_sign_of(e, integral, x), e.copy(x, F32), F32)
        return e.copy(rounded, held_as(node).tile)

    return rule


def _round_half_away(e: Emitter, node: Node, a: Value) -> Value:
    x = e.tile(a, F32)
    size = e.activation("abs", x, F32)
    integral = e.copy(e.copy(size, I32), F32)
    short = e.binary("greater_equal", e.binary("subtract", size, integral, F32), 0.5, F32)
    integral = with_sign_of(e, e.binary("add", integral, short, F32), x)
    rounded = e.select(_has_fraction(e, x), integral, e.copy(x, F32), F32)
    return e.copy(rounded, held_as(node).tile)


def _negate(e: Emitter, node: Node, a: Value) -> Value:
    on_chip = held_as(node)
    if on_chip.kind == "float":
        return e.binary("multiply", a, -1.0, on_chip.tile)
    if on_chip.kind == "small":
        return narrow(e, e.words("subtract", 0, widen(e, a), I32), on_chip.tile)
    return e.words("subtract", 0, a, on_chip.tile)


def _abs(e: Emitter, node: Node, a: Value) -> Value:
    on_chip = held_as(node)
    if on_chip.kind == "float":
        return e.activation("abs", a, on_chip.tile)
    if on_chip.tile.kind != "int":
        return a
    negative = _negate(e, node, a)
    if on_chip.kind == "small":
        return e.binary("maximum", a, negative, on_chip.tile)
    return e.words("maximum", a, negative, on_chip.tile)


def _sign(e: Emitter, node: Node, a: Value) -> Value:
    on_chip = held_as(node)
    if on_chip.kind == "float":
        sign_value = e.activation("sign", a, on_chip.tile)
        beyond_zero = e.binary("greater", e.activation("abs", a, F32), 0.0, U8)
        return e.select(beyond_zero, sign_value, a, on_chip.tile)  # zeros and NaN are themselves
    word = widen(e, a) if on_chip.kind == "small" else a
    dtype = I32 if on_chip.kind == "small" else on_chip.tile
    if dtype.kind == "uint":
        return e.words("greater", word, 0, dtype)
    sign = e.words("subtract", e.words("greater", word, 0, I32), e.words("less", word, 0, I32), I32)
    return e.copy(sign, on_chip.tile) if on_chip.kind == "small" else sign


def _compare(e: Emitter, node: Node, a: Value, b: Value) -> Value:
    op = COMPARISONS[node.attributes["direction"]]
    on_chip = held_as(node.operands[0])
    if on_chip.kind == "word":
        return e.copy(e.words(op, a, b, on_chip.tile), U8)
    return e.binary(op, a, b, U8)


COMPARISONS = {
    "EQ": "equal", "NE": "not_equal", "LT": "less", "LE": "less_equal", "GT": "greater",
    "GE": "greater_equal",
}  # fmt: skip
"""Direction of a comparison -> operator."""


def _is_finite(e: Emitter, node: Node, a: Value) -> Value:
    return e.binary("less", e.activation("abs", a, F32), np.inf, U8)


def _select(e: Emitter, node: Node, predicate: Value, a: Value, b: Value) -> Value:
    if e.is_number(predicate):
        return a if predicate else b
    return e.select(predicate, a, b, held_as(node).tile)


def _clamp(e: Emitter, node: Node, low: Value, a: Value, high: Value) -> Value:
    dtype = held_as(node).tile
    return e.binary("minimum", e.binary("maximum", low, a, dtype), high, dtype)


def _bitwise(op: str) -> Rule:
    def rule(e: Emitter, node: Node, a: Value, b: Value) -> Value:
        return e.bits(op, a, b, held_as(node).tile)

    return rule


def _not(e: Emitter, node: Node, a: Value) -> Value:
    on_chip = held_as(node)
    if on_chip.kind == "pred":
        return e.bits("bitwise_xor", a, 1, U8)
    ones = -1 if on_chip.tile.kind == "int" else (1 << (8 * on_chip.tile.itemsize)) - 1
    return e.bits("bitwise_xor", a, ones, on_chip.tile)


def _shift(left: bool, keep_sign: bool) -> Rule:
    def rule(e: Emitter, node: Node, a: Value, b: Value) -> Value:
        on_chip = held_as(node)
        if on_chip.kind != "word":
            raise unsupported_type(node, node.opcode)
        bits = 8 * on_chip.tile.itemsize
        over = e.is_number(b) and not 0 <= int(b) < bits
        if over and not keep_sign:
            return np.zeros((), on_chip.tile.dtype)[()]
        by = np.uint32(bits - 1) if over else b if e.is_number(b) else as_type(b, U32)
        value = as_type(e.tile(a, on_chip.tile), U32)
        if not keep_sign:
            return as_type(_logical(e, left, value, by), on_chip.tile)
        return as_type(_arithmetic_right(e, value, by), on_chip.tile)

    return rule


def _logical(e: Emitter, left: bool, value: Tile, by: Value) -> Tile:
    """Shift bit patterns; 0 where the distance is 32 or more."""
    op = "left_shift" if left else "right_shift"
    if e.is_number(by):
        return e.bits(op, value, by, U32)
    short = e.words("less", by, 32, U32)
    mask = e.words("subtract", 0, short, U32)
    shifted = e.bits(op, value, e.bits("bitwise_and", by, 31, U32), U32)
    return e.bits("bitwise_and", shifted, mask, U32)


def _arithmetic_right(e: Emitter, value: Tile, by: Value) -> Tile:
    """Shift right, sign kept: negative numbers are shifted as their complement."""
    mask = e.words("subtract", 0, e.bits("right_shift", value, 31, U32), U32)
    if not e.is_number(by):
        by = e.words("minimum", by, 31, U32)
    shifted = e.bits("right_shift", e.bits("bitwise_xor", value, mask, U32), by, U32)
    return e.bits("bitwise_xor", shifted, mask, U32)


def as_type(tile: Tile, dtype: DType) -> Tile:
    """Return the same bytes as another type of the same size."""
    return tile if tile.dtype == dtype else tile.view(dtype)


_FLOATS = ("float", "double")


def _convert(e: Emitter, node: Node, a: Value) -> Value:
    source, target = held_as(node.operands[0]), held_as(node)
    if e.is_number(a):
        a = e.tile(a, source.tile)
    if source.tile == target.tile and (source.kind == target.kind):
        return a
    if target.kind == "pred":
        if source.kind == "word":
            return e.copy(e.words("not_equal", a, 0, source.tile), U8)
        return e.binary("not_equal", a, 0.0, U8)
    if source.kind in _FLOATS and target.kind not in _FLOATS:
        return _float_to_integer(e, a, target.tile, is_integral=_is_integral(node))
    if source.kind == "word" and target.kind == "word":
        return as_type(a, target.tile)
    if source.kind == "word" and target.kind == "small":
        return narrow(e, as_type(a, I32), target.tile)
    if source.kind == "small" and target.kind == "small":
        return narrow(e, e.copy(a, I32), target.tile)
    if source.kind == "small" and target.tile == U32:
        return as_type(e.copy(a, I32), U32)
    return e.copy(a, target.tile)


_INTEGRAL_OPCODES = frozenset({"ceil", "floor", "round-nearest-afz", "round-nearest-even"})


def _is_integral(node: Node) -> bool:
    """Return True for the conversion of an integral value, or one that rounds to nearest."""
    opcode = node.operands[0].opcode
    return opcode in _INTEGRAL_OPCODES or node.attributes.get("rounding") == "nearest"


def _float_to_integer(e: Emitter, a: Tile, dtype: DType, *, is_integral: bool) -> Tile:
    """Convert towards zero; clamp to the range, and convert NaN to zero."""
    x = e.copy(a, F32) if a.dtype != F32 else a
    integral = x if is_integral else truncated(e, x)
    converted = e.copy(integral, dtype)
    undefined = e.new(U8)
    nisa.tensor_scalar(undefined, x, nl.less_equal, np.inf, op1=nl.equal, operand1=0.0)
    nisa.tensor_copy_predicated(converted, e.filled(0, dtype), undefined)
    return converted


def _bitcast_convert(e: Emitter, node: Node, a: Value) -> Value:
    source, target = held_as(node.operands[0]), held_as(node)
    if node.operands[0].element.bits != node.element.bits or source.wide or target.wide:
        raise uncovered(node, "bitcast-convert between types of different sizes is not covered")
    return as_type(e.tile(a, source.tile), target.tile)


_PRECISIONS = {(8, 7): "bfloat16", (8, 23): "float32"}
"""(exponent bits, mantissa bits) -> the type that has them; others are expanded."""


def _reduce_precision(e: Emitter, node: Node, a: Value) -> Value:
    on_chip = held_as(node)
    name = _PRECISIONS.get(node.attributes["bits"])
    if name is None or on_chip.kind != "float":
        raise uncovered(node, f"reduce-precision to {node.attributes['bits']} bits is not covered")
    return e.copy(e.copy(a, dtype_of(name)), on_chip.tile)


OPERATIONS: dict[str, Rule] = {
    "abs": _abs,
    "add": _arithmetic("add"),
    "and": _bitwise("bitwise_and"),
    "bitcast-convert": _bitcast_convert,
    "cbrt": _cube_root,
    "ceil": _rounded("ceil"),
    "clamp": _clamp,
    "compare": _compare,
    "convert": _convert,
    "cosine": cosine,
    "divide": _divide,
    "erf": _activation("erf"),
    "exponential": _activation("exp"),
    "exponential-minus-one": _exponential_minus_one,
    "floor": _rounded("floor"),
    "is-finite": _is_finite,
    "log": _activation("log"),
    "log-plus-one": _log_plus_one,
    "logistic": _activation("sigmoid"),
    "maximum": _arithmetic("maximum"),
    "minimum": _arithmetic("minimum"),
    "multiply": _arithmetic("multiply"),
    "negate": _negate,
    "not": _not,
    "or": _bitwise("bitwise_or"),
    "power": _power,
    "reduce-precision": _reduce_precision,
    "remainder": _remainder,
    "round-nearest-afz": _round_half_away,
    "round-nearest-even": _rounded("nearest"),
    "rsqrt": _activation("rsqrt"),
    "select": _select,
    "shift-left": _shift(True, False),
    "shift-right-arithmetic": _shift(False, True),
    "shift-right-logical": _shift(False, False),
    "sign": _sign,
    "sine": sine,
    "sqrt": _activation("sqrt"),
    "subtract": _arithmetic("subtract"),
    "tan": tangent,
    "tanh": _activation("tanh"),
    "xor": _bitwise("bitwise_xor"),
}
"""Opcode -> rule, for every covered elementwise opcode."""

FUNCTIONS: dict[str, str] = {
    "erf": "erf", "exponential": "exp", "gelu": "gelu", "gelu-tanh": "gelu_apprx_tanh",
    "log": "log", "logistic": "sigmoid", "rsqrt": "rsqrt", "silu": "silu", "sqrt": "sqrt",
    "tanh": "tanh",
}  # fmt: skip
"""Opcode -> function of the scalar engine, for opcodes that are one; idioms of the graph
included.
"""

ELEMENTWISE = frozenset(OPERATIONS) | FUNCTIONS.keys()
"""Opcodes of elementwise operations."""
