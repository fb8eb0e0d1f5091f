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
"""Peak memory per computation, keyed by the set of parameters that die inside it."""

_MOST_STEPS = 200_000
"""Larger timelines would fill the page; calls beyond it are one step each."""


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
    """The memory of a computation at each step, given the parameters that it may free."""

    layout: Layout
    counted: list[Buffer]
    steps: Array
    inner: dict[int, _Inner]
    throughout: tuple[Buffer, ...] = ()

    @property
    def peak(self) -> int:
        return int(self.steps.max(initial=0))


class _Inner(NamedTuple):
    """The computations that a step runs, and the buffers that stay alive meanwhile.

    Attributes:
        made, given: buffers of its result, and those that are the called computations' own.
        held: bytes that stay alive meanwhile; ``alone``: bytes alive but for what runs.
    """

    results: set[Buffer]
    arguments: set[Buffer]
    held_bytes: int
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
        undonated = [b for position, b in enumerate(entry.parameters) if position not in freed]
        always = undonated + constants
        base = sum(buffer.size for buffer in always)
        alive = [*always, *_alive_at_peak(usage)]
        steps = list(_timeline(usage, base))
        position = max(range(len(steps)), key=lambda n: steps[n].bytes, default=0)
        positions, results = Places(self.module), set(entry.root)
        owners = [_owner(buffer, positions, results) for buffer in alive if buffer.size]
        return Memory(
            peak=base + usage.peak,
            scheduled=self.module.entry.schedule is not None,
            arguments=sum(buffer.size for buffer in entry.parameters),
            results=sum(leaf.byte_size for _, leaf in self.module.entry.result_shape.leaves()),
            constants=sum(buffer.size for buffer in constants),
            aliased=sum(entry.parameters[position].size for position in freed),
            temporaries=sum(owner.size for owner in owners if owner.kind == "temporary"),
            at=position,
            owners=tuple(sorted(owners, key=lambda o: (-o.size, o.instruction, o.index))),
            timeline=tuple(steps),
        )

    def _aliased(self, entry: Layout) -> frozenset[int]:
        """Return the parameter buffers that results may overwrite."""
        positions = {
            (view.proto.parameter_number, index): position
            for position, (view, index) in enumerate(
                (view, index)
                for view in self.module.entry.parameters
                for index, _ in view.shape.leaves()
            )
        }
        named = [(alias.source, alias.part) for alias in self.module.aliases]
        named += self.module.donors
        return frozenset(positions[location] for location in named if location in positions)

    def _copy_results(self, entry: Layout) -> None:
        """Copy results at the end that are arguments, constants, or returned twice."""
        aliased = {alias.output for alias in self.module.aliases}
        root, last = self.module.entry.root, len(entry.order) - 1
        returned: set[Buffer] = set()
        for position, (index, leaf) in enumerate(root.shape.leaves()):
            buffer = entry.root[position] if position < len(entry.root) else None
            copied = buffer is not None and (buffer in returned or buffer.kind != "temporary")
            if copied and index not in aliased:
                copy = Buffer(root, index, leaf.byte_size, last, last + 1)
                entry.buffers.append(copy)
                entry.root[position] = copy
            elif buffer is not None:
                returned.add(buffer)

    def _usage(self, computation: Computation, freed: frozenset[int]) -> _Usage:
        """Return the memory of a computation, without the buffers that its caller holds.

        Args:
            freed: parts of the parameters that are the computation's to free; the others stay alive
                for their caller, who counts them.
        """
        if self.variants.get(computation, 0) >= _MOST_VARIANTS:
            freed = frozenset()
        usage = self.usages.get((computation, freed))
        if usage is None:
            self.variants[computation] = self.variants.get(computation, 0) + 1
            usage = self.usages[computation, freed] = self._count(self.layouts[computation], freed)
        return usage

    def _count(self, layout: Layout, freed: frozenset[int]) -> _Usage:
        freed_buffers = {
            layout.parameters[number] for number in freed if number < len(layout.parameters)
        }
        counted = [b for b in layout.buffers if b.kind == "temporary" or b in freed_buffers]
        return self._with_calls(layout, counted, set(counted))

    def _with_calls(
        self, layout: Layout, counted: list[Buffer], counted_buffers: set[Buffer]
    ) -> _Usage:
        changes = np.zeros(len(layout.order) + 2, np.int64)
        for buffer in counted:
            start = _first_step(buffer, counted_buffers)
            if start <= buffer.end:
                changes[start] += buffer.size
                changes[buffer.end + 1] -= buffer.size
        steps = np.cumsum(changes)[: max(len(layout.order), 1)]
        inner: dict[int, _Inner] = {}
        for call in layout.calls:
            called, handed = self._inside(call, counted_buffers)
            result_bytes = sum(b.size for b in call.results if b in counted_buffers)
            argument_bytes = sum(buffer.size for buffer in handed)
            alive = int(steps[call.step])
            maximum = max((usage.peak for usage in called), default=0)
            held_bytes, alone = (
                alive - result_bytes - argument_bytes,
                alive - min(result_bytes, argument_bytes),
            )
            inner[call.step] = _Inner(
                {b for b in call.results if b in counted_buffers}, handed, held_bytes, alone, called
            )
            steps[call.step] = max(alone, held_bytes + maximum)
        return _Usage(layout, counted, steps, inner)

    def _inside(self, call: Call, counted_buffers: set[Buffer]) -> tuple[list[_Usage], set[Buffer]]:
        """Return the memory of a call's computations, and the buffers that they now own."""
        usages: list[_Usage] = []
        handed: set[Buffer] = set()
        for position, (computation, arguments) in enumerate(
            zip(call.computations, call.operands, strict=False)
        ):
            free = {
                index
                for index, b in enumerate(arguments)
                if b in counted_buffers and b.end == call.step
            }
            if call.is_unchanged:  # a loop: what changes is a buffer of the loop, whoever gave it
                free &= {index for index, same in enumerate(call.is_unchanged) if not same}
            handed |= {arguments[index] for index in free}
            if call.is_unchanged:
                changed = frozenset(
                    index for index, same in enumerate(call.is_unchanged) if not same
                )
                is_body = position == 0
                usages.append(
                    self._usage(computation, changed)
                    if is_body
                    else self._condition(computation, changed)
                )
            else:
                usages.append(self._usage(computation, frozenset(free)))
        return usages, handed

    def _condition(self, computation: Computation, changed: frozenset[int]) -> _Usage:
        """Like a body, except that the state stays alive throughout."""
        usage = self._usage(computation, frozenset())
        state = [b for index, b in enumerate(usage.layout.parameters) if index in changed]
        size = sum(buffer.size for buffer in state)
        inner = {
            step: inner._replace(held_bytes=inner.held_bytes + size, alone=inner.alone + size)
            for step, inner in usage.inner.items()
        }
        return _Usage(usage.layout, usage.counted, usage.steps + size, inner, tuple(state))


def _first_step(buffer: Buffer, counted_buffers: set[Buffer]) -> int:
    """An in-place result is allocated when its operand dies."""
    return buffer.start + (buffer.over in counted_buffers)


def _run_by(entry: Computation) -> set[Computation]:
    """The computations that loops, branches and calls run, with the entry."""
    reachable = {entry}
    waiting = [entry]
    while waiting:
        for view in waiting.pop().instructions:
            if view.opcode in ("while", "conditional", "call"):
                new = set(view.called_computations) - reachable
                reachable |= new
                waiting += new
    return reachable


def _alive_at_peak(usage: _Usage) -> list[Buffer]:
    """Return the buffers alive at the peak of a computation and of its callees at that step."""
    buffers: list[Buffer] = []
    pending: _Usage | None = usage
    while pending is not None:
        usage, pending = pending, None
        if not usage.steps.size:
            break
        buffers += usage.throughout
        step = int(usage.steps.argmax())
        counted_buffers = set(usage.counted)
        alive = [b for b in usage.counted if _first_step(b, counted_buffers) <= step <= b.end]
        inner = usage.inner.get(step, _NOTHING)
        maximum = max(inner.called, key=lambda usage: usage.peak, default=None)
        gone = min(
            inner.results, inner.arguments, key=lambda candidates: sum(b.size for b in candidates)
        )
        if maximum is not None and inner.held_bytes + maximum.peak == usage.peak:
            gone, pending = inner.results | inner.arguments, maximum
        alive = [buffer for buffer in alive if buffer not in gone]
        buffers += alive
    return buffers


def _timeline(usage: _Usage, base: int) -> Iterator[Step]:
    """Yield the steps in order; steps of callees precede their caller."""
    budget = _MOST_STEPS
    waiting: list[Iterator[tuple[Step, list[tuple[_Usage, int]]]]] = [_steps(usage, base)]
    while waiting:
        step_calls = next(waiting[-1], None)
        if step_calls is None:
            waiting.pop()
            continue
        step, called = step_calls
        inside = sum(len(inner_usage.layout.order) for inner_usage, _ in called)
        if not called or inside > budget:
            yield step
            continue
        budget -= inside
        after: tuple[Step, list[tuple[_Usage, int]]] = step._replace(bytes=step.alone), []
        waiting.append(iter([after]))
        waiting += [_steps(inner_usage, held_bytes) for inner_usage, held_bytes in reversed(called)]


def _steps(usage: _Usage, base: int) -> Iterator[tuple[Step, list[tuple[_Usage, int]]]]:
    for number, view in enumerate(usage.layout.order):
        inner = usage.inner.get(number, _NOTHING)
        size = base + int(usage.steps[number])
        step = Step(view.name, view.computation.name, size, base + inner.alone)
        yield step, [(inner_usage, base + inner.held_bytes) for inner_usage in inner.called]


def _owner(buffer: Buffer, locations: Places, results: set[Buffer]) -> Owner:
    view = buffer.owner
    kind = "result" if buffer in results else buffer.kind
    if kind == "parameter":
        kind = "argument" if view.computation.is_entry else "temporary"
    leaf = next(leaf for index, leaf in view.shape.leaves() if index == buffer.index)
    return Owner(
        view.name, buffer.index, view.computation.name, view.opcode, str(leaf), buffer.size, kind,
        locations.source(view), locations.scope(view),
    )  # fmt: skip


def _sums(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, size in pairs:
        sums[name] = sums.get(name, 0) + size
    return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))
