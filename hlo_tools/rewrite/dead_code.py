"""Removing what neither a result nor an effect needs."""

from __future__ import annotations

from collections.abc import Iterable

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.effects import effectful_computations, has_effect_within, is_pure

__all__ = ["UnusedRemover", "remove_dead", "remove_unreachable"]


def remove_dead(computation: Computation) -> int:
    """Remove what neither the root nor an instruction with an effect needs; how many."""
    effectful = effectful_computations(computation.module)
    live: set[Instruction] = set()
    stack = [view for view in computation.instructions if not is_pure(view.proto, effectful)]
    stack.append(computation.root)
    while stack:
        view = stack.pop()
        if view not in live:
            live.add(view)
            stack += view.operands
            if view.proto.control_predecessor_ids:
                stack += view.control_predecessors
    dead = {view for view in computation.instructions if view not in live}
    if dead:
        computation.remove_all(dead)
    return len(dead)


class UnusedRemover:
    """Removes instructions that lost their users, and what only they used, during a rewriting.

    Costs as much as it removes and what that calls. To create it brings the computation into order: new instructions take the places of those that they replace.
    """

    def __init__(self, computation: Computation) -> None:
        self._computation = computation
        self._acting: dict[int, bool] = {}
        computation.put_in_order()
        self._waited = computation.waited_ids()

    def drop(self, views: Iterable[Instruction]) -> None:
        """Remove those of ``views`` that nothing uses, waits for or needs done."""
        stack = list(views)
        while stack:
            view = stack.pop()
            if self._stays(view):
                continue
            stack += view.operands
            self._computation.remove_all({view})

    def _stays(self, view: Instruction) -> bool:
        number = view.local_id
        here = self._computation
        return (
            not here.holds(view)
            or view.is_used
            or view is here.root
            or number in self._waited
            or has_effect_within(view, self._acting)
        )


def remove_unreachable(module: Module) -> int:
    """Remove computations that the entry does not lead to; how many."""
    entry = module.entry
    reached = {entry}
    stack = [entry]
    while stack:
        for number in stack.pop().called_ids():
            called = module.computation_by_id(number)
            if called not in reached:
                reached.add(called)
                stack.append(called)
    gone = [computation for computation in module.computations if computation not in reached]
    if gone:
        module.drop_computations(gone)
    return len(gone)
