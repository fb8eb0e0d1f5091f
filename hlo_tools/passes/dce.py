"""Dead code: what neither a result nor an effect needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.passes.merging import Rows, drop_instructions, effectful_rows, keep, read_all
from hlo_tools.rewrite.effects import always_stays, can_call, is_pure

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto

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
        rows = dict(read_all(module))
        changed = self._drop_unreachable(module, rows)
        removed = False
        for computation, dead in dead_instructions(module, rows):
            rows[computation.id] = drop_instructions(computation, rows[computation.id], dead)
            removed = True
        if removed:
            self._drop_unreachable(module, rows)
        keep(module, rows)
        return changed or removed

    def _drop_unreachable(self, module: Module, rows: dict[int, Rows]) -> bool:
        gone = unreachable_computations(module, rows) if self.computations else []
        if gone:
            module.drop_computations(gone)
        for computation in gone:
            del rows[computation.id]
        return bool(gone)


def unreachable_computations(
    module: Module, rows: Mapping[int, Rows] | None = None
) -> list[Computation]:
    """Computations that the entry does not lead to, in the file's order.

    Args:
        rows: the instructions of every computation, where they are at hand.
    """
    if len(module.computations) == 1:
        return []
    rows = read_all(module) if rows is None else rows
    reached: set[int] = set()
    stack = [module.entry.id]
    while stack:
        number = stack.pop()
        if number not in reached and number in rows:
            reached.add(number)
            stack += rows[number].called()
    return [computation for computation in module.computations if computation.id not in reached]


def dead_instructions(
    module: Module, rows: Mapping[int, Rows] | None = None
) -> Iterator[tuple[Computation, list[int]]]:
    """Each computation that holds dead instructions, with their ids in order.

    Args:
        rows: the instructions of every computation, where they are at hand.
    """
    rows = read_all(module) if rows is None else rows
    effectful = effectful_rows(module, rows)
    for computation in module.computations:
        dead = _dead(computation, rows[computation.id], effectful)
        if dead:
            yield computation, dead


def _dead(computation: Computation, rows: Rows, effectful: frozenset[int]) -> list[int]:
    """Users come after what they use, so one walk from the end finds all that is needed."""
    live = {rows.root(computation)}
    dead: list[int] = []
    waits, need = rows.waits, live.update
    positions = list(zip(rows.ids, rows.opcodes, rows.operands, rows.messages, strict=True))
    for number, opcode, operands, row in reversed(positions):
        if number in live or _stays(opcode, row, effectful):
            need(operands)
            if number in waits:
                need(waits[number])
        else:
            dead.append(number)
    return dead[::-1]


def _stays(opcode: str, row: HloInstructionProto, effectful: frozenset[int]) -> bool:
    if always_stays(opcode):
        return True
    return can_call(opcode) and not is_pure(row, effectful)
