"""Types of what kernels pass. Python checks none of them; the functions do, at the user's line."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = [
    "AxisLike", "ElementLike", "EngineLike", "MaskLike", "OperatorLike", "ShapeLike", "Value",
]  # fmt: skip

Value: TypeAlias = Any
"""A tile, a tensor with block dimensions, a number or an index: what the function's text says."""

ElementLike: TypeAlias = Value
"""A dtype of the language, of NumPy, or its name; None for the type that the function chooses."""

MaskLike: TypeAlias = Value
"""A mask, a truth value, or None for all elements."""

OperatorLike: TypeAlias = Value
"""A function of ``nl`` or of NumPy that names an operation of the engines, or None."""

AxisLike: TypeAlias = Value
"""An axis, or a sequence of axes."""

ShapeLike: TypeAlias = Value
"""Extents, among which ``nl.par_dim`` may mark the partitions."""

EngineLike: TypeAlias = Value
"""A member of ``nisa.engine``, or None."""
