"""Instructions that cost the same, distinguished by columns: one of each group is examined."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from hlo_tools.outline import COST, Outline
from hlo_tools.wire.distinct import distinct, numbered

__all__ = ["CostGroups", "group_by_cost"]

Array = Any
_IN_STEP = 4
"""Operands that are compared as columns; of longer lists all at once."""


class CostGroups(NamedTuple):
    """Groups of instructions with one opcode, one shape, and operands and attributes that cost alike.

    Attributes:
        of: the group of each row.
        first: the first row of each group.
        operands: the shapes of its operands (as bytes; missing ones are empty).
    """

    of: Array
    first: list[int]
    operands: list[list[bytes]]


def group_by_cost(outline: Outline) -> CostGroups:
    """Group a module's instructions by cost; computations that they call do not count."""
    shapes = {
        shape: shape_number
        for shape_number, shape in enumerate(dict.fromkeys(s for _, s in outline.kinds))
    }
    shape_of_kind = np.array([shapes[shape] for _, shape in outline.kinds], np.int64)
    first, rows = outline.operands
    operand_shapes = np.full(rows.size, len(shapes))
    operand_shapes[rows >= 0] = shape_of_kind[outline.kind_of[rows[rows >= 0]]]
    columns = [outline.kind_of, *_of_operands(first, operand_shapes)]
    columns += [_of_field(outline, tag) for tag in COST if outline.fields.of(tag).row.size]
    group_of, leaders = distinct(*columns)
    texts = [*shapes, b""]
    operands: list[list[bytes]] = [
        [
            texts[int(shape_number)]
            for shape_number in operand_shapes[first[row] : first[row + 1]].tolist()
        ]
        for row in leaders.tolist()
    ]
    return CostGroups(group_of, leaders.tolist(), operands)


def _of_operands(first: Array, operand_shapes: Array) -> list[Array]:
    """Columns that distinguish lists of operands' shapes."""
    counts = np.diff(first)
    columns = [counts]
    for position in range(_IN_STEP):
        chosen = np.flatnonzero((counts > position) & (counts <= _IN_STEP))
        columns.append(_column(counts.size, chosen, operand_shapes[first[chosen] + position]))
    chosen = np.flatnonzero(counts > _IN_STEP)
    lists = [operand_shapes[first[row] : first[row + 1]].tobytes() for row in chosen.tolist()]
    return [*columns, _column(counts.size, chosen, numbered(lists))]


def _of_field(outline: Outline, tag: int) -> Array:
    fields, data = outline.fields.of(tag), outline.data
    values: dict[int, Hashable] = {}
    for row, begin, end in zip(
        fields.row.tolist(), fields.begin.tolist(), fields.end.tolist(), strict=True
    ):
        values[row] = values.get(row), data[begin:end]
    rows = np.array(list(values), np.int64)
    return _column(outline.instruction_count, rows, numbered(values.values()) + 1)


def _column(size: int, rows: Array, values: Array) -> Array:
    """Some rows' values; 0 in all others."""
    column = np.zeros(size, np.int64)
    column[rows] = values
    return column
