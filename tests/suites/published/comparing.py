"""How far the results of a kernel are from those that are expected."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["difference", "listed"]

CHUNK_ELEMENTS = 1 << 20
"""Elements compared at one time, to spare memory."""


def listed(value: Any) -> list[Any]:
    """Results as a list: nothing, one array, or several."""
    return [] if value is None else list(value) if isinstance(value, (tuple, list)) else [value]


def difference(results: Any, expected: Any, tolerance: float, *, is_prefix: bool = False) -> str:
    """Describe what is wrong with results, "" when nothing is; an expected None is not compared.

    A number that is not finite must be expected. ``is_prefix``: a result may hold the first elements
    of what is expected.
    """
    ours, expected_arrays = listed(results), listed(expected)
    if len(ours) != len(expected_arrays):
        return f"{len(ours)} results instead of {len(expected_arrays)}"
    for index, (result, reference) in enumerate(zip(ours, expected_arrays, strict=True)):
        message = "" if reference is None else _difference(result, reference, tolerance, is_prefix)
        if message:
            return f"result {index} {message}"
    return ""


def _difference(result: Any, reference: Any, tolerance: float, is_prefix: bool) -> str:
    left, right = np.asarray(result).ravel(), np.asarray(reference).ravel()
    if is_prefix and 0 < left.size < right.size:
        right = right[: left.size]
    if left.size != right.size:
        return f"has {left.size} elements instead of {right.size}"
    worst = scale = 0.0
    for start in range(0, left.size, CHUNK_ELEMENTS):
        stop = start + CHUNK_ELEMENTS
        result_values = left[start:stop].astype(np.float64)
        goal = right[start:stop].astype(np.float64)
        finite = np.isfinite(goal)
        if not np.array_equal(result_values[~finite], goal[~finite], equal_nan=True):
            return "is finite, or another infinity, where the reference is not finite"
        if not np.isfinite(result_values[finite]).all():
            return "is not finite where the reference is"
        gaps = np.abs(result_values[finite] - goal[finite])
        worst = max(worst, float(gaps.max(initial=0.0)))
        scale = max(scale, float(np.abs(goal[finite]).max(initial=0.0)))
    if worst > tolerance * scale:
        return f"differs by {worst:.2g}, the largest number is {scale:.2g}"
    return ""
