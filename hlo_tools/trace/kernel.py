"""NKIPyKernel: the tracer under the name and with the attributes that nkipy's users know."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from hlo_tools.trace.errors import refuse
from hlo_tools.trace.function import TracedFunction, trace

__all__ = ["NKIPyKernel"]

_BACKENDS = ("hlo", "cpu")


class NKIPyKernel:
    """A NumPy function and, once it is specialised, its traced form.

    >>> import numpy as np
    >>> kernel = NKIPyKernel.trace(lambda a, b: a + b)
    >>> traced = kernel.specialize(np.ones(3, "f4"), np.ones(3, "f4"))
    >>> kernel._code.to_proto().entry_computation_name
    'main'
    """

    def __init__(self, func: Callable[..., object], backend: str = "hlo") -> None:
        if backend not in _BACKENDS:
            raise refuse(
                f"backend {backend!r} is not supported",
                code="HLO-TRACE-BACKEND",
                remedy=f"use one of {', '.join(_BACKENDS)}",
            )
        self.func = func
        self.backend = backend
        self._code: TracedFunction | None = None

    @property
    def __name__(self) -> str:
        return self.func.__name__

    @classmethod
    def trace(cls, func: Callable[..., object] | None = None, backend: str = "hlo") -> Any:
        """Wrap a function; without one, a decorator."""
        if func is None:
            return functools.partial(cls, backend=backend)
        return cls(func, backend)

    def specialize(self, *args: object, **kwargs: object) -> TracedFunction | None:
        """Trace for the shapes and dtypes of these arguments; see :func:`hlo_tools.trace.trace`."""
        if self.backend == "cpu":
            warnings.warn("the cpu backend needs no specialisation", stacklevel=2)
            return None
        self._code = trace(self.func, *args, **kwargs)
        return self._code

    def __repr__(self) -> str:
        return f"<NKIPyKernel '{self.__name__}' backend='{self.backend}'>"
