"""Many instructions of a computation at once, on the messages themselves.

Views of what stays live on; no view is made for what goes. What every pass asks for is read from
the messages once, into plain lists: reading a field of a message costs more than the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hlo_tools.computation import Computation
from hlo_tools.effects import can_call
from hlo_tools.ids import LOCAL_MASK
from hlo_tools.module import Module
from hlo_tools.ordering import needs_first

__all__ = ["Rows", "called_first", "drop_instructions", "replace_instructions"]

Message = Any


@dataclass(frozen=True, slots=True)
class Rows:
    """The instructions of a computation, operands and control predecessors first.

    Attributes:
        messages: the instructions.
        ids, opcodes, operands: their fields, operands as whole ids.
        waits: control predecessors, of the instructions that have some.
    """

    messages: list[Message]
    ids: list[int]
    opcodes: list[str]
    operands: list[tuple[int, ...]]
    waits: dict[int, tuple[int, ...]]

    def root(self, computation: Computation) -> int:
        """The root's whole id."""
        wanted = computation.proto.root_id
        if self.ids and self.ids[-1] == wanted:
            return wanted
        return wanted if wanted in self.ids else computation.root.id

    @classmethod
    def of(cls, computation: Computation) -> Rows:
        """Read a computation; its list is brought into order if it is not."""
        rows = cls._read(list(computation.proto.instructions))
        if rows._is_in_order():
            return rows
        for view in computation.post_order():
            view.proto.operand_ids[:] = [operand.id for operand in view.operands]
            waits = [each.id for each in view.control_predecessors]
            view.proto.control_predecessor_ids[:] = waits
        return cls._read([view.proto for view in computation.post_order()])

    @classmethod
    def _read(cls, messages: list[Message]) -> Rows:
        waits = {
            row.id: tuple(row.control_predecessor_ids)
            for row in messages
            if row.control_predecessor_ids
        }
        return cls(
            messages,
            [row.id for row in messages],
            [row.opcode for row in messages],
            [tuple(row.operand_ids) for row in messages],
            waits,
        )

    def _is_in_order(self) -> bool:
        seen: set[int] = set()
        for number, operands in zip(self.ids, self.operands, strict=True):
            if not seen.issuperset(operands):
                return False
            if number in self.waits and not seen.issuperset(self.waits[number]):
                return False
            seen.add(number)
        return True


def called_first(module: Module) -> list[Computation]:
    """The computations of a module, called ones first."""
    known = {computation.id: computation for computation in module.computations}
    if len(known) == 1:
        return list(known.values())

    def called(computation: Computation) -> Iterable[Computation]:
        found = {
            number: None
            for row in computation.proto.instructions
            if can_call(row.opcode)
            for number in row.called_computation_ids
        }
        return [module.computation_by_id(number) for number in found]

    return needs_first(known.values(), called, f"module {module.name}")


def drop_instructions(computation: Computation, gone: Iterable[int]) -> None:
    """Remove instructions, by whole id, that nothing left needs or waits for."""
    doomed = set(gone)
    proto, module = computation.proto, computation.module
    rows = proto.instructions
    rows.sort(key=lambda row: row.id in doomed)
    del rows[len(rows) - len(doomed) :]
    if module.has_kept_constants:
        for number in doomed:
            module._kept.pop((computation.id, number & LOCAL_MASK), None)
    sequences = module._proto.schedule.sequences
    if computation.id in sequences:
        sequence = sequences[computation.id].instruction_ids
        sequence[:] = [number for number in sequence if number not in doomed]
    computation._forget()
    module.mark_changed()


def replace_instructions(computation: Computation, rows: Rows, merged: Mapping[int, int]) -> None:
    """Let an earlier instruction stand for each of several others, which are removed.

    Args:
        rows: the computation's.
        merged: id of what goes to the id of what stays. Neither has control edges; what stays is
            not among those that go.
    """
    for row, operands in zip(rows.messages, rows.operands, strict=True):
        if not merged.keys().isdisjoint(operands):
            row.operand_ids[:] = [merged.get(number, number) for number in operands]
    root = rows.root(computation)
    computation.proto.root_id = merged.get(root, root)
    drop_instructions(computation, merged)
