"""The relative difference of values."""

from __future__ import annotations

from typing import cast

import numpy as np

__all__ = ["largest_difference"]


def largest_difference(left: object, right: object) -> float:
    """Return the largest difference of two values, relative to the second's largest value."""
    if isinstance(left, tuple) or isinstance(right, tuple):
        if not (isinstance(left, tuple) and isinstance(right, tuple)):
            return float("inf")
        return _largest_of_parts(cast(tuple[object, ...], left), cast(tuple[object, ...], right))
    if left is None or right is None:
        return 0.0 if left is right else float("inf")
    first, second = np.asarray(left), np.asarray(right)
    if first.shape != second.shape:
        return float("inf")
    kind = np.complex128 if "c" in (first.dtype.kind, second.dtype.kind) else np.float64
    first, second = first.astype(kind), second.astype(kind)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    if same.all():
        return 0.0
    scale = float(np.abs(second[np.isfinite(second)]).max(initial=0.0)) or 1.0
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, np.abs(first - second))
    return float("inf") if not np.isfinite(gap).all() else float(gap.max()) / scale


def _largest_of_parts(left: tuple[object, ...], right: tuple[object, ...]) -> float:
    if len(left) != len(right):
        return float("inf")
    return max((largest_difference(a, b) for a, b in zip(left, right, strict=True)), default=0.0)
