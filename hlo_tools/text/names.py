"""Unique names, the way XLA makes them when a module is put together."""

from __future__ import annotations

import re

__all__ = ["UniqueNames"]

_SUFFIX = re.compile(r"(.*)\.(\d{1,18})\Z", re.DOTALL)


class UniqueNames:
    """Hands out names; one already taken gets the next free number behind a dot."""

    def __init__(self) -> None:
        self._used: dict[str, set[int]] = {}
        self._next: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """``name``, or ``name.N`` when it is taken."""
        found = _SUFFIX.match(name)
        root, number = (found.group(1), int(found.group(2))) if found else (name, 0)
        used = self._used.setdefault(root, set())
        if number not in used:
            used.add(number)
            return name
        number = self._next.get(root, 0)
        while number in used:
            number += 1
        used.add(number)
        self._next[root] = number + 1
        return f"{root}.{number}" if number or found else root
