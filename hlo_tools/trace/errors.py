"""Errors of tracing, at the user's line."""

from __future__ import annotations

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.trace.location import user_line

__all__ = ["TraceAttributeError", "TraceError", "TraceTypeError", "place", "refuse"]


class TraceError(HloUnsupportedError, NotImplementedError):
    """Something that NumPy does and a traced function cannot."""

    default_code = "HLO-TRACE"


class TraceAttributeError(TraceError, AttributeError):
    """An attribute that NumPy's arrays have and a traced one has not."""


class TraceTypeError(TraceError, TypeError):
    """A traced array where a function in C needs one of NumPy, or its memory."""


def place() -> str:
    """``file:line`` of the user's code."""
    line = user_line()
    return f"{line[0]}:{line[1]}" if line else ""


def refuse(message: str, *, code: str, remedy: str) -> TraceError:
    """The error, with the user's line."""
    return TraceError(message, code=code, place=place(), remedy=remedy)
