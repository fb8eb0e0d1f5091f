"""Tensors at fixed addresses that overwrite each other's live data."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lang.execute.checks.base import Check, reads_of, writes_of
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.checks.shadow import Shadow
from nki_lang.ir.types import Access, Instruction
from nki_lang.memory import MemoryRegion
from nki_lang.source import SourceLocation

__all__ = ["OverlapCheck"]

_WORD = 4
"""Owners are kept for words of so many bytes, until tensors of smaller elements come."""


class OverlapCheck(Check):
    """Finds reads of bytes that another tensor at the same address overwrote.

    Every write through a tensor makes it the owner of those bytes. Reading through a tensor
    bytes that it once owned and another owns now is a finding, once for each pair of lines.
    """

    name = "overlap"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._owners: dict[MemoryRegion, Shadow] = {}
        self._numbers: dict[str, int] = {}
        self._names: list[str] = [""]
        self._written_at: dict[str, SourceLocation | None] = {}
        self._findings: dict[Any, Finding] = {}

    def concerns(self, instruction: Instruction) -> bool:
        """Some tensor lies at an address."""
        for value in instruction.operands.values():
            if type(value) is Access:
                if value.tensor.address is not None:
                    return True
            elif type(value) is tuple:
                return True
        return False

    def before(self, instruction: Instruction) -> None:
        """Look at who owns what is read."""
        for name, access in reads_of(instruction):
            if self._placed(access) and access.tensor.name in self._numbers:
                self._look(instruction, name, access)

    def after(self, instruction: Instruction) -> None:
        """Enter the owner of what was written."""
        for _, access in writes_of(instruction):
            if self._placed(access):
                tensor = access.tensor.name
                if tensor not in self._numbers:
                    self._numbers[tensor] = len(self._names)
                    self._names.append(tensor)
                self._shadow(access).set(self.memory, access, self._numbers[tensor])
                self._written_at[tensor] = instruction.location

    def _placed(self, access: Access) -> bool:
        return (
            access.tensor.on_chip
            and access.tensor.address is not None
            and access.vector_offset is None
        )

    def _shadow(self, access: Access) -> Shadow:
        """The owners of the memory that the access lies in."""
        found = self._owners.get(access.tensor.buffer)
        if found is None:
            size = self.memory.storage(access.tensor).data.size
            found = self._owners[access.tensor.buffer] = Shadow(size, _WORD)
        return found

    def _look(self, instruction: Instruction, operand: str, access: Access) -> None:
        owners = self._shadow(access).get(self.memory, access)
        own = self._numbers[access.tensor.name]
        foreign = (owners != own) & (owners != 0)
        if not foreign.any():
            return
        index = tuple(int(i) for i in np.unravel_index(int(np.argmax(foreign)), foreign.shape))
        other = self._names[int(owners[index])]
        key = (instruction.location, access.tensor.name, other)
        if key in self._findings:
            return
        place = ", ".join(str(part) for part in index)
        self._findings[key] = Finding(
            self.name,
            "NKI-OVERLAP",
            f"{instruction.op} reads element [{place}] of {operand}, tensor "
            f"{access.tensor.name!r} at {access.tensor.address}, but {other!r} at an overlapping "
            f"address was written there since, at {self._written_at[other]}",
            instruction.location,
            "move one of the two tensors, or finish with the first before the second is written",
            {"tensor": access.tensor.name, "overwritten_by": other, "index": list(index)},
        )

    def finish(self) -> list[Finding]:
        """In program order."""
        return list(self._findings.values())
