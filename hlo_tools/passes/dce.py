"""Dead code: what neither a result nor an effect needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hlo_tools.computation import Computation
from hlo_tools.effects import always_stays, can_call, is_pure
from hlo_tools.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.passes.merging import Rows, drop_instructions, effectful_rows, read_all

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
        rows = read_all(module)
        changed = self._drop_unreachable(module, rows)
        removed = False
        for computation, dead in dead_instructions(module, rows):
            drop_instructions(computation, dead)
            rows[computation.id] = Rows.of(computation)
            removed = True
        if removed:
            self._drop_unreachable(module, rows)
        return changed or removed

    def _drop_unreachable(self, module: Module, rows: Mapping[int, Rows]) -> bool:
        gone = unreachable_computations(module, rows) if self.computations else []
        if gone:
            module._drop(gone)
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
