"""The errors of the kernel language: one root, one class a kind, each with a stable code.

An error names what is wrong, where (the user's file and line) and what to do. Codes are
stable: tools compare codes, people read messages.
"""

from __future__ import annotations

from typing import Any

from nki_lang.source import SourceLocation

__all__ = [
    "NkiAttributeError",
    "NkiError",
    "NkiExecutionError",
    "NkiFileError",
    "NkiTypeError",
    "NkiValidationError",
]


class NkiError(Exception):
    """Root of every error that the kernel language raises.

    Args:
        message: what is wrong, what was passed and what is allowed, in one or two sentences.
        code: a stable identifier such as ``"NKI-PARTITION"``.
        location: the user's file and line, where known.
        remedy: what to do about it.
        source: where the rule is documented (document and section).
        details: names and numbers behind the message, as JSON values.
    """

    default_code = "NKI-ERROR"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        location: SourceLocation | None = None,
        remedy: str = "",
        source: str = "",
        details: dict[str, Any] | None = None,
    ) -> None:
        self.code = code or self.default_code
        self.message = message
        self.location = location
        self.remedy = remedy
        self.source = source
        self.details = details or {}
        super().__init__(self.render())

    def render(self) -> str:
        """The whole text: ``file:line: [CODE] message. Remedy. (source)``."""
        place = f"{self.location}: " if self.location else ""
        parts = [f"{place}[{self.code}] {self.message}"]
        if self.remedy:
            parts.append(f"  help: {self.remedy}")
        if self.source:
            parts.append(f"  documented in: {self.source}")
        return "\n".join(parts)


class NkiValidationError(NkiError):
    """A kernel breaks a rule of the language or a limit of the target."""

    default_code = "NKI-INVALID"


class NkiTypeError(NkiValidationError, TypeError):
    """A validation error where Python itself would raise a TypeError."""


class NkiAttributeError(NkiValidationError, AttributeError):
    """A validation error where Python itself would raise an AttributeError."""


class NkiExecutionError(NkiError):
    """A kernel did something wrong while it ran (out of bounds, deadlock, uninitialised read)."""

    default_code = "NKI-EXEC"


class NkiFileError(NkiError):
    """A kernel file (KLIR or its companion) is damaged or not what it claims to be."""

    default_code = "NKI-FILE"
