"""Reads XLA's allocations of a module from its dump (``*buffer-assignment.txt``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hlo_tools.files.plain import read_beside

__all__ = ["MOST_DUMP", "Allocated", "allocated_beside", "read_assignment"]

MOST_DUMP: Final = 256 << 20
"""Bytes of such a dump at most."""

_ALLOCATION = re.compile(r"^allocation \d+: (?:0x[0-9a-f]+, )?size (\d+)(.*)$", re.MULTILINE)
_ENDING = re.compile(r"\.(?:hlo\.pb|hlo|pb|txt|hlo_module\.pb)(?:\.(?:gz|zst))?$")


@dataclass(frozen=True, slots=True)
class Allocated:
    """Bytes of XLA's allocations.

    Attributes:
        total: all of them but those of functions applied to elements (``thread-local``).
        temporaries: the space that temporaries share (``preallocated-temp``).
    """

    path: str
    total: int
    arguments: int
    constants: int
    results: int
    temporaries: int


def allocated_beside(path: Path | str) -> Allocated | None:
    """Return XLA's allocations for the module of a file if XLA dumped them, else None."""
    file = Path(path)
    stem = _ENDING.sub("", file.name)
    beside = file.with_name(f"{stem}-buffer-assignment.txt")
    if stem == file.name or not beside.exists():
        return None
    return read_assignment(read_beside(beside, MOST_DUMP).decode(errors="replace"), str(beside))


def read_assignment(text: str, path: str = "") -> Allocated | None:
    """The sums of a dump of ``BufferAssignment``; None where it lists no allocation."""
    rows = [(int(size), attributes) for size, attributes in _ALLOCATION.findall(text)]
    if not rows:
        return None

    def total(*words: str) -> int:
        return sum(
            size for size, attributes in rows if any(f", {word}" in attributes for word in words)
        )

    everything = sum(size for size, _ in rows)
    return Allocated(
        path,
        everything - total("thread-local"),
        total("parameter"),
        total("constant"),
        total("maybe-live-out"),
        total("preallocated-temp"),
    )
