"""The operators of the language, defined: what each computes when it is called on tiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nki_lang.frontend import operators as op
from nki_lang.frontend.operators import Operator

__all__ = ["var"]

_BINARY = {
    op.add: "``x + y``, element-wise.",
    op.subtract: "``x - y``, element-wise.",
    op.multiply: "``x * y``, element-wise.",
    op.divide: "``x / y``, element-wise.",
    op.maximum: "The larger of ``x`` and ``y``, element-wise.",
    op.minimum: "The smaller of ``x`` and ``y``, element-wise.",
    op.abs_max: "The one of ``x`` and ``y`` with the larger magnitude; ``y`` on ties.",
    op.abs_min: "The one of ``x`` and ``y`` with the smaller magnitude.",
    op.power: "``x ** y``, element-wise.",
    op.equal: "1 where ``x == y``, else 0.",
    op.not_equal: "1 where ``x != y``, else 0.",
    op.less: "1 where ``x < y``, else 0.",
    op.less_equal: "1 where ``x <= y``, else 0.",
    op.greater: "1 where ``x > y``, else 0.",
    op.greater_equal: "1 where ``x >= y``, else 0.",
    op.bitwise_and: "``x & y`` of integers.",
    op.bitwise_or: "``x | y`` of integers.",
    op.bitwise_xor: "``x ^ y`` of integers.",
    op.left_shift: "``x << y`` of integers.",
    op.right_shift: "``x >> y`` of integers, filling with zeros.",
    op.logical_and: "1 where both are not zero, else 0.",
    op.logical_or: "1 where at least one is not zero, else 0.",
    op.logical_xor: "1 where exactly one is not zero, else 0.",
    op.fmod: "Remainder of ``x / y`` with the sign of ``x``.",
    op.mod: "Remainder of ``x / y`` with the sign of ``y``.",
}

_ACTIVATIONS = {
    op.exp: "``e ** x``.",
    op.log: "Natural logarithm.",
    op.sqrt: "Square root.",
    op.rsqrt: "``1 / sqrt(x)``.",
    op.tanh: "Hyperbolic tangent.",
    op.sigmoid: "``1 / (1 + exp(-x))``.",
    op.relu: "``max(x, 0)``.",
    op.gelu: "Gaussian error linear unit.",
    op.gelu_apprx_sigmoid: "``x * sigmoid(1.702 x)``.",
    op.gelu_apprx_tanh: "Gaussian error linear unit by tanh.",
    op.gelu_dx: "Derivative of gelu.",
    op.gelu_apprx_sigmoid_dx: "Derivative of gelu_apprx_sigmoid.",
    op.silu: "``x * sigmoid(x)``.",
    op.silu_dx: "Derivative of silu.",
    op.softplus: "``log(1 + exp(x))``.",
    op.mish: "``x * tanh(softplus(x))``.",
    op.erf: "Error function.",
    op.erf_dx: "Derivative of erf.",
    op.copy: "``x``, in the output dtype.",
    op.square: "``x * x``.",
    op.abs: "Magnitude.",
    op.sign: "-1, 0 or 1 by the sign.",
}

_COMPOSED = {
    op.reciprocal: "``1 / x``.",
    op.invert: "Bitwise NOT of integers.",
    op.logical_not: "1 where ``x`` is zero, else 0.",
    op.negative: "``-x``.",
    op.sin: "Sine, with range reduction.",
    op.cos: "Cosine, with range reduction.",
    op.tan: "Tangent.",
    op.arctan: "Inverse tangent of any number.",
    op.ceil: "Smallest integer that is not smaller.",
    op.floor: "Largest integer that is not larger.",
    op.trunc: "The integer part.",
}
"""Those that take several instructions, written in ``composed.py`` under the same names."""

_VALUES = {
    op.average: "Mean, as a reduction operator.",
    op.prelu: "Parametric relu; the slope is ``relu_param``.",
    op.bypass: "The data unchanged.",
}
"""Those that are for ``op=`` only."""

_REDUCTIONS = {
    op.sum: (op.add, "Sum along the last free axes."),
    op.max: (op.maximum, "Maximum along the last free axes."),
    op.min: (op.minimum, "Minimum along the last free axes."),
    op.prod: (op.multiply, "Product along the last free axes."),
}


def _binary(operator: Operator) -> Callable[..., Any]:
    def call(x: Any, y: Any, dtype: Any = None) -> Any:
        from nki_lang.language.lowering import binary

        return binary(operator, x, y, dtype)

    return call


def _activation(operator: Operator) -> Callable[..., Any]:
    def call(x: Any, dtype: Any = None) -> Any:
        from nki_lang.language.lowering import activate

        return activate(operator, x, dtype)

    return call


def _composed(operator: Operator) -> Callable[..., Any]:
    def call(x: Any, dtype: Any = None) -> Any:
        from nki_lang.language import composed

        return getattr(composed, operator.name)(x, dtype)

    return call


def _reduction(operator: Operator) -> Callable[..., Any]:
    def call(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> Any:
        from nki_lang.language.lowering import reduce

        return reduce(operator, x, axis, dtype, keepdims)

    return call


def _all(x: Any, axis: Any, dtype: Any = None) -> Any:
    from nki_lang.language.lowering import reduce

    return reduce(op.logical_and, x, axis, dtype, False)


def _mean(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> Any:
    from nki_lang.language.composed import mean_of

    return mean_of(x, axis, dtype, keepdims)


def var(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> Any:
    """Variance along the last free axes; the reduced axes always stay with extent 1."""
    from nki_lang.language.composed import variance

    return variance(x, axis, dtype)


for _operator, _doc in _BINARY.items():
    _operator.define(_doc, _binary(_operator))
for _operator, _doc in _ACTIVATIONS.items():
    _operator.define(_doc, _activation(_operator))
for _operator, _doc in _COMPOSED.items():
    _operator.define(_doc, _composed(_operator))
for _operator, _doc in _VALUES.items():
    _operator.define(_doc)
for _operator, (_combine, _doc) in _REDUCTIONS.items():
    _operator.define(_doc, _reduction(_combine))
op.all.define("1 where all elements along the last free axes are not zero.", _all)
op.mean.define("Arithmetic mean along the last free axes, computed in float32.", _mean)
