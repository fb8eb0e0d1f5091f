"""The engines of one core as processes over simulated time.

Each engine works its list off in order. A compute instruction keeps its engine busy for its
documented cycles. A transfer leaves its engine at once; after the documented start-up it keeps as
many of the core's DMA engines busy as it has rows (at most all), and signals when it is done. An
instruction whose cost is not documented takes no time and is counted.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from neff.program import EngineLoop, EngineStep, Step
from nki_lang.ir import Access, Engine, Instruction
from nki_lang.ir.cost import DMA_START_NS, cost
from nki_lang.targets import Target

__all__ = ["CoreTime", "EngineTime", "simulate"]


@dataclass(slots=True)
class EngineTime:
    """What one engine did: instructions done, and nanoseconds in which it was busy."""

    instructions: int = 0
    busy_ns: float = 0.0

    def add(self, other: EngineTime, times: int = 1) -> None:
        """Take up what was done ``times`` times."""
        self.instructions += other.instructions * times
        self.busy_ns += other.busy_ns * times


@dataclass(slots=True)
class CoreTime:
    """What one core did.

    Attributes:
        total_ns: from the first instruction to the last.
        engines: by engine.
        dma: of all DMA engines together: transfers, and busy time summed over the engines.
        dma_bytes: bytes that the transfers moved.
        opcodes: nanoseconds by instruction name (transfers: of their own duration).
        unknown: instructions that took no time because their cost is not documented.
        unknown_loops: loops whose number of turns is only known while the program runs; one
            turn of each was counted.
    """

    total_ns: float = 0.0
    engines: dict[Engine, EngineTime] = field(default_factory=dict)
    dma: EngineTime = field(default_factory=EngineTime)
    dma_bytes: int = 0
    opcodes: dict[str, float] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    unknown_loops: int = 0

    def add(self, other: CoreTime, times: int = 1) -> None:
        """Take up a loop's turn ``times`` times."""
        self.total_ns += other.total_ns * times
        for engine, did in other.engines.items():
            self.engines.setdefault(engine, EngineTime()).add(did, times)
        self.dma.add(other.dma, times)
        self.dma_bytes += other.dma_bytes * times
        for name, spent in other.opcodes.items():
            self.spend(name, spent * times)
        for name, count in other.unknown.items():
            self.unknown[name] += count * times
        self.unknown_loops += other.unknown_loops

    def spend(self, opcode: str, nanoseconds: float) -> None:
        """Add to the time of an instruction name."""
        self.opcodes[opcode] = self.opcodes.get(opcode, 0.0) + nanoseconds


def simulate(programs: dict[Engine, list[EngineStep]], target: Target, semaphores: int) -> CoreTime:
    """Run the engine programs of one core, or of one turn of a loop, from time zero.

    The programs must be free of deadlocks (``neff.runtime.order``).
    """
    return _Core(programs, target, semaphores).run()


class _Core:
    def __init__(
        self, programs: dict[Engine, list[EngineStep]], target: Target, semaphores: int
    ) -> None:
        self.programs, self.target, self.semaphores = programs, target, semaphores
        self.at = dict.fromkeys(programs, 0)
        self.counts = [0] * semaphores
        self.sleepers: dict[int, list[Engine]] = {}
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.number = 0
        self.now = 0.0
        self.dma_free = [0.0] * target.dma_queues
        self.spent = CoreTime(engines={engine: EngineTime() for engine in programs})

    def run(self) -> CoreTime:
        while True:
            for engine in self.programs:
                self.go_on(engine)
            while self.events:
                self.now, _, action = heapq.heappop(self.events)
                action()
            if all(self.at[engine] >= len(steps) for engine, steps in self.programs.items()):
                self.spent.total_ns = self.now
                return self.spent
            self.loop()

    def later(self, delay: float, action: Callable[[], None]) -> None:
        """Do something when so many nanoseconds have passed; ties in the order of asking."""
        self.number += 1
        heapq.heappush(self.events, (self.now + delay, self.number, action))

    def go_on(self, engine: Engine) -> None:
        """Begin the engine's next steps until one takes time or has to wait."""
        steps = self.programs[engine]
        while self.at[engine] < len(steps):
            step = steps[self.at[engine]]
            if type(step) is not Step or self.sleeps(engine, step):
                return
            self.at[engine] += 1
            if self.begin(engine, step):
                return

    def sleeps(self, engine: Engine, step: Step) -> bool:
        for semaphore, value in step.waits:
            if self.counts[semaphore] < value:
                self.sleepers.setdefault(semaphore, []).append(engine)
                return True
        return False

    def begin(self, engine: Engine, step: Step) -> bool:
        """Start a step; True when the engine is busy with it."""
        instruction = step.instruction
        price = cost(instruction, self.target)
        spent = self.spent.engines[engine]
        spent.instructions += 1
        if price.nanoseconds is None:
            self.spent.unknown[instruction.op] += 1
            self.signal(step)
            return False
        if price.engine is Engine.dma:
            self.transfer(step, price.nanoseconds - DMA_START_NS)
            return False
        spent.busy_ns += price.nanoseconds
        self.spent.spend(instruction.op, price.nanoseconds)

        def done() -> None:
            self.signal(step)
            self.go_on(engine)

        self.later(price.nanoseconds, done)
        return True

    def transfer(self, step: Step, moving: float) -> None:
        rows = min(len(self.dma_free), _rows(step.instruction))
        chosen = sorted(range(len(self.dma_free)), key=lambda lane: self.dma_free[lane])[:rows]
        start = max(self.now + DMA_START_NS, *(self.dma_free[lane] for lane in chosen))
        for lane in chosen:
            self.dma_free[lane] = start + moving
        self.spent.dma.instructions += 1
        self.spent.dma.busy_ns += moving * rows
        self.spent.dma_bytes += _bytes(step.instruction)
        self.spent.spend(step.instruction.op, moving)
        self.later(start + moving - self.now, lambda: self.signal(step))

    def signal(self, step: Step) -> None:
        woken: list[Engine] = []
        for semaphore in step.signals:
            self.counts[semaphore] += 1
            woken += self.sleepers.pop(semaphore, ())
        for engine in woken:
            self.go_on(engine)

    def loop(self) -> None:
        """All engines stand in front of a loop: its turns one after the other."""
        fronts = {engine: steps[self.at[engine]] for engine, steps in self.programs.items()}
        loops = {engine: loop for engine, loop in fronts.items() if isinstance(loop, EngineLoop)}
        turns = _turns(next(iter(loops.values())))
        bodies = {engine: loop.body for engine, loop in loops.items()}
        turn = simulate(bodies, self.target, self.semaphores)
        self.spent.add(turn, 1 if turns is None else turns)
        self.spent.unknown_loops += turns is None
        self.now += turn.total_ns * (1 if turns is None else turns)
        for engine in self.programs:
            self.at[engine] += 1


def _turns(loop: EngineLoop) -> int | None:
    bounds = (loop.start, loop.stop, loop.step)
    if loop.condition is not None or not all(isinstance(bound, int) for bound in bounds):
        return None
    return len(range(*bounds))  # type: ignore[arg-type]


def _rows(instruction: Instruction) -> int:
    dst = instruction.operands.get("dst")
    return max(1, dst.pattern[0][1]) if type(dst) is Access and dst.pattern else 1


def _bytes(instruction: Instruction) -> int:
    dst = instruction.operands.get("dst")
    count = 1
    for extent in dst.shape if type(dst) is Access else ():
        count *= extent
    return count * dst.element_type.itemsize if type(dst) is Access else 0
