"""Arrays of the frameworks as NumPy arrays and back, without importing a framework."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["kind_of", "to_kind", "to_numpy"]

Array = np.ndarray[Any, Any]

_TORCH_SPECIAL = {
    "bfloat16": ("uint16", ml_dtypes.bfloat16),
    "float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ("uint8", ml_dtypes.float8_e5m2),
    "float8_e8m0fnu": ("uint8", ml_dtypes.float8_e8m0fnu),
}
"""torch dtypes that NumPy does not know: the integer of their size, and the NumPy stand-in."""


def kind_of(value: Any) -> str:
    """``"torch"``, ``"jax"``, ``"numpy"`` or ``""`` for what is no array."""
    module = type(value).__module__.partition(".")[0]
    if module in ("torch", "torch_xla") and hasattr(value, "detach"):
        return "torch"
    if module in ("jax", "jaxlib") and hasattr(value, "shape"):
        return "jax"
    return "numpy" if isinstance(value, np.ndarray) else ""


def to_numpy(value: Any) -> Array:
    """The array as NumPy; it shares memory when the array lies in host memory."""
    if kind_of(value) != "torch":
        return np.asarray(value)
    torch: Any = sys.modules["torch"]
    host = value.detach().cpu()
    name = str(host.dtype).removeprefix("torch.")
    special = _TORCH_SPECIAL.get(name)
    if special is None:
        return host.numpy()
    return host.view(getattr(torch, special[0])).numpy().view(special[1])


def _torch(array: Array) -> Any:
    torch: Any = sys.modules["torch"]
    for name, (unsigned, stand_in) in _TORCH_SPECIAL.items():
        if array.dtype == np.dtype(stand_in):
            bits = np.ascontiguousarray(array).view(unsigned)
            return torch.from_numpy(bits).view(getattr(torch, name))
    return torch.from_numpy(array)


def _jax(array: Array) -> Any:
    return sys.modules["jax"].numpy.asarray(array)


_BACK: dict[str, Callable[[Array], Any]] = {"torch": _torch, "jax": _jax}


def to_kind(array: Array, kind: str) -> Any:
    """A NumPy array as an array of the framework."""
    back = _BACK.get(kind)
    return array if back is None else back(array)
