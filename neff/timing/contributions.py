"""The parameters that the total depends on most, and what the model leaves out of a program.

The critical path leads from the last event back through the causes of each wait. A segment of it is
as long as the interval or the latency of its work, whichever is nearer; this cost is computed
again with each parameter that it reads at either end of its range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from neff.timing.costs import Cost, Pricing
from neff.timing.events import DESCRIPTORS, QUEUE, Event, LaneTime
from neff.timing.lowering import works_of
from neff.timing.parameters import PARAMETERS, Parameters
from neff.timing.transfers import COPIES
from neff.timing.work import Fixed, Transfer, Weights, Work
from nki_lang.ir import Instruction
from nki_lang.isa.table import COLLECTIVES

__all__ = ["NOT_MODELLED", "Contribution", "contributions_of", "left_out", "path_segments"]

_TABLE_LOAD = Fixed("scalar.table_load_ns")
_WAIT = Fixed("semaphore.more_ns")

NOT_MODELLED = (
    "instruction fetch",
    "conflicts of engines for banks of SBUF, but for a range",
    "how full a queue of transfers may be",
    "HBM's pages and refresh",
    "what the two cores of a logical core wait for each other, but for barriers",
    "mesh algorithms of collectives: rings are assumed",
)
"""Effects that the figures leave out; most of them make the device slower."""

_COMPUTE_ENGINES = frozenset({"tensor", "vector", "scalar", "gpsimd"})


class Contribution(NamedTuple):
    """A parameter, and by how many nanoseconds the total changes with the ends of its range.

    ``low_ns`` is the change with the fast end (negative), ``high_ns`` with the slow end.
    """

    parameter: str
    low_ns: float
    high_ns: float


def path_segments(events: Sequence[Event], last: int, end: float, report: float) -> Iterator[
    tuple[Event, float]
]:  # fmt: skip
    """Yield the events of the critical path, last first, each with its nanoseconds of the total.

    Args:
        events: of one core.
        last: the event that ends last, at ``end``.
        report: time that may follow an event before the others of a loop start.
    """
    index, until, iterations = last, end, 0
    while index >= 0:
        event = events[index]
        if event.turns > 1 and event.turns != iterations:
            # After a loop's last simulated iteration come the others, which `turns` counts already.
            until = min(until, event.end + report)
        iterations = event.turns
        yield event, max(0.0, until - event.start) * event.turns
        until, index = min(until, event.start), event.after


def contributions_of(
    events: Sequence[Event], end: float, parameters: Parameters, is_static: bool, cores: int
) -> list[Contribution]:
    """Return what each parameter contributes to the range of a core's time, the largest first.

    Args:
        events: of the core, with the instructions of a program.
        end: of the core.
        parameters: of the estimate.
        is_static: descriptors of transfers whose location is known are ready in memory.
        cores: that share HBM.
    """
    pricing = Pricing(parameters, cores=cores)
    sensitivity = _Sensitivity(pricing, parameters)
    sums: dict[str, list[float]] = {}
    last = max(range(len(events)), key=lambda index: events[index].end, default=-1)
    report = pricing.numbers["dma.completion_ns"] + pricing.numbers["control.loop_ns"]
    successor: Event | None = None
    for event, length in path_segments(events, last, end, report):
        pieces = _pieces(event, successor, is_static)
        successor = event
        left = length / event.turns
        for work, components in pieces if length else ():
            value, changes = sensitivity.of(work, components, left)
            left -= value
            for name, low, high in changes:
                total = sums.setdefault(name, [0.0, 0.0])
                total[0] += low * event.turns
                total[1] += high * event.turns
    rows = [Contribution(name, low, high) for name, (low, high) in sums.items()]
    return sorted(rows, key=lambda row: (row.low_ns - row.high_ns, row.parameter))


_Component = Callable[[Cost, dict[str, float]], float]
_Piece = tuple[Work, tuple[_Component, ...]]


def _pieces(event: Event, successor: Event | None, is_static: bool) -> list[_Piece]:
    """Return the work of a segment; a transfer that waited in its queue starts at its end."""
    pieces: list[_Piece] = []
    if successor is not None and successor.lane.startswith(f"{QUEUE}."):
        work = _work_of(successor, is_static)
        waited = event.lane != DESCRIPTORS and event.source is not successor.source
        if type(work) is Transfer and waited and work.descriptors != "software":
            pieces.append((work, (_latency,)))
    work = _work_of(event, is_static)
    if type(work) is Weights:  # they wait until the columns before them have moved
        pieces.append((works_of(event.source)[-1], (_interval, _cold_interval)))
    if work is not None:
        pieces.append((work, _costs_of(event, work)))
    return pieces


def _work_of(event: Event, is_static: bool) -> Work | None:
    instruction = event.source
    if not isinstance(instruction, Instruction):
        return None
    if event.opcode == "act_table_load":
        return _TABLE_LOAD
    if event.opcode == "event_semaphore":
        return _WAIT
    works = works_of(instruction, is_static)
    if event.opcode == "load_weights":
        return next((work for work in works if type(work) is Weights), None)
    return works[-1]


def _costs_of(event: Event, work: Work) -> tuple[_Component, ...]:
    """Return the costs that may separate an event from the next one of the path."""
    if event.lane.startswith(f"{QUEUE}."):
        return (_moving,)
    if event.lane == DESCRIPTORS:
        return (_interval,)
    if event.opcode in COPIES or type(work) is Transfer:
        return (_interval, _latency)
    if type(work) is Weights:
        return (_exposed, _interval)
    components = (_interval, _latency, _result, _result_to_tensor, _cold_interval, _cold_result)
    return (*components, _iteration) if event.turns > 1 else components


def _interval(cost: Cost, _numbers: dict[str, float]) -> float:
    return cost.interval


def _latency(cost: Cost, _numbers: dict[str, float]) -> float:
    return cost.latency


def _exposed(cost: Cost, _numbers: dict[str, float]) -> float:
    return cost.exposed


def _result(cost: Cost, numbers: dict[str, float]) -> float:
    return cost.latency + numbers["semaphore.compute_ns"]


def _result_to_tensor(cost: Cost, numbers: dict[str, float]) -> float:
    return cost.latency + numbers["semaphore.tensor_ns"]


def _cold_interval(cost: Cost, _numbers: dict[str, float]) -> float:
    return cost.cold_interval


def _cold_result(cost: Cost, numbers: dict[str, float]) -> float:
    return cost.cold_latency + numbers["semaphore.compute_ns"] * (cost.cold_latency > 0)


def _iteration(cost: Cost, numbers: dict[str, float]) -> float:
    return cost.latency + numbers["control.loop_ns"]


def _moving(cost: Cost, numbers: dict[str, float]) -> float:
    packets_ns = (cost.packets + (cost.extra_packets > 0)) * cost.packet
    reported = numbers["dma.stagger_ns"] + numbers["dma.completion_ns"]
    return packets_ns + reported + numbers["dma.completion_packet_ns"]


class _Reads(dict[str, float]):
    """Numbers that note which of them are read."""

    def __init__(self, numbers: dict[str, float]) -> None:
        super().__init__(numbers)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> float:
        self.names.add(name)
        return super().__getitem__(name)


class _Sensitivity:
    """Changes of the costs of work by each parameter that they read."""

    def __init__(self, pricing: Pricing, parameters: Parameters) -> None:
        self._pricing, self._parameters = pricing, parameters
        self._reads = _Reads(pricing.numbers)
        pricing.numbers = self._reads
        self._changes: dict[tuple[Work, _Component], tuple[float, list[Contribution]]] = {}

    def of(
        self, work: Work, components: tuple[_Component, ...], length: float
    ) -> tuple[float, list[Contribution]]:
        """Return the cost that is nearest to a length, no more than it, and its changes."""
        costs = [self._changes_of(work, component) for component in components]
        value, changes = min(costs, key=lambda cost: abs(cost[0] - length))
        scale = max(0.0, min(1.0, length / value)) if value else 0.0
        return value * scale, [
            Contribution(name, low * scale, high * scale) for name, low, high in changes
        ]

    def _changes_of(self, work: Work, component: _Component) -> tuple[float, list[Contribution]]:
        cached_changes = self._changes.get((work, component))
        if cached_changes is not None:
            return cached_changes
        self._reads.names.clear()
        value = self._cost(work, component)
        changes: list[Contribution] = []
        for name in sorted(self._reads.names):
            parameter = self._parameters[name]
            ends = (parameter.low, parameter.high)
            if ends[0] == ends[1]:
                continue
            fast, slow = ends[::-1] if PARAMETERS[name].more_is_faster else ends
            differences = [
                self._with(name, number, work, component) - value for number in (fast, slow)
            ]
            changes.append(Contribution(name, *differences))
        self._changes[work, component] = value, changes
        return value, changes

    def _with(self, name: str, number: float, work: Work, component: _Component) -> float:
        nominal = self._reads[name]
        self._reads[name] = number
        cost = self._cost(work, component)
        self._reads[name] = nominal
        return cost

    def _cost(self, work: Work, component: _Component) -> float:
        return component(self._pricing.cost(work), self._reads)


def left_out(lanes: dict[str, LaneTime], events: Sequence[Event], cores: int) -> list[str]:
    """Return the effects that the model leaves out and that the program can have.

    Args:
        lanes: of the engines of a core, by name.
        events: of the core.
        cores: of the program.
    """
    opcodes = {event.opcode for event in events}
    computing = sum(1 for name, lane in lanes.items() if lane.events and name in _COMPUTE_ENGINES)
    transfers = any(event.lane.startswith(QUEUE) for event in events)
    is_possible = (
        True,
        computing > 1,
        transfers,
        transfers,
        cores > 1,
        bool(opcodes & COLLECTIVES),
    )
    effects = zip(NOT_MODELLED, is_possible, strict=True)
    return [effect for effect, can_happen in effects if can_happen]
