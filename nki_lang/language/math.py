"""The operators of the language: values for ``op=`` and functions on tiles."""

from __future__ import annotations

from typing import Any

from nki_lang.frontend.operators import BY_NAME, Operator, operator

__all__ = [
    "abs", "abs_max", "abs_min", "add", "all", "arctan", "average", "bitwise_and", "bitwise_or",
    "bitwise_xor", "bypass", "ceil", "copy", "cos", "divide", "equal", "erf", "erf_dx", "exp",
    "floor", "fmod", "gelu", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx", "gelu_apprx_tanh",
    "gelu_dx", "greater", "greater_equal", "invert", "left_shift", "less", "less_equal", "log",
    "logical_and", "logical_not", "logical_or", "logical_xor", "max", "maximum", "mean", "min",
    "minimum", "mish", "mod", "multiply", "negative", "not_equal", "power", "prelu", "prod",
    "reciprocal", "relu", "right_shift", "rsqrt", "sigmoid", "sign", "silu", "silu_dx", "sin",
    "softplus", "sqrt", "square", "subtract", "sum", "tan", "tanh", "trunc", "var",
]  # fmt: skip


def _binary(name: str, doc: str) -> Operator:
    def call(x: Any, y: Any, dtype: Any = None) -> Any:
        from nki_lang.language.lowering import binary

        return binary(made, x, y, dtype)

    made = Operator(name, call, doc=doc)
    BY_NAME[name] = made
    return made


def _activation(name: str, doc: str) -> Operator:
    def call(x: Any, dtype: Any = None) -> Any:
        from nki_lang.language.lowering import activate

        return activate(made, x, dtype)

    made = Operator(name, call, doc=doc)
    BY_NAME[name] = made
    return made


def _composed(name: str, doc: str) -> Operator:
    """An operator whose function takes several instructions, written in ``composed.py``."""

    def call(x: Any, dtype: Any = None) -> Any:
        from nki_lang.language import composed

        return getattr(composed, name)(x, dtype)

    made = Operator(name, call, doc=doc)
    BY_NAME[name] = made
    return made


def _value(name: str, doc: str) -> Operator:
    made = BY_NAME[name] = Operator(name, doc=doc)
    return made


add = _binary("add", "``x + y``, element-wise.")
subtract = _binary("subtract", "``x - y``, element-wise.")
multiply = _binary("multiply", "``x * y``, element-wise.")
divide = _binary("divide", "``x / y``, element-wise.")
maximum = _binary("maximum", "The larger of ``x`` and ``y``, element-wise.")
minimum = _binary("minimum", "The smaller of ``x`` and ``y``, element-wise.")
abs_max = _binary("abs_max", "The one of ``x`` and ``y`` with the larger magnitude; ``y`` on ties.")
abs_min = _binary("abs_min", "The one of ``x`` and ``y`` with the smaller magnitude.")
power = _binary("power", "``x ** y``, element-wise.")
equal = _binary("equal", "1 where ``x == y``, else 0.")
not_equal = _binary("not_equal", "1 where ``x != y``, else 0.")
less = _binary("less", "1 where ``x < y``, else 0.")
less_equal = _binary("less_equal", "1 where ``x <= y``, else 0.")
greater = _binary("greater", "1 where ``x > y``, else 0.")
greater_equal = _binary("greater_equal", "1 where ``x >= y``, else 0.")
bitwise_and = _binary("bitwise_and", "``x & y`` of integers.")
bitwise_or = _binary("bitwise_or", "``x | y`` of integers.")
bitwise_xor = _binary("bitwise_xor", "``x ^ y`` of integers.")
left_shift = _binary("left_shift", "``x << y`` of integers.")
right_shift = _binary("right_shift", "``x >> y`` of integers, filling with zeros.")
logical_and = _binary("logical_and", "1 where both are not zero, else 0.")
logical_or = _binary("logical_or", "1 where at least one is not zero, else 0.")
logical_xor = _binary("logical_xor", "1 where exactly one is not zero, else 0.")
fmod = _binary("fmod", "Remainder of ``x / y`` with the sign of ``x``.")
mod = _binary("mod", "Remainder of ``x / y`` with the sign of ``y``.")

exp = _activation("exp", "``e ** x``.")
log = _activation("log", "Natural logarithm.")
sqrt = _activation("sqrt", "Square root.")
rsqrt = _activation("rsqrt", "``1 / sqrt(x)``.")
tanh = _activation("tanh", "Hyperbolic tangent.")
sigmoid = _activation("sigmoid", "``1 / (1 + exp(-x))``.")
relu = _activation("relu", "``max(x, 0)``.")
gelu = _activation("gelu", "Gaussian error linear unit.")
gelu_apprx_sigmoid = _activation("gelu_apprx_sigmoid", "``x * sigmoid(1.702 x)``.")
gelu_apprx_tanh = _activation("gelu_apprx_tanh", "Gaussian error linear unit by tanh.")
gelu_dx = _activation("gelu_dx", "Derivative of gelu.")
gelu_apprx_sigmoid_dx = _activation("gelu_apprx_sigmoid_dx", "Derivative of gelu_apprx_sigmoid.")
silu = _activation("silu", "``x * sigmoid(x)``.")
silu_dx = _activation("silu_dx", "Derivative of silu.")
softplus = _activation("softplus", "``log(1 + exp(x))``.")
mish = _activation("mish", "``x * tanh(softplus(x))``.")
erf = _activation("erf", "Error function.")
erf_dx = _activation("erf_dx", "Derivative of erf.")
copy = _activation("copy", "``x``, in the output dtype.")
square = _activation("square", "``x * x``.")
abs = _activation("abs", "Magnitude.")
sign = _activation("sign", "-1, 0 or 1 by the sign.")

reciprocal = _composed("reciprocal", "``1 / x``.")
invert = _composed("invert", "Bitwise NOT of integers.")
logical_not = _composed("logical_not", "1 where ``x`` is zero, else 0.")
negative = _composed("negative", "``-x``.")
sin = _composed("sin", "Sine, with range reduction.")
cos = _composed("cos", "Cosine, with range reduction.")
tan = _composed("tan", "Tangent.")
arctan = _composed("arctan", "Inverse tangent of any number.")
ceil = _composed("ceil", "Smallest integer that is not smaller.")
floor = _composed("floor", "Largest integer that is not larger.")
trunc = _composed("trunc", "The integer part.")

average = _value("average", "Mean, as a reduction operator.")
prelu = _value("prelu", "Parametric relu; the slope is ``relu_param``.")
bypass = _value("bypass", "The data unchanged.")


@operator("add")
def sum(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> Any:
    """Sum along the last free axes."""
    from nki_lang.language.lowering import reduce

    return reduce(add, x, axis, dtype, keepdims)


@operator("maximum")
def max(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> Any:
    """Maximum along the last free axes."""
    from nki_lang.language.lowering import reduce

    return reduce(maximum, x, axis, dtype, keepdims)


@operator("minimum")
def min(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> Any:
    """Minimum along the last free axes."""
    from nki_lang.language.lowering import reduce

    return reduce(minimum, x, axis, dtype, keepdims)


@operator("multiply")
def prod(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> Any:
    """Product along the last free axes."""
    from nki_lang.language.lowering import reduce

    return reduce(multiply, x, axis, dtype, keepdims)


@operator("logical_and")
def all(x: Any, axis: Any, dtype: Any = None) -> Any:
    """1 where all elements along the last free axes are not zero."""
    from nki_lang.language.lowering import reduce

    return reduce(logical_and, x, axis, dtype, False)


@operator("average")
def mean(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> Any:
    """Arithmetic mean along the last free axes, computed in float32."""
    from nki_lang.language.composed import mean_of

    return mean_of(x, axis, dtype, keepdims)


def var(x: Any, axis: Any, dtype: Any = None, keepdims: bool = False) -> Any:
    """Variance along the last free axes; the reduced axes always stay with extent 1."""
    from nki_lang.language.composed import variance

    return variance(x, axis, dtype)
