"""Elementwise operations as calls of ``jax.lax``."""

from __future__ import annotations

from collections.abc import Callable

from hlo_tools.python_source.site import Rows, Site
from hlo_tools.types.comparison import is_total_order

__all__ = ["ELEMENTWISE"]

_UNARY = {
    "exponential": "lax.exp", "exponential-minus-one": "lax.expm1", "exp2": "lax.exp2",
    "log": "lax.log", "log-plus-one": "lax.log1p", "log2": "jnp.log2",
    "logistic": "lax.logistic", "sqrt": "lax.sqrt", "cbrt": "lax.cbrt", "rsqrt": "lax.rsqrt",
    "tanh": "lax.tanh", "sine": "lax.sin", "sinh": "lax.sinh", "cosine": "lax.cos",
    "cosh": "lax.cosh", "tan": "lax.tan", "acos": "lax.acos", "acosh": "lax.acosh",
    "asin": "lax.asin", "asinh": "lax.asinh", "atanh": "lax.atanh", "erf": "lax.erf",
    "ceil": "lax.ceil", "floor": "lax.floor", "sign": "lax.sign", "is-finite": "lax.is_finite",
    "not": "lax.bitwise_not", "popcnt": "lax.population_count", "count-leading-zeros": "lax.clz",
    "complex": "lax.complex", "clamp": "lax.clamp", "select": "lax.select",
}  # fmt: skip
"""Opcodes whose operands are the arguments of a function."""

_BINARY = {
    "subtract": "lax.sub", "divide": "lax.div", "remainder": "lax.rem", "maximum": "lax.max",
    "minimum": "lax.min", "and": "lax.bitwise_and", "or": "lax.bitwise_or", "xor": "lax.bitwise_xor",
    "atan2": "lax.atan2", "shift-left": "lax.shift_left", "mulhi": "high_half",
    "shift-right-logical": "lax.shift_right_logical",
    "shift-right-arithmetic": "lax.shift_right_arithmetic", "stochastic-convert": "round_stochastic",
}  # fmt: skip

_COMPARE = {
    "EQ": "lax.eq", "NE": "lax.ne", "GE": "lax.ge", "GT": "lax.gt", "LE": "lax.le", "LT": "lax.lt",
}  # fmt: skip


_WITHOUT_NARROW_INTEGERS = frozenset({"abs", "mulhi", "popcnt"})
"""Opcodes whose functions take integers of eight bits and more."""
_MIN_FLOAT_BITS = 16
"""``jax.lax`` rounds each step of a function of smaller floats; XLA computes them in float32."""


def _applied(function: str) -> Callable[[Site], str]:
    """A call of a function with the operands."""

    def write(site: Site) -> str:
        element = site.operand_shape(0).element
        is_narrow = element.kind in ("int", "uint") and element.bits < 8
        if is_narrow and site.row.opcode in _WITHOUT_NARROW_INTEGERS:
            raise site.refused(f"has operands of {element}")
        if element.kind != "float" or element.bits >= _MIN_FLOAT_BITS or site.kind != "float":
            return f"{function}({', '.join(site.operands)})"
        wide = [
            f"lax.convert_element_type({operand}, jnp.float32)"
            if site.operand_shape(index).element == element
            else operand
            for index, operand in enumerate(site.operands)
        ]
        return f"lax.convert_element_type({function}({', '.join(wide)}), {site.dtype})"

    return write


def _by_kind(otherwise: str, **functions: str) -> Callable[[Site], str]:
    """A call of the function for the kind of the first operand's elements; ``""`` passes it through."""

    def write(site: Site) -> str:
        function = functions.get(site.operand_shape(0).element.kind, otherwise)
        return _applied(function)(site) if function else site.operands[0]

    return write


def _imaginary(site: Site) -> str:
    if site.operand_shape(0).element.kind == "complex":
        return f"lax.imag({site.operands[0]})"
    return f"lax.full_like({site.operands[0]}, 0)"


def _rounded(method: str) -> Callable[[Site], str]:
    return lambda site: f"lax.round({site.operands[0]}, lax.RoundingMethod.{method})"


def _compare(site: Site) -> str:
    direction = site.row.comparison_direction
    function = _COMPARE[direction]
    if site.operand_shape(0).element.kind == "complex" and direction not in ("EQ", "NE"):
        raise site.refused("orders complex numbers")
    operands = list(site.operands)
    if is_total_order(site.row) and site.operand_shape(0).element.kind == "float":
        operands = [f"total_order({operand})" for operand in operands]
    return f"{function}({', '.join(operands)})"


def _convert(site: Site) -> str:
    source = site.operand_shape(0).element.kind
    operand = site.operands[0]
    if source == "complex" and site.kind == "pred":
        return f"lax.ne({operand}, lax.full_like({operand}, 0))"
    if source == "complex" and site.kind != "complex":
        operand = f"lax.real({operand})"
    return f"lax.convert_element_type({operand}, {site.dtype})"


def _copy(site: Site) -> str:
    """The operand; the TPU compiler lets a copy convert between types of floats, too."""
    shape = site.shape
    if shape.is_array and shape.element != site.operand_shape(0).element:
        return _convert(site)
    return site.operands[0]


def _bitcast_convert(site: Site) -> str:
    return f"lax.bitcast_convert_type({site.operands[0]}, {site.dtype})"


def _reduce_precision(site: Site) -> str:
    row = site.row
    return (
        f"lax.reduce_precision({site.operands[0]}, exponent_bits={row.exponent_bits}, "
        f"mantissa_bits={row.mantissa_bits})"
    )


def _stochastic(site: Site) -> str:
    if site.kind != "int":
        raise site.refused(f"has the result type {site.shape.element}, which XLA does not define")
    return f"round_stochastic({', '.join(site.operands)}, {site.dtype})"


ELEMENTWISE: Rows = {
    **{opcode: _applied(function) for opcode, function in (_UNARY | _BINARY).items()},
    "add": _by_kind("lax.add", pred="lax.bitwise_or"),
    "multiply": _by_kind("lax.mul", pred="lax.bitwise_and"),
    "negate": _by_kind("lax.neg", pred=""),
    "abs": _by_kind("lax.abs", uint="", pred=""),
    "power": _by_kind("lax.pow", int="integer_power", uint="integer_power"),
    "real": _by_kind("", complex="lax.real"),
    "imag": _imaginary,
    "round-nearest-afz": _rounded("AWAY_FROM_ZERO"),
    "round-nearest-even": _rounded("TO_NEAREST_EVEN"),
    "compare": _compare,
    "convert": _convert,
    "copy": _copy,
    "bitcast-convert": _bitcast_convert,
    "reduce-precision": _reduce_precision,
    "stochastic-convert": _stochastic,
}
