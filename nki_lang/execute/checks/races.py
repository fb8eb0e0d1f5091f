"""Check for accesses to the same bytes in no guaranteed order.

These orders are guaranteed:

* Inside a core, instructions keep their order when they use the same tensor, addresses that
  overlap on chip, or a register, or are in one ``nl.no_reorder`` block or in ``depends_on`` and
  ``with_schedule`` (language guide, sequential programming model; how-to-scheduling-apis).
* ``core_barrier`` orders the cores' accesses to its ``data``, and what depends on those accesses: it
  blocks one engine, and the other engines continue (isa stub, core_barrier). ``sendrecv`` orders
  the accesses to its tiles.
* For the order inside one instruction see :mod:`nki_lang.execute.checks.transfers`.

The remaining races are between two cores on shared HBM, two arguments that share memory, and
elements of one instruction. Two writes of the same value are no race, nor is a read whose value is
never used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from nki_lang.analysis.regions import may_overlap
from nki_lang.base.dtypes import Array
from nki_lang.base.memory import MemoryRegion
from nki_lang.execute.checks.base import Check, Step
from nki_lang.execute.checks.history import History, Marks, Spot, Touch
from nki_lang.execute.checks.order import Clock, Order, join
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.checks.transfers import InstructionOrder, is_suspect
from nki_lang.execute.memory import Rows
from nki_lang.ir.types import Access, Instruction

__all__ = ["RaceCheck"]

_MAX_PAIRS_PER_LINES = 64
"""Pairs recorded per two source lines: the first ones may turn out to be ordered by
``depends_on``.
"""
_SYNCHRONIZING_OPS = frozenset({"core_barrier", "sendrecv"})


@dataclass(slots=True)
class _Pair:
    """Two unordered accesses; the end of the run decides whether one instruction waits for the
    other.
    """

    core: int
    key: tuple[int, str]
    access: Access
    index: tuple[int, ...]
    later: Touch
    earlier: Touch


@dataclass(slots=True)
class _SharedRecords:
    """Records that the checks of all cores share."""

    history: dict[str, dict[int, History]] = field(default_factory=dict[str, dict[int, History]])
    meetings: dict[Any, list[Clock]] = field(default_factory=dict[Any, list[Clock]])
    visits: dict[Any, int] = field(default_factory=dict[Any, int])
    barriers: dict[str, Instruction] = field(default_factory=dict[str, Instruction])
    pairs: dict[Any, list[_Pair]] = field(default_factory=dict[Any, list[_Pair]])
    named: dict[tuple[int, str], Instruction] = field(
        default_factory=dict[tuple[int, str], Instruction]
    )
    aliases: dict[str, tuple[str, ...]] | None = None


class RaceCheck(Check):
    """Finds unordered accesses to the same bytes, between cores, arguments and elements.

    Attributes:
        several: True if there are several cores, with or without synchronization.
    """

    name = "races"
    several = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        first = next((check for check in self.earlier_checks if isinstance(check, RaceCheck)), None)
        self.records: _SharedRecords = first.records if first else _SharedRecords()
        self.core = self.memory.state.core
        self.order = Order()
        self._clock: Clock = {}
        self._active: bool | None = None
        self._inside: InstructionOrder | None = None
        self._old: dict[int, Array] = {}
        self._spots: dict[int, Spot] = {}
        self._loaded: dict[str, list[tuple[Access, Touch]]] = {}
        self._findings: dict[Any, Finding] = {}

    def concerns(self, instruction: Instruction) -> bool:
        """Return True if another core, another argument or the order inside the instruction
        matters.
        """
        return self._is_active() or is_suspect(instruction)

    def _is_active(self) -> bool:
        """Return True if another core or another name uses the same memory."""
        if self._active is None:
            if self.records.aliases is None:
                self.records.aliases = self.memory.aliases()
            several = self.several or (self.thorough and self.memory.state.exchange is not None)
            self._active = several or bool(self.records.aliases)
        return self._active

    def before(self, step: Step) -> None:
        """Copy the bytes that will be overwritten; at a synchronization, publish this core's
        clock.
        """
        instruction = step.instruction
        suspect = is_suspect(instruction) and not step.skipped
        self._inside = InstructionOrder(self.memory, step) if suspect else None
        if not self._is_active():
            return
        self._clock = self.order.before(step)
        self._spots = {}
        if instruction.op in _SYNCHRONIZING_OPS:
            key = self._meeting(instruction)
            self.records.meetings.setdefault(key, []).append(self._clock)
            return
        self._old = {}
        for _, access in step.writes:
            if access.tensor.buffer is MemoryRegion.shared_hbm and self._unordered_histories(
                access, True
            ):
                self._old[id(access)] = np.array(self._value(access))

    def after(self, step: Step) -> None:
        """Join the clocks of the other cores at a synchronization; else check the accesses."""
        instruction = step.instruction
        if self._inside is not None:
            for finding in self._inside.findings():
                self._findings.setdefault(instruction.location, finding)
        if not self._is_active():
            return
        if instruction.name:
            self.records.named[self.core, instruction.name] = instruction
        if instruction.op in _SYNCHRONIZING_OPS:
            self._synchronize(instruction)
        else:
            self._touch_all(step)
        self.order.after(self._clock)

    # -- synchronization ------------------------------------------------------------------------

    def _meeting(self, instruction: Instruction) -> tuple[Any, ...]:
        operands = instruction.operands
        if instruction.op == "core_barrier":
            kind: tuple[Any, ...] = ("barrier", tuple(sorted(operands["cores"])))
        else:
            kind = ("sendrecv", operands["pipe_id"])
        return (*kind, self.records.visits.get((self.core, kind), 0))

    def _synchronize(self, instruction: Instruction) -> None:
        key = self._meeting(instruction)
        self.records.visits[self.core, key[:-1]] = key[-1] + 1
        for clock in self.records.meetings.get(key, ()):
            self._clock = join(self._clock, clock)
        if instruction.op == "core_barrier":
            self.records.barriers[instruction.operands["data"].tensor.name] = instruction

    # -- accesses -------------------------------------------------------------------------------

    def _touch_all(self, step: Step) -> None:
        instruction, written = step.instruction, step.writes
        loaded = self._loaded
        for _, access in step.reads:
            if access.tensor.name in loaded:
                self._use(access)
            if access.tensor.buffer is MemoryRegion.shared_hbm:
                self._touch_read(instruction, access, written)
        for _, access in written:
            if access.tensor.buffer is MemoryRegion.shared_hbm:
                self._touch(Touch(instruction, True, True), access)

    def _touch_read(
        self, instruction: Instruction, access: Access, written: list[tuple[str, Access]]
    ) -> None:
        """Record a read; its value counts once an instruction reads the tile it was loaded into."""
        private = [
            access for _, access in written if access.tensor.buffer is not MemoryRegion.shared_hbm
        ]
        touch = Touch(instruction, False, len(private) < len(written) or not written)
        self._touch(touch, access)
        for destination in private:
            self._loaded.setdefault(destination.tensor.name, []).append((destination, touch))

    def _use(self, access: Access) -> None:
        """Mark the loads into this tile as used."""
        unrelated: list[tuple[Access, Touch]] = []
        for destination, touch in self._loaded.pop(access.tensor.name):
            if may_overlap(destination, access):
                touch.counts = True
            else:
                unrelated.append((destination, touch))
        if unrelated:
            self._loaded[access.tensor.name] = unrelated

    def _touch(self, touch: Touch, access: Access) -> None:
        """Record an access to shared HBM, and compare it with the histories it is not ordered
        with.
        """
        name = access.tensor.name
        unordered = self._unordered_histories(access, touch.writes)
        if unordered:
            changed = self._changed(access) if touch.writes else None
            for key in unordered:
                self._compare(touch, access, key, changed)
        number = self._history(access).add(touch, self._spot(access))
        self._clock = self._clock | {(self.core, name): number}

    def _unordered_histories(self, access: Access, writes: bool) -> list[tuple[int, str]]:
        """Return the histories of the same memory with touches nearby that are not ordered before
        this one.

        Two reads need no order.
        """
        tensor, book = access.tensor.name, self.records
        unordered: list[tuple[int, str]] = []
        for name in (tensor, *(book.aliases or {}).get(tensor, ())):
            for core, history in book.history.get(name, {}).items():
                if name == tensor and core == self.core:
                    continue
                spot, happened = self._spot(access), self._clock.get((core, name), 0)
                if history.writes.may_meet(spot, happened) or (
                    writes and history.reads.may_meet(spot, happened)
                ):
                    unordered.append((core, name))
        return unordered

    def _spot(self, access: Access) -> Spot:
        """Return the location of an access, with the indices as they were before the instruction
        ran.
        """
        spot = self._spots.get(id(access))
        if spot is None:
            dynamic = access.vector_offset is not None
            location = (
                self.memory.rows(access, skip=True) if dynamic else self.memory.layout(access)
            )
            spot = self._spots[id(access)] = Spot.of(location)
        return spot

    def _value(self, access: Access) -> Array:
        location = self._spot(access).location
        if isinstance(location, Rows):
            return self.memory.gathered(access, location)
        return self.memory.storage(access.tensor).view(location)

    def _changed(self, access: Access) -> Array:
        """Return which elements the write changed: a write of the same value needs no order."""
        old = self._old[id(access)]
        new = np.ascontiguousarray(self._value(access))
        kind = f"u{new.dtype.itemsize}"
        return old.view(kind) != new.view(kind)

    def _history(self, access: Access) -> History:
        """Return the history of this core's accesses to the tensor."""
        histories = self.records.history.setdefault(access.tensor.name, {})
        history = histories.get(self.core)
        if history is None:
            size = self.memory.storage(access.tensor).data.size
            history = histories[self.core] = History(Marks(size), Marks(size))
        return history

    def _compare(
        self, touch: Touch, access: Access, key: tuple[int, str], changed: Array | None
    ) -> None:
        """Look for touches in another history that are not ordered before this one."""
        core, name = key
        history, spot, clock = self.records.history[name][core], self._spot(access), self._clock
        happened = clock.get(key, 0)
        if history.writes.may_meet(spot, happened) and history.writes.latest(spot) > happened:
            self._compare_writes(touch, access, key, changed)
        if changed is None or not history.reads.may_meet(spot, happened):
            return
        if history.reads.latest(spot) > happened:
            self._record_latest(touch, access, key, history.reads.get(spot) * changed)

    def _compare_writes(
        self, touch: Touch, access: Access, key: tuple[int, str], changed: Array | None
    ) -> None:
        """Look for writes of another value; writes of the same value are recorded for later
        reads.
        """
        same_values, spot = self._history(access).same, self._spot(access)
        their_writes = self.records.history[key[1]][key[0]].writes
        if changed is None:
            marks = their_writes.get(spot)
            if key in same_values:
                marks = np.where(marks <= same_values[key].get(spot.location), 0, marks)
        elif not changed.any():
            # Every write of the other core so far has this number or a lower one.
            same_values.setdefault(key, their_writes.empty_shadow()).set(
                spot.location, their_writes.latest(spot)
            )
            return
        else:
            marks = their_writes.get(spot)
            if not changed.all():
                equal_marks = same_values.setdefault(key, their_writes.empty_shadow())
                equal_marks.set(spot.location, np.where(changed, 0, marks))
                marks = marks * changed
        self._record_latest(touch, access, key, marks)

    def _record_latest(
        self, touch: Touch, access: Access, key: tuple[int, str], marks: Array
    ) -> None:
        """Record the latest of these touches of another history if nothing orders it."""
        if int(marks.max(initial=0)) <= self._clock.get(key, 0):
            return
        history = self.records.history[key[1]][key[0]]
        index = tuple(
            int(coordinate) for coordinate in np.unravel_index(int(marks.argmax()), marks.shape)
        )
        earlier = history.touches[int(marks[index]) - 1]
        lines = (touch.instruction.location, earlier.instruction.location, access.tensor.name, key)
        pairs = self.records.pairs.setdefault(lines, [])
        if len(pairs) < _MAX_PAIRS_PER_LINES:
            pairs.append(_Pair(self.core, key, access, index, touch, earlier))

    # -- the end --------------------------------------------------------------------------------

    def finish(self) -> list[Finding]:
        """Return the races between cores and arguments (from the first core), then those inside
        instructions.
        """
        findings: dict[Any, Finding] = {}
        for pairs in () if self.earlier_checks else self.records.pairs.values():
            pair = next((candidate for candidate in pairs if self._is_race(candidate)), None)
            if pair is not None:
                lines = {pair.later.instruction.location, pair.earlier.instruction.location}
                findings.setdefault(
                    (frozenset(lines), pair.access.tensor.name), self._race_finding(pair)
                )
        return list(findings.values()) + list(self._findings.values())

    def _is_race(self, pair: _Pair) -> bool:
        """Return True if both values are used, and ``depends_on`` and ``with_schedule`` do not
        order the pair.
        """
        if not (pair.later.counts and pair.earlier.counts):
            return False
        if pair.core != pair.key[0]:
            return True
        waiting, visited = [pair.later.instruction], set[str]()
        while waiting:
            instruction = waiting.pop()
            extra = (names for consumer, names in self.schedule if consumer == instruction.name)
            for name in chain(instruction.depends_on, *extra):
                if name == pair.earlier.instruction.name:
                    return False
                producer = self.records.named.get((pair.core, name))
                if producer is not None and name not in visited:
                    visited.add(name)
                    waiting.append(producer)
        return True

    def _race_finding(self, pair: _Pair) -> Finding:
        name, (core, other_name) = pair.access.tensor.name, pair.key
        later, earlier = pair.later.instruction, pair.earlier.instruction
        later_verb, earlier_verb = (
            "writes" if touch.writes else "reads" for touch in (pair.later, pair.earlier)
        )
        element = f"element [{', '.join(map(str, pair.index))}]"
        details: dict[str, Any] = {"tensor": name, "index": list(pair.index)}
        if other_name != name:
            return Finding(
                self.name,
                "NKI-RACE",
                f"{later.op} {later_verb} {element} of argument {name!r}, the same memory as argument "
                f"{other_name!r} that {earlier.op} {earlier_verb} at {earlier.location}; the compiler sees two "
                "tensors and may exchange the two",
                later.location,
                "pass copies, or put both instructions into one nl.no_reorder()",
                details | {"alias": other_name, "order": "arguments"},
            )
        barrier = next(
            (candidate for data, candidate in self.records.barriers.items() if data != name), None
        )
        hint = ""
        if barrier is not None and name not in self.records.barriers:
            data = barrier.operands["data"].tensor.name
            hint = f"; the core_barrier at {barrier.location} orders accesses to {data!r} alone"
        return Finding(
            self.name,
            "NKI-RACE",
            f"core {pair.core} {later_verb} {element} of its part of {name!r}, which core {core} "
            f"{earlier_verb} at {earlier.location}; nothing orders the two{hint}",
            later.location,
            f"put nisa.core_barrier on {name!r} between them, or let the cores touch different parts",
            details | {"cores": sorted((core, pair.core)), "order": "cores"},
        )
