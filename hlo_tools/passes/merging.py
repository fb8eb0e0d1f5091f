"""Many instructions of a computation at once, on the messages themselves.

Views of what stays live on; no view is made for what goes. What every pass asks for is read from
the messages once, into plain lists: reading a field of a message costs more than the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import lt
from typing import Any

from hlo_tools.computation import Computation
from hlo_tools.effects import can_call, effectful_among
from hlo_tools.ids import LOCAL_MASK
from hlo_tools.module import Module
from hlo_tools.ordering import needs_first

__all__ = [
    "Rows",
    "called_first",
    "drop_instructions",
    "effectful_rows",
    "read_all",
    "replace_instructions",
]

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

    def called(self) -> list[int]:
        """Ids of the computations that they call, each once, in order of the calls."""
        found: dict[int, None] = {}
        for opcode, row in zip(self.opcodes, self.messages, strict=True):
            if can_call(opcode):
                found.update(dict.fromkeys(row.called_computation_ids))
        return list(found)

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
            [tuple(row.operand_ids[:]) for row in messages],
            waits,
        )

    def _is_in_order(self) -> bool:
        ids = self.ids
        if not self.waits and all(map(lt, ids, ids[1:])):
            given = set().union(*self.operands)
            pairs = zip(ids, self.operands, strict=True)
            return given.issubset(ids) and all(max(own) < number for number, own in pairs if own)
        seen: set[int] = set()
        for number, operands in zip(ids, self.operands, strict=True):
            if not seen.issuperset(operands):
                return False
            if number in self.waits and not seen.issuperset(self.waits[number]):
                return False
            seen.add(number)
        return True


def read_all(module: Module) -> dict[int, Rows]:
    """The instructions of every computation, by its id."""
    return {computation.id: Rows.of(computation) for computation in module.computations}


def effectful_rows(module: Module, rows: Mapping[int, Rows]) -> frozenset[int]:
    """See :func:`hlo_tools.effects.effectful_computations`."""
    messages = {number: body.messages for number, body in rows.items()}
    opcodes = {number: body.opcodes for number, body in rows.items()}
    return effectful_among(messages, opcodes, module.entry.id)


def called_first(module: Module, rows: Mapping[int, Rows]) -> list[Computation]:
    """The computations of a module, called ones first."""

    def called(computation: Computation) -> Iterable[Computation]:
        return [module.computation_by_id(number) for number in rows[computation.id].called()]

    return needs_first(module.computations, called, f"module {module.name}")


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
