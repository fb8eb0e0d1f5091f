"""What the checks of the simulator find, for people and for tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nki_lang.source import SourceLocation

__all__ = ["Finding", "Report"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found.

    Attributes:
        check: name of the check.
        code: stable code, ``NKI-...``.
        message: what is wrong, in one or two sentences.
        location: the user's line.
        remedy: what to do about it.
        details: numbers and names behind the message; JSON values.
    """

    check: str
    code: str
    message: str
    location: SourceLocation | None = None
    remedy: str = ""
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        text = f"{place}[{self.code}] {self.message}"
        return f"{text}\n  help: {self.remedy}" if self.remedy else text

    def to_json(self) -> dict[str, Any]:
        """The finding as JSON values."""
        place = self.location
        return {
            "check": self.check,
            "code": self.code,
            "message": self.message,
            "file": place.file if place else None,
            "line": place.line if place else None,
            "function": place.function if place else None,
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
        """The findings of one check."""
        return [finding for finding in self.findings if finding.check == check]

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps([finding.to_json() for finding in self.findings], indent=1)
