"""What the compiler did and why, with the cost of each unit by the timing model."""

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
_ROWS = 12
"""Lines of each table that the text shows."""

Table = tuple[tuple[str, ...], list[tuple[object, ...]]]
"""Names of the columns, and rows."""


@dataclass(slots=True)
class UnitCost:
    """A unit, and what it costs.

    Attributes:
        unit: what the compiler wrote down.
        path_ns: of the slowest core's critical path; the sum over all units is what the program
            takes.
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
        return list(dict.fromkeys(one.name for one in self.unit.members if one.name))

    @property
    def places(self) -> list[str]:
        """Lines of the user's program, each once; without line numbers, the framework's names."""
        known = (one.place for one in self.unit.members if one.place not in ("", one.name))
        return list(dict.fromkeys(known))

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
    """What a compilation did.

    Attributes:
        name: of the program.
        estimate: of its time.
        units: those that cost most first.
        record: what the compiler wrote down.
        other_ns: of the critical path that belongs to no unit: the first issue, tables of functions.
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
            "units": [_unit(one) for one in self.units],
            "rewrites": [asdict(one) for one in self.record.rewrites],
            "registered_kernels": [_replacement(one) for one in self.record.replaced],
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

    def tables(self, most: int = _ROWS) -> list[tuple[str, Table]]:
        """Titled tables, each of so many rows at most; what follows is summed up in the title."""
        made = [
            ("units", self._units(most)),
            ("registered kernels in place of operations", self._replaced(most)),
            ("rewrites", self._rewrites(most)),
            ("values that go to HBM between units", self._stored(most)),
            ("programs that were compared", self._searched(most)),
        ]
        return [(title, table) for title, table in made if table[1]]

    def _units(self, most: int) -> Table:
        columns = ("us", "share", "bound by", "unit", "kind", "computes", "lines")
        total = self.estimate.total.value or 1.0
        rows = [
            (
                f"{one.path_ns / 1e3:.1f}",
                f"{one.path_ns / total:.0%}",
                one.bound or "-",
                one.title,
                one.unit.kind,
                f"{one.what} [{one.unit.choice}]" if one.unit.choice else one.what,
                _few([os.path.basename(place) for place in one.places]) or "-",
            )
            for one in self.units[:most]
        ]
        if rest := self.units[most:]:
            spent = sum(one.path_ns for one in rest)
            more = f"{len(rest)} more", "-", "-", "-"
            rows.append((f"{spent / 1e3:.1f}", f"{spent / total:.0%}", "-", *more))
        return columns, list(rows)

    def _replaced(self, most: int) -> Table:
        columns = ("kernel", "call", "for", "instruction", "line", "difference")
        rows = [
            (one.kernel, one.call, one.opcode, one.name, os.path.basename(one.place) or "-",
             "-" if one.checked is None else f"{one.checked:.1e}")
            for one in self.record.replaced
        ]  # fmt: skip
        return columns, list(rows[:most])

    def _rewrites(self, most: int) -> Table:
        found: dict[str, list[str]] = {}
        for one in self.record.rewrites:
            found.setdefault(one.rule, []).append(one.name)
        idioms = Counter(name for one in self.units for name in one.unit.idioms)
        rows = [(len(names), rule, _few(names)) for rule, names in found.items()]
        rows += [(count, name, "units") for name, count in sorted(idioms.items())]
        return ("times", "rule", "at"), list(rows[: 2 * most])

    def _stored(self, most: int) -> Table:
        kept = [one for unit in self.units for one in unit.unit.stored]
        inner = [one for one in kept if not _is_result(one)]
        inner.sort(key=lambda one: -one.nbytes)
        rows = [(f"{one.nbytes:,}", one.name, one.why) for one in inner[:most]]
        if rest := inner[most:]:
            rows.append((f"{sum(one.nbytes for one in rest):,}", f"{len(rest)} more", "-"))
        return ("bytes", "value", "why"), list(rows)

    def _searched(self, most: int) -> Table:
        rows = [(f"{total / 1e3:.1f}", name) for name, total in self.record.searched]
        return ("us", "choice"), list(rows[:most])


def _is_result(one: Stored) -> bool:
    return one.why.startswith("it is a result")


def _few(names: list[str], most: int = 3) -> str:
    names = list(dict.fromkeys(names))
    more = f", {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _replacement(one: Replacement) -> dict[str, object]:
    fields = ("kernel", "call", "opcode", "name", "place", "checked")
    return {name: getattr(one, name) for name in fields}


def _unit(one: UnitCost) -> dict[str, Any]:
    return {
        "kind": one.unit.kind,
        "calls": one.unit.labels,
        "kernels": one.unit.kernels,
        "path_ns": round(one.path_ns, 1),
        "busy_ns": {name: round(spent, 1) for name, spent in sorted(one.busy_ns.items())},
        "bound": one.bound,
        "bytes": one.nbytes,
        "members": [asdict(member) for member in one.unit.members],
        "idioms": sorted(one.unit.idioms),
        "stored": [asdict(value) for value in one.unit.stored],
        "choice": one.unit.choice,
    }


def explained(program: Program, record: Record, *, trips: Trips = None) -> Explanation:
    """The costs of what was written down when a program was compiled.

    Args:
        program: that very program, not one that was read from a file.
        record: of its compilation.
        trips: see :func:`neff.timing.estimate`.
    """
    profile = profile_of(program, trips=trips)
    costs = [UnitCost(unit, 0.0, {}, 0) for unit in record.units]
    by_label = {label: cost for cost in costs for label in cost.unit.labels}
    _charge(profile, record.owners, by_label)
    other = profile.estimate.total.value - sum(cost.path_ns for cost in costs)
    known = [cost for cost in costs if cost.unit.labels or cost.unit.stored]
    known.sort(key=lambda cost: -cost.path_ns)
    return Explanation(program.name, profile.estimate, known, record, other)


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
            own = profile.self_ns[number][index] * event.turns
            cost.busy_ns[lane] = cost.busy_ns.get(lane, 0.0) + own
            cost.nbytes += event.nbytes * event.turns
            cost.path_ns += on_path.get(index, 0.0)
