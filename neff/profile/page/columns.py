"""The events of a profile as columns that a page's program reads without parsing."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neff.profile.lanes import lanes_of
from neff.profile.stalls import path_times
from neff.profile.table import Profile

__all__ = ["Columns", "columns_of"]

_INT = np.dtype("<i4")

NAMES = ("start", "length", "site", "opcode", "bytes", "turns", "waits", "after", "since", "path")
"""Columns, each of 32-bit numbers; times are whole nanoseconds, ``start`` and both kinds of event
numbers are differences, numbers of events count in the order of the tracks."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Tracks, opcodes and the packed columns.

    Attributes:
        tracks: core, lane, number within the lane, and how many events, in order.
        opcodes: names by number.
        packed: the columns, one behind the other, deflated, in base64.
        count: of events.
        unit_ns: nanoseconds of one unit of time; more than 1 for programs of seconds.
    """

    tracks: list[tuple[int, str, int, int]]
    opcodes: list[str]
    packed: str
    count: int
    unit_ns: float


def columns_of(profile: Profile) -> Columns:
    """All events of all cores."""
    numbers: dict[str, int] = {}
    tracks: list[tuple[int, str, int, int]] = []
    parts: list[list[NDArray[np.int64]]] = []
    unit = max(1.0, profile.estimate.total.value / 2**30)
    begin = 0
    for core in range(len(profile.estimate.cores)):
        order: list[int] = []
        heads: list[int] = []
        for lane, rows in lanes_of(profile.estimate.cores[core].events):
            for place, indices in enumerate(rows):
                tracks.append((core, lane, place, len(indices)))
                heads.append(len(order))
                order += indices
        parts.append(_core(profile, core, np.asarray(order, np.int64), heads, numbers, unit, begin))
        begin += len(order)
    columns = [np.concatenate([part[place] for part in parts]) for place in range(len(NAMES))]
    raw = b"".join(_as_bytes(column) for column in columns)
    packed = zlib.compress(raw, 6, -15)
    return Columns(tracks, list(numbers), base64.b64encode(packed).decode(), begin, unit)


def _as_bytes(column: NDArray[np.int64]) -> bytes:
    """Numbers as their four bytes, all first bytes first: that deflates twice as well."""
    return column.astype(_INT).view(np.uint8).reshape(-1, 4).T.tobytes()


def _core(
    profile: Profile, core: int, order: NDArray[np.int64], heads: list[int],
    numbers: dict[str, int], unit: float, begin: int,
) -> list[NDArray[np.int64]]:  # fmt: skip
    events = profile.estimate.cores[core].events
    count = len(events)
    start, end, since = (
        np.rint(np.fromiter((event[place] for event in events), float, count) / unit).astype(
            np.int64
        )
        for place in (3, 4, 7)
    )
    after, waits, nbytes, turns = (
        np.fromiter((event[place] for event in events), np.int64, count) for place in (5, 6, 8, 9)
    )
    opcode = np.fromiter(
        (numbers.setdefault(event[2], len(numbers)) for event in events), np.int64, count
    )
    path = np.zeros(count, np.int64)
    for index, spent in path_times(profile, core).items():
        path[index] = max(1, round(spent / unit))
    site = np.asarray(profile.site_of[core], np.int64)
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    beginnings = start[order]
    steps = np.diff(beginnings, prepend=0)
    steps[heads] = beginnings[heads]
    own = np.arange(count)
    return [
        steps,
        (end - start)[order],
        site[order],
        opcode[order],
        np.minimum(nbytes[order], 2**31 - 1),
        np.minimum(turns[order], 2**31 - 1),
        *(_backward(column[order], place, own) for column in (waits, after)),
        (start - since)[order],
        np.minimum(path[order], 2**31 - 1),
    ]


def _backward(
    others: NDArray[np.int64], place: NDArray[np.int64], own: NDArray[np.int64]
) -> NDArray[np.int64]:
    """How far an event's other one lies from it; 0 for none."""
    return np.where(others >= 0, own - place[others], 0)
