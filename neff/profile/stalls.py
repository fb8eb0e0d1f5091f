"""What each engine waited for, and the critical path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from neff.profile.table import Profile
from neff.timing import CoreTime, Event
from neff.timing.events import DESCRIPTORS, QUEUE
from neff.timing.transfers import COPIES

__all__ = [
    "EngineSplit",
    "PathStep",
    "critical_path",
    "engine_splits",
    "path_times",
    "slowest_core",
    "wait_before",
]

DMA = "DMA"

_SAME_NS = 0.5
"""Times that differ by less are the same but for rounding."""


@dataclass(slots=True)
class EngineSplit:
    """What an engine did in the whole time of its core; the parts add up to it, nanoseconds.

    Attributes:
        busy_ns: it computed.
        issue_ns: it issued transfers, executed instructions that only wait, or could not start
            the next instruction yet although nothing had to be waited for.
        waiting_ns: it stood still for a semaphore, by whose event set it: ``DMA`` or an engine.
        idle_ns: it had nothing to do: before the end of a loop's iteration, or of the program.
    """

    engine: str
    busy_ns: float = 0.0
    issue_ns: float = 0.0
    waiting_ns: dict[str, float] = field(default_factory=dict[str, float])
    idle_ns: float = 0.0


def engine_splits(profile: Profile, core: int) -> list[EngineSplit]:
    """How each engine of a core of the profile spent the time until the core's last event."""
    found = profile.estimate.cores[core]
    splits = {engine: EngineSplit(engine) for engine in found.engines}
    for event, own in zip(found.events, profile.self_ns[core], strict=True):
        split = splits.get(event.lane)
        if split is None:
            continue
        if event.opcode in COPIES or event.opcode == "event_semaphore":
            split.issue_ns += own * event.turns
        else:
            split.busy_ns += own * event.turns
    for gap in _gaps(found):
        split = splits[gap.lane]
        split.issue_ns += gap.issue_ns * gap.turns
        if gap.waiting_ns:
            waiting = split.waiting_ns
            waiting[gap.reason] = waiting.get(gap.reason, 0.0) + gap.waiting_ns * gap.turns
    for split in splits.values():
        known = split.busy_ns + split.issue_ns + sum(split.waiting_ns.values())
        split.idle_ns = max(0.0, found.total.value - known)
    return list(splits.values())


@dataclass(slots=True)
class _Gap:
    index: int
    lane: str
    turns: int
    reason: str
    waiting_ns: float
    issue_ns: float


def _gaps(core: CoreTime) -> Iterator[_Gap]:
    """The time between the events of each engine, before the later one."""
    last: dict[str, tuple[float, int]] = dict.fromkeys(core.engines, (0.0, 0))
    for index, (_, lane, _, start, end, _, _, _, _, turns, _, _) in enumerate(core.events):
        before = last.get(lane)
        if before is None:
            continue
        until, turns_before = before
        if start > until:
            is_same = turns_before == turns or not turns_before
            yield _gap(core.events, index, until, is_same_turn=is_same)
        last[lane] = (end if end > until else until), turns


def _gap(events: list[Event], index: int, until: float, *, is_same_turn: bool) -> _Gap:
    event = events[index]
    ready = min(max(event.since, until), event.start)
    rest = event.start - ready
    issue = ready - until if is_same_turn and _follows_its_lane(events, event) else 0.0
    if event.waits_for < 0:
        return _Gap(index, event.lane, event.turns, "", 0.0, issue + rest)
    reason = _cause(events[event.waits_for].lane)
    return _Gap(index, event.lane, event.turns, reason, rest, issue)


def _follows_its_lane(events: list[Event], event: Event) -> bool:
    """False for the first event behind the edge of a loop, where all engines meet."""
    before = event.after
    return event.waits_for >= 0 or before < 0 or events[before].lane == event.lane


def _cause(lane: str) -> str:
    return DMA if lane.startswith(QUEUE) or lane == DESCRIPTORS else lane


def wait_before(profile: Profile, core: int) -> dict[int, float]:
    """Event -> nanoseconds for which its engine stood still before it, for a semaphore."""
    gaps = _gaps(profile.estimate.cores[core])
    return {gap.index: gap.waiting_ns for gap in gaps if gap.waiting_ns}


@dataclass(frozen=True, slots=True)
class PathStep:
    """Part of the critical path: events of one site on one lane.

    Attributes:
        lane, opcode: of the events.
        site: number of their site.
        count: how many lie on the path, all turns.
        path_ns: from their starts to the starts of what came next on the path.
    """

    lane: str
    opcode: str
    site: int
    count: int
    path_ns: float


def critical_path(profile: Profile, core: int) -> list[PathStep]:
    """What a core's time in the profile consists of, alike events folded, in order of the first."""
    events, sites = profile.estimate.cores[core].events, profile.site_of[core]
    times = path_times(profile, core)
    found: dict[tuple[str, str, int], tuple[int, float]] = {}
    for index in sorted(times, key=lambda one: events[one].start):
        event = events[index]
        key = event.lane, event.opcode, sites[index]
        count, spent = found.get(key, (0, 0.0))
        found[key] = count + event.turns, spent + times[index]
    return [PathStep(*key, count, spent) for key, (count, spent) in found.items()]


def slowest_core(profile: Profile) -> int:
    """The core whose end is the program's; -1 when there is none."""
    totals = [core.total.value for core in profile.estimate.cores]
    return max(range(len(totals)), key=totals.__getitem__, default=-1)


def path_times(profile: Profile, core: int) -> dict[int, float]:
    """Event of the critical path -> nanoseconds of it, all turns.

    From the core's last event back through what let each one start. Only the slowest core's
    events are critical; another core's path is that of its own end.
    """
    found = profile.estimate.cores[core]
    events, until = found.events, found.total.value
    parameters, report = profile.parameters, _report_ns(profile)
    turn_ns = parameters["control.loop_ns"].value
    tail_ns = parameters["dma.stagger_ns"].value + parameters["dma.packet_overlap_ns"].value
    index, later = _last(profile, core), -1
    times: dict[int, float] = {}
    while index >= 0:
        event = events[index]
        if _is_issue(event) and later >= 0 and _moves(events[later]):
            # From the issue's end on it is the transfer that the path waits for.
            times[later] += max(0.0, until - event.end) * events[later].turns
            until = min(until, event.end)
        # Between one iteration and what follows are the other iterations, which `turns` counts.
        is_edge = event.turns > 1 and (later < 0 or event.turns != events[later].turns)
        if is_edge:
            until = min(until, event.end + report * _moves(event) + turn_ns)
        spent = max(0.0, until - event.start)
        times[index] = times.get(index, 0.0) + spent * event.turns
        until, later = min(until, event.start), index
        index = _let_start(events, index, tail_ns)
    return times


def _moves(event: Event) -> bool:
    return event.lane.startswith(QUEUE)


def _is_issue(event: Event) -> bool:
    return event.opcode in COPIES and not _moves(event)


def _queues(profile: Profile, core: int) -> set[str]:
    return {lane for lane in profile.estimate.cores[core].queues if lane.startswith(QUEUE)}


def _let_start(events: list[Event], index: int, tail_ns: float) -> int:
    """The event that let another one start.

    The model names only a transfer's issue. If the transfer before it left the DMA engines at its
    start, it is that one; its event ends ``tail_ns`` later.
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
    """From the end of a transfer that its event shows until whoever waits may know."""
    parameters = profile.parameters
    return parameters["dma.completion_ns"].value - parameters["dma.completion_packet_ns"].value


def _last(profile: Profile, core: int) -> int:
    """The event that the core's end comes from; a transfer is done when it is reported."""
    events = profile.estimate.cores[core].events
    report, queues = _report_ns(profile), _queues(profile, core)
    ends = [event.end + report if event.lane in queues else event.end for event in events]
    return max(range(len(ends)), key=ends.__getitem__, default=-1)
