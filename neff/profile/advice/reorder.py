"""Reordering of statements that keeps their results."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from neff.compiler.assembly.dependencies import Tracker
from neff.compiler.assembly.regions import Region, operands_touched, region_of
from nki_lang.ir import Instruction, Register

__all__ = ["dependencies", "grouped_by"]

_REGISTER = Region(0, 1, 0, 1)


def dependencies(run: list[Instruction], *, is_placed: bool = False) -> list[set[int]]:
    """Return for each instruction of a run the earlier ones that it must follow.

    Tensors of different names never overlap, whatever their addresses are, unless ``is_placed``.
    """
    tracker = Tracker()
    written = {
        operand.tensor.name
        for instruction in run
        for operand, is_written in operands_touched(instruction)
        if is_written and not isinstance(operand, Register)
    }
    return [
        # Each is a lane of its own: they finish in any order.
        tracker.visit(index, index, _touched(instruction, written, is_placed))
        for index, instruction in enumerate(run)
    ]


def _touched(
    instruction: Instruction, written: set[str], is_placed: bool
) -> list[tuple[str, Region, bool]]:
    touched: list[tuple[str, Region, bool]] = []
    for operand, is_written in operands_touched(instruction):
        if isinstance(operand, Register):
            touched.append((f"register:{operand.name}", _REGISTER, is_written))
        elif is_placed and operand.tensor.address is not None:
            region = region_of(operand, operand.tensor.address)
            touched.append((operand.tensor.buffer.name, region, is_written))
        elif operand.tensor.name in written:
            touched.append((operand.tensor.name, region_of(operand, (0, 0)), is_written))
    return touched


def grouped_by(
    run: list[Instruction], key: Callable[[Instruction], str], max_group_size: int
) -> list[Instruction]:
    """Group instructions of one key, at most ``max_group_size`` at a time.

    Instructions without a key ("") keep their order as far as possible.
    """
    before = dependencies(run)
    after: list[list[int]] = [[] for _ in run]
    for index, needed in enumerate(before):
        for neighbor in needed:
            after[neighbor].append(index)
    missing = [len(needed) for needed in before]
    keys = [key(instruction) for instruction in run]
    ungrouped: list[int] = []
    parked: dict[str, list[int]] = {}
    ordered: list[Instruction] = []

    def offer(index: int) -> None:
        heappush(parked.setdefault(keys[index], []) if keys[index] else ungrouped, index)

    for index, count in enumerate(missing):
        if not count:
            offer(index)
    group, group_size = next((name for name in keys if name), ""), 0
    while ungrouped or any(parked.values()):
        ready_in_group = parked.get(group)
        if ungrouped and not (
            ready_in_group and group_size < max_group_size and ready_in_group[0] < ungrouped[0]
        ):
            index = heappop(ungrouped)
        else:
            if not ready_in_group or group_size >= max_group_size:
                group, group_size = (
                    min((ready[0], name) for name, ready in parked.items() if ready)[1],
                    0,
                )
            index = heappop(parked[group])
            group_size += 1
        ordered.append(run[index])
        for neighbor in after[index]:
            missing[neighbor] -= 1
            if not missing[neighbor]:
                offer(neighbor)
    return ordered
