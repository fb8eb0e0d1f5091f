"""Call inlining: a call becomes what it calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from hlo_tools.computation import Computation
from hlo_tools.ids import LOCAL_MASK
from hlo_tools.instruction import Instruction
from hlo_tools.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.passes.dce import unreachable_computations
from hlo_tools.restructuring import clone_instruction

__all__ = ["CallInlining", "is_inlinable"]


@dataclass(frozen=True, slots=True)
class CallInlining(Pass):
    """Put the instructions of called computations in the place of calls.

    Composite calls stay, as do calls with control edges, in them or to them. What is called from
    nowhere afterwards is removed.

    Attributes:
        limit: instructions that an inlined computation has at most; 0 for no limit.
        composites: inline composite calls too.
    """

    name: ClassVar[str] = "call-inlining"
    ensures: ClassVar[tuple[str, ...]] = ("no-calls",)

    limit: int = 0
    composites: bool = False

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations_in_order():
            changed |= self._inline_in(computation)
        if changed:
            module._drop(unreachable_computations(module))
        return changed

    def _inline_in(self, computation: Computation) -> bool:
        waited = _waited_for(computation)
        calls = [
            view
            for view in computation.post_order()
            if view.opcode == "call" and view.local_id not in waited and self._wants(view)
        ]
        for call in calls:
            call.replace_uses(_expanded(call))
        if calls:
            computation.remove_all(set(calls))
        return bool(calls)

    def _wants(self, view: Instruction) -> bool:
        if not is_inlinable(view, composites=self.composites):
            return False
        return not self.limit or len(view.called_computations[0]) <= self.limit


def is_inlinable(view: Instruction, *, composites: bool = False) -> bool:
    """Whether a call may be put aside for what it calls."""
    proto = view.proto
    if proto.opcode != "call" or len(proto.called_computation_ids) != 1:
        return False
    if proto.control_predecessor_ids or (proto.is_composite and not composites):
        return False
    [target] = view.called_computations
    if len(target.parameters) != len(view.operands):
        return False
    return not any(each.proto.control_predecessor_ids for each in target._views())


def _waited_for(computation: Computation) -> set[int]:
    return {
        number & LOCAL_MASK
        for view in computation._views()
        for number in view.proto.control_predecessor_ids
    }


def _expanded(call: Instruction) -> Instruction:
    """The called computation's instructions beside the call; what stands for its result."""
    [target] = call.called_computations
    copies: dict[Instruction, Instruction] = dict(
        zip(target.parameters, call.operands, strict=True)
    )
    for view in _without(target.post_order(), copies):
        operands = [copies[operand] for operand in view.operands]
        copies[view] = clone_instruction(view, operands, call.computation)
    return copies[target.root]


def _without(
    views: Iterable[Instruction], known: dict[Instruction, Instruction]
) -> list[Instruction]:
    return [view for view in views if view not in known]
