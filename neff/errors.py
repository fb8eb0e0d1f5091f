"""The errors of the NEFF compiler, container and runtime, each with a stable code."""

from __future__ import annotations

from hlo_tools.errors import CodedError

__all__ = ["NeffCompileError", "NeffError", "NeffFileError", "NeffRuntimeError"]


class NeffError(CodedError):
    """Root of every error of ``neff``."""

    default_code = "NEFF-ERROR"


class NeffCompileError(NeffError):
    """A module cannot be compiled."""

    default_code = "NEFF-COMPILE"


class NeffFileError(NeffError):
    """A NEFF is damaged or not one that this runtime reads."""

    default_code = "NEFF-FILE"
    default_remedy = "the file was damaged or changed; build or copy it again"


class NeffRuntimeError(NeffError):
    """A loaded NEFF was used wrongly or failed while it ran."""

    default_code = "NEFF-RUN"
