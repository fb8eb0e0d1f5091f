"""Accesses to the same bytes that no order the program promises keeps apart.

What is promised, and where:

* inside a core, instructions keep their order when they touch the same tensor, addresses that
  overlap on chip, or a register, or stand in one ``nl.no_reorder`` block or in ``depends_on`` and
  ``with_schedule`` (language guide, sequential programming model; how-to-scheduling-apis);
* ``core_barrier`` orders the cores' accesses to its ``data``, and what depends on those: it blocks
  one engine, and the others go on (isa stub, core_barrier); ``sendrecv`` orders those of its
  tiles;
* inside one instruction see :mod:`nki_lang.execute.checks.transfers`.

What is left are two cores on shared HBM, two arguments that are one piece of memory, and elements
of one instruction. Two writes of one value are no race, nor is a read whose value nobody uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from nki_lang.dtypes import Array
from nki_lang.execute.checks.base import Check, Step
from nki_lang.execute.checks.history import History, Marks, Spot, Touch
from nki_lang.execute.checks.order import Clock, Order, join
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.checks.transfers import Inside, is_suspect
from nki_lang.execute.memory import Rows
from nki_lang.execute.regions import may_overlap
from nki_lang.ir.types import Access, Instruction
from nki_lang.memory import MemoryRegion

__all__ = ["RaceCheck"]

_KEPT = 64
"""Pairs that are kept for two lines; one of them may turn out to be a race."""
_MEETINGS = frozenset({"core_barrier", "sendrecv"})


@dataclass(slots=True)
class _Pair:
    """Two accesses that no order keeps apart, unless one instruction waits for the other."""

    core: int
    key: tuple[int, str]
    access: Access
    index: tuple[int, ...]
    later: Touch
    earlier: Touch


@dataclass(slots=True)
class _Book:
    """What all cores share."""

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
        several: there are several cores, whether they wait for each other or not.
    """

    name = "races"
    several = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        first = next((other for other in self.others if isinstance(other, RaceCheck)), None)
        self.book: _Book = first.book if first else _Book()
        self.core = self.memory.state.core
        self.order = Order()
        self._known: Clock = {}
        self._following: bool | None = None
        self._inside: Inside | None = None
        self._old: dict[int, Array] = {}
        self._spots: dict[int, Spot] = {}
        self._loaded: dict[str, list[tuple[Access, Touch]]] = {}
        self._findings: dict[Any, Finding] = {}

    def concerns(self, instruction: Instruction) -> bool:
        """Something else than this core's own order is involved."""
        return self._follows() or is_suspect(instruction)

    def _follows(self) -> bool:
        """There is another core or another name for the same memory."""
        if self._following is None:
            if self.book.aliases is None:
                self.book.aliases = self.memory.aliases()
            several = self.several or (self.thorough and self.memory.state.exchange is not None)
            self._following = several or bool(self.book.aliases)
        return self._following

    def before(self, step: Step) -> None:
        """Keep what will be overwritten; at a meeting, leave this core's knowledge."""
        instruction = step.instruction
        suspect = is_suspect(instruction) and not step.skipped
        self._inside = Inside(self.memory, step) if suspect else None
        if not self._follows():
            return
        self._known = self.order.before(step)
        self._spots = {}
        if instruction.op in _MEETINGS:
            key = self._meeting(instruction)
            self.book.meetings.setdefault(key, []).append(self._known)
            return
        self._old = {}
        for _, access in step.writes:
            if access.tensor.buffer is MemoryRegion.shared_hbm and self._unheard(access, True):
                self._old[id(access)] = np.array(self._value(access))

    def after(self, step: Step) -> None:
        """After a meeting, take what the others left; else check what was touched."""
        instruction = step.instruction
        if self._inside is not None:
            for finding in self._inside.findings():
                self._findings.setdefault(instruction.location, finding)
        if not self._follows():
            return
        if instruction.name:
            self.book.named[self.core, instruction.name] = instruction
        if instruction.op in _MEETINGS:
            self._join(instruction)
        else:
            self._touch_all(step)
        self.order.after(self._known)

    # -- meetings -------------------------------------------------------------------------------

    def _meeting(self, instruction: Instruction) -> tuple[Any, ...]:
        operands = instruction.operands
        if instruction.op == "core_barrier":
            what: tuple[Any, ...] = ("barrier", tuple(sorted(operands["cores"])))
        else:
            what = ("sendrecv", operands["pipe_id"])
        return (*what, self.book.visits.get((self.core, what), 0))

    def _join(self, instruction: Instruction) -> None:
        key = self._meeting(instruction)
        self.book.visits[self.core, key[:-1]] = key[-1] + 1
        for other in self.book.meetings.get(key, ()):
            self._known = join(self._known, other)
        if instruction.op == "core_barrier":
            self.book.barriers[instruction.operands["data"].tensor.name] = instruction

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
        """Enter a read, whose value counts once what it was loaded into is read."""
        private = [one for _, one in written if one.tensor.buffer is not MemoryRegion.shared_hbm]
        touch = Touch(instruction, False, len(private) < len(written) or not written)
        self._touch(touch, access)
        for place in private:
            self._loaded.setdefault(place.tensor.name, []).append((place, touch))

    def _use(self, access: Access) -> None:
        """What was loaded there counts."""
        kept: list[tuple[Access, Touch]] = []
        for place, touch in self._loaded.pop(access.tensor.name):
            if may_overlap(place, access):
                touch.counts = True
            else:
                kept.append((place, touch))
        if kept:
            self._loaded[access.tensor.name] = kept

    def _touch(self, touch: Touch, access: Access) -> None:
        """Enter an access to shared HBM."""
        name = access.tensor.name
        unheard = self._unheard(access, touch.writes)
        if unheard:
            changed = self._changed(access) if touch.writes else None
            for key in unheard:
                self._compare(touch, access, key, changed)
        number = self._history(access).add(touch, self._spot(access))
        self._known = self._known | {(self.core, name): number}

    def _unheard(self, access: Access, writes: bool) -> list[tuple[int, str]]:
        """Other histories of the same memory with touches around there not yet heard of.

        A read has no order to keep with other reads.
        """
        tensor, book = access.tensor.name, self.book
        found: list[tuple[int, str]] = []
        for name in (tensor, *(book.aliases or {}).get(tensor, ())):
            for core, other in book.history.get(name, {}).items():
                if name == tensor and core == self.core:
                    continue
                spot, known = self._spot(access), self._known.get((core, name), 0)
                if other.writes.may_meet(spot, known) or (
                    writes and other.reads.may_meet(spot, known)
                ):
                    found.append((core, name))
        return found

    def _spot(self, access: Access) -> Spot:
        """Where an access of the instruction at hand goes, as its indices were before it ran."""
        found = self._spots.get(id(access))
        if found is None:
            dynamic = access.vector_offset is not None
            place = self.memory.rows(access, skip=True) if dynamic else self.memory.layout(access)
            found = self._spots[id(access)] = Spot.of(place)
        return found

    def _value(self, access: Access) -> Array:
        place = self._spot(access).place
        if isinstance(place, Rows):
            return self.memory.gathered(access, place)
        return self.memory.storage(access.tensor).view(place)

    def _changed(self, access: Access) -> Array:
        """Which elements the write changed; where it did not, its order does not matter."""
        old = self._old[id(access)]
        new = np.ascontiguousarray(self._value(access))
        kind = f"u{new.dtype.itemsize}"
        return old.view(kind) != new.view(kind)

    def _history(self, access: Access) -> History:
        """What this core did to the tensor."""
        histories = self.book.history.setdefault(access.tensor.name, {})
        found = histories.get(self.core)
        if found is None:
            size = self.memory.storage(access.tensor).data.size
            found = histories[self.core] = History(Marks(size), Marks(size))
        return found

    def _compare(
        self, touch: Touch, access: Access, key: tuple[int, str], changed: Array | None
    ) -> None:
        """Look for touches in another history that this core has not heard of."""
        core, name = key
        other, spot, known = self.book.history[name][core], self._spot(access), self._known
        before = known.get(key, 0)
        if other.writes.may_meet(spot, before) and other.writes.most(spot) > before:
            self._compare_writes(touch, access, key, changed)
        if changed is None or not other.reads.may_meet(spot, before):
            return
        if other.reads.most(spot) > before:
            self._note(touch, access, key, other.reads.get(spot) * changed)

    def _compare_writes(
        self, touch: Touch, access: Access, key: tuple[int, str], changed: Array | None
    ) -> None:
        """Look for writes of another value; what wrote the same is kept for reads to come."""
        own, spot = self._history(access).same, self._spot(access)
        theirs = self.book.history[key[1]][key[0]].writes
        if changed is None:
            marks = theirs.get(spot)
            if key in own:
                marks = np.where(marks <= own[key].get(spot.place), 0, marks)
        elif not changed.any():
            # Every write of theirs so far has this number or a lower one.
            own.setdefault(key, theirs.like()).set(spot.place, theirs.most(spot))
            return
        else:
            marks = theirs.get(spot)
            if not changed.all():
                same = own.setdefault(key, theirs.like())
                same.set(spot.place, np.where(changed, 0, marks))
                marks = marks * changed
        self._note(touch, access, key, marks)

    def _note(self, touch: Touch, access: Access, key: tuple[int, str], marks: Array) -> None:
        """Keep the newest of these touches of another history when nothing orders it."""
        if int(marks.max(initial=0)) <= self._known.get(key, 0):
            return
        other = self.book.history[key[1]][key[0]]
        index = tuple(int(part) for part in np.unravel_index(int(marks.argmax()), marks.shape))
        earlier = other.touches[int(marks[index]) - 1]
        place = (touch.instruction.location, earlier.instruction.location, access.tensor.name, key)
        pairs = self.book.pairs.setdefault(place, [])
        if len(pairs) < _KEPT:
            pairs.append(_Pair(self.core, key, access, index, touch, earlier))

    # -- the end --------------------------------------------------------------------------------

    def finish(self) -> list[Finding]:
        """All races between cores and arguments, reported once by the first core, then its own."""
        found: dict[Any, Finding] = {}
        for pairs in () if self.others else self.book.pairs.values():
            pair = next((one for one in pairs if self._is_race(one)), None)
            if pair is not None:
                lines = {pair.later.instruction.location, pair.earlier.instruction.location}
                found.setdefault((frozenset(lines), pair.access.tensor.name), self._told(pair))
        return list(found.values()) + list(self._findings.values())

    def _is_race(self, pair: _Pair) -> bool:
        """Both values count, and ``depends_on`` and ``with_schedule`` do not order the two."""
        if not (pair.later.counts and pair.earlier.counts):
            return False
        if pair.core != pair.key[0]:
            return True
        waiting, seen = [pair.later.instruction], set[str]()
        while waiting:
            instruction = waiting.pop()
            extra = (names for consumer, names in self.schedule if consumer == instruction.name)
            for name in chain(instruction.depends_on, *extra):
                if name == pair.earlier.instruction.name:
                    return False
                producer = self.book.named.get((pair.core, name))
                if producer is not None and name not in seen:
                    seen.add(name)
                    waiting.append(producer)
        return True

    def _told(self, pair: _Pair) -> Finding:
        name, (core, other) = pair.access.tensor.name, pair.key
        now, before = pair.later.instruction, pair.earlier.instruction
        ours, theirs = ("writes" if one.writes else "reads" for one in (pair.later, pair.earlier))
        element = f"element [{', '.join(map(str, pair.index))}]"
        details: dict[str, Any] = {"tensor": name, "index": list(pair.index)}
        if other != name:
            return Finding(
                self.name,
                "NKI-RACE",
                f"{now.op} {ours} {element} of argument {name!r}, the same memory as argument "
                f"{other!r} that {before.op} {theirs} at {before.location}; the compiler sees two "
                "tensors and may exchange the two",
                now.location,
                "pass copies, or put both instructions into one nl.no_reorder()",
                details | {"alias": other, "order": "arguments"},
            )
        barrier = next((each for data, each in self.book.barriers.items() if data != name), None)
        hint = ""
        if barrier is not None and name not in self.book.barriers:
            data = barrier.operands["data"].tensor.name
            hint = f"; the core_barrier at {barrier.location} orders accesses to {data!r} alone"
        return Finding(
            self.name,
            "NKI-RACE",
            f"core {pair.core} {ours} {element} of its part of {name!r}, which core {core} "
            f"{theirs} at {before.location}; nothing orders the two{hint}",
            now.location,
            f"put nisa.core_barrier on {name!r} between them, or let the cores touch different parts",
            details | {"cores": sorted((core, pair.core)), "order": "cores"},
        )
