"""Results beside those of an oracle that rounds otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["STEP", "Array", "difference", "disturbed", "unequal"]

Array = np.ndarray[Any, Any]
SMALLEST_NORMALS = {"float16": 6.1e-5, "float64": 2.3e-308}
"""Smallest normal number; below it XLA's CPU client flushes to zero."""
STEP = {
    "float32": 6e-8,
    "bfloat16": 4e-3,
    "float16": 5e-4,
    "float64": 1e-16,
    "float8_e3m4": 0.016,
    **dict.fromkeys(
        ("float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz"), 0.03
    ),
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), 0.06),
    "complex64": 6e-8,
}
"""Relative rounding errors."""


MAX_CAST = 1e2
"""Results below this size, all of them finite, show no overflow of a cast to fewer bits."""


def disturbed(arrays: list[Array], seed: int, least: float = 0.0) -> list[Array]:
    """Floats moved by some rounding errors, or by ``least`` at least."""
    chance = np.random.default_rng(seed)
    moved = []
    for array in arrays:
        step = STEP.get(array.dtype.name)
        if step is None:
            moved.append(array)
            continue
        if array.dtype.kind == "c":
            with np.errstate(all="ignore"):
                moved.append(array * np.complex64(1 + chance.choice([-4, 4]) * step))
            continue
        factor = 1 + chance.choice([-1, -0.5, 0.5, 1], array.shape) * max(4 * step, least)
        with np.errstate(all="ignore"):
            moved.append(np.asarray(array.astype(np.float64) * factor).astype(array.dtype))
    return moved


def difference(
    expected: Array, actual: Array, shaken: list[Array], *, error: float = 0.0, elementwise: bool = False,
    signs: bool = True, rounded: Sequence[Array] = (),
) -> str:  # fmt: skip
    """Return the difference between a result and the oracle's; "" when they agree.

    Where sums overflow, their order decides between infinity and NaN; so it does in complex numbers.

    Args:
        expected: the oracle's result.
        actual: our result.
        shaken: the oracle's results for disturbed arguments.
        error: relative error that is allowed beyond rounding.
        elementwise: an element may be off by its own size and movement only, not by the array's.
        signs: with ``elementwise``, -0.0 and 0.0 differ.
        rounded: the oracle's with other roundings. Integers that differ among these nobody promises.
    """
    if expected.dtype == np.bool_ and actual.dtype == np.uint8:
        actual = actual.view(np.bool_)
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return (
            f"{actual.dtype}{list(actual.shape)}, jaxlib has {expected.dtype}{list(expected.shape)}"
        )
    if not expected.size:
        return ""
    if expected.dtype.kind in "biu":
        wrong = _differing_integers(expected, actual, shaken if error else [], rounded)
    else:
        wrong = _differing_floats(
            expected, actual, shaken, error=error, elementwise=elementwise, signs=signs
        )
    return _shown(expected, actual, wrong) if np.any(wrong) else ""


def _differing_integers(
    expected: Array, actual: Array, shaken: Sequence[Array], rounded: Sequence[Array]
) -> Array:
    """Mark unequal elements that no disturbance of the arguments and no rounding moves."""
    wrong = np.asarray(expected != actual)
    for expected_values in rounded:
        wrong &= expected_values == rounded[0]
    for moved in shaken:
        wrong &= moved == expected
    return wrong


def _differing_floats(
    expected: Array, actual: Array, shaken: Sequence[Array], *, error: float, elementwise: bool, signs: bool
) -> Array:  # fmt: skip
    """Mark elements that are farther apart than rounding and the disturbed runs explain."""
    kind = np.complex128 if expected.dtype.kind == "c" else np.float64
    expected_values, actual_values = expected.astype(kind), actual.astype(kind)
    disturbed_runs = [run.astype(kind) for run in shaken]
    expected_finite, actual_finite = np.isfinite(expected_values), np.isfinite(actual_values)
    with np.errstate(all="ignore"):
        steady = np.all(
            [np.isfinite(run) == expected_finite for run in disturbed_runs] or [True], axis=0
        )
        limit, move = _limit(expected, expected_values, disturbed_runs, error, elementwise)
        alike = (expected_values == actual_values) | (
            np.isnan(expected_values) & np.isnan(actual_values)
        )
        if kind is np.complex128 or not elementwise:
            alike |= ~expected_finite & ~actual_finite
        close = expected_finite & actual_finite & (np.abs(expected_values - actual_values) <= limit)
        if elementwise and signs and kind is np.float64:
            opposite_zeros = (
                (expected_values == 0)
                & (actual_values == 0)
                & (np.signbit(expected_values) != np.signbit(actual_values))
                & (move == 0)
            )
            alike &= ~opposite_zeros
            close &= ~opposite_zeros
    wrong = ~(alike | close | ~steady)
    if error and (np.any(~expected_finite) or np.any(np.abs(expected_values) > MAX_CAST)):
        wrong &= expected_finite & actual_finite  # a cast may overflow
    return wrong


def _limit(
    expected: Array,
    expected_values: Array,
    disturbed_runs: list[Array],
    error: float,
    elementwise: bool,
) -> tuple[Array, Array]:
    """Return the allowed difference and how far the disturbed runs move.

    Both are arrays by element, or one number for the whole array without ``elementwise``.
    """
    moves = [np.abs(run - expected_values) for run in disturbed_runs]
    size = np.where(np.isfinite(expected_values), np.abs(expected_values), 0)
    move = np.max([np.where(np.isfinite(move), move, 0) for move in moves] or [0 * size], axis=0)
    if not elementwise:
        size, move = size.max(), move.max()
    step = STEP.get(expected.dtype.name, 6e-8)
    smallest = max(SMALLEST_NORMALS.get(expected.dtype.name, 1.2e-38), 0 if elementwise else 1e-12)
    return 64 * move + (64 * min(step, 4e-3) + 4 * step + error) * size + smallest, move


def unequal(expected: Sequence[Array], results: Sequence[Array]) -> str:
    """The difference of results that must be equal; zeros of both signs are."""
    if len(expected) != len(results):
        return f"{len(results)} results instead of {len(expected)}"
    for number, (wanted_value, array) in enumerate(zip(expected, results, strict=True)):
        if wanted_value.dtype == np.bool_ and array.dtype == np.uint8:
            array = array.view(np.bool_)
        if wanted_value.shape != array.shape or wanted_value.dtype != array.dtype:
            return f"result {number}: {array.dtype}{list(array.shape)}, not {wanted_value.dtype}{list(wanted_value.shape)}"
        wrong = np.asarray(wanted_value != array)
        if np.any(wrong):
            return f"result {number}: {_shown(wanted_value, array, wrong)}"
    return ""


def _shown(expected: Array, actual: Array, wrong: Array) -> str:
    position = tuple(int(indices[0]) for indices in np.nonzero(np.atleast_1d(wrong)))
    first, second = np.atleast_1d(actual)[position], np.atleast_1d(expected)[position]
    return f"{np.count_nonzero(wrong)} of {expected.size} {expected.dtype}, at {list(position)}: {first}, jaxlib has {second}"
