"""Raising a validation error at the user's line."""

from __future__ import annotations

from typing import NoReturn

from nki_lang.errors import NkiValidationError
from nki_lang.source import caller_location

__all__ = ["fail"]


def fail(message: str, code: str, remedy: str = "", source: str = "") -> NoReturn:
    """Raise :class:`NkiValidationError` that names the nearest line outside this package."""
    raise NkiValidationError(
        message, code=code, location=caller_location(2), remedy=remedy, source=source
    )
