"""The events of a profile as columns that a page's program reads without parsing."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass

import numpy as np

from neff.profile.analysis import Analysis, analysis_of
from neff.profile.arrays import Ints
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


def columns_of(source: Profile | Analysis) -> Columns:
    """All events of all cores."""
    analysis = analysis_of(source)
    profile = analysis.profile
    numbers: dict[str, int] = {}
    tracks: list[tuple[int, str, int, int]] = []
    core_columns: list[list[Ints]] = []
    unit = max(1.0, profile.estimate.total.value / 2**30)
    begin = 0
    for core in range(len(profile.estimate.cores)):
        order: list[int] = []
        heads: list[int] = []
        for lane, rows in analysis.lanes[core]:
            for position, indices in enumerate(rows):
                tracks.append((core, lane, position, len(indices)))
                heads.append(len(order))
                order += indices
        core_columns.append(
            _core(analysis, core, np.asarray(order, np.int64), heads, numbers, unit)
        )
        begin += len(order)
    columns = [
        np.concatenate([columns[position] for columns in core_columns])
        for position in range(len(NAMES))
    ]
    raw = b"".join(_as_bytes(column) for column in columns)
    packed = zlib.compress(raw, 6, -15)
    return Columns(tracks, list(numbers), base64.b64encode(packed).decode(), begin, unit)


def _as_bytes(column: Ints) -> bytes:
    """Numbers as their four bytes, all first bytes first: that deflates twice as well."""
    return column.astype(_INT).view(np.uint8).reshape(-1, 4).T.tobytes()


def _core(
    analysis: Analysis, core: int, order: Ints, heads: list[int], numbers: dict[str, int],
    unit: float,
) -> list[Ints]:  # fmt: skip
    profile, arrays = analysis.profile, analysis.profile.arrays[core]
    count = len(order)
    start, end, since = (
        np.rint(times / unit).astype(np.int64) for times in (arrays.start, arrays.end, arrays.since)
    )
    names = [numbers.setdefault(name, len(numbers)) for name in arrays.opcodes]
    opcode = np.array(names, np.int64)[arrays.opcode]
    path_ns = analysis.paths[core]
    path = np.zeros(count, np.int64)
    path_units = np.rint(np.fromiter(path_ns.values(), float, len(path_ns)) / unit).astype(np.int64)
    path[np.fromiter(path_ns, np.int64, len(path_ns))] = np.maximum(path_units, 1)
    site = np.asarray(profile.site_of[core], np.int64)
    position = np.empty(count, np.int64)
    position[order] = np.arange(count)
    beginnings = start[order]
    steps = np.diff(beginnings, prepend=0)
    steps[heads] = beginnings[heads]
    positions = np.arange(count)
    return [
        steps,
        (end - start)[order],
        site[order],
        opcode[order],
        np.minimum(arrays.nbytes[order], 2**31 - 1).astype(np.int64),
        np.minimum(arrays.turns[order], 2**31 - 1).astype(np.int64),
        *(
            _backward(column[order], position, positions)
            for column in (arrays.waits_for, arrays.after)
        ),
        (start - since)[order],
        np.minimum(path[order], 2**31 - 1),
    ]


def _backward(related: Ints, position_of: Ints, positions: Ints) -> Ints:
    """Return the distance from each event back to its related one; 0 for none."""
    return np.where(related >= 0, positions - position_of[related], 0)
