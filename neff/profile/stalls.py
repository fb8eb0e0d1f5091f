"""The waits of each engine, and the critical path."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from neff.profile.arrays import Floats, Ints
from neff.profile.table import Profile
from neff.timing import Event
from neff.timing.events import DESCRIPTORS, QUEUE
from neff.timing.transfers import COPIES

__all__ = [
    "EngineSplit",
    "Gaps",
    "PathStep",
    "critical_path",
    "engine_splits",
    "gaps_of",
    "path_times",
    "slowest_core",
    "wait_before",
]

DMA = "DMA"

_SAME_NS = 0.5
"""Times that differ by less are the same but for rounding."""


@dataclass(slots=True)
class EngineSplit:
    """An engine's activities over its core's time; the fields add up to it, nanoseconds.

    Attributes:
        busy_ns: it computed.
        issue_ns: it issued transfers, executed instructions that only wait, or could not start
            the next instruction yet although nothing had to be waited for.
        waiting_ns: it stood still for a semaphore or a shared port, by whose event set or kept
            it: ``DMA`` or an engine.
        idle_ns: it had nothing to do: before the end of a loop's iteration, or of the program.
    """

    engine: str
    busy_ns: float = 0.0
    issue_ns: float = 0.0
    waiting_ns: dict[str, float] = field(default_factory=dict[str, float])
    idle_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Gaps:
    """The time between the events of each engine of a core, before the later one.

    Attributes:
        events: the later ones.
        waiting_ns: for which the engine stood still for a semaphore.
        reasons: whose event set that, by number; 0 is ``DMA``, then the engines as ``names`` has them.
        issue_ns: for which it could not start the event, although nothing had to be waited for.
        names: of the reasons.
    """

    events: Ints
    waiting_ns: Floats
    reasons: Ints
    issue_ns: Floats
    names: list[str]


def gaps_of(profile: Profile, core: int) -> Gaps:
    """The gaps of a core's engines, in the order of their events."""
    columns = profile.arrays[core]
    start, until, previous = columns.start, columns.until, columns.previous
    is_engine = columns.of_lanes(profile.estimate.cores[core].engines)
    events = np.flatnonzero(is_engine & (start > until))
    start, until, previous = start[events], until[events], previous[events]
    waits, after, iterations = columns.waits_for[events], columns.after[events], columns.turns
    is_same_turn = (previous < 0) | (iterations[previous] == iterations[events])
    # An event that follows another lane's is the first behind the edge of a loop, where all meet.
    follows = (waits >= 0) | (after < 0) | (columns.lane[after] == columns.lane[events])
    ready = np.minimum(np.maximum(columns.since[events], until), start)
    issue = np.where(is_same_turn & follows, ready - until, 0.0)
    wait_ns = start - ready
    names = [DMA, *columns.lanes]
    is_dma = np.array([_is_dma(lane) for lane in columns.lanes], np.bool_)
    cause = columns.lane[waits]
    reasons = np.where(is_dma[cause], 0, cause + 1)
    waited = waits >= 0
    return Gaps(
        events,
        np.where(waited, wait_ns, 0.0),
        reasons,
        np.where(waited, issue, issue + wait_ns),
        names,
    )


def _is_dma(lane: str) -> bool:
    return lane.startswith(QUEUE) or lane == DESCRIPTORS


def engine_splits(
    profile: Profile, core: int, cached_gaps: Gaps | None = None
) -> list[EngineSplit]:
    """Return how each engine of a core spent the time until the core's last event.

    Args:
        profile: of the program.
        core: its number.
        cached_gaps: the core's :func:`gaps_of`, when they are already computed.
    """
    core_estimate, columns = profile.estimate.cores[core], profile.arrays[core]
    gaps = gaps_of(profile, core) if cached_gaps is None else cached_gaps
    self_ns = columns.self_ns * columns.turns
    is_issue = np.array([_only_issues(opcode) for opcode in columns.opcodes], np.bool_)[
        columns.opcode
    ]
    lanes, iterations = columns.lane[gaps.events], columns.turns[gaps.events]
    count = len(columns.lanes)
    busy = np.bincount(columns.lane[~is_issue], self_ns[~is_issue], count)
    issue = np.bincount(
        np.concatenate([columns.lane[is_issue], lanes]),
        np.concatenate([self_ns[is_issue], gaps.issue_ns * iterations]),
        count,
    )
    waiting = _waiting(gaps, lanes, iterations)
    splits: list[EngineSplit] = []
    for engine in core_estimate.engines:
        split = EngineSplit(engine)
        if engine in columns.lanes:
            lane = columns.lanes.index(engine)
            split = EngineSplit(
                engine, float(busy[lane]), float(issue[lane]), waiting.get(lane, {})
            )
        active_ns = split.busy_ns + split.issue_ns + sum(split.waiting_ns.values())
        split.idle_ns = max(0.0, core_estimate.total.value - active_ns)
        splits.append(split)
    return splits


def _only_issues(opcode: str) -> bool:
    return opcode in COPIES or opcode == "event_semaphore"


def _waiting(gaps: Gaps, lanes: Ints, iterations: Floats) -> dict[int, dict[str, float]]:
    """Return lane -> the lane it waited for -> nanoseconds, in order of first wait."""
    waits = np.flatnonzero(gaps.waiting_ns)
    keys = lanes[waits] * len(gaps.names) + gaps.reasons[waits]
    keys, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    wait_ns = np.bincount(groups, (gaps.waiting_ns * iterations)[waits], len(keys))
    by_lane: dict[int, dict[str, float]] = {}
    for location in np.argsort(first).tolist():
        lane, reason = divmod(int(keys[location]), len(gaps.names))
        by_lane.setdefault(lane, {})[gaps.names[reason]] = float(wait_ns[location])
    return by_lane


def wait_before(profile: Profile, core: int) -> dict[int, float]:
    """Return event -> nanoseconds for which its engine waited for a semaphore before it."""
    gaps = gaps_of(profile, core)
    waits = np.flatnonzero(gaps.waiting_ns)
    return dict(zip(gaps.events[waits].tolist(), gaps.waiting_ns[waits].tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class PathStep:
    """Part of the critical path: events of one site on one lane.

    Attributes:
        lane, opcode: of the events.
        site: number of their site.
        count: how many lie on the path, all iterations.
        path_ns: from their starts to the starts of what came next on the path.
    """

    lane: str
    opcode: str
    site: int
    count: int
    path_ns: float


def critical_path(
    profile: Profile, core: int, cached_times: dict[int, float] | None = None
) -> list[PathStep]:
    """Return the steps of a core's critical path, equal events folded, in order of the first.

    Args:
        profile: of the program.
        core: its number.
        cached_times: the core's :func:`path_times`, when they are already computed.
    """
    events, sites = profile.estimate.cores[core].events, profile.site_of[core]
    times = path_times(profile, core) if cached_times is None else cached_times
    totals: dict[tuple[str, str, int], tuple[int, float]] = {}
    for index in sorted(times, key=lambda event_index: events[event_index].start):
        event = events[index]
        key = event.lane, event.opcode, sites[index]
        count, path_ns = totals.get(key, (0, 0.0))
        totals[key] = count + event.turns, path_ns + times[index]
    return [PathStep(*key, count, path_ns) for key, (count, path_ns) in totals.items()]


def slowest_core(profile: Profile) -> int:
    """Return the core whose end is the program's; -1 when there is none."""
    totals = [core.total.value for core in profile.estimate.cores]
    return max(range(len(totals)), key=totals.__getitem__, default=-1)


def path_times(profile: Profile, core: int) -> dict[int, float]:
    """Return event of the critical path -> nanoseconds of it, all iterations.

    The path goes from the core's last event back through the event that let each one start. Only the slowest core's
    events are critical; another core's path is that of its own end.
    """
    core_estimate = profile.estimate.cores[core]
    events, until = core_estimate.events, core_estimate.total.value
    parameters, report = profile.parameters, _report_ns(profile)
    turn_ns = parameters["control.loop_ns"].value
    tail_ns = parameters["dma.stagger_ns"].value + parameters["dma.packet_overlap_ns"].value
    index, later = _last(profile, core), -1
    times: dict[int, float] = {}
    while index >= 0:
        event = events[index]
        if _is_issue(event) and later >= 0 and _moves(events[later]):
            # From the issue's end on the path waits for the transfer.
            times[later] += max(0.0, until - event.end) * events[later].turns
            until = min(until, event.end)
        # `turns` counts the other iterations, which lie between one iteration and the next event.
        is_edge = event.turns > 1 and (later < 0 or event.turns != events[later].turns)
        if is_edge:
            until = min(until, event.end + report * _moves(event) + turn_ns)
        event_ns = max(0.0, until - event.start)
        times[index] = times.get(index, 0.0) + event_ns * event.turns
        until, later = min(until, event.start), index
        index = _enabling_event(events, index, tail_ns)
    return times


def _moves(event: Event) -> bool:
    return event.lane.startswith(QUEUE)


def _is_issue(event: Event) -> bool:
    return event.opcode in COPIES and not _moves(event)


def _enabling_event(events: list[Event], index: int, tail_ns: float) -> int:
    """Return the event that let another one start.

    The model names only a transfer's issue. If the previous transfer left the DMA engines when
    this one started, it is the previous transfer; its event ends ``tail_ns`` later.
    """
    event = events[index]
    if not _moves(event):
        return event.after
    before = index - 1
    while before >= 0 and not _moves(events[before]):
        before -= 1
    if before >= 0 and abs(event.start - (events[before].end - tail_ns)) < _SAME_NS:
        return before
    return event.after


def _report_ns(profile: Profile) -> float:
    """Return the time from the end of a transfer's event until waiting engines see it."""
    parameters = profile.parameters
    return parameters["dma.completion_ns"].value - parameters["dma.completion_packet_ns"].value


def _last(profile: Profile, core: int) -> int:
    """Return the event that determines the core's end; a transfer ends when it is reported."""
    columns = profile.arrays[core]
    if not len(columns.end):
        return -1
    queues = (lane for lane in profile.estimate.cores[core].queues if lane.startswith(QUEUE))
    ends = columns.end + np.where(columns.of_lanes(queues), _report_ns(profile), 0.0)
    return int(np.argmax(ends))
