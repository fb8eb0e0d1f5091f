"""The statements of a core in one order, from the lists of its engines.

The compiler keeps the order of the kernel in each engine's list; between the lists only what
semaphores demand is left of it. Any order that keeps both computes the same. The one made here
takes each instruction as late as what is stored first allows, so tiles live as shortly as they
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
    """Engines have the same loops in the same order; between them stand runs of instructions."""
    body: Block = []
    at = dict.fromkeys(lists, 0)
    while True:
        run, loops = _next_run(lists, at)
        body += _ordered(run)
        if not loops:
            return body
        body.append(_loop(loops))


def _next_run(
    lists: _Lists, at: dict[Engine, int]
) -> tuple[dict[Engine, list[Step]], dict[Engine, EngineLoop]]:
    run: dict[Engine, list[Step]] = {}
    loops: dict[Engine, EngineLoop] = {}
    for engine, steps in lists.items():
        own: list[Step] = []
        run[engine] = own
        for place in range(at[engine], len(steps)):
            step = steps[place]
            at[engine] = place + 1
            if isinstance(step, EngineLoop):
                loops[engine] = step
                break
            own.append(step)
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
    steps = [step for own in run.values() for step in own]
    share = [place / len(own) for own in run.values() for place in range(len(own))]
    before = _before(run)
    after: list[list[int]] = [[] for _ in steps]
    for index, needed in enumerate(before):
        for other in needed:
            after[other].append(index)
    wanted = _wanted(before, after, share)
    missing = [len(needed) for needed in before]
    ready = [
        (wanted[index], share[index], index) for index, count in enumerate(missing) if not count
    ]
    heapify(ready)
    body: Block = []
    while ready:
        _, _, index = heappop(ready)
        body.append(steps[index].instruction)
        for other in after[index]:
            missing[other] -= 1
            if not missing[other]:
                heappush(ready, (wanted[other], share[other], other))
    return body


def _before(run: dict[Engine, list[Step]]) -> list[set[int]]:
    """For each step the ones that it comes after: on its engine, and those it waits for."""
    signals: dict[int, list[int]] = {}
    number = 0
    for own in run.values():
        for step in own:
            for semaphore in step.signals:
                signals.setdefault(semaphore, []).append(number)
            number += 1
    found: list[set[int]] = []
    for own in run.values():
        for place, step in enumerate(own):
            needed = {signals[semaphore][value - 1] for semaphore, value in step.waits}
            if place:
                needed.add(len(found) - 1)
            found.append(needed)
    return found


def _wanted(before: list[set[int]], after: list[list[int]], share: list[float]) -> list[float]:
    """When the first step that nothing comes after needs each one, as a share of its list."""
    missing = [len(later) for later in after]
    wanted = [share[index] if not later else 2.0 for index, later in enumerate(after)]
    ends = [index for index, count in enumerate(missing) if not count]
    while ends:
        index = ends.pop()
        for other in before[index]:
            wanted[other] = min(wanted[other], wanted[index])
            missing[other] -= 1
            if not missing[other]:
                ends.append(other)
    return wanted
