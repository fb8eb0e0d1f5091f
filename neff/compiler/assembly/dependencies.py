"""Which earlier instructions an instruction must come after.

One tracker holds, for every run of bytes of every memory space, who wrote it last and who read
it since. Runs split where accesses begin and end, so the work for an access is that of the runs
it touches and not of the program's length. Accesses to some columns of rows are kept by column,
one layer for each row pitch, because a run of rows may have as many blocks of columns as the
program has instructions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from neff.compiler.assembly.regions import Region

__all__ = ["Tracker"]


@dataclass(frozen=True, slots=True)
class _Record:
    """One past access, by an instruction of a lane."""

    index: int
    lane: int
    written: bool
    region: Region


@dataclass(slots=True)
class _Cell:
    """The accesses to some bytes that later accesses may depend on; reads by lane."""

    writes: list[_Record] = field(default_factory=list[_Record])
    reads: dict[int, list[_Record]] = field(default_factory=dict[int, list[_Record]])

    def copy(self) -> _Cell:
        reads = {lane: list(records) for lane, records in self.reads.items()}
        return _Cell(list(self.writes), reads)

    def records(self) -> Iterator[_Record]:
        yield from self.writes
        for records in self.reads.values():
            yield from records

    def conflicts(self, record: _Record, conflicting: set[int]) -> None:
        """Collect what an access must come after."""
        region = record.region
        for past in self.records() if record.written else self.writes:
            if not past.region.apart(region):
                conflicting.add(past.index)

    def add(self, record: _Record) -> bool:
        """Note an access to all of the bytes.

        Whoever must come after a replaced record comes after the new one anyway: a write comes
        after everything that it covers, and a lane finishes its reads in order.

        Returns:
            True when the cell holds nothing else.
        """
        first, last = record.region.first, record.region.last
        if record.written:
            self.writes = [*_outside(self.writes, first, last), record]
            left = {lane: _outside(reads, first, last) for lane, reads in self.reads.items()}
            self.reads = {lane: reads for lane, reads in left.items() if reads}
            return len(self.writes) == 1 and not self.reads
        reads = [*_outside(self.reads.get(record.lane, []), first, last), record]
        self.reads[record.lane] = reads
        return not self.writes and len(self.reads) == len(reads) == 1


def _outside(records: list[_Record], first: int, last: int) -> list[_Record]:
    """The records that touch partitions outside of a range."""
    return [past for past in records if past.region.first < first or last < past.region.last]


@dataclass(slots=True)
class _Layer:
    """The accesses to columns of rows of one pitch.

    Attributes:
        cuts: cell ``i`` has the columns from byte ``cuts[i]`` to ``cuts[i + 1]``.
        cells: the accesses to these columns.
        low, high: bytes that every access reaches from and to, at least.
        writes, reads: the last ones of each lane, in any column.
        is_shared: two runs hold the layer, so it must not change.
    """

    cuts: list[int] = field(default_factory=lambda: [0])
    cells: list[_Cell] = field(default_factory=lambda: [_Cell()])
    low: int = -1
    high: int = 1 << 62
    writes: dict[int, int] = field(default_factory=dict[int, int])
    reads: dict[int, int] = field(default_factory=dict[int, int])
    is_shared: bool = False

    def copy(self) -> _Layer:
        return _Layer(
            list(self.cuts),
            [cell.copy() for cell in self.cells],
            self.low,
            self.high,
            dict(self.writes),
            dict(self.reads),
        )

    def conflicts(self, record: _Record, conflicting: set[int]) -> None:
        """Collect what an access of another pitch must come after: columns cannot tell."""
        region = record.region
        if region.low < self.high and self.low < region.high:  # it meets all accesses
            conflicting.update(self.writes.values())
            if record.written:
                conflicting.update(self.reads.values())
            return
        for cell in self.cells:
            cell.conflicts(record, conflicting)

    def conflicts_by_column(self, record: _Record, conflicting: set[int]) -> None:
        """Collect what an access of this pitch must come after."""
        begin = bisect_right(self.cuts, record.region.left) - 1
        end = bisect_left(self.cuts, record.region.right)
        for cell in self.cells[begin:end]:
            cell.conflicts(record, conflicting)

    def add(self, record: _Record) -> None:
        """Note an access of this pitch."""
        region = record.region
        begin, end = self._split(region.left), self._split(region.right)
        is_alone = True
        for cell in self.cells[begin:end]:
            is_alone = cell.add(record) and is_alone
        if is_alone:
            del self.cuts[begin + 1 : end]
            del self.cells[begin + 1 : end]
        self.low, self.high = max(self.low, region.low), min(self.high, region.high)
        (self.writes if record.written else self.reads)[record.lane] = record.index

    def _split(self, column: int) -> int:
        position = bisect_right(self.cuts, column) - 1
        if self.cuts[position] == column:
            return position
        self.cuts.insert(position + 1, column)
        self.cells.insert(position + 1, self.cells[position].copy())
        return position + 1


@dataclass(slots=True)
class _Run:
    """The accesses to a run of bytes: to all of it, and to columns by their pitch."""

    cell: _Cell = field(default_factory=_Cell)
    layers: dict[int, _Layer] = field(default_factory=dict[int, _Layer])

    def copy(self) -> _Run:
        for layer in self.layers.values():
            layer.is_shared = True
        return _Run(self.cell.copy(), dict(self.layers))

    def conflicts(self, record: _Record, conflicting: set[int]) -> None:
        """Collect what an access must come after."""
        self.cell.conflicts(record, conflicting)
        for pitch, layer in self.layers.items():
            if pitch == record.region.pitch:
                layer.conflicts_by_column(record, conflicting)
            else:
                layer.conflicts(record, conflicting)

    def add(self, record: _Record) -> bool:
        """Note an access; returns whether the run holds nothing else."""
        pitch = record.region.pitch
        if not pitch:
            if record.written:
                self.layers.clear()
            return self.cell.add(record) and not self.layers
        layer = self.layers.get(pitch)
        if layer is None or layer.is_shared:
            layer = self.layers[pitch] = _Layer() if layer is None else layer.copy()
        layer.add(record)
        return False


@dataclass(slots=True)
class _Space:
    """The runs of one space: run ``i`` is ``[starts[i], starts[i + 1])``."""

    starts: list[int] = field(default_factory=lambda: [0])
    runs: list[_Run] = field(default_factory=lambda: [_Run()])

    def split(self, byte: int) -> int:
        """Index of the run that starts at a byte; one is cut when none does."""
        position = bisect_right(self.starts, byte) - 1
        if self.starts[position] == byte:
            return position
        self.starts.insert(position + 1, byte)
        self.runs.insert(position + 1, self.runs[position].copy())
        return position + 1

    def conflicts(self, record: _Record, conflicting: set[int]) -> None:
        """Collect what an access must come after."""
        low, high = _rows(record.region)
        begin, end = bisect_right(self.starts, low) - 1, bisect_left(self.starts, high)
        for run in self.runs[begin:end]:
            run.conflicts(record, conflicting)

    def add(self, record: _Record) -> None:
        """Note an access."""
        low, high = _rows(record.region)
        begin, end = self.split(low), self.split(high)
        is_alone = True
        for run in self.runs[begin:end]:
            is_alone = run.add(record) and is_alone
        if is_alone:
            del self.starts[begin + 1 : end]
            del self.runs[begin + 1 : end]


def _rows(region: Region) -> tuple[int, int]:
    """The bytes of a region; all of its rows, or blocks of columns would cut as many runs."""
    if not region.pitch:
        return region.low, region.high
    return region.low - region.left, -(-region.high // region.pitch) * region.pitch


class Tracker:
    """Finds the dependencies of instructions that are shown to it in program order."""

    def __init__(self) -> None:
        self._spaces: dict[str, _Space] = {}

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
        conflicting: set[int] = set()
        records: list[tuple[_Space, _Record]] = []
        for name, region, written in accesses:
            space = self._spaces.get(name)
            if space is None:
                space = self._spaces[name] = _Space()
            records.append((space, _Record(index, lane, written, region)))
        for space, record in records:
            space.conflicts(record, conflicting)
        for space, record in records:  # last: it would hide earlier accesses of its lane
            space.add(record)
        return conflicting
