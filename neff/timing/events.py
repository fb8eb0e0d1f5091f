"""What a simulation makes: one flat table of events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["DESCRIPTORS", "QUEUE", "Event", "LaneTime", "lane_times"]

QUEUE = "dma"
"""Lane of the transfers themselves; their queues are ``dma.<engine>.<in|out>``."""

DESCRIPTORS = "descriptors"
"""Lane of the descriptors that GpSimd makes."""


class Event(NamedTuple):
    """Something that took time on a lane.

    Attributes:
        core: physical core.
        lane: an engine's name, ``descriptors``, or a queue ``dma.<engine>.<in|out>``.
        opcode: as in the program or the stream.
        start, end: nanoseconds from the beginning of the body.
        after: index of the event whose end let this one start, -1 for none.
        waits_for: the same when a semaphore was waited for, else -1.
        since: when its lane was ready for it; it waited from then to ``start``.
        nbytes: of a transfer.
        turns: how often it happens; more than 1 for the turns of a loop that are alike.
        known: share of its time that comes from measured parameters.
        source: the instruction, or its index in a stream.
    """

    core: int
    lane: str
    opcode: str
    start: float
    end: float
    after: int
    waits_for: int
    since: float
    nbytes: int
    turns: int
    known: float
    source: Any


@dataclass(slots=True)
class LaneTime:
    """What happened on one lane, all turns of loops.

    Attributes:
        events: how many.
        busy_ns: sum of their durations; what a profile shows as active.
        occupied_ns: time in which something happened; what overlaps counts once.
        nbytes: bytes of transfers.
        opcodes_ns: sum of durations by opcode.
        last: end of the last event so far, in nanoseconds.
    """

    events: int = 0
    busy_ns: float = 0.0
    occupied_ns: float = 0.0
    nbytes: int = 0
    opcodes_ns: dict[str, float] = field(default_factory=dict[str, float])
    last: float = 0.0


def lane_times(events: Iterable[Event]) -> dict[str, LaneTime]:
    """What happened on each lane; the events of a lane are in order of their start."""
    found: dict[str, LaneTime] = {}
    for _, lane, opcode, start, end, _, _, _, nbytes, turns, _, _ in events:
        time = found.get(lane)
        if time is None:
            time = found[lane] = LaneTime()
        spent = (end - start) * turns
        time.events += turns
        time.busy_ns += spent
        time.nbytes += nbytes * turns
        time.opcodes_ns[opcode] = time.opcodes_ns.get(opcode, 0.0) + spent
        if end > time.last:
            time.occupied_ns += (end - max(start, time.last)) * turns
            time.last = end
    return found
