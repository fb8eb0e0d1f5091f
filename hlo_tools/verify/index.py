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

    def operands(self, one: Message) -> list[Message]:
        """The operands of an instruction."""
        return [self.by_id[number & LOCAL_MASK] for number in one.operand_ids]

    def users(self, one: Message) -> list[Message]:
        """The instructions that take one as an operand, each once."""
        if self._users is None:
            self._users = {}
            for user in self.instructions:
                for number in dict.fromkeys(user.operand_ids):
                    self._users.setdefault(number & LOCAL_MASK, []).append(user)
        return self._users.get(one.id & LOCAL_MASK, [])

    def finding(
        self, code: str, message: str, one: Message, severity: Severity = Severity.error
    ) -> Finding:
        """A finding about one of its instructions."""
        return Finding(
            code, message, severity=severity, computation=self.row.name, instruction=one.name
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
            by_id = {one.id & LOCAL_MASK: one for one in rows}
            self.bodies[row.id] = Body(row, rows, [one.opcode for one in rows], by_id)
        self.callers: dict[int, list[tuple[Message, Body]]] = {}
        for number, callers in calls.items():
            for one in callers:
                for called in dict.fromkeys(one.called_computation_ids):
                    self.callers.setdefault(called, []).append((one, self.bodies[number]))

    def called(self, one: Message) -> list[Body]:
        """The computations that an instruction calls."""
        return [self.bodies[number] for number in one.called_computation_ids]

    def is_async(self, body: Body) -> bool:
        """Whether an asynchronous operation runs the computation."""
        return any(one.opcode == "async-start" for one, _ in self.callers.get(body.row.id, ()))

    def is_fused(self, body: Body) -> bool:
        """Whether a fusion calls the computation."""
        return any(one.opcode == "fusion" for one, _ in self.callers.get(body.row.id, ()))

    def of(self, opcodes: frozenset[str]) -> Iterator[tuple[Message, str, Body]]:
        """The instructions of some opcodes, with their opcode and computation."""
        for body in self.bodies.values():
            if opcodes.isdisjoint(body.opcodes):
                continue
            for one, opcode in zip(body.instructions, body.opcodes, strict=True):
                if opcode in opcodes:
                    yield one, opcode, body
