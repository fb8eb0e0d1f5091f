"""An estimate of a program's time on its target, with its range and its basis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hlo_tools._gc import no_collection
from neff.errors import NeffError
from neff.program import Program
from neff.timing.contributions import (
    NOT_MODELLED,
    Contribution,
    contributions_of,
    left_out,
    path_segments,
)
from neff.timing.costs import Pricing
from neff.timing.events import DESCRIPTORS, QUEUE, Event, LaneTime, lane_times
from neff.timing.lowering import Lowering
from neff.timing.machine import Machine
from neff.timing.model_error import bottleneck_of, model_error, widened
from neff.timing.parameters import Parameters, Side
from neff.timing.simulation import simulate
from neff.timing.work import LANES

__all__ = [
    "DMA_MODES",
    "MAIN_PARAMETER_COUNT",
    "NOT_MODELLED",
    "STATISTICS",
    "CoreTime",
    "Estimate",
    "Span",
    "Trips",
    "check_choices",
    "estimate",
]

MAIN_PARAMETER_COUNT = 3
"""Parameters that an estimate names: those that contribute most to its range."""

STATISTICS = ("body", "nc-latency", "benchmark", "profile-total")
"""From the first transfer's issue to the last one's arrival; the same with the launch that the
device's own latency, the runtime's benchmark, or a profile includes."""

_LAUNCHES = {
    "nc-latency": "launch.nc_latency_ns",
    "benchmark": "launch.benchmark_ns",
    "profile-total": "launch.profile_ns",
}

DMA_MODES = ("dynamic", "static")
"""Descriptors made while the program runs, or before."""


Trips = int | Sequence[Mapping[int, float]] | None
"""Iterations of loops that only a run determines; see :func:`estimate`."""


class Span(NamedTuple):
    """A time, ``value``, between ``low`` and ``high``, all in nanoseconds."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class CoreTime:
    """The simulated time of one core.

    Attributes:
        total: of the body; its ends follow from the ranges of the parameters alone.
        engines: time and events of each engine.
        queues: the same for queues of transfers, and for descriptors that GpSimd makes.
        dma_ns: busy time of the DMA engines, summed.
        measured_share: share of the critical path's time from measured parameters.
        unknown_loops: loops whose number of iterations only a run determines.
        events: all events; equal iterations of a loop come once.
    """

    total: Span
    engines: dict[str, LaneTime]
    queues: dict[str, LaneTime]
    dma_ns: float
    measured_share: float
    unknown_loops: int
    events: list[Event]

    @property
    def transfers(self) -> int:
        """How many transfers were moved."""
        return sum(lane.events for name, lane in self.queues.items() if name.startswith(QUEUE))

    @property
    def dma_bytes(self) -> int:
        """Bytes that they moved."""
        return sum(lane.nbytes for lane in self.queues.values())


@dataclass(frozen=True, slots=True)
class Estimate:
    """Time of a program.

    Attributes:
        target: the family.
        statistic: what the total includes.
        dma: ``dynamic`` or ``static``.
        total: until the last core is done, plus the launch that the statistic includes; its range
            combines ``parameter_range`` with ``model_error``, which are independent.
        parameter_range: the same with the range that follows from the parameters alone.
        bottleneck: what decides the slowest core's time, one of :data:`BOTTLENECKS`.
        model_error: of the body, as a share of it: within it are four of five measured kernels
            with that bottleneck.
        cores: the time of each core.
        parameters: of the estimate; equal estimates may come from other ones.
    """

    target: str
    statistic: str
    dma: str
    total: Span
    parameter_range: Span
    bottleneck: str
    model_error: float
    cores: tuple[CoreTime, ...]
    parameters: Parameters = field(compare=False)

    @property
    def launch(self) -> Span:
        """Return the launch that the statistic includes."""
        return _launch(self.parameters, self.statistic, len(self.cores))

    @property
    def slowest_core(self) -> CoreTime | None:
        """Return the core that ends last; None for a program without cores."""
        return max(self.cores, key=lambda core: core.total.value, default=None)

    def contributions(self) -> list[Contribution]:
        """Return the contribution of each parameter to the range, the largest first.

        The times are those of the slowest core's critical path, and of the launch.
        """
        core = self.slowest_core
        if core is None:
            return []
        rows = contributions_of(
            core.events, core.total.value, self.parameters, self.dma == "static", len(self.cores)
        )
        name = _launch_parameter(self.statistic, len(self.cores))
        if name:
            launch = self.parameters[name]
            rows.append(Contribution(name, launch.low - launch.value, launch.high - launch.value))
        return sorted(rows, key=lambda row: (row.low_ns - row.high_ns, row.parameter))

    @property
    def left_out(self) -> list[str]:
        """Effects that the model leaves out and that this program can have."""
        core = self.slowest_core
        return left_out(core.engines, core.events, len(self.cores)) if core else []

    @property
    def measured_share(self) -> float:
        """Return the measured share of the time on the slowest core's critical path."""
        slowest = self.slowest_core
        return slowest.measured_share if slowest else 0.0

    @property
    def is_complete(self) -> bool:
        """Return False when the number of iterations of some loop is unknown."""
        return not any(core.unknown_loops for core in self.cores)

    def __str__(self) -> str:
        unit, scale = ("ms", 1e6) if self.total.value >= 1e7 else ("µs", 1e3)
        digits = 1 if self.total.value < 100 * scale else 0
        value, low, high = (f"{nanoseconds / scale:,.{digits}f}" for nanoseconds in self.total)
        share = f"{self.measured_share:.0%} of it from measured costs"
        return f"{value} {unit} ({low}–{high}), {share}"

    @property
    def range_parts(self) -> str:
        """The two parts of the range, for people."""
        value, low, high = self.parameter_range
        ends = (f"{end / value - 1:+.0%}" if value else "0%" for end in (low, high))
        return (
            f"range: parameters {' '.join(ends)}, model ±{self.model_error:.0%} "
            f"(bottleneck: {self.bottleneck})"
        )

    def to_json(self) -> dict[str, Any]:
        """The figures as a document."""
        return {
            "target": self.target,
            "statistic": self.statistic,
            "dma": self.dma,
            "total_us": _us(self.total.value),
            "low_us": _us(self.total.low),
            "high_us": _us(self.total.high),
            "range": {
                "parameters_low_us": _us(self.parameter_range.low),
                "parameters_high_us": _us(self.parameter_range.high),
                "model_error": round(self.model_error, 4),
                "bottleneck": self.bottleneck,
            },
            "measured_share": round(self.measured_share, 4),
            "complete": self.is_complete,
            "cores": [_core(core) for core in self.cores],
            "main_parameters": [
                {"parameter": name, "low_us": _us(low), "high_us": _us(high)}
                for name, low, high in self.contributions()[:MAIN_PARAMETER_COUNT]
            ],
            "not_modelled": self.left_out,
        }


def estimate(
    program: Program,
    *,
    parameters: Parameters | None = None,
    statistic: str = "body",
    dma: str = "",
    trips: Trips = None,
) -> Estimate:
    """Estimate the time of a program.

    Args:
        program: compiled.
        parameters: default: the table's for the program's target.
        statistic: one of :data:`STATISTICS`.
        dma: one of :data:`DMA_MODES`; default: static on trn1, dynamic later.
        trips: iterations of loops that only a run determines: one number for all, or those of a run
            by core and loop ident (``neff.runtime.trips.trips_of``); default 1. Except
            for those of a run they are marked as unknown.

    Raises:
        NeffError: ``NEFF-STATISTIC``; an unknown statistic or mode.
        NeffRuntimeError: its engines wait for each other.
    """
    parameters = parameters or Parameters(program.target)
    mode = dma or ("static" if parameters.target == "trn1" else "dynamic")
    check_choices(statistic, mode)
    with no_collection():
        cores = tuple(
            _simulated(program, number, parameters, mode == "static", trips)
            for number in range(len(program.subgraphs))
        )
    body = Span(*(max((core.total[end] for core in cores), default=0.0) for end in range(3)))
    launch = _launch(parameters, statistic, len(cores))
    slowest = max(cores, key=lambda core: core.total.value, default=None)
    bottleneck = (
        bottleneck_of(slowest.total.value, slowest.engines, slowest.queues, slowest.dma_ns)
        if slowest
        else "latency"
    )
    error = model_error(bottleneck, parameters.target)
    within = Span(*(body_ns + launch_ns for body_ns, launch_ns in zip(body, launch, strict=True)))
    total = Span(within.value, *widened(*within, error * body.value))
    return Estimate(
        parameters.target, statistic, mode, total, within, bottleneck, error, cores, parameters
    )


def check_choices(statistic: str, dma: str) -> None:
    """Refuse a statistic, or a mode of descriptors other than ``""``, that does not exist.

    Raises:
        NeffError: ``NEFF-STATISTIC``.
    """
    _check(statistic, STATISTICS)
    if dma:
        _check(dma, DMA_MODES)


def _check(choice: str, allowed: tuple[str, ...]) -> None:
    if choice not in allowed:
        raise NeffError(
            f"{choice!r} is not one of {', '.join(allowed)}",
            code="NEFF-STATISTIC",
            remedy=f"use one of {', '.join(allowed)}",
        )


def _launch(parameters: Parameters, statistic: str, cores: int) -> Span:
    name = _launch_parameter(statistic, cores)
    if not name:
        return Span(0.0, 0.0, 0.0)
    value = parameters[name]
    return Span(value.value, value.low, value.high)


def _launch_parameter(statistic: str, cores: int) -> str:
    """Return the parameter that a statistic adds to the body, "" for none."""
    if statistic == "nc-latency" and cores > 1:
        return "launch.two_cores_ns"
    return _LAUNCHES.get(statistic, "")


def _simulated(
    program: Program, number: int, parameters: Parameters, is_static: bool, trips: Trips
) -> CoreTime:
    lowering = Lowering(is_static, trips if isinstance(trips, int | None) else trips[number])
    steps = lowering.lower(program.subgraphs[number])
    location = f"{program.name}: sg{number:02d}"
    nominal, fast, slow = (Pricing(parameters, side, len(program.subgraphs)) for side in Side)
    machine = Machine(lowering.works, (nominal, fast, slow), number)
    simulate(machine, steps, location)
    value, fastest, slowest = machine.end
    total = Span(value, min(value, fastest), max(value, slowest))
    return _summary(machine, total, lowering.unknown_loops, list(steps))


def _summary(machine: Machine, total: Span, unknown: int, engines: list[str]) -> CoreTime:
    lanes = lane_times(machine.events)
    return CoreTime(
        total,
        {engine: lanes.pop(engine, LaneTime()) for engine in engines},
        lanes,
        machine.dma_ns,
        _measured_share(machine),
        unknown,
        machine.events,
    )


def _measured_share(machine: Machine) -> float:
    """Return the measured share of the path from the last event back through its causes."""
    path_ns = measured_ns = 0.0
    report = machine.completion[0] + machine.loop_ns[0]
    for event, event_ns in path_segments(machine.events, machine.last, machine.end[0], report):
        path_ns += event_ns
        measured_ns += event_ns * event.measured_share
    return measured_ns / path_ns if path_ns else 0.0


def _us(nanoseconds: float) -> float:
    return round(nanoseconds / 1e3, 3)


def _core(core: CoreTime) -> dict[str, Any]:
    total = core.total.value or 1.0
    engines = {
        name: {
            "instructions": lane.events,
            "busy_us": _us(lane.busy_ns),
            "busy_share": round(lane.occupied_ns / total, 4),
        }
        for name, lane in core.engines.items()
    }
    opcodes: dict[str, float] = {}
    for lane in core.engines.values():
        for name, busy_ns in lane.opcodes_ns.items():
            opcodes[name] = opcodes.get(name, 0.0) + busy_ns
    longest = sorted(opcodes.items(), key=lambda item: -item[1])
    return {
        "total_us": _us(core.total.value),
        "low_us": _us(core.total.low),
        "high_us": _us(core.total.high),
        "measured_share": round(core.measured_share, 4),
        "engines": engines,
        "descriptors_us": _us(core.queues.get(DESCRIPTORS, LaneTime()).busy_ns),
        "dma": {
            "transfers": core.transfers,
            "bytes": core.dma_bytes,
            "busy_share": round(core.dma_ns / LANES / total, 4),
        },
        "opcodes_us": {name: _us(busy_ns) for name, busy_ns in longest},
        "loops_of_unknown_length": core.unknown_loops,
    }
