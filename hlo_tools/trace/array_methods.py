"""Operators, indexing, NumPy's protocols and methods of a TracedArray.

They are attached to the class of :mod:`hlo_tools.trace.array`, because they need what is built on
it (JAX does the same). :mod:`hlo_tools.trace` imports this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

import numpy as np

from hlo_tools.trace import functions, indexing, ufuncs
from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import (
    NUMBERS,
    TracedArray,
    TracedScalar,
    kind_of,
    ordered,
    perhaps_view,
    result,
    view,
)
from hlo_tools.trace.errors import TraceAttributeError, place, refuse
from hlo_tools.trace.flat import Flat
from hlo_tools.trace.functions.arguments import xp
from hlo_tools.trace.graph import Node, Operand
from hlo_tools.trace.narrowing import tell_of_cast
from hlo_tools.trace.promotion import narrow

__all__: list[str] = []

Operator = Callable[[Any, Any], Any]


# Operators

_OPERANDS = (TracedArray, np.ndarray, np.generic, *NUMBERS, list, tuple, range)

_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
"""Operators with a swapped form and one in place, and the ufunc that each calls."""
_COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "eq": "equal", "ne": "not_equal",
}  # fmt: skip
_NO_NUMBERS = (type(None), str, bytes, dict, set, frozenset, type)
"""Types to which no element is equal."""
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def _operator(ufunc: np.ufunc, *, swapped: bool = False) -> Operator:
    def operator(self: TracedArray, right: object) -> Any:
        if isinstance(right, Flat):
            right = right.copy()
        if not isinstance(right, _OPERANDS):
            return NotImplemented
        _no_repetition(ufunc, self, right)
        value = cast("Operand", right)
        return ufuncs.call(ufunc, (value, self) if swapped else (self, value), {})

    return operator


def _no_repetition(ufunc: np.ufunc, number: TracedArray, right: Operand) -> None:
    """A number times a list repeats the list, as it does in Python."""
    if ufunc is not np.multiply or not isinstance(number, TracedScalar):
        return
    if not isinstance(right, (list, tuple)):
        return
    if number.dtype.kind == "V":
        return  # ml_dtypes' numbers make an array of the list
    if number.dtype.kind not in "iu":
        raise TypeError(f"can't multiply sequence by non-int of type 'numpy.{number.dtype}'")
    raise refuse(
        "a list is repeated a traced number of times, and its length must be known while tracing",
        code="HLO-TRACE-VALUE",
        remedy="to multiply each element, use numpy.array of the list",
    )


def _comparison(ufunc: np.ufunc) -> Operator:
    """``==`` or ``!=``, which Python would decide by identity where an operator gives up."""
    operate, is_unequal = _operator(ufunc), ufunc is np.not_equal

    def operator(self: TracedArray, right: Operand) -> Operand:
        answer_of_ufunc = operate(self, right)
        if answer_of_ufunc is not NotImplemented or hasattr(right, "__array_priority__"):
            return answer_of_ufunc
        if not isinstance(right, _NO_NUMBERS) and type(right).__eq__ is not object.__eq__:
            raise refuse(
                f"a traced array is compared with a {type(right).__name__}, which has == of its own",
                code="HLO-TRACE-ARGUMENT",
                remedy="compare with numbers or arrays",
            )
        if isinstance(self, TracedScalar):
            return np.bool_(is_unequal)
        answer = hlo.broadcast(self.graph.constant(np.asarray(is_unequal)), self.shape)
        return result(hlo.ordered_like(answer, [self.node]))

    return operator


def _in_place(ufunc: np.ufunc) -> Operator:
    def operator(self: TracedArray, right: Any) -> Any:
        if ufunc is np.matmul and (not self.ndim or np.ndim(right) < 2):
            raise ValueError(
                "inplace matrix multiplication requires the first operand to have at least one "
                "and the second at least two dimensions."
            )
        _no_repetition(ufunc, self, right)
        if isinstance(self, TracedScalar):  # a number is not changed, the name gets a new one
            return ufuncs.call(ufunc, (self, right), {})
        return ufuncs.call(ufunc, (self, right), {"out": (self,)})

    return operator


def _unary(ufunc: np.ufunc) -> Callable[[Any], Any]:
    return lambda self: ufuncs.call(ufunc, (self,), {})


_POWERS = {1: np.positive, -1: np.reciprocal, 0.5: np.sqrt, 2: np.square}
"""Exponents that NumPy's ``**`` (not ``numpy.power``) has ufuncs of their own for."""


def _fast_power(self: TracedArray, exponent: Any) -> np.ufunc | None:
    if isinstance(self, TracedScalar):
        return None
    if self.dtype.kind in "biu":
        return np.square if type(exponent) is int and exponent == 2 else None
    is_fast = self.dtype.kind in "fc" and type(exponent) in (int, float)
    return _POWERS.get(exponent) if is_fast else None


def _power(self: TracedArray, exponent: object) -> Any:
    fast = _fast_power(self, exponent)
    return ufuncs.call(fast, (self,), {}) if fast else _plain_power(self, exponent)


def _power_in_place(self: TracedArray, exponent: object) -> Any:
    fast = _fast_power(self, exponent)
    if fast is None:
        return _plain_power_in_place(self, exponent)
    return ufuncs.call(fast, (self,), {"out": (self,)})


_plain_power, _plain_power_in_place = _operator(np.power), _in_place(np.power)


def _attach_operators() -> None:
    for name, ufunc_name in _BINARY.items():
        ufunc = getattr(np, ufunc_name)
        setattr(TracedArray, f"__{name}__", _operator(ufunc))
        setattr(TracedArray, f"__r{name}__", _operator(ufunc, swapped=True))
        setattr(TracedArray, f"__i{name}__", _in_place(ufunc))
    for name, ufunc_name in _COMPARISONS.items():
        make = _comparison if name in ("eq", "ne") else _operator
        setattr(TracedArray, f"__{name}__", make(getattr(np, ufunc_name)))
    for name, ufunc_name in _UNARY.items():
        setattr(TracedArray, f"__{name}__", _unary(getattr(np, ufunc_name)))
    for name, swapped in (("__divmod__", False), ("__rdivmod__", True)):
        setattr(TracedArray, name, _operator(np.divmod, swapped=swapped))


# NumPy's protocols and indexing


def _array_ufunc(
    self: TracedArray, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
) -> Any:
    return ufuncs.dispatch(ufunc, method, inputs, kwargs)


def _array_function(self: TracedArray, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    implementation = functions.implementation_of(func)
    if implementation is None:
        name = f"{getattr(func, '__module__', 'numpy')}.{getattr(func, '__name__', func)}"
        raise refuse(
            f"{name} is not supported for traced arrays",
            code="HLO-TRACE-FUNCTION",
            remedy="use supported functions; the list is hlo_tools.trace.supported()",
        )
    return implementation(*args, **kwargs)


def _iterate(self: TracedArray) -> Iterator[TracedArray]:
    if not self.shape:
        raise TypeError("iteration over a 0-d array")
    return (self[number] for number in range(self.shape[0]))


# Methods that are not functions of the same name


def _astype(
    self: TracedArray,
    dtype: Any,
    order: str = "K",
    casting: Any = "unsafe",
    subok: bool = True,
    copy: bool = True,
) -> TracedArray:
    target = narrow(dtype)
    tell_of_cast(self.node.graph, self.dtype, dtype)
    if not np.can_cast(self.dtype, target, casting):
        raise TypeError(
            f"Cannot cast array data from {self.dtype!r} to {target!r} "
            f"according to the rule {casting!r}"
        )
    if isinstance(self, TracedScalar):
        return TracedScalar(hlo.convert(self.node, target))
    array = ordered(hlo.convert(self.node, target), order)
    if copy or target != self.dtype:
        return array
    if order == "K" or (self.is_contiguous and (order != "F" or array.is_contiguous)):
        return self
    return perhaps_view(self, array.node, is_contiguous=array.is_contiguous)


def _refuse_bits(old: Node, new: Node) -> Node:
    raise refuse(
        "numbers are written into the bytes of an array of booleans, which are 0 or 1",
        code="HLO-TRACE-FUNCTION",
        remedy="write booleans into the array itself",
    )


def _view(self: TracedArray, dtype: Any = None) -> TracedArray:
    target = self.dtype if dtype is None else np.dtype(dtype)
    if not target.isnative:
        narrow(target)  # refuses it
    if target.itemsize != self.itemsize or "c" in (self.dtype.kind, target.kind):
        if target == self.dtype:
            return view(
                self, self.node, lambda node: node, lambda old, new: new,
                is_contiguous=self.is_contiguous,
            )  # fmt: skip
        raise refuse(
            f"a traced {self.dtype} array has no view as {target}",
            code="HLO-TRACE-FUNCTION",
            remedy="view as a type of the same size, or use astype",
        )
    if target.kind == "b" != self.dtype.kind:
        raise refuse(
            f"a traced {self.dtype} array has no view as bool, which is 0 or 1",
            code="HLO-TRACE-FUNCTION",
            remedy="compare with 0",
        )
    source_dtype = self.dtype
    bits = hlo.convert if source_dtype.kind == "b" else hlo.bitcast
    viewed = view(
        self, bits(self.node, target),
        lambda node: bits(node, target),
        _refuse_bits if source_dtype.kind == "b" else lambda old, new: bits(new, source_dtype),
        is_contiguous=self.is_contiguous,
    )  # fmt: skip
    return TracedScalar(viewed.node) if isinstance(self, TracedScalar) else viewed


def _reshape(
    self: TracedArray, *shape: object, order: str = "C", copy: bool | None = None
) -> TracedArray:
    target = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return xp.reshape(self, target, order=order, copy=copy)


def _transpose(self: TracedArray, *axes: object) -> TracedArray:
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
    return xp.transpose(self, order or None)


def _flatten(self: TracedArray, order: str = "C") -> TracedArray:
    return TracedArray(xp.ravel(self, order).node, is_contiguous=True)


def _copy(self: TracedArray, order: str = "C") -> TracedArray:
    """As a method it copies in C order; numpy.copy keeps the order."""
    if isinstance(self, TracedScalar):
        return self
    return ordered(self.node, order)


def _copied(self: TracedArray, memo: object = None) -> TracedArray:
    """Return the result of the module ``copy``, in order K."""
    return self if isinstance(self, TracedScalar) else xp.copy(self)


def _sort(self: TracedArray, axis: int = -1, *args: object, **kwargs: object) -> None:
    self[...] = xp.sort(self, axis, *args, **kwargs)


def _round(self: TracedArray, digits: int | None = None) -> Operand:
    """``round(number, digits)``; an array has none, and without digits it is a Python int."""
    if not isinstance(self, TracedScalar):
        raise TypeError("type numpy.ndarray doesn't define __round__ method")
    return int(cast("Operand", self)) if digits is None else xp.round(self, digits)


def _conjugate(self: TracedArray) -> TracedArray:
    """The array itself when it is real; NumPy copies the types of ml_dtypes."""
    return xp.conjugate(self) if self.dtype.kind in "cV" else self


def _fill(self: TracedArray, value: Operand) -> None:
    if not isinstance(value, TracedArray):
        narrow(kind_of(value))
        number = np.empty((), self.dtype)
        number.fill(value)  # or NumPy's error
        value = number
    self[...] = value


def _written(read: Callable[[TracedArray], Operand]) -> property:
    """An attribute that is a view: to set it writes to its elements."""

    def write(self: TracedArray, value: Operand) -> None:
        read(self)[...] = value

    return property(read, write)


def _missing(self: TracedArray, name: str) -> NoReturn:
    """Attributes of NumPy's arrays that a traced one has not."""
    message = f"{type(self).__name__!r} object has no attribute {name!r}"
    is_number = isinstance(self, TracedScalar)
    if not hasattr(np.ndarray, name) and not (is_number and hasattr(self.dtype.type, name)):
        raise AttributeError(message)
    if name in ("strides", "flags"):
        raise TraceAttributeError(
            f"{name!r} describes a memory layout, and traced arrays have none",
            code="HLO-TRACE-LAYOUT",
            place=place(),
            remedy="use shape, dtype and itemsize",
        )
    raise TraceAttributeError(
        f"the attribute {name!r} of arrays is not supported for traced arrays",
        code="HLO-TRACE-FUNCTION",
        place=place(),
        remedy="use supported functions; the list is hlo_tools.trace.supported()",
    )


_METHODS: dict[str, Any] = {
    "__array_ufunc__": _array_ufunc,
    "__array_function__": _array_function,
    "__getitem__": indexing.get,
    "__setitem__": indexing.put,
    "__iter__": _iterate,
    "astype": _astype,
    "view": _view,
    "reshape": _reshape,
    "transpose": _transpose,
    "flatten": _flatten,
    "fill": _fill,
    "T": property(lambda self: xp.transpose(self)),
    "mT": property(lambda self: xp.swapaxes(self, -1, -2)),
    "real": _written(lambda self: xp.real(self)),
    "imag": _written(lambda self: xp.imag(self)),
    "flat": _written(Flat),
    "conj": _conjugate,
    "conjugate": _conjugate,
    "copy": _copy,
    "sort": _sort,
    "__copy__": _copied,
    "__deepcopy__": _copied,
    "__round__": _round,
    "__getattr__": _missing,
    "__pow__": _power,
    "__ipow__": _power_in_place,
}
_FUNCTIONS = (
    "sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "argmax", "argmin",
    "cumsum", "cumprod", "ptp", "squeeze", "swapaxes", "ravel", "repeat", "take", "clip", "round",
    "trace", "diagonal", "argsort", "dot",
)  # fmt: skip
"""Methods that are NumPy's functions of the same names."""


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: TracedArray, *args: object, **kwargs: object) -> Any:
        return function(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"``numpy.{name}`` of the array, with its arguments."
    return method


def _attach_methods() -> None:
    for name, value in _METHODS.items():
        setattr(TracedArray, name, value)
    for name in _FUNCTIONS:
        setattr(TracedArray, name, _method(name))


_attach_operators()
_attach_methods()
