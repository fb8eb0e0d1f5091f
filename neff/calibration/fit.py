"""Parameters that figures determine, by least squares.

The change of every figure with every parameter comes from simulations. A parameter is *determined* when
no combination of the others changes the figures in the same way. Clocks that are not determined keep
their documented value, then rates do; other parameters that cannot be told apart absorb their common error
during the fit, and keep their value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from neff.calibration.observations import Group, Subject, groups_of
from neff.timing import PARAMETERS, Parameters, Value

__all__ = ["Fit", "Unfitted", "fitted"]

_Matrix = NDArray[np.float64]

MAX_STEPS = 6
"""Gauss-Newton steps; costs are nearly linear in the parameters, so three are common."""

RESOLUTION_NS = 1.0
"""Captures have whole nanoseconds."""

MIN_EFFECT_NS = 2.0
"""A parameter that changes no figure by so much when it changes by a fifth is not in the capture."""

MIN_INDEPENDENCE = 0.1
"""Share of a parameter's effect that the others cannot imitate, from which on it is determined."""

MAX_UNCERTAINTY = 0.2
"""A fitted value whose standard error is a larger share of it is not taken, unless the table's range is
wider still."""

MAX_CHANGE = 5.0
"""A fitted value that is more times larger or smaller than the table's is not taken: the figures then show
an effect that the model lacks."""

_NEVER = ("launch.", "engine.contention", "dma.contention", "link.")
"""Parameters that no figure of single instructions can determine."""

_RATE_UNITS = ("cycles/element", "cycles/column", "B/ns", "GB/s", "share", "B")


@dataclass(frozen=True, slots=True)
class Unfitted:
    """A parameter that keeps its value, and the reason."""

    parameter: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of a calibration.

    Attributes:
        values: new values of the determined parameters.
        unfitted: the other parameters that have a range.
        groups: the figures, each with its time by the old and by the new parameters.
    """

    values: Mapping[str, Value]
    unfitted: tuple[Unfitted, ...]
    groups: tuple[tuple[Group, float, float], ...]


def fitted(subjects: Sequence[Subject], parameters: Parameters) -> Fit:
    """Fit parameters to captures.

    Args:
        subjects: captures of one chip.
        parameters: before; ranges say which parameters are open.
    """
    problem = _Problem(subjects, parameters)
    open_names = [
        name
        for name in PARAMETERS
        if parameters[name].low < parameters[name].high and not name.startswith(_NEVER)
    ]
    columns = {name: problem.effect(name, problem.start) for name in open_names}
    scales = {name: _scale(parameters[name].value) for name in open_names}
    unfitted: dict[str, str] = {}
    for name in open_names:
        if not columns[name].size or np.max(np.abs(columns[name])) * scales[name] < MIN_EFFECT_NS:
            unfitted[name] = "is not in the capture"
            del columns[name]
    for tier in (_is_clock, _is_rate):
        for name in [name for name in columns if tier(name)]:
            imitators = _imitators(name, columns, scales, problem.weights)
            if imitators:
                unfitted[name] = _not_apart(imitators)
                del columns[name]
    determined: list[str] = []
    for name in columns:
        imitators = _imitators(name, columns, scales, problem.weights)
        if imitators:
            unfitted[name] = _not_apart(imitators)
        else:
            determined.append(name)
    values = problem.solved(list(columns), determined, scales, unfitted)
    after = problem.simulated({name: value.value for name, value in values.items()})
    rows = zip(problem.groups, problem.before, after, strict=True)
    reasons = tuple(Unfitted(name, unfitted[name]) for name in open_names if name in unfitted)
    return Fit(values, reasons, tuple((group, float(old), float(new)) for group, old, new in rows))


def _scale(value: float) -> float:
    """Return a change by a fifth of a value."""
    return max(0.2 * abs(value), 1e-3)


def _is_clock(name: str) -> bool:
    return PARAMETERS[name].unit == "GHz"


def _is_rate(name: str) -> bool:
    return PARAMETERS[name].unit in _RATE_UNITS


def _not_apart(imitators: list[str]) -> str:
    return f"cannot be told apart from {', '.join(imitators[:3])}"


def _imitators(
    name: str, columns: Mapping[str, _Matrix], scales: Mapping[str, float], weights: _Matrix
) -> list[str]:
    """Return the parameters that together have the effect of one; [] when it is determined."""
    neighbors = [neighbor for neighbor in columns if neighbor != name]
    target = columns[name] * scales[name] * weights
    if not neighbors:
        return []
    matrix = np.stack([columns[neighbor] * scales[neighbor] * weights for neighbor in neighbors], 1)
    coefficients = np.linalg.lstsq(matrix, target, rcond=1e-6)[0]
    left = target - matrix @ coefficients
    if np.linalg.norm(left) > MIN_INDEPENDENCE * np.linalg.norm(target):
        return []
    sizes = np.abs(coefficients) * np.linalg.norm(matrix, axis=0)
    order = [int(index) for index in np.argsort(-sizes)]
    return [neighbors[index] for index in order if sizes[index] > 0.1 * np.linalg.norm(target)]


class _Problem:
    """The figures of all captures as one vector."""

    def __init__(self, subjects: Sequence[Subject], parameters: Parameters) -> None:
        self._parameters = parameters
        self._subjects = subjects
        self._groups = [
            groups_of(subject, subject.simulate(parameters)) for subject in self._subjects
        ]
        self.groups = [group for groups in self._groups for group in groups]
        self.start: dict[str, float] = {}
        self.before = self.simulated(self.start)
        self.measured = np.array([group.measured for group in self.groups])
        errors = [
            max(RESOLUTION_NS / 2, 0.002 * group.measured, group.spread / sqrt(len(group.spans)))
            for group in self.groups
        ]
        self.weights = 1.0 / np.array(errors)

    def simulated(self, changes: Mapping[str, float]) -> _Matrix:
        """Return the figures with some parameters changed."""
        old = self._parameters
        values = {
            name: Value(number, number, number, "measured", "") for name, number in changes.items()
        }
        current = {name: old[name] for name in PARAMETERS}
        chosen = Parameters(old.target, old.overrides, calibrated=current | values)
        figures: list[float] = []
        for subject, groups in zip(self._subjects, self._groups, strict=True):
            times = subject.simulate(chosen)
            figures += [group.simulated(times) for group in groups]
        return np.array(figures)

    def effect(self, name: str, point: Mapping[str, float]) -> _Matrix:
        """Return the change of each figure with a parameter, for each of its units."""
        value = point.get(name, self._parameters[name].value)
        step = max(0.05 * abs(value), 1e-4)
        base = self.before if not point else self.simulated(point)
        return (self.simulated({**point, name: value + step}) - base) / step

    def solved(
        self,
        names: list[str],
        determined: list[str],
        scales: Mapping[str, float],
        unfitted: dict[str, str],
    ) -> dict[str, Value]:
        """Return values of the determined ones; adds those that are too uncertain to ``unfitted``."""
        if not determined:
            return {}
        point = {name: self._parameters[name].value for name in names}
        scale = np.array([scales[name] for name in names])
        matrix, robust = np.zeros((0, 0)), self.weights
        for _ in range(MAX_STEPS):
            matrix = np.stack([self.effect(name, point) for name in names], 1) * scale
            left = self.measured - self.simulated(point)
            robust = self.weights * _robust(left * self.weights)
            step = np.linalg.lstsq(matrix * robust[:, None], left * robust, rcond=1e-4)[0]
            for name, change in zip(names, step * scale, strict=True):
                point[name] = max(point[name] + float(change), 0.02 * point[name])
            if np.max(np.abs(step)) < 2e-3:
                break
        left = self.measured - self.simulated(point)
        errors = _errors(matrix, left, robust) * scale
        values: dict[str, Value] = {}
        for name, error in zip(names, errors, strict=True):
            if name not in determined:
                continue
            old, number = self._parameters[name], point[name]
            if error > max(MAX_UNCERTAINTY * number, (old.high - old.low) / 2):
                unfitted[name] = "is too uncertain: the figures scatter"
                continue
            if old.value and not 1 / MAX_CHANGE < number / old.value < MAX_CHANGE:
                unfitted[name] = (
                    f"would have to be {number:.3g}: the model lacks what this figure shows"
                )
                continue
            half = max(2 * float(error), 0.002 * number)
            if 2 * half > old.high - old.low and abs(number - old.value) <= half:
                unfitted[name] = "agrees with the table, whose range is narrower"
                continue
            low = max(number - half, 0.02 * number)
            values[name] = Value(number, low, number + half, "measured", "calibrated")
        return values


def _robust(errors: _Matrix) -> _Matrix:
    """Return the square roots of Huber's weights: figures far off count less."""
    middle = max(1.0, 1.5 * float(np.median(np.abs(errors))))
    return np.sqrt(np.minimum(1.0, 1.5 * middle / np.maximum(np.abs(errors), 1e-12)))


def _errors(matrix: _Matrix, left: _Matrix, weights: _Matrix) -> _Matrix:
    """Return the standard error of each column's coefficient.

    The resolution of the figures counts, and what is left of the figures that a column changes; figures
    of other engines that the model misses do not.
    """
    weighted = matrix * weights[:, None]
    inverse = np.linalg.pinv(weighted.T @ weighted, rcond=1e-8)
    scattered = weighted * (left * weights)[:, None]
    covariance = inverse + inverse @ (scattered.T @ scattered) @ inverse
    return np.sqrt(np.maximum(np.diag(covariance), 0.0))
