"""Elementwise operations, with XLA's semantics of edge cases (division by zero, shifts, NaN)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hlo_tools.evaluate.operation import Call, operation
from hlo_tools.evaluate.values import Array, Value, wide
from hlo_tools.types.comparison import is_total_order
from hlo_tools.types.element_types import DType, element_of

__all__ = ["BINARY", "UNARY", "convert"]

Function = Callable[..., Array]

_erf = np.frompyfunc(math.erf, 1, 1)


def erf(value: Array) -> Array:
    """The error function, through double precision."""
    return np.asarray(_erf(value.astype(np.float64))).astype(value.dtype)


def logistic(value: Array) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    if value.dtype.kind == "c":
        return (1 / (1 + np.exp(-value))).astype(value.dtype)
    small = np.exp(-np.abs(value))
    return np.where(value >= 0, 1 / (1 + small), small / (1 + small)).astype(value.dtype)


def round_away(value: Array) -> Array:
    """Round half away from zero; the half is not added, for the sum would be rounded."""
    size = np.abs(value)
    floor = np.floor(size)
    return np.copysign(np.where(size - floor >= 0.5, floor + 1, floor), value).astype(value.dtype)


def sign(value: Array) -> Array:
    """-1, 0 (of the same sign) or 1; complex: the unit vector."""
    if value.dtype.kind == "c":
        length = np.abs(value)
        return np.where(length == 0, value, value / np.where(length == 0, 1, length))
    if value.dtype.kind == "f":
        return np.where(value == 0, value, np.sign(value))
    return np.sign(value)


def _exp2(value: Array) -> Array:
    """Compute float32 in float64: NumPy's vector code rounds some powers of two wrongly."""
    kind = {"f": np.float64, "c": np.complex128}[value.dtype.kind]
    return np.exp2(value.astype(kind)).astype(value.dtype)


def _log2(value: Array) -> Array:
    kind = {"f": np.float64, "c": np.complex128}[value.dtype.kind]
    return np.log2(value.astype(kind)).astype(value.dtype)


def _rsqrt(value: Array) -> Array:
    return 1 / np.sqrt(value)


UNARY: dict[str, Function] = {
    "exponential": np.exp, "exponential-minus-one": np.expm1, "exp2": _exp2,
    "log": np.log, "log-plus-one": np.log1p, "log2": _log2,
    "logistic": logistic, "sqrt": np.sqrt, "cbrt": np.cbrt, "rsqrt": _rsqrt,
    "tanh": np.tanh, "sine": np.sin, "sinh": np.sinh, "cosine": np.cos, "cosh": np.cosh,
    "tan": np.tan, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atanh": np.arctanh, "erf": erf, "ceil": np.ceil, "floor": np.floor,
    "round-nearest-afz": round_away, "round-nearest-even": np.rint, "sign": sign,
}  # fmt: skip


_WITHOUT_COMPLEX = frozenset({"cbrt", "remainder"})
"""Opcodes that HLO has for complex numbers too, and nobody computes."""


def _refuse_complex(call: Call) -> None:
    if call.row.opcode in _WITHOUT_COMPLEX and call.operands[0].dtype.kind == "c":
        raise call.fail("has complex operands, for which XLA computes nothing either")


def _unary(call: Call) -> Value:
    _refuse_complex(call)
    operand = call.operands[0]
    return np.asarray(UNARY[call.row.opcode](wide(operand))).astype(call.dtype)


operation(" ".join(UNARY))(_unary)


@operation("negate")
def _negate(call: Call) -> Value:
    operand = call.operands[0]
    return (-operand).astype(call.dtype)


@operation("not")
def _not(call: Call) -> Value:
    operand = call.operands[0]
    return ~operand if operand.dtype.kind in "biu" else _bits(operand, np.invert, call)


def _bits(operand: Array, function: Function, call: Call) -> Array:
    """A bit operation on a type NumPy has no bit operations for (four-bit integers)."""
    return function(operand.astype(np.int8)).astype(call.dtype)


@operation("abs")
def _abs(call: Call) -> Value:
    return np.abs(call.operands[0]).astype(call.dtype)


@operation("real imag")
def _part(call: Call) -> Value:
    operand = call.operands[0]
    if operand.dtype.kind != "c":
        return operand if call.row.opcode == "real" else np.zeros_like(operand)
    return getattr(operand, call.row.opcode).copy()


@operation("is-finite")
def _is_finite(call: Call) -> Value:
    return np.isfinite(wide(call.operands[0]))


def _unsigned(operand: Array) -> tuple[Array, int]:
    element = element_of(operand.dtype)
    mask = (1 << element.bits) - 1
    return operand.astype(np.int64).astype(np.uint64) & np.uint64(mask), element.bits


@operation("popcnt")
def _popcnt(call: Call) -> Value:
    bits, _ = _unsigned(call.operands[0])
    return np.bitwise_count(bits).astype(call.dtype) if hasattr(np, "bitwise_count") else np.array(
        [int(bit).bit_count() for bit in bits.reshape(-1)], call.dtype).reshape(bits.shape)  # fmt: skip


@operation("count-leading-zeros")
def _leading(call: Call) -> Value:
    bits, width = _unsigned(call.operands[0])
    counts = [width - int(bit).bit_length() for bit in bits.reshape(-1)]
    return np.array(counts, dtype=np.int64).reshape(bits.shape).astype(call.dtype)


# -- two operands --------------------------------------------------------------------------------


def divide(x: Array, y: Array) -> Array:
    """Truncating for integers; x / 0 is all ones (-1 or the largest), MIN / -1 is MIN."""
    if x.dtype.kind not in "iu":
        return x / y
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    if x.dtype.kind == "i":
        safe = np.where(y == -1, 1, safe).astype(x.dtype)
        quotient = np.where(
            (x < 0) != (safe < 0), -(np.abs(x) // np.abs(safe)), np.abs(x) // np.abs(safe)
        )
        lowest = np.iinfo(x.dtype).min
        quotient = np.where((x == lowest) & (safe == 1), lowest, quotient)
        exact = _truncated(x, safe)
        quotient = np.where(y == -1, -x, exact)
        return np.where(y == 0, -1, quotient).astype(x.dtype)
    return np.where(y == 0, np.iinfo(x.dtype).max, x // safe).astype(x.dtype)


def _truncated(x: Array, y: Array) -> Array:
    """Quotient towards zero, for y that is neither 0 nor -1."""
    floor = x // y
    return np.where((x % y != 0) & ((x < 0) != (y < 0)), floor + 1, floor)


def remainder(x: Array, y: Array) -> Array:
    """Sign of the dividend; x % 0 is x for integers."""
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    if x.dtype.kind == "i":
        safe = np.where(y == -1, 1, safe).astype(x.dtype)
    return np.where(y == 0, x, np.fmod(x, safe)).astype(x.dtype)


def _float_power(x: Array, y: Array) -> Array:
    """C's ``pow``: for a repeated exponent 0.5 NumPy takes the root, which differs for -0.0 and -inf."""
    powers = np.power(x, y)
    if not np.any(y == 0.5):
        return powers
    return np.where((y == 0.5) & ((x == 0) | (x == -np.inf)), np.abs(x), powers)


def _complex_power(x: Array, y: Array) -> Array:
    """Power in polar form with XLA's special values; NumPy has NaN for 1**inf and others.

    x**0 and 1**y are 1. Where the exponent is a real number: a zero to a positive one is 0, and a
    real infinity is 0 or infinity by the sign of the exponent. complex64 is computed in double
    precision.
    """
    base: NDArray[np.complex128] = x.astype(np.complex128)
    exponent: NDArray[np.complex128] = y.astype(np.complex128)
    radius, angle = np.hypot(base.real, base.imag), np.arctan2(base.imag, base.real)
    size = np.power(radius, exponent.real) * np.exp(-exponent.imag * angle)
    rotated = exponent.real * angle + exponent.imag * np.log(radius)
    result = np.empty(rotated.shape, np.complex128)
    result.real, result.imag = size * np.cos(rotated), size * np.sin(rotated)
    is_real = exponent.imag == 0
    positive, negative = is_real & (exponent.real > 0), is_real & (exponent.real < 0)
    is_infinite = (base.imag == 0) & (base.real == np.inf)
    result[(base == 0) & positive | is_infinite & negative] = 0
    result[is_infinite & positive] = np.inf
    result[(base == 1) | (exponent == 0)] = 1
    return result.astype(x.dtype)


def power(x: Array, y: Array) -> Array:
    """Integer powers wrap; a negative exponent results in 0 except for a base of 1 or -1."""
    if x.dtype.kind == "c":
        return _complex_power(x, y)
    if x.dtype.kind not in "iu":
        return _float_power(x, y)
    result = np.power(x, np.where(y < 0, 0, y).astype(x.dtype))
    if x.dtype.kind == "u":
        return result
    odd = (y % 2) != 0
    small = np.where(x == 1, 1, np.where(x == -1, np.where(odd, -1, 1), 0))
    return np.where(y < 0, small, result).astype(x.dtype)


def _shift(function: Function, *, arithmetic: bool) -> Function:
    """Shifts of bit patterns: an arithmetic one extends the top bit of unsigned types too."""

    def shift(x: Array, y: Array) -> Array:
        width = element_of(x.dtype).bits
        base = x.view(f"{'i' if arithmetic else 'u'}{x.dtype.itemsize}")
        amount = y.astype(np.int64)
        outside = (amount < 0) | (amount >= width)
        inside = np.where(outside, 0, amount).astype(base.dtype)
        moved = function(base, inside)
        fill: Array = np.zeros_like(base)
        if arithmetic:
            fill = np.where(base < 0, -1, 0).astype(base.dtype)
        return np.where(outside, fill, moved).astype(base.dtype).view(x.dtype)

    return shift


def _extreme(function: Function) -> Function:
    def pick(x: Array, y: Array) -> Array:
        if x.dtype.kind != "c":
            extremes = function(x, y)
            return extremes if x.dtype.kind in "biu" else _ordered_zeros(function, x, y, extremes)
        order = (x.real > y.real) | ((x.real == y.real) & (x.imag >= y.imag))
        return np.where(order == (function is np.maximum), x, y)

    return pick


def _ordered_zeros(function: Function, x: Array, y: Array, extremes: Array) -> Array:
    """The extreme of two floats where both are zero: -0 is less than 0."""
    zeros = x + y if function is np.maximum else -(-x - y)
    return np.where((x == 0) & (y == 0), zeros, extremes)


def _high_half(x: Array, y: Array) -> Array:
    """The upper half of the bits of a product."""
    product = x.astype(object) * y.astype(object)
    return np.asarray(product >> (8 * x.dtype.itemsize)).astype(x.dtype)


def _angle(y: Array, x: Array) -> Array:
    """The angle of x + iy, for complex x and y as XLA expands it."""
    if x.dtype.kind != "c":
        return np.arctan2(y, x)
    return np.asarray(-1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y)))


def _logical(function: Function, logical: Function) -> Function:
    def apply(x: Array, y: Array) -> Array:
        return logical(x, y) if x.dtype == np.bool_ else function(x, y)

    return apply


BINARY: dict[str, Function] = {
    "add": _logical(np.add, np.logical_or),
    "multiply": _logical(np.multiply, np.logical_and),
    "subtract": np.subtract,
    "divide": divide,
    "remainder": remainder,
    "power": power,
    "mulhi": _high_half,
    "maximum": _extreme(np.maximum),
    "minimum": _extreme(np.minimum),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "atan2": _angle,
    "shift-left": _shift(np.left_shift, arithmetic=False),
    "shift-right-logical": _shift(np.right_shift, arithmetic=False),
    "shift-right-arithmetic": _shift(np.right_shift, arithmetic=True),
}


def _alike(call: Call) -> list[Array]:
    """Return the operands; scalars next to arrays come from a computation applied to many elements.

    Raises:
        ValueError: their shapes differ.
    """
    operands = call.operands
    if len({operand.shape for operand in operands if operand.ndim}) > 1:
        raise ValueError("operands of different shapes")
    return operands


def _in_bytes(value: Array, kind: str) -> Array:
    """Integers of fewer than eight bits in bytes: their bits read as ``int`` or ``uint``."""
    bits = element_of(value.dtype).bits
    low = value.astype(np.int8) & np.int8((1 << bits) - 1)
    if kind == "uint":
        return low.view(np.uint8)
    half = np.int8(1 << (bits - 1))
    return (low ^ half) - half


_READ_AS = {"shift-right-arithmetic": "int", "shift-right-logical": "uint"}
"""The integer type in which a shift reads its bits, for any element type."""


def _narrow_binary(call: Call, x: Array, y: Array) -> Array:
    """An operation of integers that NumPy has not: in bytes, whose low bits are the result."""
    opcode, kind = call.row.opcode, element_of(x.dtype).kind
    first = _in_bytes(x, _READ_AS.get(opcode, kind))
    second = _in_bytes(y, kind)
    if opcode == "mulhi":
        product = first.astype(np.int16) * second.astype(np.int16)
        return np.asarray(product >> element_of(x.dtype).bits).astype(call.dtype)
    return BINARY[opcode](first, second).astype(call.dtype)


def _binary(call: Call) -> Value:
    _refuse_complex(call)
    x, y = _alike(call)
    if x.dtype.kind not in "biufc" and element_of(x.dtype).kind in ("int", "uint"):
        return _narrow_binary(call, x, y)
    return np.asarray(BINARY[call.row.opcode](wide(x), wide(y))).astype(call.dtype)


operation(" ".join(BINARY))(_binary)


@operation("complex")
def _complex(call: Call) -> Value:
    real, imaginary = call.operands
    value = np.empty(real.shape, call.dtype)
    value.real, value.imag = real, imaginary
    return value


_COMPARE: dict[str, Function] = {
    "EQ": np.equal, "NE": np.not_equal, "GE": np.greater_equal, "GT": np.greater,
    "LE": np.less_equal, "LT": np.less,
}  # fmt: skip


def total_order(value: Array) -> Array:
    """Integers that order as the total order of IEEE 754: -NaN < -inf < ... < inf < NaN."""
    bits = value.view(f"i{value.dtype.itemsize}").astype(np.int64)
    highest = (1 << 8 * value.dtype.itemsize - 1) - 1
    return np.where(bits < 0, bits ^ highest, bits)


@operation("compare")
def _compare(call: Call) -> Value:
    x, y = _alike(call)
    if is_total_order(call.row) and element_of(x.dtype).kind == "float":
        x, y = total_order(x), total_order(y)
    return np.asarray(_COMPARE[call.row.comparison_direction](x, y), dtype=np.bool_)


@operation("select")
def _select(call: Call) -> Value:
    predicate, first, second = _alike(call)
    if predicate.ndim == 0:
        return first if bool(predicate) else second
    return np.where(predicate, first, second).astype(call.dtype)


@operation("clamp")
def _clamp(call: Call) -> Value:
    low, value, high = (wide(operand) for operand in _alike(call))
    return BINARY["minimum"](BINARY["maximum"](low, value), high).astype(call.dtype)


@operation("opt-barrier domain")
def _same(call: Call) -> Value:
    return call.values[0]


@operation("copy")
def _copy(call: Call) -> Value:
    """The operand; the TPU compiler lets a copy convert between types of floats, too."""
    value = call.values[0]
    if isinstance(value, np.ndarray) and not call.row.shape.tuple_shapes:
        return value if value.dtype == call.dtype else convert(value, call.dtype)
    return value


# -- conversions ---------------------------------------------------------------------------------


def convert(value: Array, dtype: DType) -> Array:
    """Another element type: floats to integers towards zero, NaN to 0, too large to the limit."""
    source, target = element_of(value.dtype), element_of(dtype)
    if source.kind == "complex" and target.kind not in ("complex", "pred"):
        return convert(np.ascontiguousarray(value.real), dtype)
    if target.kind in ("int", "uint") and source.kind == "float":
        return _to_integer(value, dtype)
    if target.kind == "pred":
        return value.astype(np.float64) != 0 if source.kind != "complex" else value != 0
    if target.kind in ("int", "uint") and target.bits < 8:
        return (value.astype(np.int64) & ((1 << target.bits) - 1)).astype(np.int8).astype(dtype)
    return value.astype(dtype)


def _to_integer(value: Array, dtype: DType) -> Array:
    target = element_of(dtype)
    bits = target.bits
    low, high = (
        (-(1 << bits - 1), (1 << bits - 1) - 1) if target.kind == "int" else (0, (1 << bits) - 1)
    )
    exact = np.trunc(value.astype(np.float64))
    finite = np.nan_to_num(exact, nan=0.0, posinf=float(high), neginf=float(low))
    inside = np.clip(finite, float(low), float(high))
    limit = inside >= float(high)
    result = np.where(limit, 0, inside).astype(np.int64 if target.kind == "int" else np.uint64)
    return np.where(limit, np.array(high).astype(result.dtype), result).astype(dtype)


@operation("convert")
def _convert(call: Call) -> Value:
    return convert(call.operands[0], call.dtype)


@operation("stochastic-convert")
def _stochastic_convert(call: Call) -> Value:
    """Convert to a signed integer; round away from zero if the random fraction is below the remainder.

    XLA: ``StochasticConvertOp`` of the HLO evaluator; it defines no other result types.
    """
    if call.element.kind != "int":
        raise call.fail(f"has the result type {call.element.name}, which XLA does not define")
    operand, random = call.operands[0].astype(np.float64), call.operands[1]
    bits, limits = 8 * random.dtype.itemsize, np.iinfo(call.dtype)
    magnitude: Array = np.trunc(np.abs(operand))
    share = np.floor(np.ldexp(np.abs(operand) - magnitude, bits))
    magnitude = np.where(random.astype(np.float64) < share, magnitude + 1, magnitude)
    return convert(np.clip(np.copysign(magnitude, operand), limits.min, limits.max), call.dtype)


@operation("bitcast-convert")
def _bitcast_convert(call: Call) -> Value:
    if call.operands[0].dtype.itemsize == call.dtype.itemsize:
        return call.operands[0].view(call.dtype)
    return np.ascontiguousarray(call.operands[0]).reshape(-1).view(call.dtype).reshape(call.extents)


@operation("reduce-precision")
def _reduce_precision(call: Call) -> Value:
    value = call.operands[0].astype(np.float64)
    # More bits than float64 has change nothing.
    exponent, mantissa = min(call.row.exponent_bits, 12), min(call.row.mantissa_bits, 53)
    fraction, power_of_two = np.frexp(value)
    digits: Array = np.rint(np.ldexp(fraction, mantissa + 1))
    if (
        not mantissa
    ):  # XLA takes the preceding bit, the exponent's last, for the one that has to be even
        tie = (np.abs(fraction) == 0.75) & (power_of_two % 2 == 0)
        digits = np.where(tie, np.copysign(1.0, value), digits)
    rounded: Array = np.ldexp(digits, power_of_two - mantissa - 1)
    bias = (1 << exponent - 1) - 1
    largest = np.ldexp(2.0 - np.ldexp(1.0, -mantissa), bias)
    smallest = np.ldexp(1.0, 1 - bias)
    rounded = np.where(np.abs(rounded) > largest, np.copysign(np.inf, value), rounded)
    rounded = np.where(np.abs(rounded) < smallest, np.copysign(0.0, value), rounded)
    return np.where(np.isfinite(value), rounded, value).astype(call.dtype)
