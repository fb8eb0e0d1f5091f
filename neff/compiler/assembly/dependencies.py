"""Which earlier instructions an instruction must come after.

One tracker holds, for every run of bytes of every memory space, who wrote it last and who read
it since. Runs split where accesses begin and end, so the work for an access is that of the runs
it touches and not of the program's length.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from neff.compiler.assembly.regions import Region

__all__ = ["Tracker"]


@dataclass(slots=True)
class _Record:
    """One past access of a run of bytes, by an instruction of a lane."""

    index: int
    lane: int
    written: bool
    region: Region


@dataclass(slots=True)
class _Runs:
    """The runs of one space: run ``i`` is ``[starts[i], starts[i + 1])``."""

    starts: list[int] = field(default_factory=lambda: [0])
    records: list[list[_Record]] = field(default_factory=lambda: [[]])

    def split(self, at: int) -> int:
        """Index of the run that starts at byte ``at``; one is cut when none does."""
        position = bisect_right(self.starts, at) - 1
        if self.starts[position] == at:
            return position
        self.starts.insert(position + 1, at)
        self.records.insert(position + 1, list(self.records[position]))
        return position + 1


class Tracker:
    """Finds the dependencies of instructions that are shown to it in program order."""

    def __init__(self) -> None:
        self._spaces: dict[str, _Runs] = {}

    def visit(self, index: int, lane: int, accesses: list[tuple[str, Region, bool]]) -> set[int]:
        """Note the accesses of instruction ``index``.

        Args:
            index: its place in program order, greater than all before.
            lane: instructions of one lane finish in their order.
            accesses: (space, region, written).

        Returns:
            Earlier instructions that it must come after: those that wrote what it reads, and
            those that read or wrote what it writes. One that is implied by others of them may
            be left out.
        """
        found: set[int] = set()
        for space, region, written in accesses:
            runs = self._spaces.get(space)
            if runs is None:
                runs = self._spaces[space] = _Runs()
            _touch(runs, _Record(index, lane, written, region), found)
        found.discard(index)
        return found


def _touch(runs: _Runs, record: _Record, found: set[int]) -> None:
    region, written = record.region, record.written
    low, high = region.low, region.high
    if region.pitch:  # whole rows: blocks of columns would cut them into as many runs
        low, high = low - region.left, -(-high // region.pitch) * region.pitch
    begin, end = runs.split(low), runs.split(high)
    alone = True
    for position in range(begin, end):
        kept: list[_Record] = []
        for past in runs.records[position]:
            if past.region.apart(region):
                kept.append(past)
                continue
            if written or past.written:
                found.add(past.index)
            if not _replaces(record, past):
                kept.append(past)
        alone = alone and not kept
        kept.append(record)
        runs.records[position] = kept
    if alone and end - begin > 1:
        del runs.starts[begin + 1 : end]
        del runs.records[begin + 1 : end]


def _replaces(record: _Record, past: _Record) -> bool:
    """True when whoever must come after ``past`` in this run comes after ``record`` anyway.

    A write comes after everything that it covers. A read stands for an earlier read of its own
    lane, because a lane finishes in order.
    """
    if not record.written and (past.written or past.lane != record.lane):
        return False
    region, before = record.region, past.region
    if before.first < region.first or region.last < before.last:
        return False
    if not region.pitch:
        return True
    return (
        region.pitch == before.pitch and region.left <= before.left and before.right <= region.right
    )
