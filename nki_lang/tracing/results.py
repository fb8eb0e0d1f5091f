"""What a kernel returns: tensors, and tuples and lists of them, nested as it likes.

The published front end takes tuples and lists apart, whatever their depth, and leaves out what is
no tensor (KLR, Trace/NKI.lean, lowerRes). So results are flat in the kernel, and a structure says
how the caller gets them: the place of a result, None, or a tuple of structures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Structure", "is_plain", "rebuild", "take_apart"]

Structure = Any
"""int, None, or a tuple of structures."""


def take_apart(value: Any) -> tuple[list[Any], Structure]:
    """The leaves of what a kernel returned, and their structure; None is not a leaf."""
    leaves: list[Any] = []

    def walk(part: Any) -> Structure:
        if isinstance(part, (tuple, list)):
            return tuple(walk(entry) for entry in part)
        if part is None:
            return None
        leaves.append(part)
        return len(leaves) - 1

    structure = walk(value)
    return leaves, structure


def rebuild(structure: Structure, values: Sequence[Any]) -> Any:
    """The results as the kernel returned them; lists are tuples now."""
    if isinstance(structure, (tuple, list)):
        return tuple(rebuild(part, values) for part in structure)
    return None if structure is None else values[structure]


def is_plain(structure: Structure) -> bool:
    """One result, none, or one tuple of them."""
    if isinstance(structure, tuple):
        return all(type(part) is int for part in structure)
    return True
