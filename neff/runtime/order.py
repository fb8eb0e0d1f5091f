"""One order of all instructions of a core, found by running its semaphores once.

The engines of a core run side by side and meet through semaphores. Any order that the
semaphores allow has the same result, provided the program is free of races; so the runtime
needs only one. It follows data: an engine that a signal wakes goes on at once, and with it the
bytes that were just written are used while they are still near.
"""

from __future__ import annotations

from neff.errors import NeffRuntimeError
from neff.program import EngineLoop, EngineStep, Step, SubGraph
from nki_lang.ir import Block, Engine, ForLoop, Register, WhileLoop

__all__ = ["order_of"]

_REMEDY = "this is a bug in the tool that wrote the program, not a user error; build it again"


def order_of(graph: SubGraph, location: str = "") -> Block:
    """The instructions of one core in an order that its semaphores allow.

    Args:
        graph: the core's engine programs.
        location: file and subgraph, for errors.

    Raises:
        NeffRuntimeError: ``NEFF-DEADLOCK`` with who waits for whom at which line, or
            ``NEFF-SEMAPHORE``; a semaphore does not exist.
    """
    return _Core(graph.engines, graph.semaphores, location).run()


class _Core:
    """The engines of one core within one loop body, or in the outermost program."""

    def __init__(
        self, programs: dict[Engine, list[EngineStep]], semaphores: int, place: str
    ) -> None:
        self.programs = programs
        self.semaphores = semaphores
        self.place = place
        self.positions = dict.fromkeys(programs, 0)
        self.counts: dict[int, int] = {}
        self.sleepers: dict[int, list[Engine]] = {}
        self.ordered: Block = []

    def run(self) -> Block:
        while True:
            self.until_loop()
            fronts = {engine: self.front(engine) for engine in self.programs}
            if all(front is None for front in fronts.values()):
                return self.ordered
            loops = [front for front in fronts.values() if isinstance(front, EngineLoop)]
            if len(loops) != len(fronts) or len({loop.ident for loop in loops}) != 1:
                raise self.deadlock(fronts)
            self.loop(dict(zip(fronts, loops, strict=True)))

    def front(self, engine: Engine) -> EngineStep | None:
        steps = self.programs[engine]
        return steps[self.positions[engine]] if self.positions[engine] < len(steps) else None

    def until_loop(self) -> None:
        """Run every engine as far as the semaphores let it."""
        ready = list(self.programs)[::-1]
        while ready:
            engine = ready.pop()
            woken = self.advance(engine)
            if woken:
                ready.append(engine)
                ready += reversed(woken)

    def advance(self, engine: Engine) -> list[Engine]:
        """Run one engine until it wakes others, or has to wait; who was woken."""
        steps, position = self.programs[engine], self.positions[engine]
        while position < len(steps):
            step = steps[position]
            if type(step) is not Step or self.sleeps(engine, step):
                break
            self.ordered.append(step.instruction)
            position += 1
            self.positions[engine] = position
            woken: list[Engine] = []
            for semaphore in step.signals:
                self.check(semaphore, step)
                self.counts[semaphore] = self.counts.get(semaphore, 0) + 1
                woken += self.sleepers.pop(semaphore, ())
            if woken:
                return woken
        return []

    def sleeps(self, engine: Engine, step: Step) -> bool:
        for semaphore, value in step.waits:
            self.check(semaphore, step)
            if self.counts.get(semaphore, 0) < value:
                self.sleepers.setdefault(semaphore, []).append(engine)
                return True
        return False

    def check(self, semaphore: int, step: Step) -> None:
        if not 0 <= semaphore < self.semaphores:
            raise NeffRuntimeError(
                f"{step.instruction.op} uses semaphore {semaphore}; there are 0 to "
                f"{self.semaphores - 1}",
                code="NEFF-SEMAPHORE",
                place=_where(step, self.place),
                remedy=_REMEDY,
            )

    def loop(self, fronts: dict[Engine, EngineLoop]) -> None:
        bodies = {engine: loop.body for engine, loop in fronts.items()}
        body = _Core(bodies, self.semaphores, self.place).run()
        first = next(iter(fronts.values()))
        for engine, loop in fronts.items():
            if _head(loop) != _head(first):
                raise NeffRuntimeError(
                    f"loop {loop.ident} has other bounds on {engine.name}",
                    code="NEFF-LOOP",
                    place=_where(loop, self.place),
                    remedy=_REMEDY,
                )
            self.positions[engine] += 1
        self.ordered.append(_statement(first, body))

    def deadlock(self, fronts: dict[Engine, EngineStep | None]) -> NeffRuntimeError:
        lines = [self.reason(engine, front) for engine, front in fronts.items()]
        return NeffRuntimeError(
            "the engines wait for each other: " + "; ".join(line for line in lines if line),
            code="NEFF-DEADLOCK",
            place=self.place,
            remedy=_REMEDY,
        )

    def reason(self, engine: Engine, front: EngineStep | None) -> str:
        if front is None:
            return f"{engine.name} is done" if self.programs[engine] else ""
        if isinstance(front, EngineLoop):
            return f"{engine.name} is at loop {front.ident} ({_where(front, '?')})"
        waits = [
            f"semaphore {semaphore} to reach {value} (it is {self.counts.get(semaphore, 0)}, "
            f"{self.signallers(semaphore)})"
            for semaphore, value in front.waits
            if self.counts.get(semaphore, 0) < value
        ]
        where = _where(front, "?")
        return f"{engine.name} waits at {where} for " + " and ".join(waits)

    def signallers(self, semaphore: int) -> str:
        """Who would still signal a semaphore, and where."""
        signallers = [
            f"{engine.name} at {_where(step, '?')}"
            for engine, steps in self.programs.items()
            for step in steps[self.positions[engine] :]
            if type(step) is Step and semaphore in step.signals
        ]
        return f"next signalled by {signallers[0]}" if signallers else "nothing signals it any more"


def _statement(loop: EngineLoop, body: Block) -> ForLoop | WhileLoop:
    if loop.condition is not None:
        return WhileLoop(loop.condition, body, loop.location)
    register = loop.register or Register("")
    return ForLoop(register, loop.start, loop.stop, loop.step, body, loop.location)


def _head(
    loop: EngineLoop,
) -> tuple[Register | None, int | Register, int | Register, int | Register, Register | None]:
    return loop.register, loop.start, loop.stop, loop.step, loop.condition


def _where(step: EngineStep, otherwise: str) -> str:
    location = step.instruction.location if isinstance(step, Step) else step.location
    return str(location) if location else otherwise
