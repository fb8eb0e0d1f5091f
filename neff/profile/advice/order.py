"""The statements of a core in one order, from the lists of its engines.

The compiler keeps the order of the kernel in each engine's list; between the lists only the
semaphores keep some of it. Any order that keeps both computes the same. This order
takes each instruction as late as the final stores allow, so tiles live as shortly as they
did in the kernel.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from neff.program import EngineLoop, EngineStep, Step, SubGraph
from nki_lang.ir import Block, Engine, ForLoop, Register, WhileLoop

__all__ = ["statements_of"]

_Lists = dict[Engine, list[EngineStep]]


def statements_of(graph: SubGraph) -> Block:
    """The program of one core as the compiler schedules it."""
    return _block(graph.engines)


def _block(lists: _Lists) -> Block:
    """Merge the lists: engines have the same loops in the same order, with runs of instructions
    between.
    """
    body: Block = []
    positions = dict.fromkeys(lists, 0)
    while True:
        run, loops = _next_run(lists, positions)
        body += _ordered(run)
        if not loops:
            return body
        body.append(_loop(loops))


def _next_run(
    lists: _Lists, positions: dict[Engine, int]
) -> tuple[dict[Engine, list[Step]], dict[Engine, EngineLoop]]:
    run: dict[Engine, list[Step]] = {}
    loops: dict[Engine, EngineLoop] = {}
    for engine, steps in lists.items():
        engine_steps: list[Step] = []
        run[engine] = engine_steps
        for position in range(positions[engine], len(steps)):
            step = steps[position]
            positions[engine] = position + 1
            if isinstance(step, EngineLoop):
                loops[engine] = step
                break
            engine_steps.append(step)
    return run, loops


def _loop(loops: dict[Engine, EngineLoop]) -> ForLoop | WhileLoop:
    body = _block({engine: loop.body for engine, loop in loops.items()})
    loop = next(iter(loops.values()))
    if loop.condition is not None:
        return WhileLoop(loop.condition, body, loop.location)
    register = loop.register or Register("")
    return ForLoop(register, loop.start, loop.stop, loop.step, body, loop.location)


def _ordered(run: dict[Engine, list[Step]]) -> Block:
    """One list in an order that engines and semaphores allow."""
    steps = [step for engine_steps in run.values() for step in engine_steps]
    share = [
        position / len(engine_steps)
        for engine_steps in run.values()
        for position in range(len(engine_steps))
    ]
    before = _before(run)
    after: list[list[int]] = [[] for _ in steps]
    for index, needed in enumerate(before):
        for neighbor in needed:
            after[neighbor].append(index)
    deadlines = _deadlines(before, after, share)
    missing = [len(needed) for needed in before]
    ready = [
        (deadlines[index], share[index], index) for index, count in enumerate(missing) if not count
    ]
    heapify(ready)
    body: Block = []
    while ready:
        _, _, index = heappop(ready)
        body.append(steps[index].instruction)
        for neighbor in after[index]:
            missing[neighbor] -= 1
            if not missing[neighbor]:
                heappush(ready, (deadlines[neighbor], share[neighbor], neighbor))
    return body


def _before(run: dict[Engine, list[Step]]) -> list[set[int]]:
    """Return for each step its predecessors: the previous step of its engine, and those it waits
    for.
    """
    signals: dict[int, list[int]] = {}
    number = 0
    for engine_steps in run.values():
        for step in engine_steps:
            for semaphore in step.signals:
                signals.setdefault(semaphore, []).append(number)
            number += 1
    predecessors: list[set[int]] = []
    for engine_steps in run.values():
        for position, step in enumerate(engine_steps):
            needed = {signals[semaphore][value - 1] for semaphore, value in step.waits}
            if position:
                needed.add(len(predecessors) - 1)
            predecessors.append(needed)
    return predecessors


def _deadlines(before: list[set[int]], after: list[list[int]], share: list[float]) -> list[float]:
    """Return for each step the earliest final step that needs it, as a share of that step's
    list.
    """
    missing = [len(later) for later in after]
    deadlines = [share[index] if not later else 2.0 for index, later in enumerate(after)]
    ends = [index for index, count in enumerate(missing) if not count]
    while ends:
        index = ends.pop()
        for predecessor in before[index]:
            deadlines[predecessor] = min(deadlines[predecessor], deadlines[index])
            missing[predecessor] -= 1
            if not missing[predecessor]:
                ends.append(predecessor)
    return deadlines
