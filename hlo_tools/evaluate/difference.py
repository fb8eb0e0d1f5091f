"""How far values are apart."""

from __future__ import annotations

from typing import cast

import numpy as np

__all__ = ["largest_difference"]


def largest_difference(one: object, other: object) -> float:
    """Largest difference of two values, relative to the largest value of the second."""
    if isinstance(one, tuple) or isinstance(other, tuple):
        if not (isinstance(one, tuple) and isinstance(other, tuple)):
            return float("inf")
        return _largest_of_parts(cast(tuple[object, ...], one), cast(tuple[object, ...], other))
    if one is None or other is None:
        return 0.0 if one is other else float("inf")
    first, second = np.asarray(one), np.asarray(other)
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


def _largest_of_parts(one: tuple[object, ...], other: tuple[object, ...]) -> float:
    if len(one) != len(other):
        return float("inf")
    return max((largest_difference(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
