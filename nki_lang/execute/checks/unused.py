"""Check for values that are written and never read, until the end or until they are overwritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nki_lang.analysis.regions import dense_pattern, may_overlap
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.execute.checks.base import Check, Step
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.tracking import keeps_old
from nki_lang.ir.types import Access, Instruction

__all__ = ["UnusedCheck"]


@dataclass(slots=True)
class _WritingLine:
    """All writes of one source line."""

    op: str
    tensor: str
    location: SourceLocation | None
    writes: int = 0
    read: bool = False


class UnusedCheck(Check):
    """Finds lines whose writes on chip or to private HBM no core ever read."""

    name = "unused"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        first = next(
            (check for check in self.earlier_checks if isinstance(check, UnusedCheck)), None
        )
        self._lines: dict[Any, _WritingLine] = first._lines if first else {}
        # names of private tensors differ from core to core
        self._pending: dict[str, list[tuple[Access, _WritingLine]]] = (
            first._pending if first else {}
        )

    def after(self, step: Step) -> None:
        """Mark the values that were read, then add the values that were written."""
        for _, access in step.reads:
            self._read(access)
        for _, access in step.writes:
            self._write(step.instruction, access)

    def _read(self, access: Access) -> None:
        pending = self._pending.get(access.tensor.name)
        if not pending:
            return
        unread: list[tuple[Access, _WritingLine]] = []
        for written, line in pending:
            if may_overlap(written, access):
                line.read = True
            else:
                unread.append((written, line))
        self._pending[access.tensor.name] = unread

    def _write(self, instruction: Instruction, access: Access) -> None:
        key = (instruction.location, instruction.op)
        line = self._lines.get(key)
        if line is None:
            line = _WritingLine(instruction.op, access.tensor.name, instruction.location)
            self._lines[key] = line
        line.writes += 1
        if access.tensor.buffer is MemoryRegion.shared_hbm:
            line.read = True  # other cores may read it
        covers_tensor = access.offset == 0 and access.pattern == dense_pattern(access.tensor.shape)
        if covers_tensor and not access.is_dynamic and not keeps_old(instruction):
            self._pending.pop(access.tensor.name, None)
        if not line.read:
            self._pending.setdefault(access.tensor.name, []).append((access, line))

    def finish(self) -> list[Finding]:
        """Return the lines in order of first execution; only the first core reports."""
        if self.earlier_checks:
            return []
        last = {id(line) for entries in self._pending.values() for _, line in entries}
        return [
            Finding(
                self.name,
                "NKI-UNUSED",
                f"what {line.op} writes to {line.tensor!r} is never read",
                line.location,
                "remove the instruction, or use its result",
                {"op": line.op, "tensor": line.tensor, "writes": line.writes},
            )
            for line in self._lines.values()
            # a memset that a load overwrites partially is a start value, no unused write
            if not line.read and (line.op != "memset" or id(line) in last)
        ]
