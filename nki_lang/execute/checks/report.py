"""Findings of the simulator's checks, as text for people and as JSON for tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nki_lang.base.source import SourceLocation

__all__ = ["Finding", "Report"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault that a check reports.

    Attributes:
        check: name of the check.
        code: stable code, ``NKI-...``.
        message: the fault, in one or two sentences.
        location: the user's line.
        remedy: how to fix it.
        details: numbers and names in the message; JSON values.
    """

    check: str
    code: str
    message: str
    location: SourceLocation | None = None
    remedy: str = ""
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        prefix = f"{self.location}: " if self.location else ""
        text = f"{prefix}[{self.code}] {self.message}"
        return f"{text}\n  help: {self.remedy}" if self.remedy else text

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        location = self.location
        return {
            "check": self.check,
            "code": self.code,
            "message": self.message,
            "file": location.file if location else None,
            "line": location.line if location else None,
            "function": location.function if location else None,
            "remedy": self.remedy,
            "details": self.details,
        }


@dataclass(slots=True)
class Report:
    """All findings of one run, in the order of the checks and of the program."""

    findings: list[Finding] = field(default_factory=list[Finding])

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings) or "nothing found"

    def of(self, check: str) -> list[Finding]:
        """Return the findings of one check."""
        return [finding for finding in self.findings if finding.check == check]

    def to_json(self) -> str:
        """Return the report as JSON text."""
        return json.dumps([finding.to_json() for finding in self.findings], indent=1)
