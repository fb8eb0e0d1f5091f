"""Proof that a core's engine programs cannot race or deadlock.

The programs are run abstractly once. While they run, every step gets a clock: how far each lane
(an engine's computations, an engine's transfers) is known to be when it starts. Two steps that
touch the same bytes, one of them writing, must be ordered by these clocks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from neff.compiler.assembly.dependencies import Tracker
from neff.compiler.assembly.engines import TRANSFERS
from neff.compiler.assembly.link import instructions_of
from neff.compiler.assembly.regions import Region, operands_touched, region_of
from neff.compiler.assembly.schedule import SEQUENCERS, Offsets, touched_by
from neff.errors import NeffCompileError
from neff.program import EngineLoop, EngineStep, Program, Step
from nki_lang.ir import Access, Block, Instruction

__all__ = ["cores_are_apart", "verify"]

_LANES = 2 * len(SEQUENCERS)

_REMEDY = "this is a bug in the tool that wrote the program, not a user error; please report it"

Clock = list[int]
Touched = list[tuple[str, Region, bool]]


def verify(program: Program) -> None:
    """Check every core of a program.

    Raises:
        NeffCompileError: ``NEFF-RACE`` with the two instructions and what both touch, or
            ``NEFF-DEADLOCK`` with what each engine waits for.
    """
    offsets = _offsets_of(program)
    for graph in program.subgraphs:
        _verify_block([graph.engines.get(engine, []) for engine in SEQUENCERS], offsets)


def cores_are_apart(bodies: Sequence[Block], written: Collection[str]) -> bool:
    """Return True when no two cores of a kernel write the same bytes in HBM.

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
    offsets: Offsets = {}
    for name, variable in program.variables.items():
        if variable.kind == "scratch":
            offsets[name] = ("scratch", variable.offset)
        elif variable.kind != "constant":
            offsets[name] = (f"hbm:{variable.alias or name}", 0)
    return offsets


def _verify_block(programs: list[list[EngineStep]], offsets: Offsets) -> None:
    """Check one nesting level; the engines meet at the edges of loops."""
    positions = [0] * len(programs)
    while True:
        runs = [_until_loop(steps, start) for steps, start in zip(programs, positions, strict=True)]
        _Run(runs, offsets).check()
        positions = [start + len(run) for start, run in zip(positions, runs, strict=True)]
        loops = [
            steps[position] for steps, position in zip(programs, positions, strict=True)
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
        _verify_block(bodies, offsets)
        positions = [position + 1 for position in positions]


def _until_loop(steps: list[EngineStep], start: int) -> list[Step]:
    run: list[Step] = []
    for position in range(start, len(steps)):  # a slice would copy the rest for every loop
        step = steps[position]
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


class _Semaphore:
    """The signals of a semaphore so far.

    Attributes:
        signals: the steps that signaled.
        clock: what is known when all of them have.
        lane: where all of them are; -1 when they are in several lanes.
    """

    __slots__ = ("clock", "lane", "signals")

    def __init__(self) -> None:
        self.signals: list[_Done] = []
        self.clock: Clock = [0] * _LANES
        self.lane = -1

    def signal(self, done: _Done) -> None:
        self.lane = done.lane if not self.signals or self.lane == done.lane else -1
        self.signals.append(done)
        _advance(self.clock, done.clock)

    def reached(self, value: int) -> Clock:
        """Return the clock that is certain once the semaphore has a value.

        Signals of one lane come in its order. When several lanes signal, only the whole count
        says who they were.
        """
        if value <= 0:  # in a damaged program: nothing is waited for
            return [0] * _LANES
        if self.lane >= 0:
            return self.signals[value - 1].clock
        return self.clock if value >= len(self.signals) else [0] * _LANES


def _advance(clock: Clock, reached: Clock) -> None:
    """Let a clock know what another one knows."""
    for lane, location in enumerate(reached):
        if location > clock[lane]:
            clock[lane] = location


class _Run:
    """Steps between two loops' edges."""

    def __init__(self, runs: list[list[Step]], offsets: Offsets) -> None:
        self._runs = runs
        self._offsets = offsets
        self._semaphores: dict[int, _Semaphore] = {}
        self._known: list[Clock] = [[0] * _LANES for _ in runs]
        self._length = [0] * _LANES
        self._done: list[_Done] = []
        self._tracker = Tracker()

    def check(self) -> None:
        positions = [0] * len(self._runs)
        is_moving = True
        while is_moving:
            is_moving = False
            for engine, steps in enumerate(self._runs):
                while positions[engine] < len(steps) and self._ready(steps[positions[engine]]):
                    self._step(engine, steps[positions[engine]])
                    positions[engine] += 1
                    is_moving = True
        stuck = [
            (
                f"{SEQUENCERS[engine].name} waits at {steps[position].instruction.op} for "
                f"{steps[position].waits}",
                str(steps[position].instruction.location),
            )
            for engine, (steps, position) in enumerate(zip(self._runs, positions, strict=True))
            if position < len(steps)
        ]
        if stuck:
            raise NeffCompileError(
                "the engines wait for each other: " + "; ".join(text for text, _ in stuck),
                code="NEFF-DEADLOCK",
                place=" and ".join(location for _, location in stuck),
                remedy=_REMEDY,
            )

    def _ready(self, step: Step) -> bool:
        return all(
            len(self._semaphore(semaphore).signals) >= value for semaphore, value in step.waits
        )

    def _semaphore(self, number: int) -> _Semaphore:
        """The state of a semaphore; only those that a run names have one."""
        state = self._semaphores.get(number)
        if state is None:
            state = self._semaphores[number] = _Semaphore()
        return state

    def _step(self, engine: int, step: Step) -> None:
        positions = self._known[engine]
        for semaphore, value in step.waits:
            _advance(positions, self._semaphore(semaphore).reached(value))
        instruction = step.instruction
        lane = 2 * engine + (instruction.op in TRANSFERS)
        touched = touched_by(instruction, self._offsets)
        for before in self._tracker.visit(len(self._done), lane, touched):
            done = self._done[before]
            if positions[done.lane] < done.place:
                self._raise_race(instruction, touched, positions)
        self._length[lane] += 1
        clock = list(positions)
        clock[lane] = self._length[lane]
        if lane == 2 * engine:
            positions[lane] = self._length[lane]
        done = _Done(instruction, lane, self._length[lane], clock)
        self._done.append(done)
        for semaphore in step.signals:
            self._semaphore(semaphore).signal(done)

    def _raise_race(self, after: Instruction, touched: Touched, positions: Clock) -> NoReturn:
        """Report the earliest step that an instruction touches the same memory as too early."""
        before = next(
            done.instruction
            for done in self._done
            if positions[done.lane] < done.place
            and _conflict(touched, touched_by(done.instruction, self._offsets))
        )
        raise NeffCompileError(
            f"{after.op} on {after.engine.name} may run before {before.op} on "
            f"{before.engine.name} has finished, and both touch the same memory",
            code="NEFF-RACE",
            place=f"{after.location} and {before.location}",
            remedy=_REMEDY,
        )


def _conflict(touched: Touched, earlier: Touched) -> bool:
    """Return True when two instructions touch the same bytes and one of them writes there."""
    return any(
        (is_written or was_written) and space == location and not region.apart(box)
        for space, region, is_written in touched
        for location, box, was_written in earlier
    )
