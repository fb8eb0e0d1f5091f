"""One program for each engine, with the semaphores that keep the order of dependent steps.

An engine works its list off in order. A transfer is triggered from the list of one engine and
arrives later; the transfers of one engine arrive in the order of its list. So there are two
lanes for each engine: what it computes and what it transfers, and each lane finishes in order.
A wait is left out when the lane is known to be far enough already: through the engine's own
earlier waits, or through what those had waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from neff.compiler.assembly.dependencies import Tracker
from neff.compiler.assembly.regions import FENCES, Region, operands_touched, region_of
from neff.program import EngineLoop, EngineStep, Step, SubGraph
from nki_lang.ir import (
    Access,
    Block,
    Engine,
    ForLoop,
    Instruction,
    NoReorder,
    Register,
    WhileLoop,
)

__all__ = [
    "SEQUENCERS", "Counter", "Offsets", "ScheduledRun", "append_loop", "flatten", "schedule", "touched_by",
]  # fmt: skip

SEQUENCERS = (Engine.tensor, Engine.vector, Engine.scalar, Engine.gpsimd, Engine.sync)
"""Engines with a program of their own, in the order of every table here."""

_LANES = 2 * len(SEQUENCERS)
_REGISTER = Region(0, 1, 0, 1)
_NUMBER = {engine: number for number, engine in enumerate(SEQUENCERS)}


Offsets = dict[str, tuple[str, int]]
"""HBM variable -> (space, byte offset in it). A variable that nothing writes is not in it, for
nothing can depend on it."""


@dataclass(slots=True)
class Counter:
    """Numbers that are unique in one core's program."""

    semaphores: int = 0
    loops: int = 0

    def loop(self) -> int:
        """Return the number of a new loop."""
        self.loops += 1
        return self.loops - 1


def schedule(body: Block, offsets: Offsets, transfers: frozenset[str]) -> SubGraph:
    """The engine programs of one core.

    Args:
        body: statements in program order, every tensor placed, every instruction with its engine.
        offsets: where the HBM variables are.
        transfers: instructions that are transfers (they arrive after they were triggered).
    """
    counter = Counter()
    lists = _schedule_block(body, offsets, transfers, counter)
    return SubGraph(dict(zip(SEQUENCERS, lists, strict=True)), counter.semaphores)


def _schedule_block(
    body: Block, offsets: Offsets, transfers: frozenset[str], counter: Counter
) -> list[list[EngineStep]]:
    lists: list[list[EngineStep]] = [[] for _ in SEQUENCERS]
    run = ScheduledRun(offsets, transfers)
    for statement in flatten(body):
        if isinstance(statement, ForLoop | WhileLoop):
            # All engines meet at the edges of a loop, and semaphores count from zero in each iteration
            # (EngineLoop): no wait may reach across an edge, so a run ends there.
            run.finish(lists, counter)
            run = ScheduledRun(offsets, transfers)
            ident = counter.loop()
            append_loop(
                lists,
                statement,
                ident,
                _schedule_block(statement.body, offsets, transfers, counter),
            )
        else:
            run.add(*statement)
    run.finish(lists, counter)
    return lists


def flatten(
    body: Block, chained: bool = False
) -> Iterator[tuple[Instruction, bool] | ForLoop | WhileLoop]:
    """The statements of a block: (instruction, must follow the one before it), or a loop."""
    for statement in body:
        if isinstance(statement, Instruction):
            yield statement, chained
        elif isinstance(statement, NoReorder):
            yield from flatten(statement.body, True)
        else:
            yield statement


def append_loop(
    lists: list[list[EngineStep]],
    loop: ForLoop | WhileLoop,
    ident: int,
    bodies: list[list[EngineStep]],
) -> None:
    """Append a loop to the list of each engine."""
    for items, body in zip(lists, bodies, strict=True):
        if isinstance(loop, WhileLoop):
            items.append(EngineLoop(ident, None, 0, 0, 1, loop.condition, body, loop.location))
            continue
        items.append(
            EngineLoop(
                ident, loop.register, loop.start, loop.stop, loop.step, None, body, loop.location
            )
        )


@dataclass(slots=True)
class _Entry:
    """One instruction of a run.

    Attributes:
        engine: number of the engine whose list has it.
        lane: the lane that it finishes in.
        place: its place in the lane, from 1.
        clock: for each lane, how far it is known to be when this instruction has finished.
        waits: (lane, place) that it waits for.
    """

    instruction: Instruction
    engine: int
    lane: int
    place: int
    clock: tuple[int, ...]
    waits: list[tuple[int, int]]


class ScheduledRun:
    """Instructions between two loops' edges."""

    def __init__(self, offsets: Offsets, transfers: frozenset[str]) -> None:
        self._offsets = offsets
        self._transfers = transfers
        self._tracker = Tracker()
        self._entries: list[_Entry] = []
        self._named: dict[str, int] = {}
        self._length = [0] * _LANES
        self._known = [[0] * _LANES for _ in SEQUENCERS]
        self._needed: dict[tuple[int, int], set[int]] = {}
        self._last = [-1] * _LANES
        self._fence = -1

    def add(self, instruction: Instruction, chained: bool) -> None:
        """Take the next instruction in program order."""
        index = len(self._entries)
        lane = 2 * _NUMBER[instruction.engine] + (instruction.op in self._transfers)
        before = self._tracker.visit(index, lane, touched_by(instruction, self._offsets))
        self.follow(instruction, before, chained)

    def follow(self, instruction: Instruction, before: set[int], chained: bool = False) -> None:
        """Take the next instruction, which must come after those with these numbers."""
        index = len(self._entries)
        engine = _NUMBER[instruction.engine]
        lane = 2 * engine + (instruction.op in self._transfers)
        for name in instruction.depends_on:
            if name in self._named:
                before.add(self._named[name])
        if chained and index:
            before.add(index - 1)
        if instruction.op in FENCES:
            before.update(self._last)
            self._fence = index
        elif self._fence >= 0:
            before.add(self._fence)
        before.discard(-1)
        self._last[lane] = index
        if instruction.name:
            self._named[instruction.name] = index
        is_transfer = lane != 2 * engine
        # A transfer waits in a queue, not in its engine: what it waits for says nothing of when
        # the engine takes its next instruction.
        progress = list(self._known[engine]) if is_transfer else self._known[engine]
        waits = self._wait(engine, before, progress)
        self._length[lane] += 1
        clock = list(progress)
        clock[lane] = self._length[lane]
        # What the engine computes is finished when it takes its next instruction; a transfer is
        # only triggered then, so nothing is known of its lane.
        if not is_transfer:
            progress[lane] = self._length[lane]
        self._entries.append(
            _Entry(instruction, engine, lane, self._length[lane], tuple(clock), waits)
        )

    def _wait(self, engine: int, before: set[int], positions: list[int]) -> list[tuple[int, int]]:
        """Waits that bring the engine behind all of ``before``; what is known grows by them."""
        waits: list[tuple[int, int]] = []
        # The latest first: its clock often covers those before it, which then need no wait.
        for index in sorted(before, reverse=True):
            producer = self._entries[index]
            if positions[producer.lane] >= producer.place:
                continue
            waits.append((producer.lane, producer.place))
            self._needed.setdefault((producer.lane, engine), set()).add(producer.place)
            for lane, place in enumerate(producer.clock):
                if place > positions[lane]:
                    positions[lane] = place
        return waits

    def finish(self, lists: list[list[EngineStep]], counter: Counter) -> None:
        """Append the steps to the engines' lists, semaphores numbered."""
        semaphores: dict[tuple[int, int], int] = {}
        # One semaphore for each pair of a lane and an engine that waits for it. A lane finishes in
        # order, so the n-th signal of a pair can only come from the n-th place that is waited for.
        ranks: dict[tuple[int, int], dict[int, int]] = {}
        for pair in sorted(self._needed):
            semaphores[pair] = counter.semaphores
            counter.semaphores += 1
            ranks[pair] = {
                place: rank for rank, place in enumerate(sorted(self._needed[pair]), start=1)
            }
        signalled: dict[int, list[tuple[int, int]]] = {lane: [] for lane in range(_LANES)}
        for pair in semaphores:
            signalled[pair[0]].append(pair)
        for entry in self._entries:
            waits = tuple(
                sorted(
                    (semaphores[lane, entry.engine], ranks[lane, entry.engine][place])
                    for lane, place in entry.waits
                )
            )
            signals = tuple(
                semaphores[pair] for pair in signalled[entry.lane] if entry.place in ranks[pair]
            )
            lists[entry.engine].append(Step(entry.instruction, waits, signals))


def touched_by(instruction: Instruction, offsets: Offsets) -> list[tuple[str, Region, bool]]:
    """(space, region, written) of everything that the instruction touches."""
    touched: list[tuple[str, Region, bool]] = []
    for what, written in operands_touched(instruction):
        if type(what) is Register:
            touched.append((f"register:{what.name}", _REGISTER, written))
            continue
        assert type(what) is Access
        tensor = what.tensor
        if tensor.address is not None:
            touched.append((tensor.buffer.value, region_of(what, tensor.address), written))
        elif (entry := offsets.get(tensor.name)) is not None:
            touched.append((entry[0], region_of(what, (0, entry[1])), written))
    return touched
