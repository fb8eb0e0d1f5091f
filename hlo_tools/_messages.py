"""Words of messages: numbers with their noun, names that somebody may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

__all__ = ["counted", "did_you_mean"]


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 module``, ``2 modules``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


_MAX_COMPARED_NAMES = 2000
"""Names that are compared: comparing costs some microseconds each."""


def did_you_mean(name: str, known: Iterable[str], mark: str = "") -> str:
    """``did you mean %a or %b? ``, or nothing when no name is near.

    Args:
        known: the names there are; of many, those that begin alike are compared first.
        mark: what stands before each name.
    """
    from difflib import get_close_matches  # late: only messages of errors need it

    names = list(dict.fromkeys(known))
    if len(names) > _MAX_COMPARED_NAMES:
        names.sort(key=lambda candidate: candidate[:3] != name[:3])
    near = get_close_matches(name, islice(names, _MAX_COMPARED_NAMES), 3)
    return f"did you mean {' or '.join(mark + candidate for candidate in near)}? " if near else ""
