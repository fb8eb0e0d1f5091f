"""The compiler's decisions and their reasons, with the cost of each unit by the timing model."""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from hlo_tools.kernel_calls import Replacement
from neff.compiler.record import Record, Stored, UnitRecord
from neff.profile.stalls import path_times, slowest_core
from neff.profile.table import Profile, profile_of
from neff.program import Program
from neff.timing import Estimate, Trips

__all__ = ["Explanation", "Told", "UnitCost", "explained"]

_DMA = "DMA"
_MAX_TABLE_ROWS = 12
"""The text shows this many lines of each table; the document has all."""

Table = tuple[tuple[str, ...], list[tuple[object, ...]]]
"""Names of the columns, and rows."""


@dataclass(slots=True)
class UnitCost:
    """A unit, and its cost by the timing model.

    Attributes:
        unit: the compiler's record of it.
        path_ns: of the slowest core's critical path; the sum over all units is the program's time.
        busy_ns: by engine, and ``DMA`` for its queues: for how long its events alone keep them.
        nbytes: of its transfers.
    """

    unit: UnitRecord
    path_ns: float
    busy_ns: dict[str, float]
    nbytes: int

    @property
    def bound(self) -> str:
        """The engine that it keeps busy the longest; "" when it does nothing."""
        return max(self.busy_ns, key=lambda name: self.busy_ns[name], default="")

    @property
    def what(self) -> str:
        """Its opcodes, those that come often with their number."""
        counted = Counter(member.opcode for member in self.unit.members)
        return ", ".join(
            f"{count} {name}" if count > 1 else name for name, count in counted.items()
        )

    @property
    def instructions(self) -> list[str]:
        """Names of the HLO instructions, each once."""
        return list(dict.fromkeys(member.name for member in self.unit.members if member.name))

    @property
    def places(self) -> list[str]:
        """Lines of the user's program, each once; without line numbers, the framework's names."""
        positions = (
            member.place for member in self.unit.members if member.place not in ("", member.name)
        )
        return list(dict.fromkeys(positions))

    @property
    def title(self) -> str:
        """Its calls and their kernels, such as ``k3 fusion_of_5``."""
        labels = self.unit.labels
        if not labels:
            return "-"
        calls = labels[0] if len(labels) == 1 else f"{labels[0]}..{labels[-1]}"
        return f"{calls} {'+'.join(self.unit.kernels)}"


@dataclass(frozen=True, slots=True)
class Told:
    """An explanation as plain values, which cross processes.

    Attributes:
        headline: one line.
        short, full: titled tables, of what costs most and of everything.
        document: everything.
    """

    headline: str
    short: list[tuple[str, Table]]
    full: list[tuple[str, Table]]
    document: dict[str, object]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The decisions of a compilation.

    Attributes:
        name: of the program.
        estimate: of its time.
        units: those that cost most first.
        record: of the compiler's decisions.
        other_ns: time on the critical path outside of all units: the first issue, function tables.
    """

    name: str
    estimate: Estimate
    units: list[UnitCost]
    record: Record
    other_ns: float

    def to_json(self) -> dict[str, Any]:
        """Everything, as a document; times in nanoseconds."""
        return {
            "program": self.name,
            "target": self.estimate.target,
            "optlevel": self.record.level,
            "total_ns": round(self.estimate.total.value, 1),
            "other_ns": round(self.other_ns, 1),
            "units": [_unit(record) for record in self.units],
            "rewrites": [asdict(record) for record in self.record.rewrites],
            "registered_kernels": [_replacement(record) for record in self.record.replaced],
            "searched": [
                {"choice": name, "total_ns": round(total, 1)}
                for name, total in self.record.searched
            ],
        }

    def told(self) -> Told:
        """It as plain values."""
        return Told(self.headline(), self.tables(), self.tables(sys.maxsize), self.to_json())

    def headline(self) -> str:
        """One line."""
        instructions = {name for unit in self.units for name in unit.instructions}
        return (
            f"{len(instructions)} HLO instructions in {len(self.units)} units at optlevel "
            f"{self.record.level}: {self.estimate}"
        )

    def tables(self, max_rows: int = _MAX_TABLE_ROWS) -> list[tuple[str, Table]]:
        """Return titled tables of at most ``max_rows`` rows; a last row sums up the others."""
        titled_tables = [
            ("units", self._units(max_rows)),
            ("registered kernels in place of operations", self._replaced(max_rows)),
            ("rewrites", self._rewrites(max_rows)),
            ("values that go to HBM between units", self._stored(max_rows)),
            ("programs that were compared", self._searched(max_rows)),
        ]
        return [(title, table) for title, table in titled_tables if table[1]]

    def _units(self, max_rows: int) -> Table:
        columns = ("us", "share", "bound by", "unit", "kind", "computes", "lines")
        total = self.estimate.total.value or 1.0
        rows = [
            (
                f"{unit.path_ns / 1e3:.1f}",
                f"{unit.path_ns / total:.0%}",
                unit.bound or "-",
                unit.title,
                unit.unit.kind,
                f"{unit.what} [{unit.unit.choice}]" if unit.unit.choice else unit.what,
                _abbreviated([os.path.basename(position) for position in unit.places]) or "-",
            )
            for unit in self.units[:max_rows]
        ]
        if omitted := self.units[max_rows:]:
            omitted_ns = sum(unit.path_ns for unit in omitted)
            omitted_cells = f"{len(omitted)} more", "-", "-", "-"
            rows.append(
                (f"{omitted_ns / 1e3:.1f}", f"{omitted_ns / total:.0%}", "-", *omitted_cells)
            )
        return columns, list(rows)

    def _replaced(self, max_rows: int) -> Table:
        columns = ("kernel", "call", "for", "instruction", "line", "difference")
        rows = [
            (replacement.kernel, replacement.call, replacement.opcode, replacement.name, os.path.basename(replacement.place) or "-",
             "-" if replacement.checked is None else f"{replacement.checked:.1e}")
            for replacement in self.record.replaced
        ]  # fmt: skip
        return columns, list(rows[:max_rows])

    def _rewrites(self, max_rows: int) -> Table:
        names_by_rule: dict[str, list[str]] = {}
        for rewrite in self.record.rewrites:
            names_by_rule.setdefault(rewrite.rule, []).append(rewrite.name)
        idioms = Counter(name for unit in self.units for name in unit.unit.idioms)
        rows = [(len(names), rule, _abbreviated(names)) for rule, names in names_by_rule.items()]
        rows += [(count, name, "units") for name, count in sorted(idioms.items())]
        return ("times", "rule", "at"), list(rows[: 2 * max_rows])

    def _stored(self, max_rows: int) -> Table:
        stored = [value for unit in self.units for value in unit.unit.stored]
        inner = [value for value in stored if not _is_result(value)]
        inner.sort(key=lambda value: -value.nbytes)
        rows = [(f"{value.nbytes:,}", value.name, value.why) for value in inner[:max_rows]]
        if omitted := inner[max_rows:]:
            rows.append(
                (f"{sum(value.nbytes for value in omitted):,}", f"{len(omitted)} more", "-")
            )
        return ("bytes", "value", "why"), list(rows)

    def _searched(self, max_rows: int) -> Table:
        rows = [(f"{total / 1e3:.1f}", name) for name, total in self.record.searched]
        return ("us", "choice"), list(rows[:max_rows])


def _is_result(value: Stored) -> bool:
    return value.why.startswith("it is a result")


def _abbreviated(names: list[str], max_names: int = 3) -> str:
    names = list(dict.fromkeys(names))
    suffix = f", {len(names) - max_names} more" if len(names) > max_names else ""
    return ", ".join(names[:max_names]) + suffix


def _replacement(replacement: Replacement) -> dict[str, object]:
    fields = ("kernel", "call", "opcode", "name", "place", "checked")
    return {name: getattr(replacement, name) for name in fields}


def _unit(cost: UnitCost) -> dict[str, Any]:
    return {
        "kind": cost.unit.kind,
        "calls": cost.unit.labels,
        "kernels": cost.unit.kernels,
        "path_ns": round(cost.path_ns, 1),
        "busy_ns": {name: round(busy_ns, 1) for name, busy_ns in sorted(cost.busy_ns.items())},
        "bound": cost.bound,
        "bytes": cost.nbytes,
        "members": [asdict(member) for member in cost.unit.members],
        "idioms": sorted(cost.unit.idioms),
        "stored": [asdict(value) for value in cost.unit.stored],
        "choice": cost.unit.choice,
    }


def explained(program: Program, record: Record, *, trips: Trips = None) -> Explanation:
    """Return the costs of the decisions that were recorded when a program was compiled.

    Args:
        program: the compiled object, not one that was read from a file.
        record: of its compilation.
        trips: see :func:`neff.timing.estimate`.
    """
    profile = profile_of(program, trips=trips)
    costs = [UnitCost(unit, 0.0, {}, 0) for unit in record.units]
    by_label = {label: cost for cost in costs for label in cost.unit.labels}
    _charge(profile, record.owners, by_label)
    other_ns = profile.estimate.total.value - sum(cost.path_ns for cost in costs)
    costs_with_work = [cost for cost in costs if cost.unit.labels or cost.unit.stored]
    costs_with_work.sort(key=lambda cost: -cost.path_ns)
    return Explanation(program.name, profile.estimate, costs_with_work, record, other_ns)


def _charge(profile: Profile, owners: dict[int, str], by_label: dict[str, UnitCost]) -> None:
    """Add each event to its unit."""
    slowest = slowest_core(profile)
    for number, core in enumerate(profile.estimate.cores):
        on_path = path_times(profile, number) if number == slowest else {}
        for index, event in enumerate(core.events):
            cost = by_label.get(owners.get(id(event.source), ""))
            if cost is None:
                continue
            lane = event.lane if event.lane in core.engines else _DMA
            self_ns = profile.self_ns[number][index] * event.turns
            cost.busy_ns[lane] = cost.busy_ns.get(lane, 0.0) + self_ns
            cost.nbytes += event.nbytes * event.turns
            cost.path_ns += on_path.get(index, 0.0)
