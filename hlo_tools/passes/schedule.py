"""Schedule: an order in which each computation's instructions run."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import ClassVar, Literal

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass

__all__ = ["Schedule", "peak_bytes"]


@dataclass(frozen=True, slots=True)
class Schedule(Pass):
    """Write a schedule into the module, or take it out.

    ``memory`` takes, of the instructions that can run, the one that frees most bytes beyond what
    its result needs; ties go to the earlier one. ``post`` is operands first in the present order.

    Attributes:
        order: ``memory``, ``post``, or ``none`` for a module without a schedule.
    """

    name: ClassVar[str] = "schedule"
    ensures: ClassVar[tuple[str, ...]] = ("scheduled",)

    order: Literal["memory", "post", "none"] = "memory"

    def run(self, module: Module) -> bool:
        proto = module.proto
        before = proto.schedule.SerializeToString(deterministic=True)
        if self.order == "none":
            if proto.HasField("schedule"):
                proto.ClearField("schedule")
                module.mark_changed()
                return True
            return False
        changed = False
        for computation in module.computations:
            if not computation.is_fusion:
                changed |= _schedule(computation, self.order)
        if before != proto.schedule.SerializeToString(deterministic=True) or changed:
            module.touch()
            return True
        return False


def _schedule(computation: Computation, order: str) -> bool:
    """Sort a computation and write its sequence; whether its list changed."""
    chosen = _by_memory(computation) if order == "memory" else computation.post_order()
    proto = computation.proto
    rank = {view.proto.id: position for position, view in enumerate(chosen)}
    ids = [view.proto.id for view in chosen]
    moved = any(row.id != number for row, number in zip(proto.instructions, ids, strict=True))
    if moved:
        proto.instructions.sort(key=lambda row: rank[row.id])
    sequence = computation.module.raw_proto.schedule.sequences[computation.id]
    if list(sequence.instruction_ids) != ids:
        sequence.instruction_ids[:] = ids
    return moved


def _needs(view: Instruction) -> tuple[Instruction, ...]:
    if not view.proto.control_predecessor_ids:
        return view.operands
    return tuple(dict.fromkeys(view.operands + view.control_predecessors))


def _by_memory(computation: Computation) -> list[Instruction]:
    """Schedule by list scheduling: choose the ready instruction that leaves least memory in use.

    What an instruction frees changes while its operands' other users run; it is then put into the
    heap again, and what is out of date is passed over.
    """
    views = computation.post_order()
    positions = {view: position for position, view in enumerate(views)}
    missing = {view: len(set(_needs(view))) for view in views}
    waiting: dict[Instruction, list[Instruction]] = {view: [] for view in views}
    for view in views:
        for needed in set(_needs(view)):
            waiting[needed].append(view)
    left = {view: len(view.users) + (view is computation.root) for view in views}
    sizes = {view: 0 if view.opcode == "parameter" else view.shape.byte_size for view in views}

    def growth(view: Instruction) -> int:
        freed = sum(sizes[operand] for operand in set(view.operands) if left[operand] == 1)
        return sizes[view] - freed

    heap = [(growth(view), positions[view]) for view in views if not missing[view]]
    heapq.heapify(heap)
    order: list[Instruction] = []
    done: set[Instruction] = set()
    while heap:
        _, position = heapq.heappop(heap)
        view = views[position]
        if view in done:
            continue
        done.add(view)
        order.append(view)
        for operand in set(view.operands):
            left[operand] -= 1
            if left[operand] == 1:
                last = [user for user in operand.users if user not in done and not missing[user]]
                for user in last:
                    heapq.heappush(heap, (growth(user), positions[user]))
        for user in waiting[view]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(heap, (growth(user), positions[user]))
    return order


def peak_bytes(computation: Computation) -> int:
    """Most bytes of results in use at one time, in the present order, parameters left out."""
    views = computation.instructions
    left = {view: len(view.users) + view.is_root for view in views}
    used = maximum = 0
    for view in views:
        used += 0 if view.opcode == "parameter" else view.shape.byte_size
        maximum = max(maximum, used)
        for operand in set(view.operands):
            left[operand] -= 1
            if left[operand] == 0 and operand.opcode != "parameter":
                used -= operand.shape.byte_size
    return maximum
