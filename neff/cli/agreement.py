"""Which candidates of ``nki-hlo tune`` have right results: those of a reference, or all the same."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import typer

from hlo_tools.cli.shared.kernel_call import parse_arguments
from hlo_tools.errors import HloError
from hlo_tools.extract.python_file import load_named
from neff.cli.candidates import Candidate, Search

__all__ = ["Reference", "judge"]

Array = npt.NDArray[np.generic]

_TOLERANCES = {8: 1e-5, 4: 1e-3}
"""Allowed relative difference by bytes of a float; 0.05 for shorter ones, 0 for integers."""


class Reference:
    """A function that computes with NumPy what the kernel returns.

    It is called with those of the kernel's arguments and of the candidate's parameters that it
    takes, by name.

    Raises:
        typer.BadParameter: not FILE.py:NAME of a function.
        HloError: the file cannot be imported or has no such name.
    """

    def __init__(self, search: Search) -> None:
        self.name = search.reference
        if not self.name.rpartition(":")[0].endswith(".py"):
            raise typer.BadParameter(
                f"{self.name!r} is not FILE.py:NAME, such as checks.py:softmax"
            )
        function = load_named(self.name)
        if not callable(function):
            raise typer.BadParameter(f"{self.name} is not a function")
        self._function: Callable[..., object] = function
        self._arguments = parse_arguments(list(search.arguments), seed=search.seed)
        self._names = inspect.signature(function).parameters

    def results(self, candidate: Candidate) -> list[Array]:
        """Return the results that the candidate must return.

        Raises:
            HloError: the function raises.
        """
        values = self._arguments | dict(candidate.parameters)
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self._names.values()):
            values = {name: value for name, value in values.items() if name in self._names}
        try:
            returned = self._function(**values)
        except Exception as error:  # of any type: the user's function
            raise HloError(
                f"the reference raises {type(error).__name__}: {error}",
                code="HLO-ARGUMENT",
                place=self.name,
                remedy=f"it is called as {self.name.rpartition(':')[2]}({', '.join(values)})",
            ) from error
        if isinstance(returned, (tuple, list)):
            return [np.asarray(array) for array in cast("Sequence[object]", returned)]
        return [np.asarray(returned)]


def judge(candidates: Sequence[Candidate], reference: Reference | None) -> None:
    """Set the status and the difference of candidates that wrote all of their results.

    Without a reference no candidate is right when two differ: nothing tells which of them is wrong.
    """
    complete = [candidate for candidate in candidates if candidate.status == "fits"]
    if reference is not None:
        for candidate in complete:
            equal = _compare(reference.results(candidate), candidate)
            candidate.status = "correct" if equal else "differs"
        return
    if len(complete) < 2:
        return
    expected = [np.load(path) for path in complete[0].results]
    equal = [_compare(expected, candidate) for candidate in complete]
    if not all(equal):
        for candidate in complete:
            candidate.status = "disagrees"


def _compare(expected: Sequence[Array], candidate: Candidate) -> bool:
    """Set the difference of a candidate's results; False if it is more than rounding explains."""
    equal = len(expected) == len(candidate.results)
    candidate.difference = 0.0
    for right, path in zip(expected, candidate.results, strict=False):
        result = np.load(path)
        if right.shape != result.shape:
            candidate.difference, equal = float("inf"), False
            continue
        difference = _difference(right, result)
        candidate.difference = max(candidate.difference, difference)
        equal = equal and difference <= _tolerance(path, result)
    return equal


def _tolerance(path: Path, result: Array) -> float:
    """The allowed difference of a result: its file's name ends with the bytes of an element."""
    itemsize = int(path.stem.rpartition("-")[2])
    return _TOLERANCES.get(itemsize, 0.05) if result.dtype.kind in "fc" else 0.0


def _difference(expected: Array, result: Array) -> float:
    """Largest difference, relative to the largest value; infinite where only one is NaN."""
    wide = np.complex128 if "c" in expected.dtype.kind + result.dtype.kind else np.float64
    right, left = expected.astype(wide), result.astype(wide)
    same = (right == left) | (np.isnan(right) & np.isnan(left))
    if same.all():
        return 0.0
    finite = np.abs(right[np.isfinite(right)])
    with np.errstate(invalid="ignore"):
        distance = float(np.abs(np.where(same, 0.0, right - left)).max())
    if not np.isfinite(distance) or not finite.size:
        return float("inf")
    return distance / float(finite.max() or 1.0)
