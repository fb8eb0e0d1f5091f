"""What a kernel returns: tensors, and tuples and lists of them, nested as it likes.

The published front end takes tuples and lists apart, whatever their depth, and leaves out what is
not a tensor (KLR, Trace/NKI.lean, lowerRes). So results are flat in the kernel, and a structure is
how the caller receives them: the place of a result, None, or a tuple of structures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from nki_lang.frontend.objects import is_sequence

__all__ = ["Structure", "is_plain", "rebuild", "take_apart"]

Structure: TypeAlias = "int | tuple[Structure, ...] | list[Structure] | None"
"""The place of a result, None, or a tuple of structures (a list when read from a file)."""


def take_apart(value: Any) -> tuple[list[Any], Structure]:
    """The leaves of what a kernel returned, and their structure; None is not a leaf."""
    leaves: list[Any] = []

    def walk(part: Any) -> Structure:
        if is_sequence(part):
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
