"""What a simulation makes: one flat table of events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["DESCRIPTORS", "QUEUE", "Event", "busy_ns", "occupied_ns"]

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


def busy_ns(events: Iterable[Event]) -> dict[str, float]:
    """Sum of the durations on each lane, all turns; what a profile shows as active."""
    found: dict[str, float] = {}
    for event in events:
        spent = (event.end - event.start) * event.turns
        found[event.lane] = found.get(event.lane, 0.0) + spent
    return found


def occupied_ns(events: Iterable[Event]) -> dict[str, float]:
    """Time in which something happened on each lane; what overlaps counts once."""
    found: dict[str, float] = {}
    last: dict[str, float] = {}
    for event in sorted(events, key=lambda one: one.start):
        begin = max(event.start, last.get(event.lane, 0.0))
        if event.end > begin:
            found[event.lane] = found.get(event.lane, 0.0) + (event.end - begin) * event.turns
            last[event.lane] = event.end
    return found
