"""Names the way XLA makes them unique, and the way it prints those of other builders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloModuleProto

__all__ = ["UniqueNames", "printed_names"]

_TEXT_NAMES = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_.\-]*\n)*")
_FOREIGN_BYTE = re.compile(rb"[^A-Za-z0-9_.\-]")

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


def printed_names(proto: HloModuleProto) -> dict[str, str]:
    """Names that text cannot hold -> the names that XLA prints for them (``x*x``: ``x_x``).

    XLA prints one name for both ``x*x`` and ``x_x``; the later one gets a number here, so that
    the text can be read.
    """
    names = [inst.name for row in proto.computations for inst in row.instructions]
    computations = [row.name for row in proto.computations]
    if _TEXT_NAMES.fullmatch("\n".join([*names, *computations, ""])):
        return {}
    printed: dict[str, str] = {}
    for scope in (computations, names):
        unique = UniqueNames()
        foreign = [name for name in scope if name and not _TEXT_NAMES.fullmatch(f"{name}\n")]
        for name in {*scope}.difference(foreign):
            unique.unique(name)
        for name in dict.fromkeys(foreign):
            printed[name] = unique.unique(_sanitized(name))
    return printed


def _sanitized(name: str) -> str:
    data = name.encode("utf-8", "surrogateescape")
    first = data[:1] if data[:1].isalpha() or data[:1] == b"_" else b"_" if data[0] < 0x80 else b"a"
    return (first + _FOREIGN_BYTE.sub(b"_", data[1:])).decode()
