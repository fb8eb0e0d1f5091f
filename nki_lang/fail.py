"""Validation errors and warnings at the user's line."""

from __future__ import annotations

import warnings
from typing import NoReturn

from nki_lang.errors import NkiValidationError
from nki_lang.source import SourceLocation, caller_location

__all__ = ["fail", "warn_at", "warn_at_caller"]


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
