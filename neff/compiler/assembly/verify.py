"""Proof that a core's engine programs cannot race or deadlock.

The programs are run abstractly once. While they run, every step gets a clock: how far each lane
(an engine's computations, an engine's transfers) is known to be when it starts. Two steps that
touch the same bytes, one of them writing, must be ordered by these clocks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from neff.compiler.assembly.dependencies import Tracker
from neff.compiler.assembly.engines import TRANSFERS
from neff.compiler.assembly.link import instructions_of
from neff.compiler.assembly.regions import operands_touched, region_of
from neff.compiler.assembly.schedule import SEQUENCERS, Offsets, touched_by
from neff.errors import NeffCompileError
from neff.program import EngineLoop, EngineStep, Program, Step, SubGraph
from nki_lang.ir import Access, Block, Instruction

__all__ = ["cores_are_apart", "verify"]

_LANES = 2 * len(SEQUENCERS)

_REMEDY = "this is a bug in the tool that wrote the program, not a user error; please report it"

Clock = list[int]


def verify(program: Program) -> None:
    """Check every core of a program.

    Raises:
        NeffCompileError: ``NEFF-RACE`` with the two instructions and what both touch, or
            ``NEFF-DEADLOCK`` with what each engine waits for.
    """
    offsets = _offsets_of(program)
    for graph in program.subgraphs:
        _verify_block(graph, [graph.engines.get(engine, []) for engine in SEQUENCERS], offsets)


def cores_are_apart(bodies: Sequence[Block], written: Collection[str]) -> bool:
    """Whether no core of a kernel writes bytes in HBM that another one writes.

    Between two meetings of the cores such a kernel, which reads nothing that it writes, cannot race.

    Args:
        bodies: the statements of each core, without meetings.
        written: the kernel's tensors in HBM that are written; it reads none of them.
    """
    tracker, begins = Tracker(), list[int]()
    index = 0
    for core, body in enumerate(bodies):
        begins.append(index)
        for instruction in instructions_of(body):
            touched = [
                (access.tensor.name, region_of(access, (0, 0)), True)
                for access, is_written in operands_touched(instruction)
                if type(access) is Access and is_written and access.tensor.name in written
            ]
            if any(before < begins[core] for before in tracker.visit(index, core, touched)):
                return False
            index += 1
    return True


def _offsets_of(program: Program) -> Offsets:
    """The space of every HBM variable that may be written."""
    found: Offsets = {}
    for name, variable in program.variables.items():
        if variable.kind == "scratch":
            found[name] = ("scratch", variable.offset)
        elif variable.kind != "constant":
            found[name] = (f"hbm:{variable.alias or name}", 0)
    return found


def _verify_block(graph: SubGraph, programs: list[list[EngineStep]], offsets: Offsets) -> None:
    """Check one nesting level; the engines meet at the edges of loops."""
    at = [0] * len(programs)
    while True:
        runs = [_until_loop(steps, start) for steps, start in zip(programs, at, strict=True)]
        _Run(runs, graph.semaphores, offsets).check()
        at = [start + len(run) for start, run in zip(at, runs, strict=True)]
        loops = [
            steps[position] for steps, position in zip(programs, at, strict=True)
            if position < len(steps)
        ]  # fmt: skip
        if not loops:
            return
        bodies = [loop.body for loop in loops if isinstance(loop, EngineLoop)]
        idents = {loop.ident for loop in loops if isinstance(loop, EngineLoop)}
        if len(bodies) != len(programs) or len(idents) != 1:
            raise NeffCompileError(
                "the engines do not have the same loops at the same places",
                code="NEFF-DEADLOCK",
                place=f"loops {sorted(idents)}",
                remedy=_REMEDY,
            )
        _verify_block(graph, bodies, offsets)
        at = [position + 1 for position in at]


def _until_loop(steps: list[EngineStep], start: int) -> list[Step]:
    run: list[Step] = []
    for step in steps[start:]:
        if not isinstance(step, Step):
            break
        run.append(step)
    return run


@dataclass(slots=True)
class _Done:
    """A step that has run: its lane, its place there, and its clock when it had finished."""

    instruction: Instruction
    lane: int
    place: int
    clock: Clock


class _Run:
    """Steps between two loops' edges."""

    def __init__(self, runs: list[list[Step]], semaphores: int, offsets: Offsets) -> None:
        self._runs = runs
        self._offsets = offsets
        self._signals: list[list[_Done]] = [[] for _ in range(semaphores)]
        self._known: list[Clock] = [[0] * _LANES for _ in runs]
        self._length = [0] * _LANES
        self._done: list[_Done] = []
        self._tracker = Tracker()

    def check(self) -> None:
        at = [0] * len(self._runs)
        moving = True
        while moving:
            moving = False
            for engine, steps in enumerate(self._runs):
                while at[engine] < len(steps) and self._ready(steps[at[engine]]):
                    self._step(engine, steps[at[engine]])
                    at[engine] += 1
                    moving = True
        stuck = [
            (
                f"{SEQUENCERS[engine].name} waits at {steps[at[engine]].instruction.op} for "
                f"{steps[at[engine]].waits}",
                str(steps[at[engine]].instruction.location),
            )
            for engine, steps in enumerate(self._runs)
            if at[engine] < len(steps)
        ]
        if stuck:
            raise NeffCompileError(
                "the engines wait for each other: " + "; ".join(text for text, _ in stuck),
                code="NEFF-DEADLOCK",
                place=" and ".join(place for _, place in stuck),
                remedy=_REMEDY,
            )

    def _ready(self, step: Step) -> bool:
        return all(len(self._signals[semaphore]) >= value for semaphore, value in step.waits)

    def _step(self, engine: int, step: Step) -> None:
        known = self._known[engine]
        for semaphore, value in step.waits:
            for lane, place in enumerate(self._reached(semaphore, value)):
                known[lane] = max(known[lane], place)
        instruction = step.instruction
        lane = 2 * engine + (instruction.op in TRANSFERS)
        index = len(self._done)
        touched = touched_by(instruction, self._offsets)
        for before in self._tracker.visit(index, _LANES + index, touched):
            self._ordered(self._done[before], instruction, known)
        self._length[lane] += 1
        clock = list(known)
        clock[lane] = self._length[lane]
        if lane == 2 * engine:
            known[lane] = self._length[lane]
        done = _Done(instruction, lane, self._length[lane], clock)
        self._done.append(done)
        for semaphore in step.signals:
            self._signals[semaphore].append(done)

    def _reached(self, semaphore: int, value: int) -> Clock:
        """What is known when a semaphore has a value.

        Signals of one lane come in its order. When several lanes signal, only the whole count
        says who they were.
        """
        signals = self._signals[semaphore]
        if value <= 0:  # in a damaged program: nothing is waited for
            return [0] * _LANES
        if len({done.lane for done in signals}) == 1:
            return signals[value - 1].clock
        if value < len(signals):
            return [0] * _LANES
        return [max(places) for places in zip(*(done.clock for done in signals), strict=True)]

    def _ordered(self, before: _Done, after: Instruction, known: Clock) -> None:
        if known[before.lane] >= before.place:
            return
        raise NeffCompileError(
            f"{after.op} on {after.engine.name} may run before {before.instruction.op} on "
            f"{before.instruction.engine.name} has finished, and both touch the same memory",
            code="NEFF-RACE",
            place=f"{after.location} and {before.instruction.location}",
            remedy=_REMEDY,
        )
