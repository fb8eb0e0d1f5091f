"""Compares two forms of a program by the source locations of their operations.

An optimised module has little in common with the one before in structure, but its instructions
keep the source lines and op names of those that they stand for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from hlo_tools.ir.module import Module

__all__ = ["PLACES", "PlaceDiff", "diff_places"]

PLACES = ("source", "scope")

_MOVES = frozenset(
    {"add-dependency", "after-all", "bitcast", "broadcast", "call", "constant", "copy", "copy-done",
     "copy-start", "fusion", "get-tuple-element", "iota", "opt-barrier", "parameter", "reshape",
     "transpose", "tuple"}
)  # fmt: skip
"""Opcodes that compilers add and remove freely: they are no operations of the program."""


@dataclass(frozen=True, slots=True)
class PlaceDiff:
    """One source line or scope.

    Attributes:
        before, after: how many operations of each opcode come from there.
    """

    place: str
    before: dict[str, int]
    after: dict[str, int]


def diff_places(left: Module, right: Module, by: str) -> list[PlaceDiff]:
    """The operations of two modules by source line or scope, those that differ first.

    Instructions inside of fusions count, moves and calls do not.

    Args:
        by: ``source`` or ``scope``.
    """
    before, after = _operations(left, by), _operations(right, by)
    rows = [
        PlaceDiff(location, dict(before.get(location, {})), dict(after.get(location, {})))
        for location in sorted({*before, *after})
    ]
    return sorted(rows, key=lambda row: row.before == row.after)


def _operations(module: Module, by: str) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for view in module.instructions:
        if view.opcode in _MOVES:
            continue
        location = ""
        if by == "scope":
            location = view.metadata.op_name.rpartition("/")[0]
        elif (frame := view.source) is not None:
            location = f"{frame.file}:{frame.line}"
        counts.setdefault(location, Counter())[view.opcode] += 1
    return counts
