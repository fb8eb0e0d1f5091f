"""The programs by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[], tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]
"""Gives a function, arguments for it, and options of ``jax.jit``; beside these ``jit`` False for what
is compiled by itself, ``x64`` True for 64-bit numbers, ``runs`` False for what is only compiled, ``large`` True for what is
compiled without LLVM's passes."""
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def values(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) % 7 / 7 - 0.4).astype(dtype)
