"""The errors of the HLO tools: one root, one class a layer, each with a stable code."""

from __future__ import annotations

import os
from typing import Final

__all__ = [
    "UNGUARDED",
    "CodedError",
    "HloError",
    "HloFileError",
    "HloTextError",
    "HloUnsupportedError",
    "HloVerifyError",
    "reports_bugs",
]

UNGUARDED: Final = "NKI_HLO_UNGUARDED"
"""Environment variable that lets exceptions which are bugs of ours through as they are."""


class CodedError(Exception):
    """Base of the errors of the HLO tools and of ``neff``.

    Args:
        message: what is wrong, what was found, what was expected.
        code: a stable identifier such as ``"HLO-TRUNCATED"``; the class's own by default.
        place: where: a path, ``file:line:col``, a byte offset or an instruction name.
        remedy: what to do about it; the class's own by default.
    """

    default_code = "ERROR"
    default_remedy = ""

    def __init__(
        self, message: str, *, code: str | None = None, place: str = "", remedy: str = ""
    ) -> None:
        self.code = code or self.default_code
        self.message = message
        self.place = place
        self.remedy = remedy or self.default_remedy
        super().__init__(self.render())

    def render(self) -> str:
        """The whole text: ``place: [CODE] message`` and a line of help."""
        location = f"{self.place}: " if self.place else ""
        text = f"{location}[{self.code}] {self.message}"
        return f"{text}\n  help: {self.remedy}" if self.remedy else text


class HloError(CodedError):
    """Root of every error of ``hlo_tools``."""

    default_code = "HLO-ERROR"


class HloFileError(HloError):
    """A file cannot be read, is damaged, or is not what it claims to be."""

    default_code = "HLO-FILE"


class HloTextError(HloError):
    """HLO text that does not parse."""

    default_code = "HLO-TEXT"


class HloVerifyError(HloError):
    """A module that breaks a rule of HLO."""

    default_code = "HLO-VERIFY"


class HloUnsupportedError(HloError):
    """Something valid that this tool does not cover."""

    default_code = "HLO-UNSUPPORTED"


def reports_bugs() -> bool:
    """Return True if an exception that is a bug of ours is reported as a coded error.

    Tests and fuzzers set ``NKI_HLO_UNGUARDED=1``, and see the exception itself.
    """
    return os.environ.get(UNGUARDED) != "1"
