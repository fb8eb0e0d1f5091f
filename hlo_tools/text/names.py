"""Unique names, the way XLA makes them when a module is put together."""

from __future__ import annotations

__all__ = ["UniqueNames"]

_MAX_DIGITS = 18
"""A longer number after a dot belongs to the name."""


class UniqueNames:
    """Allocates names; a used name gets a dot and the next free number."""

    def __init__(self) -> None:
        self._used: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """Return ``name``, or ``name.N`` if it is used."""
        root, _, digits = name.rpartition(".")
        has_number = digits.isdecimal() and len(digits) <= _MAX_DIGITS and len(digits) < len(name)
        root, number = (root, int(digits)) if has_number else (name, 0)
        used = self._used.setdefault(root, set())
        if number not in used:
            used.add(number)
            return name
        number = self._next.get(root, 0)
        while number in used:
            number += 1
        used.add(number)
        self._next[root] = number + 1
        return f"{root}.{number}" if number or has_number else root
