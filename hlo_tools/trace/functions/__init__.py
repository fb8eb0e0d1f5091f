"""NumPy functions on traced arrays. Each module fills the table with :func:`implements`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

__all__ = ["FUNCTIONS", "implementation_of", "implements", "load"]

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""NumPy function to what it does with traced arrays."""

_MODULES = (
    "combining", "creation", "linear", "ordering", "reductions", "scans", "selection", "shaping",
)  # fmt: skip

Function = TypeVar("Function", bound=Callable[..., Any])


def implements(*functions: object) -> Callable[[Function], Function]:
    """Say that a function does what these NumPy functions do, for traced arrays."""

    def register(implementation: Function) -> Function:
        for function in functions:
            FUNCTIONS[function] = implementation
        return implementation

    return register


def load() -> None:
    """Import every module of the package."""
    for name in _MODULES:
        import_module(f"{__name__}.{name}")


def implementation_of(function: object) -> Callable[..., Any] | None:
    """Return the implementation of a NumPy function for traced arrays, or None."""
    implementation = FUNCTIONS.get(function)
    if implementation is None:
        load()
        implementation = FUNCTIONS.get(function)
    return implementation
