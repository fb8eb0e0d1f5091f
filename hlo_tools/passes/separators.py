"""Several modules in one text, between lines ``// -----``, as MLIR's and XLA's tools write them."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["SEPARATOR", "join_modules", "split_modules"]

SEPARATOR = "// -----"
_LINE = re.compile(r"^//[ \t]*-----[ \t]*\r?$\n?", re.MULTILINE)


def split_modules(text: str) -> list[str]:
    """Split a text into modules, without the segments that hold only blanks and comments.

    Every module begins with the number of line ends that precede it, so that positions in messages are those
    of the whole text.
    """
    parts: list[str] = []
    start = 0
    for separator in [*_LINE.finditer(text), None]:
        module_text = text[start : len(text) if separator is None else separator.start()]
        if _has_content(module_text):
            parts.append("\n" * text.count("\n", 0, start) + module_text)
        start = len(text) if separator is None else separator.end()
    return parts


def _has_content(module_text: str) -> bool:
    lines = (line.strip() for line in module_text.splitlines())
    return any(line and not line.startswith("//") for line in lines)


def join_modules(texts: Iterable[str]) -> str:
    """Modules as one text, from the ``texts`` of each."""
    return f"\n{SEPARATOR}\n\n".join(text.rstrip("\n") + "\n" for text in texts)
