"""PyTorch and torch_xla for the rest of this package.

torch is optional: what is used of it has the same types with and without it. torch_xla is imported
when it is first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeAlias

__all__ = [
    "Operator",
    "Tensor",
    "Tree",
    "lazy_device",
    "modes",
    "overrides",
    "pytree",
    "torch",
    "xlac",
]

Tensor: TypeAlias = Any
"""A ``torch.Tensor``."""

Operator: TypeAlias = Any
"""A ``torch._ops.OpOverload``."""

Tree: TypeAlias = Any
"""A value that may be or contain tensors."""

torch: Tree = import_module("torch")
pytree: Tree = import_module("torch.utils._pytree")
modes: Tree = import_module("torch.utils._python_dispatch")
overrides: Tree = import_module("torch.overrides")


def xlac() -> Tree:
    """torch_xla's native module."""
    return import_module("torch_xla")._XLAC


def lazy_device() -> Tree:
    """The device of lazy tensors."""
    return import_module("torch_xla").device()
