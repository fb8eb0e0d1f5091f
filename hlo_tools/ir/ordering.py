"""Orders in which everything that something needs comes before it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from hlo_tools.errors import HloFileError

if TYPE_CHECKING:
    from hlo_tools.ir.computation import Computation
    from hlo_tools.ir.instruction import Instruction
    from hlo_tools.ir.module import Module

__all__ = [
    "behind", "computations_in_order", "instructions_in_order", "is_continuation", "needs_first",
]  # fmt: skip

Node = TypeVar("Node", bound=Hashable)


def behind(view: Instruction, *opcodes: str) -> Instruction:
    """The first instruction that is none of ``opcodes``, from a first operand to the next.

    In a damaged module, one of them that has no operand, or leads back to itself.
    """
    passed: set[Instruction] = set()
    while view.proto.opcode in opcodes and view.operands and view not in passed:
        passed.add(view)
        view = view.operands[0]
    return view


def is_continuation(view: Instruction) -> bool:
    """Return True if an instruction continues or finishes its operand's operation, as async-done."""
    return view.proto.opcode.endswith(("-update", "-done"))


def instructions_in_order(computation: Computation) -> list[Instruction]:
    """Operands and control predecessors first; otherwise the present order."""

    views = computation.views()
    waits = any(view.proto.control_predecessor_ids for view in views)
    needs = _operands_and_predecessors if waits else _operands
    return needs_first(views, needs, f"computation %{computation.name}")


_operands: Callable[[Instruction], tuple[Instruction, ...]] = attrgetter("operands")


def _operands_and_predecessors(view: Instruction) -> tuple[Instruction, ...]:
    return view.operands + view.control_predecessors


def computations_in_order(module: Module) -> list[Computation]:
    """Called computations first; otherwise the present order."""

    def needs(computation: Computation) -> list[Computation]:
        called: dict[Computation, None] = {}
        for number in computation.called_ids():
            called[module.computation_by_id(number)] = None
        return list(called)

    return needs_first(module.computations, needs, f"module {module.name}")


def needs_first(
    nodes: Iterable[Node], needs: Callable[[Node], Iterable[Node]], where: str
) -> list[Node]:
    """A stable depth-first order without recursion.

    Raises:
        HloFileError: nodes need each other in a circle (HLO-CYCLE); two of them are named.
    """
    done: set[Node] = set()
    order: list[Node] = []
    for start in nodes:
        if start in done:
            continue
        first = needs(start)
        if done.issuperset(first):  # as most are: what it needs stands before it
            done.add(start)
            order.append(start)
            continue
        waiting = {start}
        stack = [(start, iter(first))]
        while stack:
            node, remaining = stack[-1]
            for needed in remaining:
                if needed in done:
                    continue
                if needed in waiting:
                    raise _circle(node, needed, where)
                waiting.add(needed)
                stack.append((needed, iter(needs(needed))))
                break
            else:
                stack.pop()
                done.add(node)
                order.append(node)
    return order


def _circle(node: object, needed: object, where: str) -> HloFileError:
    first, second = (getattr(item, "name", item) for item in (node, needed))
    return HloFileError(
        f"in {where}, %{first} and %{second} depend on each other in a cycle",
        code="HLO-CYCLE",
        remedy="the module is damaged, or was edited inconsistently",
    )
