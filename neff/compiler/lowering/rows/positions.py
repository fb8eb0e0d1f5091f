"""Positions along a row that are compared with one number for each row: nothing is loaded.

``position == label`` of a block that begins at column 4096 is ``number of the block's column ==
label - 4096``. So one tile of numbers serves all blocks, and the row's label changes.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from neff.compiler.graph.nodes import Node
from neff.compiler.lowering.rows.row_groups import RowGroup
from neff.compiler.lowering.tiles.emitter import Tile

__all__ = ["MAX_POSITION", "Positions", "positions_of"]

MAX_POSITION = 1 << 24
"""Integers below it are exact in float32, and no greater one is rounded to less."""


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of a block's columns.

    Attributes:
        numbers: columns of the block from 0 on, the same in every partition.
        begin: the block's first column.
    """

    numbers: Tile
    begin: int


def positions_of(group: RowGroup, repeated: Set[int]) -> set[int]:
    """Return the inputs of a unit that are 0, 1, 2, ... along each row, for comparisons alone.

    ``repeated`` has the inputs that repeat one element along each row.
    """
    readers: dict[int, list[tuple[Node, Node]]] = {}
    for node in group.nodes:
        for operand in node.operands:
            key, _ = group.sources[id(operand)]
            if key in group.inputs:
                readers.setdefault(key, []).append((node, operand))
    return {
        key
        for key, pairs in readers.items()
        if all(_counts_columns(group, operand) for _, operand in pairs)
        and all(_compares_with_a_row(group, node, operand, repeated) for node, operand in pairs)
    }


def _counts_columns(group: RowGroup, operand: Node) -> bool:
    """Return True for words that count the columns of a row, the same for all rows."""
    node = operand
    while node.opcode == "reshape" or (
        node.opcode == "broadcast" and node.attributes["dimensions"]
    ):
        node = node.operands[0]
    if node.opcode != "iota" or node.element.name not in ("s32", "u32"):
        return False
    last = len(node.shape) - 1
    return (
        node.attributes["dimensions"] == (last,)
        and node.shape[last] == group.widest < MAX_POSITION
        and group.columns(operand.shape) == group.widest
    )


def _compares_with_a_row(group: RowGroup, node: Node, operand: Node, repeated: Set[int]) -> bool:
    if node.opcode != "compare":
        return False
    other_sources = [group.sources[id(item)] for item in node.operands if item is not operand]
    return len(other_sources) == 1 and all(
        axis == "row" or key in repeated for key, axis in other_sources
    )
