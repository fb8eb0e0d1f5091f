"""The operators of the language, defined: what each computes when it is called on tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nki_lang.base.dtypes import DTypeLike
from nki_lang.frontend import operators as op
from nki_lang.frontend.operators import Operator
from nki_lang.frontend.tensor import NkiTensor

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
"""Functions that need several instructions; ``composed.py`` defines them under the same names."""

_VALUES = {
    op.average: "Mean, as a reduction operator.",
    op.prelu: "Parametric relu; the slope is ``relu_param``.",
    op.bypass: "The data unchanged.",
}
"""Operators that are valid only as ``op=``."""

_REDUCTIONS = {
    op.sum: (op.add, "Sum along the last free axes."),
    op.max: (op.maximum, "Maximum along the last free axes."),
    op.min: (op.minimum, "Minimum along the last free axes."),
    op.prod: (op.multiply, "Product along the last free axes."),
}


def _binary(operator: Operator) -> Callable[..., Any]:
    def call(
        x: NkiTensor | float, y: NkiTensor | float, dtype: DTypeLike | None = None
    ) -> NkiTensor:
        from nki_lang.language.lowering import binary

        return binary(operator, x, y, dtype)

    return call


def _activation(operator: Operator) -> Callable[..., Any]:
    def call(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
        from nki_lang.language.lowering import activate

        return activate(operator, x, dtype)

    return call


def _composed(operator: Operator) -> Callable[..., Any]:
    def call(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
        from nki_lang.language import composed

        return getattr(composed, operator.name)(x, dtype)

    return call


def _reduction(operator: Operator) -> Callable[..., Any]:
    def call(
        x: NkiTensor,
        axis: int | Sequence[int],
        dtype: DTypeLike | None = None,
        keepdims: bool = False,
    ) -> NkiTensor:
        from nki_lang.language.lowering import reduce

        return reduce(operator, x, axis, dtype, keepdims)

    return call


def _all(x: NkiTensor, axis: int | Sequence[int], dtype: DTypeLike | None = None) -> NkiTensor:
    from nki_lang.language.lowering import reduce

    return reduce(op.logical_and, x, axis, dtype, False)


def _mean(
    x: NkiTensor,
    axis: int | Sequence[int],
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
) -> NkiTensor:
    from nki_lang.language.composed import mean_of

    return mean_of(x, axis, dtype, keepdims)


def var(
    x: NkiTensor, axis: int | Sequence[int], dtype: DTypeLike | None = None, keepdims: bool = False
) -> NkiTensor:
    """Variance along the last free axes; the reduced axes always stay with extent 1.

    Args:
        x: a tile in SBUF or PSUM.
        axis: the axis, or axes, counted from 0; 0 is the partition dimension.
        dtype: of the result, such as nl.bfloat16; that of the operand when None.
        keepdims: reduced axes stay with extent 1.

    Returns:
        NkiTensor: a new tile in SBUF.

    Raises:
        NkiValidationError: its code is one of NKI-OUTSIDE, NKI-OPERAND (no tile on chip),
            NKI-SHAPE, NKI-CAPACITY.

    Source: nl.var (nki/api/nki/language, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        spread = nl.var(a, axis=1)
    """
    from nki_lang.language.composed import variance

    return variance(x, axis, dtype)


_RESULT = """    dtype: of the result, such as nl.bfloat16; that of the tile when None.

Returns:
    NkiTensor: a new tile in SBUF. As ``op=`` of an instruction, the operator itself is passed:
    ``op=nl.{name}``.

Raises:
    NkiValidationError: NKI-OPERAND (no tile on chip), NKI-SHAPE, NKI-CAPACITY, NKI-OUTSIDE.

Source: nl.{name} (nki/api/nki/language, NKI 0.6.0).

Example, given a, a tile in SBUF::

"""
_TWO = """

Args:
    x: a tile in SBUF or PSUM, or a number.
    y: the same shape, one value for each partition, or a number; one of x and y is a tile.
"""
_ONE = """

Args:
    x: a tile in SBUF or PSUM.
"""
_AXES = f"""{_ONE}    axis: the axis or axes, the last free ones; 0 is the partition dimension.
"""
_KEEP = "    keepdims: reduced axes stay with extent 1.\n"
_FOR_OP = """ It is for ``op=`` only, and is not called.

Source: nl.{name} (nki/api/nki/language, NKI 0.6.0).
"""


def _described(operator: Operator, doc: str, arguments: str, example: str) -> str:
    shown = f"    result = nl.{operator.public}({example})\n" if example else ""
    return doc + arguments.format(name=operator.public) + shown


for _operator, _doc in _BINARY.items():
    _operator.define(_described(_operator, _doc, _TWO + _RESULT, "a, a"), _binary(_operator))
for _operator, _doc in _ACTIVATIONS.items():
    _operator.define(_described(_operator, _doc, _ONE + _RESULT, "a"), _activation(_operator))
for _operator, _doc in _COMPOSED.items():
    _operator.define(_described(_operator, _doc, _ONE + _RESULT, "a"), _composed(_operator))
for _operator, _doc in _VALUES.items():
    _operator.define(_described(_operator, _doc, _FOR_OP, ""))
for _operator, (_combine, _doc) in _REDUCTIONS.items():
    _operator.define(
        _described(_operator, _doc, _AXES + _KEEP + _RESULT, "a, axis=1"), _reduction(_combine)
    )
_doc = "1 where all elements along the last free axes are not zero."
op.all.define(_described(op.all, _doc, _AXES + _RESULT, "a, axis=1"), _all)
_doc = "Arithmetic mean along the last free axes, computed in float32."
op.mean.define(_described(op.mean, _doc, _AXES + _KEEP + _RESULT, "a, axis=1"), _mean)
