"""The activation functions of the Scalar Engine (nki.api.shared, "Supported Activation Functions").

Each takes and returns float32. The hardware fits piecewise polynomials; here the mathematical
function is computed, except that ``sin`` extrapolates outside [-pi, pi] as documented: the cubic
that continues it (``sin(9.0)`` is about 27.65).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from nki_lang.base.dtypes import Array

__all__ = ["ACTIVATIONS", "VALID_RANGE", "erf"]


_STEPS = 512
_TOP = 6.0


_HALF = np.float32(0.5)
_ONE = np.float32(1)
_INV_SQRT2PI = np.float32(1 / math.sqrt(2 * math.pi))


@functools.cache
def _erf_table() -> Array:
    return np.array([math.erf(i / _STEPS) for i in range(int(_TOP * _STEPS) + 2)])


def erf(x: Array) -> Array:
    """The error function, exact to float32."""
    value = _erf_in_double(x).astype(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), value)


def _erf_in_double(x: Array) -> Array:
    """Taylor's series of third order around the nearest of 512 points a unit; exact to 1e-14."""
    magnitude = np.minimum(np.abs(x).astype(np.float64), _TOP)
    magnitude = np.where(np.isnan(magnitude), 0.0, magnitude)
    index = np.rint(magnitude * _STEPS).astype(np.intp)
    point = index / _STEPS
    h = magnitude - point
    slope = (2.0 / math.sqrt(math.pi)) * np.exp(-point * point)
    series = h * (1.0 + h * (-point + h * ((2.0 * point * point - 1.0) / 3.0)))
    return np.copysign(_erf_table()[index] + slope * series, x)


def _sigmoid(x: Array) -> Array:
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, _ONE, decay) / (_ONE + decay)


def _normal(x: Array) -> Array:
    """Distribution function of the normal distribution; the sum in double, where it cancels."""
    value = (0.5 * (1.0 + _erf_in_double(x * math.sqrt(0.5)))).astype(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), value)


def _gelu(x: Array) -> Array:
    return x * _normal(x)


def _gelu_dx(x: Array) -> Array:
    return _normal(x) + x * (_INV_SQRT2PI * np.exp(-_HALF * x * x))


_GELU_TANH = np.float32(math.sqrt(2 / math.pi))
_GELU_SIGMOID = np.float32(1.702)


def _gelu_tanh(x: Array) -> Array:
    inner = _GELU_TANH * (x + np.float32(0.044715) * x * x * x)
    return x * _sigmoid(inner + inner)  # (1 + tanh(z)) / 2 without cancellation


def _gelu_sigmoid(x: Array) -> Array:
    return x * _sigmoid(_GELU_SIGMOID * x)


def _gelu_sigmoid_dx(x: Array) -> Array:
    s = _sigmoid(_GELU_SIGMOID * x)
    return s + _GELU_SIGMOID * x * (s * (_ONE - s))


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


def _silu_dx(x: Array) -> Array:
    s = _sigmoid(x)
    return s + x * (s * (_ONE - s))


def _softplus(x: Array) -> Array:
    return np.maximum(x, np.float32(0)) + np.log1p(np.exp(-np.abs(x)))


def _mish(x: Array) -> Array:
    return x * np.tanh(_softplus(x))


def _erf_dx(x: Array) -> Array:
    return np.float32(2 / math.sqrt(math.pi)) * np.exp(-x * x)


_PI = np.float32(math.pi)


def _sin(x: Array) -> Array:
    """sin inside [-pi, pi]; outside the cubic -(x -+ pi) + (x -+ pi)**3 / 6 that continues it."""
    beyond = x - np.copysign(_PI, x)
    cubic = beyond * beyond * beyond / np.float32(6) - beyond
    return np.where(np.abs(x) <= _PI, np.sin(np.where(np.abs(x) <= _PI, x, 0)), cubic)


def _relu(x: Array) -> Array:
    return np.maximum(x, np.float32(0))


def _rsqrt(x: Array) -> Array:
    return _ONE / np.sqrt(x)


ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {
        "copy": np.positive,
        "square": np.square,
        "sigmoid": _sigmoid,
        "relu": _relu,
        "gelu": _gelu,
        "gelu_dx": _gelu_dx,
        "gelu_apprx_tanh": _gelu_tanh,
        "gelu_apprx_sigmoid": _gelu_sigmoid,
        "gelu_apprx_sigmoid_dx": _gelu_sigmoid_dx,
        "silu": _silu,
        "silu_dx": _silu_dx,
        "tanh": np.tanh,
        "softplus": _softplus,
        "mish": _mish,
        "erf": erf,
        "erf_dx": _erf_dx,
        "exp": np.exp,
        "log": np.log,
        "sin": _sin,
        "cos": np.cos,
        "tan": np.tan,
        "arctan": np.arctan,
        "sqrt": np.sqrt,
        "rsqrt": _rsqrt,
        "reciprocal": np.reciprocal,
        "sign": np.sign,
        "abs": np.abs,
        "negative": np.negative,
        "ceil": np.ceil,
        "floor": np.floor,
        "trunc": np.trunc,
    }
)
"""Public name -> function. ``prelu`` needs a parameter and is in :mod:`nki_lang.semantics.activation`."""

VALID_RANGE: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "log": (2.0**-64, 2.0**64),
        "sin": (-math.pi, math.pi),
        "arctan": (-math.pi / 2, math.pi / 2),
        "sqrt": (2.0**-116, 2.0**118),
        "rsqrt": (2.0**-87, 2.0**97),
        "reciprocal": (2.0**-42, 2.0**42),
    }
)
"""Where the Scalar Engine's fit holds; of the magnitude for ``reciprocal``."""
