"""The memory that a module needs: what is alive when, the peak, and what it consists of.

Steps follow the module's schedule, or else an order with operands first. The result is a bound that
no allocator can beat without another order: buffers are added up as if memory were never
fragmented. Tables of pointers for tuples are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.module import Module
from hlo_tools.ir.ordering import computations_in_order
from hlo_tools.stats.buffers import Buffer, Call, Layout, layout_of
from hlo_tools.stats.places import Places
from hlo_tools.types.element_types import Array

__all__ = ["Memory", "Owner", "Step", "memory"]

_MOST_VARIANTS = 8
"""Of one computation, told apart by which of its parameters die inside of it."""

_MOST_STEPS = 200_000
"""Of the timeline; calls beyond it are one step each."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A buffer that is alive at the peak.

    Attributes:
        instruction, index: which part of whose result it is.
        kind: ``argument``, ``constant``, ``result`` (of the entry) or ``temporary``.
        source: ``file:line`` of the user's program, or "".
        scope: the operation's name in the framework, without its last part.
    """

    instruction: str
    index: tuple[int, ...]
    computation: str
    opcode: str
    shape: str
    size: int
    kind: str
    source: str
    scope: str


class Step(NamedTuple):
    """One instruction as it runs, and the bytes alive meanwhile (``alone``: but for what it runs)."""

    instruction: str
    computation: str
    bytes: int
    alone: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that one run of a module needs.

    Attributes:
        peak: the most that is alive at one time.
        scheduled: whether the order is the module's own schedule.
        arguments, results, constants: bytes of all of them; arguments and constants are alive all
            the time, but for arguments that results may be written over.
        aliased: bytes of arguments that results may be written over.
        temporaries: bytes of everything else that is alive at the peak.
        at: the step of ``timeline`` with the peak.
        owners: what is alive at the peak, the largest first.
        timeline: the steps of one run; a loop's body stands there once.
    """

    peak: int
    scheduled: bool
    arguments: int
    results: int
    constants: int
    aliased: int
    temporaries: int
    at: int
    owners: tuple[Owner, ...]
    timeline: tuple[Step, ...]

    def by_source(self) -> dict[str, int]:
        """Bytes alive at the peak by source line, the most first."""
        return _sums((owner.source, owner.size) for owner in self.owners)

    def by_scope(self) -> dict[str, int]:
        """Bytes alive at the peak by scope, the most first."""
        return _sums((owner.scope, owner.size) for owner in self.owners)


def memory(module: Module) -> Memory:
    """The memory that one run of a module needs.

    Raises:
        HloFileError: the module refers to what it does not have (HLO-REFERENCE), or instructions
            depend on each other in a circle (HLO-CYCLE).
    """
    return _Analysis(module).result()


@dataclass(frozen=True, slots=True)
class _Usage:
    """What one computation needs at each step, given which of its parameters it may free."""

    layout: Layout
    counted: list[Buffer]
    steps: Array
    inner: dict[int, _Inner]
    throughout: tuple[Buffer, ...] = ()

    @property
    def peak(self) -> int:
        return int(self.steps.max(initial=0))


class _Inner(NamedTuple):
    """What a step runs, beside what stays alive.

    Attributes:
        made, given: buffers of its result, and those that are the called computations' own.
        held: bytes that stay alive meanwhile; ``alone``: bytes alive but for what runs.
    """

    made: set[Buffer]
    given: set[Buffer]
    held: int
    alone: int
    called: list[_Usage]


_NOTHING = _Inner(set(), set(), 0, 0, [])


class _Analysis:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.layouts: dict[Computation, Layout] = {}
        self.usages: dict[tuple[Computation, frozenset[int]], _Usage] = {}
        self.variants: dict[Computation, int] = {}
        needed = _run_by(module.entry)
        for computation in computations_in_order(module):
            if computation in needed:
                self.layouts[computation] = layout_of(computation, self.layouts)

    def result(self) -> Memory:
        entry = self.layouts[self.module.entry]
        self._copy_results(entry)
        freed = self._aliased(entry)
        usage = self._usage(self.module.entry, freed)
        layouts = self.layouts.values()
        constants = [b for layout in layouts for b in layout.buffers if b.kind == "constant"]
        kept = [b for at, b in enumerate(entry.parameters) if at not in freed]
        always = kept + constants
        base = sum(buffer.size for buffer in always)
        alive = [*always, *_alive_at_peak(usage)]
        steps = list(_timeline(usage, base))
        at = max(range(len(steps)), key=lambda n: steps[n].bytes, default=0)
        places, results = Places(self.module), set(entry.root)
        owners = [_owner(buffer, places, results) for buffer in alive if buffer.size]
        return Memory(
            peak=base + usage.peak,
            scheduled=self.module.entry.schedule is not None,
            arguments=sum(buffer.size for buffer in entry.parameters),
            results=sum(leaf.byte_size for _, leaf in self.module.entry.result_shape.leaves()),
            constants=sum(buffer.size for buffer in constants),
            aliased=sum(entry.parameters[at].size for at in freed),
            temporaries=sum(owner.size for owner in owners if owner.kind == "temporary"),
            at=at,
            owners=tuple(sorted(owners, key=lambda o: (-o.size, o.instruction, o.index))),
            timeline=tuple(steps),
        )

    def _aliased(self, entry: Layout) -> frozenset[int]:
        """Parts of the parameters that results may be written over."""
        places = {
            (view.proto.parameter_number, index): place
            for place, (view, index) in enumerate(
                (view, index)
                for view in self.module.entry.parameters
                for index, _ in view.shape.leaves()
            )
        }
        named = [(alias.source, alias.part) for alias in self.module.aliases]
        named += self.module.donors
        return frozenset(places[one] for one in named if one in places)

    def _copy_results(self, entry: Layout) -> None:
        """A result that is an argument or a constant, or there twice, is copied at the end."""
        aliased = {alias.output for alias in self.module.aliases}
        root, last = self.module.entry.root, len(entry.order) - 1
        seen: set[Buffer] = set()
        for place, (index, leaf) in enumerate(root.shape.leaves()):
            buffer = entry.root[place] if place < len(entry.root) else None
            copied = buffer is not None and (buffer in seen or buffer.kind != "temporary")
            if copied and index not in aliased:
                made = Buffer(root, index, leaf.byte_size, last, last + 1)
                entry.buffers.append(made)
                entry.root[place] = made
            elif buffer is not None:
                seen.add(buffer)

    def _usage(self, computation: Computation, freed: frozenset[int]) -> _Usage:
        """What a computation needs beside what its caller holds.

        Args:
            freed: parts of the parameters that are the computation's to free; the others stay alive
                for their caller, who counts them.
        """
        if self.variants.get(computation, 0) >= _MOST_VARIANTS:
            freed = frozenset()
        found = self.usages.get((computation, freed))
        if found is None:
            self.variants[computation] = self.variants.get(computation, 0) + 1
            found = self.usages[computation, freed] = self._count(self.layouts[computation], freed)
        return found

    def _count(self, layout: Layout, freed: frozenset[int]) -> _Usage:
        mine = {layout.parameters[at] for at in freed if at < len(layout.parameters)}
        counted = [b for b in layout.buffers if b.kind == "temporary" or b in mine]
        return self._with_calls(layout, counted, set(counted))

    def _with_calls(self, layout: Layout, counted: list[Buffer], known: set[Buffer]) -> _Usage:
        changes = np.zeros(len(layout.order) + 2, np.int64)
        for buffer in counted:
            start = _first_step(buffer, known)
            if start <= buffer.end:
                changes[start] += buffer.size
                changes[buffer.end + 1] -= buffer.size
        steps = np.cumsum(changes)[: max(len(layout.order), 1)]
        inner: dict[int, _Inner] = {}
        for call in layout.calls:
            called, handed = self._inside(call, known)
            made = sum(b.size for b in call.results if b in known)
            given = sum(buffer.size for buffer in handed)
            alive = int(steps[call.step])
            most = max((usage.peak for usage in called), default=0)
            held, alone = alive - made - given, alive - min(made, given)
            inner[call.step] = _Inner(
                {b for b in call.results if b in known}, handed, held, alone, called
            )
            steps[call.step] = max(alone, held + most)
        return _Usage(layout, counted, steps, inner)

    def _inside(self, call: Call, known: set[Buffer]) -> tuple[list[_Usage], set[Buffer]]:
        """What the computations of a call need, and the buffers that are theirs from here on."""
        found: list[_Usage] = []
        handed: set[Buffer] = set()
        for place, (computation, given) in enumerate(
            zip(call.computations, call.operands, strict=False)
        ):
            free = {at for at, b in enumerate(given) if b in known and b.end == call.step}
            if call.kept:  # a loop: what changes is a buffer of the loop, whoever gave it
                free &= {at for at, same in enumerate(call.kept) if not same}
            handed |= {given[at] for at in free}
            if call.kept:
                changed = frozenset(at for at, same in enumerate(call.kept) if not same)
                is_body = place == 0
                found.append(
                    self._usage(computation, changed)
                    if is_body
                    else self._condition(computation, changed)
                )
            else:
                found.append(self._usage(computation, frozenset(free)))
        return found, handed

    def _condition(self, computation: Computation, changed: frozenset[int]) -> _Usage:
        """As a body, but for that the state stays alive throughout."""
        usage = self._usage(computation, frozenset())
        state = [b for at, b in enumerate(usage.layout.parameters) if at in changed]
        size = sum(buffer.size for buffer in state)
        inner = {
            step: one._replace(held=one.held + size, alone=one.alone + size)
            for step, one in usage.inner.items()
        }
        return _Usage(usage.layout, usage.counted, usage.steps + size, inner, tuple(state))


def _first_step(buffer: Buffer, known: set[Buffer]) -> int:
    """A result that is written over an operand counts from when that is gone."""
    return buffer.start + (buffer.over in known)


def _run_by(entry: Computation) -> set[Computation]:
    """The computations that loops, branches and calls run, with the entry."""
    found = {entry}
    waiting = [entry]
    while waiting:
        for view in waiting.pop().instructions:
            if view.opcode in ("while", "conditional", "call"):
                new = set(view.called_computations) - found
                found |= new
                waiting += new
    return found


def _alive_at_peak(usage: _Usage) -> list[Buffer]:
    """What is alive at the peak of a computation, and inside what it runs then."""
    found: list[Buffer] = []
    pending: _Usage | None = usage
    while pending is not None:
        usage, pending = pending, None
        if not usage.steps.size:
            break
        found += usage.throughout
        step = int(usage.steps.argmax())
        known = set(usage.counted)
        alive = [b for b in usage.counted if _first_step(b, known) <= step <= b.end]
        inner = usage.inner.get(step, _NOTHING)
        most = max(inner.called, key=lambda one: one.peak, default=None)
        gone = min(inner.made, inner.given, key=lambda own: sum(b.size for b in own))
        if most is not None and inner.held + most.peak == usage.peak:
            gone, pending = inner.made | inner.given, most
        alive = [buffer for buffer in alive if buffer not in gone]
        found += alive
    return found


def _timeline(usage: _Usage, base: int) -> Iterator[Step]:
    """The steps in order; what a step runs comes before it."""
    budget = _MOST_STEPS
    waiting: list[Iterator[tuple[Step, list[tuple[_Usage, int]]]]] = [_steps(usage, base)]
    while waiting:
        one = next(waiting[-1], None)
        if one is None:
            waiting.pop()
            continue
        step, called = one
        inside = sum(len(each.layout.order) for each, _ in called)
        if not called or inside > budget:
            yield step
            continue
        budget -= inside
        after: tuple[Step, list[tuple[_Usage, int]]] = step._replace(bytes=step.alone), []
        waiting.append(iter([after]))
        waiting += [_steps(each, held) for each, held in reversed(called)]


def _steps(usage: _Usage, base: int) -> Iterator[tuple[Step, list[tuple[_Usage, int]]]]:
    for number, view in enumerate(usage.layout.order):
        inner = usage.inner.get(number, _NOTHING)
        size = base + int(usage.steps[number])
        step = Step(view.name, view.computation.name, size, base + inner.alone)
        yield step, [(each, base + inner.held) for each in inner.called]


def _owner(buffer: Buffer, places: Places, results: set[Buffer]) -> Owner:
    view = buffer.owner
    kind = "result" if buffer in results else buffer.kind
    if kind == "parameter":
        kind = "argument" if view.computation.is_entry else "temporary"
    leaf = next(leaf for index, leaf in view.shape.leaves() if index == buffer.index)
    return Owner(
        view.name, buffer.index, view.computation.name, view.opcode, str(leaf), buffer.size, kind,
        places.source(view), places.scope(view),
    )  # fmt: skip


def _sums(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, size in pairs:
        found[name] = found.get(name, 0) + size
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
