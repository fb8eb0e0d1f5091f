"""Call inlining: a call becomes what it calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.passes.dce import unreachable_computations
from hlo_tools.rewrite.restructuring import inline_call

__all__ = ["CallInlining", "is_inlinable"]


@dataclass(frozen=True, slots=True)
class CallInlining(Pass):
    """Put the instructions of called computations in the place of calls.

    Composite calls stay. What is called from nowhere afterwards is removed.

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
        calls = [view for view in computation.post_order() if self._wants(view)]
        for call in calls:
            inline_call(call)
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
    if proto.is_composite and not composites:
        return False
    [target] = view.called_computations
    return len(target.parameters) == len(view.operands)
