"""The result of a simulation: one flat table of events."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = ["DESCRIPTORS", "QUEUE", "Event", "LaneTime", "event_of", "lane_times"]

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
        waits_for: the same event when it waited for a semaphore, or for a port that it keeps,
            else -1.
        since: when its lane was ready for it; it waited from then to ``start``.
        nbytes: of a transfer.
        turns: how often it happens; more than 1 for equal iterations of a loop.
        measured_share: share of its time that comes from measured parameters.
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
    measured_share: float
    source: Any


event_of: Callable[[type[Event], tuple[Any, ...]], Event] = tuple.__new__  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
"""Half the time of ``Event(...)``, which is called a million times."""


@dataclass(slots=True)
class LaneTime:
    """Time and events of one lane, all iterations of loops.

    Attributes:
        events: how many.
        busy_ns: sum of their durations; what a profile shows as active.
        occupied_ns: time with at least one event; overlaps count once.
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
    """Return the time and events of each lane; the events of a lane are in order of their start."""
    lanes: dict[str, list[Event]] = {}
    for event in events:
        lane = lanes.get(event[1])
        if lane is None:
            lane = lanes[event[1]] = []
        lane.append(event)
    return {name: _lane_time(lane) for name, lane in lanes.items()}


def _lane_time(lane: list[Event]) -> LaneTime:
    """Return the sums of one lane; they are local variables, as a lane has millions of events."""
    busy = occupied = last = 0.0
    count = moved = 0
    opcodes: dict[str, float] = {}
    for _, _, opcode, start, end, _, _, _, nbytes, iterations, _, _ in lane:
        duration = (end - start) * iterations
        busy += duration
        count += iterations
        moved += nbytes * iterations
        opcodes[opcode] = opcodes.get(opcode, 0.0) + duration
        if end > last:
            occupied += (end - (start if start > last else last)) * iterations
            last = end
    return LaneTime(count, busy, occupied, moved, opcodes, last)
