"""Estimates of a program on a machine with faster components."""

from __future__ import annotations

from collections.abc import Mapping

from neff.errors import NeffError
from neff.program import Program
from neff.timing import PARAMETERS, Estimate, Parameters, Trips, estimate

__all__ = ["PARTS", "Changes", "changes_of", "what_if"]

Changes = Mapping[str, float]
"""Component of the machine -> speed-up factor."""

PARTS = ("dma", "tensor", "vector", "scalar", "gpsimd", "semaphore", "control", "link")
"""First words of parameters."""

_FREE_FACTOR = 1e9
_TIME_UNITS = frozenset({"ns"})
_RATE_UNITS = frozenset({"GHz", "B/ns", "GB/s"})
_NOT_COSTS = frozenset({
    "tensor.warm_up_ns", "tensor.pause_ns", "tensor.cooling_ns", "dma.packet_overlap_ns",
})  # fmt: skip
"""Thresholds, not durations; and the part of a duration that counts twice."""


def changes_of(text: str) -> Changes:
    """Read a text such as ``dma=2x,tensor=free``.

    Raises:
        NeffError: ``NEFF-WHAT-IF``; an unknown part, or no factor.
    """
    factors: dict[str, float] = {}
    for piece in text.split(","):
        component, _, factor = (word.strip() for word in piece.partition("="))
        if component not in PARTS:
            raise _error(f"{component!r} is not a part of the machine", f"use {', '.join(PARTS)}")
        factors[component] = _factor(factor, piece)
    return factors


def _factor(text: str, piece: str) -> float:
    if text == "free":
        return _FREE_FACTOR
    try:
        factor = float(text.removesuffix("x"))
    except ValueError:
        factor = 0.0
    if not 0.0 < factor < _FREE_FACTOR:
        raise _error(f"{piece.strip()!r} gives no factor", "write dma=2x, or tensor=free")
    return factor


def _error(message: str, remedy: str) -> NeffError:
    return NeffError(message, code="NEFF-WHAT-IF", remedy=remedy)


def what_if(
    program: Program,
    changes: Changes,
    *,
    parameters: Parameters | None = None,
    statistic: str = "body",
    dma: str = "",
    trips: Trips = None,
) -> Estimate:
    """Estimate a program with every cost of the named parts divided by a factor.

    The result's range is that of the parameters that did not change.

    Args:
        changes: part of the machine -> factor, as :func:`changes_of` reads them.
        parameters, statistic, dma, trips: as in :func:`neff.timing.estimate`.
    """
    base = parameters or Parameters(program.target)
    changed = dict(base.overrides)
    for name, row in PARAMETERS.items():
        component = name.partition(".")[0]
        if component not in changes or name in _NOT_COSTS:
            continue
        if row.unit in _TIME_UNITS:
            changed[name] = base[name].value / changes[component]
        elif row.unit in _RATE_UNITS:
            changed[name] = base[name].value * changes[component]
    faster = Parameters(base.target, changed)
    return estimate(program, parameters=faster, statistic=statistic, dma=dma, trips=trips)
