"""Cores that touch the same shared memory with nothing that orders them.

Inside one core the compiler keeps the order of the program between instructions that touch the
same bytes, so only shared HBM between cores can race. Each core has a vector clock that
``core_barrier`` and ``sendrecv`` join; two accesses race when they overlap, one writes, and
neither core had heard of the other's access.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nki_lang.execute.checks.base import Check, reads_of, writes_of
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.regions import may_overlap
from nki_lang.ir.types import Access, Instruction
from nki_lang.memory import MemoryRegion

__all__ = ["RaceCheck"]


@dataclass(frozen=True, slots=True)
class _Touch:
    """One access of one core at one time of its own clock."""

    core: int
    time: int
    writes: bool
    access: Access
    instruction: Instruction


class _Book:
    """What all cores share: their clocks and their accesses."""

    def __init__(self) -> None:
        self.clocks: dict[int, dict[int, int]] = {}
        self.touches: dict[str, dict[int, list[_Touch]]] = {}
        self.findings: dict[Any, Finding] = {}
        self.meetings: dict[Any, list[dict[int, int]]] = {}
        self.visits: dict[Any, int] = {}


class RaceCheck(Check):
    """Finds unordered accesses of two cores to the same bytes of shared HBM."""

    name = "races"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        first = next((other for other in self.others if isinstance(other, RaceCheck)), None)
        self.book: _Book = first.book if first else _Book()
        self.core = self.memory.state.core
        self.book.clocks[self.core] = {self.core: 1}

    def concerns(self, instruction: Instruction) -> bool:
        """There is another core to race with."""
        return self.memory.state.exchange is not None

    def before(self, instruction: Instruction) -> None:
        """At a meeting, leave this core's clock for the others."""
        key = self._meeting(instruction)
        if key is not None:
            self.book.meetings.setdefault(key, []).append(dict(self.book.clocks[self.core]))

    def after(self, instruction: Instruction) -> None:
        """After a meeting, take the others' clocks; else look at what was touched."""
        key = self._meeting(instruction)
        if key is not None:
            self._join(instruction, key)
            return
        for _, access in reads_of(instruction):
            self._touch(instruction, access, writes=False)
        for _, access in writes_of(instruction):
            self._touch(instruction, access, writes=True)

    def _meeting(self, instruction: Instruction) -> Any:
        if instruction.op == "core_barrier":
            what: tuple[Any, ...] = ("barrier", tuple(sorted(instruction.operands["cores"])))
        elif instruction.op == "sendrecv":
            what = ("sendrecv", instruction.operands["pipe_id"])
        else:
            return None
        return (*what, self.book.visits.get((self.core, what), 0))

    def _join(self, instruction: Instruction, key: Any) -> None:
        what = key[:-1]
        self.book.visits[self.core, what] = key[-1] + 1
        clock = self.book.clocks[self.core]
        for other in self.book.meetings.get(key, ()):
            for core, time in other.items():
                clock[core] = max(clock.get(core, 0), time)
        clock[self.core] += 1

    def _touch(self, instruction: Instruction, access: Access, *, writes: bool) -> None:
        if access.tensor.buffer is not MemoryRegion.shared_hbm:
            return
        clock = self.book.clocks[self.core]
        by_core = self.book.touches.setdefault(access.tensor.name, {})
        for core, touches in by_core.items():
            if core == self.core:
                continue
            heard = clock.get(core, 0)
            for touch in reversed(touches):
                if touch.time <= heard:
                    break
                if (writes or touch.writes) and may_overlap(touch.access, access):
                    self._add(instruction, access, touch, writes=writes)
        mark = _Touch(self.core, clock[self.core], writes, access, instruction)
        by_core.setdefault(self.core, []).append(mark)

    def _add(
        self, instruction: Instruction, access: Access, touch: _Touch, *, writes: bool
    ) -> None:
        key = (instruction.location, touch.instruction.location)
        ours, theirs = ("writes" if flag else "reads" for flag in (writes, touch.writes))
        self.book.findings.setdefault(
            key,
            Finding(
                self.name,
                "NKI-RACE",
                f"core {self.core} {ours} {access.tensor.name!r} while core {touch.core} {theirs} "
                f"overlapping elements at {touch.instruction.location}; nothing orders the two",
                instruction.location,
                "put nisa.core_barrier between them, or let the cores touch different parts",
                {"tensor": access.tensor.name, "cores": [touch.core, self.core]},
            ),
        )

    def finish(self) -> list[Finding]:
        """All races, told once by the first core."""
        return list(self.book.findings.values()) if not self.others else []
