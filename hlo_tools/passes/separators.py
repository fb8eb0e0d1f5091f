"""Several modules in one text, between lines ``// -----``, as MLIR's and XLA's tools write them."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["SEPARATOR", "join_modules", "split_modules"]

SEPARATOR = "// -----"
_LINE = re.compile(r"^//[ \t]*-----[ \t]*\r?$\n?", re.MULTILINE)


def split_modules(text: str) -> list[str]:
    """The modules of a text, parts without anything but blanks and comments left out.

    Every part begins with as many line ends as precede it, so that positions in messages are those
    of the whole text.
    """
    parts: list[str] = []
    start = 0
    for found in [*_LINE.finditer(text), None]:
        part = text[start : len(text) if found is None else found.start()]
        if _has_content(part):
            parts.append("\n" * text.count("\n", 0, start) + part)
        start = len(text) if found is None else found.end()
    return parts


def _has_content(part: str) -> bool:
    lines = (line.strip() for line in part.splitlines())
    return any(line and not line.startswith("//") for line in lines)


def join_modules(texts: Iterable[str]) -> str:
    """Modules as one text, from the ``texts`` of each."""
    return f"\n{SEPARATOR}\n\n".join(text.rstrip("\n") + "\n" for text in texts)
