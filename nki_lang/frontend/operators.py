"""Operators: the values of ``op=`` parameters, and the functions behind ``nl.add(x, y)``.

An operator has two uses: as an argument of an instruction it selects an operation of the engines
(its ``name``); called on tiles it emits the instructions that compute it. All operators are
declared here, below the instructions that use them as defaults; :mod:`nki_lang.language.math`, a
higher layer, defines what a call does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = [
    "abs", "abs_max", "abs_min", "add", "all", "arctan", "average", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bypass", "ceil", "copy", "cos", "divide", "equal", "erf",
    "erf_dx", "exp", "floor", "fmod", "gelu", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh", "gelu_dx", "greater", "greater_equal", "invert", "left_shift", "less",
    "less_equal", "log", "logical_and", "logical_not", "logical_or", "logical_xor", "max",
    "maximum", "mean", "min", "minimum", "mish", "mod", "multiply", "negative", "not_equal",
    "power", "prelu", "prod", "reciprocal", "relu", "right_shift", "rsqrt", "sigmoid", "sign",
    "silu", "silu_dx", "sin", "softplus", "sqrt", "square", "subtract", "sum", "tan", "tanh",
    "trunc",
]  # fmt: skip

BY_NAME: dict[str, Operator] = {}
"""Operators by their names in the language."""


class Operator:
    """An operation of the engines.

    Attributes:
        name: name in the kernel IR (``"add"``).
        public: name in the language; the same except for aliases such as ``max``.
    """

    def __init__(self, name: str, public: str = "") -> None:
        self.name = name
        self.public = self.__name__ = public or name
        self.__signature__ = inspect.Signature()
        self._call: Callable[..., Any] | None = None
        BY_NAME[self.public] = self

    def define(self, doc: str, call: Callable[..., object] | None = None) -> None:
        """Set the documentation and the function of a call (None: the operator is for ``op=`` only)."""
        self.__doc__ = doc
        if call is not None:
            self._call = call
            call.__name__ = call.__qualname__ = self.public  # the name in Python's errors
            self.__signature__ = inspect.signature(call)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if self._call is None:
            raise TypeError(f"nl.{self.public} is an operator for op= parameters, not a function")
        return self._call(*args, **kwargs)

    def __repr__(self) -> str:
        return f"nl.{self.public}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_public_name, (self.public,))


def _by_public_name(name: str) -> Operator:
    return BY_NAME[name]


add = Operator("add")
subtract = Operator("subtract")
multiply = Operator("multiply")
divide = Operator("divide")
maximum = Operator("maximum")
minimum = Operator("minimum")
abs_max = Operator("abs_max")
abs_min = Operator("abs_min")
power = Operator("power")
equal = Operator("equal")
not_equal = Operator("not_equal")
less = Operator("less")
less_equal = Operator("less_equal")
greater = Operator("greater")
greater_equal = Operator("greater_equal")
bitwise_and = Operator("bitwise_and")
bitwise_or = Operator("bitwise_or")
bitwise_xor = Operator("bitwise_xor")
left_shift = Operator("left_shift")
right_shift = Operator("right_shift")
logical_and = Operator("logical_and")
logical_or = Operator("logical_or")
logical_xor = Operator("logical_xor")
fmod = Operator("fmod")
mod = Operator("mod")

exp = Operator("exp")
log = Operator("log")
sqrt = Operator("sqrt")
rsqrt = Operator("rsqrt")
tanh = Operator("tanh")
sigmoid = Operator("sigmoid")
relu = Operator("relu")
gelu = Operator("gelu")
gelu_apprx_sigmoid = Operator("gelu_apprx_sigmoid")
gelu_apprx_tanh = Operator("gelu_apprx_tanh")
gelu_dx = Operator("gelu_dx")
gelu_apprx_sigmoid_dx = Operator("gelu_apprx_sigmoid_dx")
silu = Operator("silu")
silu_dx = Operator("silu_dx")
softplus = Operator("softplus")
mish = Operator("mish")
erf = Operator("erf")
erf_dx = Operator("erf_dx")
copy = Operator("copy")
square = Operator("square")
abs = Operator("abs")
sign = Operator("sign")

reciprocal = Operator("reciprocal")
invert = Operator("invert")
logical_not = Operator("logical_not")
negative = Operator("negative")
sin = Operator("sin")
cos = Operator("cos")
tan = Operator("tan")
arctan = Operator("arctan")
ceil = Operator("ceil")
floor = Operator("floor")
trunc = Operator("trunc")

average = Operator("average")
prelu = Operator("prelu")
bypass = Operator("bypass")

sum = Operator("add", "sum")
max = Operator("maximum", "max")
min = Operator("minimum", "min")
prod = Operator("multiply", "prod")
all = Operator("logical_and", "all")
mean = Operator("average", "mean")
