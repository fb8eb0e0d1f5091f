"""A published kernel with arguments and the result it must give."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["BF16", "RANDOM", "Array", "Case", "module_at", "normal", "rms", "silu", "wide"]

Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(0)


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel with its arguments and what it must give (None: not compared).

    ``is_prefix``: results hold the first elements of what is expected.
    """

    name: str
    kernel: Any
    args: tuple[Any, ...]
    expected: tuple[Array | None, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    cores: tuple[int, ...] = (1, 2)
    tolerance: float = 1e-2
    target: str = ""
    is_prefix: bool = False


def module_at(path: Path) -> Any:
    """The Python file as a module; it finds its neighbours by name."""
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def normal(*shape: int, dtype: Any = np.float32, scale: float = 1.0) -> Array:
    """Normally distributed numbers."""
    return (RANDOM.standard_normal(shape) * scale).astype(dtype)


def wide(array: Array) -> Array:
    """The array in float32."""
    return array.astype(np.float32)


def rms(x: Array, weight: Array) -> Array:
    """RMS normalisation of the last dimension."""
    x = wide(x)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * wide(weight)


def silu(x: Array) -> Array:
    """``x * sigmoid(x)``."""
    return x / (1 + np.exp(-x))
