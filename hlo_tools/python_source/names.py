"""Names of a module as Python identifiers."""

from __future__ import annotations

import builtins
import keyword
import re

__all__ = ["Names", "identifier", "printable"]

_FOREIGN = re.compile(r"[^0-9A-Za-z_]+")
_PYTHON_NAMES = frozenset({*keyword.kwlist, *keyword.softkwlist, *dir(builtins)})
"""Names that a generated file never gives to anything."""


def identifier(text: str) -> str:
    """The nearest ASCII identifier: ``add.3`` is ``add_3``."""
    name = _FOREIGN.sub("_", text).strip("_") or "value"
    return f"_{name}" if name[0].isdigit() else name


def printable(text: str) -> str:
    """Text for a comment or a docstring: one line without control characters, quotes or backslashes."""
    return "".join(
        letter if letter.isprintable() and letter not in '\\"' else "?" for letter in text
    )


class Names:
    """Identifiers of one scope of a file, each given once.

    Args:
        reserved: names that are in use outside, which the scope must not hide.
    """

    __slots__ = ("_next_number", "_taken")

    def __init__(self, reserved: frozenset[str]) -> None:
        self._taken = set(reserved | _PYTHON_NAMES)
        self._next_number: dict[str, int] = {}

    def unique(self, text: str) -> str:
        """An identifier for ``text``, with a number where it is in use."""
        base = identifier(text)
        name = base
        while name in self._taken:
            number = self._next_number.get(base, 2)
            self._next_number[base] = number + 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name
