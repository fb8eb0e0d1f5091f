"""Findings of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Finding", "Severity"]


class Severity(Enum):
    """The severity of a finding."""

    error = "error"
    warning = "warning"
    note = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        code: the rule's stable code.
        message: what is wrong here.
        severity: how bad it is.
        computation, instruction: where in the module, or "".
        source: the user's ``file:line``, or "".
        file: the module's file, or "".
        remedy: what to do, or "".
    """

    code: str
    message: str
    severity: Severity = Severity.error
    computation: str = ""
    instruction: str = ""
    source: str = ""
    file: str = ""
    remedy: str = ""

    @property
    def place(self) -> str:
        """``%computation/%instruction``, as far as known."""
        parts = [f"%{name}" for name in (self.computation, self.instruction) if name]
        return "/".join(parts)

    def __str__(self) -> str:
        source = f" ({self.source})" if self.source else ""
        location = f" {self.place}" if self.place else ""
        return f"{self.severity.value}[{self.code}]{location}: {self.message}{source}"
