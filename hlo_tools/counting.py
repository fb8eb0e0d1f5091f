"""Numbers with their noun."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 module``, ``2 modules``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
