"""Another order of statements that computes the same."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from neff.compiler.assembly.dependencies import Tracker
from neff.compiler.assembly.regions import Region, operands_touched, region_of
from nki_lang.ir import Instruction, Register

__all__ = ["dependencies", "grouped_by"]

_REGISTER = Region(0, 1, 0, 1)


def dependencies(run: list[Instruction]) -> list[set[int]]:
    """For each instruction of a run the earlier ones that it must come after.

    Tensors of different names are apart, whatever their addresses are.
    """
    tracker = Tracker()
    written = {
        what.tensor.name
        for instruction in run
        for what, is_written in operands_touched(instruction)
        if is_written and not isinstance(what, Register)
    }
    return [
        # Each is a lane of its own: they finish in any order.
        tracker.visit(index, index, _touched(instruction, written))
        for index, instruction in enumerate(run)
    ]


def _touched(instruction: Instruction, written: set[str]) -> list[tuple[str, Region, bool]]:
    found: list[tuple[str, Region, bool]] = []
    for what, is_written in operands_touched(instruction):
        if isinstance(what, Register):
            found.append((f"register:{what.name}", _REGISTER, is_written))
        elif what.tensor.name in written:
            found.append((what.tensor.name, region_of(what, (0, 0)), is_written))
    return found


def grouped_by(
    run: list[Instruction], key: Callable[[Instruction], str], most: int
) -> list[Instruction]:
    """The run with instructions of one key together, at most so many at a time.

    Those without a key ("") keep their order as far as they can.
    """
    before = dependencies(run)
    after: list[list[int]] = [[] for _ in run]
    for index, needed in enumerate(before):
        for other in needed:
            after[other].append(index)
    missing = [len(needed) for needed in before]
    keys = [key(instruction) for instruction in run]
    free: list[int] = []
    parked: dict[str, list[int]] = {}
    found: list[Instruction] = []

    def offer(index: int) -> None:
        heappush(parked.setdefault(keys[index], []) if keys[index] else free, index)

    for index, count in enumerate(missing):
        if not count:
            offer(index)
    now, taken = next((name for name in keys if name), ""), 0
    while free or any(parked.values()):
        own = parked.get(now)
        if free and not (own and taken < most and own[0] < free[0]):
            index = heappop(free)
        else:
            if not own or taken >= most:
                now, taken = min((ready[0], name) for name, ready in parked.items() if ready)[1], 0
            index = heappop(parked[now])
            taken += 1
        found.append(run[index])
        for other in after[index]:
            missing[other] -= 1
            if not missing[other]:
                offer(other)
    return found
