"""Elementwise operations as expressions of NumPy."""

from __future__ import annotations

from collections.abc import Callable

from hlo_tools.python_source.site import Rows, Site
from hlo_tools.types.comparison import is_total_order

__all__ = ["ELEMENTWISE"]

_UNARY = {
    "exponential": "np.exp({0})", "exponential-minus-one": "np.expm1({0})", "exp2": "exp2({0})",
    "log": "np.log({0})", "log-plus-one": "np.log1p({0})", "log2": "log2({0})",
    "logistic": "logistic({0})", "sqrt": "np.sqrt({0})", "cbrt": "np.cbrt({0})",
    "rsqrt": "rsqrt({0})", "tanh": "np.tanh({0})", "sine": "np.sin({0})", "sinh": "np.sinh({0})",
    "cosine": "np.cos({0})", "cosh": "np.cosh({0})", "tan": "np.tan({0})",
    "acos": "np.arccos({0})", "acosh": "np.arccosh({0})", "asin": "np.arcsin({0})",
    "asinh": "np.arcsinh({0})", "atanh": "np.arctanh({0})", "erf": "erf({0})",
    "ceil": "np.ceil({0})", "floor": "np.floor({0})", "round-nearest-afz": "round_away({0})",
    "round-nearest-even": "np.rint({0})", "is-finite": "np.isfinite({0})", "not": "~{0}",
    "negate": "-{0}", "abs": "np.abs({0})", "popcnt": "popcount({0})",
    "count-leading-zeros": "leading_zeros({0})",
}  # fmt: skip

_BINARY = {
    "subtract": "{0} - {1}", "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}",
    "atan2": "np.arctan2({0}, {1})", "shift-left": "shift_left({0}, {1})",
    "shift-right-logical": "shift_right_logical({0}, {1})",
    "shift-right-arithmetic": "shift_right_arithmetic({0}, {1})", "mulhi": "high_half({0}, {1})",
}  # fmt: skip

_COMPARE = {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}


def _expression(form: str) -> Callable[[Site], str]:
    """An expression of the operands; NumPy has it for integers of eight bits and more."""

    def write(site: Site) -> str:
        element = site.operand_shape(0).element
        if element.kind in ("int", "uint") and element.bits < 8:
            raise site.refused(f"has operands of {element}")
        return form.format(*site.operands)

    return write


def _by_kind(otherwise: str, **forms: str) -> Callable[[Site], str]:
    """The expression for the kind of the first operand's elements."""

    def write(site: Site) -> str:
        return _expression(forms.get(site.operand_shape(0).element.kind, otherwise))(site)

    return write


def _atan2(site: Site) -> str:
    if site.kind == "complex":
        raise site.refused("has complex operands")
    return _expression(_BINARY["atan2"])(site)


def _real_remainder(site: Site) -> str:
    if site.kind == "complex":
        raise site.refused("has complex operands")
    return _by_kind("np.fmod({0}, {1})", int="remainder({0}, {1})", uint="remainder({0}, {1})")(
        site
    )


def _extreme(name: str, operator: str) -> Callable[[Site], str]:
    def write(site: Site) -> str:
        if site.kind == "complex":
            raise site.refused("orders complex numbers")
        return _by_kind(f"{name}({{0}}, {{1}})", pred=f"{{0}} {operator} {{1}}")(site)

    return write


def _clamp(site: Site) -> str:
    if site.kind == "complex":
        raise site.refused("orders complex numbers")
    low, value, high = site.operands
    if site.kind == "pred":
        return f"({low} | {value}) & {high}"
    return _expression("smaller(larger({0}, {1}), {2})")(site)


def _compare(site: Site) -> str:
    direction = site.row.comparison_direction
    first, second = site.operands
    kind = site.operand_shape(0).element.kind
    if kind == "complex" and direction not in ("EQ", "NE"):
        raise site.refused("orders complex numbers")
    if is_total_order(site.row) and kind == "float":
        first, second = f"total_order({first})", f"total_order({second})"
    return f"{first} {_COMPARE[direction]} {second}"


def _select(site: Site) -> str:
    return f"np.where({', '.join(site.operands)})"


def _complex(site: Site) -> str:
    return f"complex_of({', '.join(site.operands)}, {site.dtype})"


def _imaginary(site: Site) -> str:
    if site.operand_shape(0).element.kind == "complex":
        return f"{site.operands[0]}.imag"
    return f"np.zeros_like({site.operands[0]})"


def _convert(site: Site) -> str:
    source, target = site.operand_shape(0).element, site.shape.element
    operand = site.operands[0]
    if target.kind == "pred":
        return f"{operand} != 0"
    real_part = f"{operand}.real" if source.kind == "complex" else operand
    if target.kind in ("int", "uint") and source.kind in ("float", "complex"):
        return f"to_integer({real_part}, {site.dtype})"
    if target.kind in ("int", "uint") and target.bits < 8:
        return f"narrow_integer({real_part}, {target.bits}, {site.dtype})"
    return f"{operand if target.kind == 'complex' else real_part}.astype({site.dtype})"


def _copy(site: Site) -> str:
    """The operand; the TPU compiler lets a copy convert between types of floats, too."""
    shape = site.shape
    if shape.is_array and shape.element != site.operand_shape(0).element:
        return _convert(site)
    return site.operands[0]


def _bitcast_convert(site: Site) -> str:
    if site.operand_shape(0).element.bits < 8 or site.shape.element.bits < 8:
        raise site.refused("reads elements of fewer than eight bits")
    if site.operand_shape(0).element.bits == site.shape.element.bits:
        return f"np.asarray({site.operands[0]}).view({site.dtype})"
    return f"bitcast({site.operands[0]}, {site.dtype}, {site.extents})"


def _reduce_precision(site: Site) -> str:
    row = site.row
    exponent, mantissa = min(row.exponent_bits, 12), min(row.mantissa_bits, 53)
    return f"reduce_precision({site.operands[0]}, {exponent}, {mantissa})"


def _stochastic(site: Site) -> str:
    if site.kind != "int":
        raise site.refused(f"has the result type {site.shape.element}, which XLA does not define")
    return f"round_stochastic({', '.join(site.operands)}, {site.dtype})"


_INTEGER_POWER = "integer_power({0}, {1})"

ELEMENTWISE: Rows = {
    **{opcode: _expression(form) for opcode, form in (_UNARY | _BINARY).items()},
    "add": _by_kind("{0} + {1}", pred="{0} | {1}"),
    "multiply": _by_kind("{0} * {1}", pred="{0} & {1}"),
    "divide": _by_kind("{0} / {1}", int="divide({0}, {1})", uint="divide({0}, {1})"),
    "sign": _by_kind("sign({0})", int="np.sign({0})"),
    "power": _by_kind(
        "float_power({0}, {1})",
        int=_INTEGER_POWER,
        uint=_INTEGER_POWER,
        complex="complex_power({0}, {1})",
    ),
    "remainder": _real_remainder,
    "atan2": _atan2,
    "maximum": _extreme("larger", "|"),
    "minimum": _extreme("smaller", "&"),
    "clamp": _clamp,
    "select": _select,
    "complex": _complex,
    "real": _by_kind("{0}", complex="{0}.real"),
    "imag": _imaginary,
    "compare": _compare,
    "convert": _convert,
    "copy": _copy,
    "bitcast-convert": _bitcast_convert,
    "reduce-precision": _reduce_precision,
    "stochastic-convert": _stochastic,
}
