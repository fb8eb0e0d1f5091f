"""NumPy functions to HLO: run once with traced arrays, every operation recorded.

>>> import numpy as np
>>> from hlo_tools.trace import trace
>>> traced = trace(lambda a, b: a.T @ b, np.ones((3, 2), "f4"), np.ones((3, 4), "f4"))
>>> [(tensor.name, tensor.shape) for tensor in traced.outputs]
[('output0', (2, 4))]

Dtypes, shapes and errors are NumPy's own. What it cannot trace raises a :class:`TraceError` at the
user's line.
"""

from __future__ import annotations

from hlo_tools.trace import array_methods as array_methods
from hlo_tools.trace import functions
from hlo_tools.trace.array import TracedArray
from hlo_tools.trace.calls import custom_call
from hlo_tools.trace.elementwise import LOWERINGS
from hlo_tools.trace.errors import TraceError
from hlo_tools.trace.function import Alias, Tensor, TracedFunction, trace

__all__ = [
    "Alias",
    "Tensor",
    "TraceError",
    "TracedArray",
    "TracedFunction",
    "custom_call",
    "supported",
    "trace",
]


def supported() -> list[str]:
    """Names of the NumPy functions and ufuncs that traced arrays take, sorted."""
    functions.load()
    names = {f"numpy.{ufunc.__name__}" for ufunc in LOWERINGS} | {"numpy.matmul"}
    for function in functions.FUNCTIONS:
        names.add(f"{function.__module__}.{function.__name__}")
    return sorted(names)
