"""Many instructions of a computation at once, on the messages themselves.

Views of what is kept stay valid; no view is made for what is removed. What every pass reads is
read from the messages once, into plain lists: reading a field of a message costs more than the rest.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.module import Module
from hlo_tools.ir.ordering import needs_first
from hlo_tools.rewrite.effects import callers_among, effectful_among
from hlo_tools.rewrite.errors import PassError
from hlo_tools.types.ids import LOCAL_MASK

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto

__all__ = [
    "Rows",
    "called_first",
    "drop_instructions",
    "effectful_rows",
    "keep",
    "read_all",
    "reading_once",
    "replace_instructions",
]


@dataclass(frozen=True, slots=True)
class Rows:
    """The instructions of a computation, operands and control predecessors first.

    Attributes:
        messages: the instructions, as the computation's message lists them.
        ids, opcodes, operands: their fields, operands as whole ids.
        waits: control predecessors, of the instructions that have some.
    """

    messages: list[HloInstructionProto]
    ids: list[int]
    opcodes: list[str]
    operands: list[tuple[int, ...]]
    waits: dict[int, tuple[int, ...]]

    def root(self, computation: Computation) -> int:
        """The root's whole id."""
        root_id = computation.proto.root_id
        if self.ids and self.ids[-1] == root_id:
            return root_id
        return root_id if root_id in self.ids else computation.root.id

    def called(self) -> list[int]:
        """Ids of the computations that they call, each once, in order of the calls."""
        callees: dict[int, None] = {}
        callers = callers_among(self.opcodes)
        if callers:
            for opcode, row in zip(self.opcodes, self.messages, strict=True):
                if opcode in callers:
                    callees.update(dict.fromkeys(row.called_computation_ids))
        return list(callees)

    def without(self, gone: Set[int]) -> Rows:
        """Return the rows without some instructions, by id, that no remaining row refers to."""
        stays = [number not in gone for number in self.ids]
        return Rows(
            list(compress(self.messages, stays)),
            list(compress(self.ids, stays)),
            list(compress(self.opcodes, stays)),
            list(compress(self.operands, stays)),
            {number: ids for number, ids in self.waits.items() if number not in gone},
        )

    @classmethod
    def of(cls, computation: Computation) -> Rows:
        """Read a computation; its list is brought into order if it is not.

        Raises:
            PassError: two of its instructions have one id (HLO-PASS-MODULE).
        """
        rows = cls._read(list(computation.proto.instructions))
        if len(set(rows.ids)) != len(rows.ids):
            raise PassError(
                "two of its instructions have one id",
                code="HLO-PASS-MODULE",
                place=f"%{computation.name}",
                remedy="nki-hlo verify lists what is wrong with the module",
            )
        if rows._is_in_order():
            return rows
        for view in computation.post_order():
            view.proto.operand_ids[:] = [operand.id for operand in view.operands]
            waits = [predecessor.id for predecessor in view.control_predecessors]
            view.proto.control_predecessor_ids[:] = waits
        return cls._read([view.proto for view in computation.post_order()])

    @classmethod
    def _read(cls, messages: list[HloInstructionProto]) -> Rows:
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
        defined: set[int] = set()
        add, has = defined.add, defined.issuperset
        waits = self.waits
        for number, operands in zip(self.ids, self.operands, strict=True):
            if operands and not has(operands):
                return False
            if waits and not has(waits.get(number, ())):
                return False
            add(number)
        return True


@contextmanager
def reading_once(module: Module) -> Generator[None]:
    """Passes inside share what they read of the module while nothing changes it."""
    module.pass_rows = {}
    try:
        yield
    finally:
        module.pass_rows = None


def read_all(module: Module) -> dict[int, Rows]:
    """The instructions of every computation, by its id; see :func:`reading_once`."""
    rows_by_id = module.pass_rows
    if not rows_by_id:
        rows_by_id = {computation.id: Rows.of(computation) for computation in module.computations}
        keep(module, rows_by_id)
    return rows_by_id


def keep(module: Module, rows: dict[int, Rows]) -> None:
    """Keep the instructions of a module, as they are now, for :func:`read_all`."""
    if module.pass_rows is not None:
        module.pass_rows = rows


def effectful_rows(module: Module, rows: Mapping[int, Rows]) -> frozenset[int]:
    """See :func:`hlo_tools.rewrite.effects.effectful_computations`."""
    messages = {number: body.messages for number, body in rows.items()}
    opcodes = {number: body.opcodes for number, body in rows.items()}
    return effectful_among(messages, opcodes, module.entry.id)


def called_first(module: Module, rows: Mapping[int, Rows]) -> list[Computation]:
    """The computations of a module, called ones first."""

    def called(computation: Computation) -> Iterable[Computation]:
        return [module.computation_by_id(number) for number in rows[computation.id].called()]

    return needs_first(module.computations, called, f"module {module.name}")


def drop_instructions(computation: Computation, rows: Rows, gone: Iterable[int]) -> Rows:
    """Remove instructions, by whole id, that nothing left needs or waits for.

    Args:
        rows: the computation's.

    Returns:
        What is left.
    """
    doomed = set(gone)
    module = computation.module
    messages = computation.proto.instructions
    messages.sort(key=lambda row: row.id in doomed)
    del messages[len(messages) - len(doomed) :]
    if module.has_kept_constants:
        for number in doomed:
            module.drop_constant(computation.id, number & LOCAL_MASK)
    sequences = module.raw_proto.schedule.sequences
    if computation.id in sequences:
        sequence = sequences[computation.id].instruction_ids
        sequence[:] = [number for number in sequence if number not in doomed]
    computation.forget()
    module.mark_changed()
    return rows.without(doomed)


def replace_instructions(computation: Computation, rows: Rows, merged: Mapping[int, int]) -> Rows:
    """Replace each of several instructions, which are removed, by an earlier one.

    Args:
        rows: the computation's.
        merged: id of what goes to the id of what stays. Neither has control edges; what stays is
            not among those that go.

    Returns:
        What is left.
    """
    is_disjoint = merged.keys().isdisjoint
    for position, operands in enumerate(rows.operands):
        if not is_disjoint(operands):
            rows.operands[position] = operands = tuple(
                [merged.get(operand_id, operand_id) for operand_id in operands]
            )
            rows.messages[position].operand_ids[:] = operands
    root = rows.root(computation)
    computation.proto.root_id = merged.get(root, root)
    return drop_instructions(computation, rows, merged)
