"""Validation errors and warnings at the user's line."""

from __future__ import annotations

import sys
import warnings
from typing import NoReturn

from nki_lang.errors import NkiValidationError
from nki_lang.source import SourceLocation, caller_location, in_package

__all__ = ["fail", "warn_at", "warn_at_caller", "warn_deprecated"]


def fail(
    message: str,
    code: str,
    remedy: str = "",
    source: str = "",
    error: type[NkiValidationError] = NkiValidationError,
) -> NoReturn:
    """Raise ``error`` that names the nearest line outside this package."""
    raise error(message, code=code, location=caller_location(2), remedy=remedy, source=source)


def warn_at_caller(message: str) -> None:
    """Warn at the nearest line outside this package."""
    warn_at(caller_location(2), message)


def warn_at(place: SourceLocation | None, message: str) -> None:
    """Warn at a line of the user's."""
    file, line = place[:2] if place is not None else ("<unknown>", 0)
    warnings.warn_explicit(message, UserWarning, file, line)


def warn_deprecated(message: str) -> None:
    """Say at the nearest line outside this package that a later version has another name.

    A DeprecationWarning: Python shows it, once a line, where the script itself or a test uses the
    name, and not for kernels of a library.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and in_package(frame.f_code):
        frame = frame.f_back
    namespace = frame.f_globals
    warnings.warn_explicit(
        message, DeprecationWarning, frame.f_code.co_filename, frame.f_lineno,
        module=namespace.get("__name__"), registry=namespace.setdefault("__warningregistry__", {}),
    )  # fmt: skip
