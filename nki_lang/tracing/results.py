"""Results of a kernel: tensors, and nested tuples and lists of tensors.

The published front end flattens tuples and lists of any depth, and drops values that are no tensor
(KLR, Trace/NKI.lean, lowerRes). So results are flat in the kernel. A structure describes how the
caller receives them: the index of a result, None, or a tuple of structures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from nki_lang.frontend.objects import is_sequence

__all__ = ["Structure", "is_plain", "rebuild", "take_apart"]

Structure: TypeAlias = "int | tuple[Structure, ...] | list[Structure] | None"
"""The index of a result, None, or a tuple of structures (a list when read from a file)."""


def take_apart(value: object) -> tuple[list[Any], Structure]:
    """Return the leaves of a kernel's result, and their structure; None is not a leaf."""
    leaves: list[Any] = []

    def walk(entry: object) -> Structure:
        if is_sequence(entry):
            return tuple(walk(item) for item in entry)
        if entry is None:
            return None
        leaves.append(entry)
        return len(leaves) - 1

    structure = walk(value)
    return leaves, structure


def rebuild(structure: Structure, values: Sequence[object]) -> Any:
    """Return the results as the kernel returned them; lists become tuples."""
    if isinstance(structure, (tuple, list)):
        return tuple(rebuild(entry, values) for entry in structure)
    return None if structure is None else values[structure]


def is_plain(structure: Structure) -> bool:
    """Return True for one result, none, or one flat tuple."""
    if isinstance(structure, tuple):
        return all(type(entry) is int for entry in structure)
    return True
