"""The errors of the HLO tools: one root, one class per kind of fault, each with a stable code."""

from __future__ import annotations

from nki_lang.base.errors import UNGUARDED, CodedError, reports_bugs

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
