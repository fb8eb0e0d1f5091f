"""What each engine waited for, and the critical path."""

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
    """What an engine did in the whole time of its core; the parts add up to it, nanoseconds.

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
    at = np.flatnonzero(is_engine & (start > until))
    start, until, previous = start[at], until[at], previous[at]
    waits, after, turns = columns.waits_for[at], columns.after[at], columns.turns
    is_same_turn = (previous < 0) | (turns[previous] == turns[at])
    # An event that follows another lane's is the first behind the edge of a loop, where all meet.
    follows = (waits >= 0) | (after < 0) | (columns.lane[after] == columns.lane[at])
    ready = np.minimum(np.maximum(columns.since[at], until), start)
    issue = np.where(is_same_turn & follows, ready - until, 0.0)
    rest = start - ready
    names = [DMA, *columns.lanes]
    is_dma = np.array([_is_dma(lane) for lane in columns.lanes], np.bool_)
    cause = columns.lane[waits]
    reasons = np.where(is_dma[cause], 0, cause + 1)
    waited = waits >= 0
    return Gaps(
        at, np.where(waited, rest, 0.0), reasons, np.where(waited, issue, issue + rest), names
    )


def _is_dma(lane: str) -> bool:
    return lane.startswith(QUEUE) or lane == DESCRIPTORS


def engine_splits(profile: Profile, core: int, known: Gaps | None = None) -> list[EngineSplit]:
    """How each engine of a core of the profile spent the time until the core's last event.

    Args:
        profile: of the program.
        core: its number.
        known: the core's :func:`gaps_of`, if they are known.
    """
    found, columns = profile.estimate.cores[core], profile.arrays[core]
    gaps = gaps_of(profile, core) if known is None else known
    own = columns.self_ns * columns.turns
    is_issue = np.array([_only_issues(one) for one in columns.opcodes], np.bool_)[columns.opcode]
    lanes, turns = columns.lane[gaps.events], columns.turns[gaps.events]
    count = len(columns.lanes)
    busy = np.bincount(columns.lane[~is_issue], own[~is_issue], count)
    issue = np.bincount(
        np.concatenate([columns.lane[is_issue], lanes]),
        np.concatenate([own[is_issue], gaps.issue_ns * turns]),
        count,
    )
    waiting = _waiting(gaps, lanes, turns)
    splits: list[EngineSplit] = []
    for engine in found.engines:
        split = EngineSplit(engine)
        if engine in columns.lanes:
            lane = columns.lanes.index(engine)
            split = EngineSplit(
                engine, float(busy[lane]), float(issue[lane]), waiting.get(lane, {})
            )
        spent = split.busy_ns + split.issue_ns + sum(split.waiting_ns.values())
        split.idle_ns = max(0.0, found.total.value - spent)
        splits.append(split)
    return splits


def _only_issues(opcode: str) -> bool:
    return opcode in COPIES or opcode == "event_semaphore"


def _waiting(gaps: Gaps, lanes: Ints, turns: Floats) -> dict[int, dict[str, float]]:
    """Lane -> whose event it waited for -> how long; those that come first in front."""
    some = np.flatnonzero(gaps.waiting_ns)
    keys = lanes[some] * len(gaps.names) + gaps.reasons[some]
    keys, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    spent = np.bincount(groups, (gaps.waiting_ns * turns)[some], len(keys))
    found: dict[int, dict[str, float]] = {}
    for place in np.argsort(first).tolist():
        lane, reason = divmod(int(keys[place]), len(gaps.names))
        found.setdefault(lane, {})[gaps.names[reason]] = float(spent[place])
    return found


def wait_before(profile: Profile, core: int) -> dict[int, float]:
    """Event -> nanoseconds for which its engine stood still before it, for a semaphore."""
    gaps = gaps_of(profile, core)
    some = np.flatnonzero(gaps.waiting_ns)
    return dict(zip(gaps.events[some].tolist(), gaps.waiting_ns[some].tolist(), strict=True))


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


def critical_path(
    profile: Profile, core: int, known: dict[int, float] | None = None
) -> list[PathStep]:
    """What a core's time in the profile consists of, alike events folded, in order of the first.

    Args:
        profile: of the program.
        core: its number.
        known: the core's :func:`path_times`, if they are known.
    """
    events, sites = profile.estimate.cores[core].events, profile.site_of[core]
    times = path_times(profile, core) if known is None else known
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
    columns = profile.arrays[core]
    if not len(columns.end):
        return -1
    queues = (lane for lane in profile.estimate.cores[core].queues if lane.startswith(QUEUE))
    ends = columns.end + np.where(columns.of_lanes(queues), _report_ns(profile), 0.0)
    return int(np.argmax(ends))
