"""The Python functions that programs call while they run, by the index in their custom calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["PYTHON_FUNCTIONS", "functions_of"]

_TARGETS: Final = (b"xla_ffi_python_cpu_callback", b"xla_ffi_partitioned_python_cpu_callback")
"""Custom calls that JAX's rules for ``cpu`` emit; their attribute ``index`` selects a function."""

PYTHON_FUNCTIONS: Final[list[Callable[..., object]]] = []
"""The functions of all programs of this process, in the order in which they were lowered."""


def functions_of(module: bytes) -> list[Callable[..., object]]:
    """Return the functions from which a serialized module's calls select; none without a call."""
    has_calls = any(target in module for target in _TARGETS)
    return list(PYTHON_FUNCTIONS) if has_calls else []
