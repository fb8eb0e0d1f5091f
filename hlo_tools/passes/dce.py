"""Dead code: what neither a result nor an effect needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from hlo_tools.computation import Computation
from hlo_tools.effects import always_stays, can_call, effectful_computations, is_pure
from hlo_tools.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.passes.merging import Rows, drop_instructions

__all__ = ["DeadCode", "dead_instructions", "unreachable_computations"]


@dataclass(frozen=True, slots=True)
class DeadCode(Pass):
    """Remove instructions that nothing needs, and computations that nothing calls.

    Parameters, communication, custom calls with effects, and what calls these stay.

    Attributes:
        computations: remove computations too.
    """

    name: ClassVar[str] = "dce"
    ensures: ClassVar[tuple[str, ...]] = ("no-dead-code",)

    computations: bool = True

    def run(self, module: Module) -> bool:
        changed = self._drop_unreachable(module)
        removed = False
        for computation, dead in dead_instructions(module):
            drop_instructions(computation, dead)
            removed = True
        if removed:
            self._drop_unreachable(module)
        return changed or removed

    def _drop_unreachable(self, module: Module) -> bool:
        gone = unreachable_computations(module) if self.computations else []
        if gone:
            module._drop(gone)
        return bool(gone)


def unreachable_computations(module: Module) -> list[Computation]:
    """Computations that the entry does not lead to, in the file's order."""
    if len(module.computations) == 1:
        return []
    calls = {proto.id: _called(proto) for proto in module.proto.computations}
    reached: set[int] = set()
    stack = [module.entry.id]
    while stack:
        number = stack.pop()
        if number not in reached:
            reached.add(number)
            stack += calls.get(number, ())
    return [computation for computation in module.computations if computation.id not in reached]


def _called(proto: Any) -> set[int]:
    return {
        number
        for row in proto.instructions
        if can_call(row.opcode)
        for number in row.called_computation_ids
    }


def dead_instructions(module: Module) -> Iterator[tuple[Computation, list[int]]]:
    """Each computation that holds dead instructions, with their ids in order."""
    effectful = effectful_computations(module)
    for computation in module.computations:
        dead = _dead(computation, effectful)
        if dead:
            yield computation, dead


def _dead(computation: Computation, effectful: frozenset[int]) -> list[int]:
    """Users come after what they use, so one walk from the end finds all that is needed."""
    rows = Rows.of(computation)
    live = {rows.root(computation)}
    dead: list[int] = []
    for at in range(len(rows.ids) - 1, -1, -1):
        number = rows.ids[at]
        if number not in live and not _stays(rows.opcodes[at], rows.messages[at], effectful):
            dead.append(number)
            continue
        live.update(rows.operands[at])
        if number in rows.waits:
            live.update(rows.waits[number])
    return dead[::-1]


def _stays(opcode: str, row: Any, effectful: frozenset[int]) -> bool:
    if always_stays(opcode):
        return True
    return can_call(opcode) and not is_pure(row, effectful)
