"""The events of a core as NumPy arrays, for analyses of all events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from neff.timing import Event

__all__ = ["EventArrays", "Floats", "Ints", "arrays_of", "as_numbers", "sums", "whole"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_Number = TypeVar("_Number", np.float64, np.int64)

_MAX_EXACT_FLOAT = 2.0**53
"""Whole numbers below it are exact as floats."""


@dataclass(frozen=True, slots=True)
class EventArrays:
    """One array a column of the events, and what came before each on its lane.

    Attributes:
        lanes, opcodes: names, in the order in which they first come.
        lane, opcode: their numbers.
        start, end, since: as in the events, nanoseconds.
        after, waits_for: as in the events.
        nbytes, turns: whole numbers, exact below 2**53.
        previous: the event before on the same lane, -1 for none.
        until: the latest end on the same lane so far, without this event's.
    """

    lanes: list[str]
    opcodes: list[str]
    lane: Ints
    opcode: Ints
    start: Floats
    end: Floats
    since: Floats
    after: Ints
    waits_for: Ints
    nbytes: Floats
    turns: Floats
    previous: Ints
    until: Floats

    @property
    def self_ns(self) -> Floats:
        """Return the addition of each event to its lane's busy time; overlaps count once."""
        unshared = self.end - np.maximum(self.start, self.until)
        return np.where(self.end > self.until, unshared, 0.0)

    def of_lanes(self, names: Iterable[str]) -> NDArray[np.bool_]:
        """Return for each event whether its lane is one of ``names``."""
        selected = set(names)
        return np.array([lane in selected for lane in self.lanes], np.bool_)[self.lane]


def arrays_of(events: list[Event]) -> EventArrays:
    """The columns of a core's events."""
    start, ends, since, nbytes, iterations = (
        _column(events, name, np.float64) for name in ("start", "end", "since", "nbytes", "turns")
    )
    lanes, lane_of = as_numbers([event[1] for event in events])
    opcodes, opcode_of = as_numbers([event[2] for event in events])
    previous, until = np.full(len(events), -1, np.int64), np.zeros(len(events))
    for number in range(len(lanes)):
        lane_events = np.flatnonzero(lane_of == number)
        previous[lane_events[1:]] = lane_events[:-1]
        until[lane_events[1:]] = np.maximum(np.maximum.accumulate(ends[lane_events[:-1]]), 0.0)
    return EventArrays(
        lanes, opcodes, lane_of, opcode_of, start, ends, since,
        _column(events, "after", np.int64), _column(events, "waits_for", np.int64),
        nbytes, iterations, previous, until,
    )  # fmt: skip


def _column(events: list[Event], name: str, kind: type[_Number]) -> NDArray[_Number]:
    values = map(itemgetter(Event._fields.index(name)), events)
    return np.fromiter(values, kind, len(events))


def as_numbers(names: list[str]) -> tuple[list[str], Ints]:
    """Different names in the order in which they first come, and the number of each one given."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return list(numbers), np.fromiter(map(numbers.__getitem__, names), np.int64, len(names))


def whole(numbers: Floats | Ints) -> list[int]:
    """The same as Python's integers."""
    return numbers.astype(np.int64).tolist()


def sums(groups: Ints, values: Floats, count: int, exact: Iterable[int]) -> list[int]:
    """The sum of whole numbers by group.

    Args:
        groups: of each value.
        values: as floats.
        count: of groups.
        exact: the same values, which are only looked at when floats cannot hold the sums.
    """
    totals = np.bincount(groups, values, count)
    if not totals.size or totals.max() < _MAX_EXACT_FLOAT:
        return whole(totals.astype(np.float64))
    exact_sums = [0] * count
    for group, value in zip(groups.tolist(), exact, strict=True):
        exact_sums[group] += value
    return exact_sums
