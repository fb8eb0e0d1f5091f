"""The arithmetic and bit operators that instructions take (``nl.add``, ``nl.bitwise_and``, ...).

Keys are the public names. Which operator exists and which may reduce: nki.api.shared,
"Supported Math Operators for NKI ISA". Arithmetic ones work on float32 (or on native integers
where the engine does); comparisons and logic give 1 and 0; bit operators take integers as bit
patterns, and shifts to the right are logical.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array

__all__ = ["ALU_OPS", "Operator", "operator_of"]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    Attributes:
        name: public name.
        function: ``f(x, y, out=None)``, or ``f(x, out=None)`` when ``unary``.
        bits: a bit operator (integers only).
        unary: takes one operand.
        ufunc: the NumPy function that computes it, when there is a single one.
        identity: start value of a reduction, or None when it may not reduce.
    """

    name: str
    function: Callable[..., Array]
    bits: bool = False
    unary: bool = False
    ufunc: np.ufunc | None = None
    identity: float | None = None


def _direct(
    name: str,
    ufunc: np.ufunc,
    *,
    bits: bool = False,
    unary: bool = False,
    identity: float | None = None,
) -> Operator:
    return Operator(name, ufunc, bits, unary, ufunc, identity)


def _flag(name: str, ufunc: np.ufunc, identity: float | None = None) -> Operator:
    """A comparison or a logical operator: truth as 1 and 0 of the operands' type."""

    def compare(x: Array, y: Array, out: Array | None = None) -> Array:
        truth = np.asarray(ufunc(x, y))
        if out is None:
            return truth.astype(np.result_type(x, y))
        out[...] = truth
        return out

    return Operator(name, compare, identity=identity)


def _of_magnitude(name: str, wins: np.ufunc) -> Operator:
    """The operand of larger (smaller) magnitude with its sign; the second on ties (nl.abs_max)."""

    def choose(x: Array, y: Array, out: Array | None = None) -> Array:
        chosen = np.where(wins(np.abs(x), np.abs(y)), x, y)
        if out is None:
            return chosen
        out[...] = chosen
        return out

    return Operator(name, choose, identity=0.0 if name == "abs_max" else np.inf)


def _power(x: Array, y: Array, out: Array | None = None) -> Array:
    """Return the power; integers wrap around, and to a negative power give 1, -1, 0, or for 0 the maximum."""
    if np.result_type(x, y).kind != "i" or not np.any(np.less(y, 0)):
        return np.power(x, y, out=out)
    most = np.iinfo(np.result_type(x, y)).max
    odd = np.bitwise_and(y, 1) == 1
    inverse = np.where(x == 0, most, np.where((x == 1) | (x == -1), np.where(odd, x, 1), 0))
    raised = np.where(np.less(y, 0), inverse, np.power(x, np.maximum(y, 0)))
    if out is None:
        return raised
    out[...] = raised
    return out


def _square(x: Array, out: Array | None = None) -> Array:
    return np.multiply(x, x, out=out)


def _not(x: Array, out: Array | None = None) -> Array:
    truth = (x == 0).astype(x.dtype)
    if out is None:
        return truth
    out[...] = truth
    return out


def _relu(x: Array, out: Array | None = None) -> Array:
    return np.maximum(x, x.dtype.type(0), out=out)


def _rsqrt(x: Array, out: Array | None = None) -> Array:
    root = np.sqrt(x, out=out)
    return np.divide(root.dtype.type(1), root, out=out)


def _reciprocal(x: Array, out: Array | None = None) -> Array:
    return np.divide(x.dtype.type(1), x, out=out)


def _bypass(x: Array, y: Array | None = None, out: Array | None = None) -> Array:
    if out is None:
        return x
    out[...] = x
    return out


def _unsigned(value: Any) -> Any:
    """Integers as bit patterns."""
    kind = value.dtype
    return value.view(f"u{kind.itemsize}") if kind.kind == "i" else value


def _shift(name: str, ufunc: np.ufunc) -> Operator:
    """A logical shift; counts of the whole width or more give 0."""

    def shift(x: Array, y: Array, out: Array | None = None) -> Array:
        x, y = np.asarray(x), np.asarray(y)
        if y.ndim == 0:
            moved = _shift_by(ufunc, x, int(_unsigned(y.astype(x.dtype))))
            if out is None:
                return moved
            out[...] = moved
            return out
        x, y = np.broadcast_arrays(x, y)
        bits = _unsigned(np.ascontiguousarray(x))
        count = _unsigned(np.ascontiguousarray(y.astype(x.dtype)))
        width = bits.dtype.itemsize * 8
        moved = (
            np.where(count < width, ufunc(bits, count % width), 0).astype(bits.dtype).view(x.dtype)
        )
        if out is None:
            return moved
        out[...] = moved
        return out

    return Operator(name, shift, bits=True)


def _shift_by(ufunc: np.ufunc, x: Array, count: int) -> Array:
    """Shift every element by the same count."""
    bits = _unsigned(x)
    if count >= bits.dtype.itemsize * 8:
        return np.zeros_like(x)
    return np.asarray(ufunc(bits, bits.dtype.type(count))).view(x.dtype)


_TABLE = (
    _direct("add", np.add, identity=0.0),
    _direct("subtract", np.subtract, identity=0.0),
    _direct("multiply", np.multiply, identity=1.0),
    _direct("divide", np.divide),
    _direct("maximum", np.maximum, identity=-np.inf),
    _direct("minimum", np.minimum, identity=np.inf),
    Operator("power", _power),
    _direct("fmod", np.fmod),
    _direct("mod", np.remainder),
    _of_magnitude("abs_max", np.greater),
    _of_magnitude("abs_min", np.less),
    _flag("equal", np.equal),
    _flag("not_equal", np.not_equal),
    _flag("less", np.less),
    _flag("less_equal", np.less_equal),
    _flag("greater", np.greater),
    _flag("greater_equal", np.greater_equal),
    _flag("logical_and", np.logical_and, 1.0),
    _flag("logical_or", np.logical_or, 0.0),
    _flag("logical_xor", np.logical_xor, 0.0),
    _direct("bitwise_and", np.bitwise_and, bits=True, identity=-1),
    _direct("bitwise_or", np.bitwise_or, bits=True, identity=0),
    _direct("bitwise_xor", np.bitwise_xor, bits=True, identity=0),
    _direct("invert", np.invert, bits=True, unary=True),
    _shift("left_shift", np.left_shift),
    _shift("right_shift", np.right_shift),
    Operator("logical_not", _not, unary=True),
    Operator("abs", np.abs, unary=True, ufunc=np.absolute),
    Operator("square", _square, unary=True),
    Operator("relu", _relu, unary=True),
    Operator("rsqrt", _rsqrt, unary=True),
    Operator("reciprocal", _reciprocal, unary=True),
    Operator("bypass", _bypass),
    Operator("average", np.add, ufunc=np.add, identity=0.0),
)  # fmt: skip

ALU_OPS: Mapping[str, Operator] = MappingProxyType({entry.name: entry for entry in _TABLE})


def operator_of(name: str) -> Operator:
    """The operator called ``name``.

    Raises:
        KeyError: there is none.
    """
    try:
        return ALU_OPS[name]
    except KeyError:
        raise KeyError(f"no operator {name!r}; there are {', '.join(ALU_OPS)}") from None
