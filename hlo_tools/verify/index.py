"""A module as checks across instructions see it: bodies, users and callers, each computed once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.verify.findings import Finding, Severity
from hlo_tools.verify.structure import Calls, Message

__all__ = ["MAIN", "Body", "Index"]

MAIN = "main"
"""The thread of what names none."""


@dataclass(slots=True)
class Body:
    """One computation with its instructions.

    Attributes:
        row: its message.
        instructions, opcodes: in the module's order.
        by_id: local id -> instruction.
    """

    row: Message
    instructions: list[Message]
    opcodes: list[str]
    by_id: dict[int, Message] = field(default_factory=dict[int, Message])
    _users: dict[int, list[Message]] | None = None

    @property
    def thread(self) -> str:
        """The thread that it runs in."""
        return self.row.execution_thread or MAIN

    @property
    def root(self) -> Message:
        """The instruction that it returns."""
        return self.by_id[self.row.root_id & LOCAL_MASK]

    def operands(self, inst: Message) -> list[Message]:
        """The operands of an instruction."""
        return [self.by_id[number & LOCAL_MASK] for number in inst.operand_ids]

    def users(self, inst: Message) -> list[Message]:
        """Return the distinct users of an instruction."""
        if self._users is None:
            self._users = {}
            for user in self.instructions:
                for number in dict.fromkeys(user.operand_ids):
                    self._users.setdefault(number & LOCAL_MASK, []).append(user)
        return self._users.get(inst.id & LOCAL_MASK, [])

    def finding(
        self, code: str, message: str, inst: Message, severity: Severity = Severity.error
    ) -> Finding:
        """A finding about one of its instructions."""
        return Finding(
            code, message, severity=severity, computation=self.row.name, instruction=inst.name
        )


class Index:
    """The computations of a module whose references hold.

    Attributes:
        proto: the module's message.
        bodies: id -> computation.
        callers: id -> the instructions that call it, with the computations that they are in.
    """

    def __init__(self, proto: Message, calls: Calls) -> None:
        self.proto = proto
        self.bodies: dict[int, Body] = {}
        for row in proto.computations:
            rows = list(row.instructions)
            by_id = {inst.id & LOCAL_MASK: inst for inst in rows}
            self.bodies[row.id] = Body(row, rows, [inst.opcode for inst in rows], by_id)
        self.callers: dict[int, list[tuple[Message, Body]]] = {}
        for number, callers in calls.items():
            for inst in callers:
                for called in dict.fromkeys(inst.called_computation_ids):
                    self.callers.setdefault(called, []).append((inst, self.bodies[number]))

    def called(self, inst: Message) -> list[Body]:
        """The computations that an instruction calls."""
        return [self.bodies[number] for number in inst.called_computation_ids]

    def is_async(self, body: Body) -> bool:
        """Return True if an asynchronous operation runs the computation."""
        return any(inst.opcode == "async-start" for inst, _ in self.callers.get(body.row.id, ()))

    def is_fused(self, body: Body) -> bool:
        """Return True if a fusion calls the computation."""
        return any(inst.opcode == "fusion" for inst, _ in self.callers.get(body.row.id, ()))

    def of(self, opcodes: frozenset[str]) -> Iterator[tuple[Message, str, Body]]:
        """The instructions of some opcodes, with their opcode and computation."""
        for body in self.bodies.values():
            if opcodes.isdisjoint(body.opcodes):
                continue
            for inst, opcode in zip(body.instructions, body.opcodes, strict=True):
                if opcode in opcodes:
                    yield inst, opcode, body
