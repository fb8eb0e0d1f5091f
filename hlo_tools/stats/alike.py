"""Instructions that cost the same, told apart by columns: few are then looked at for all."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hlo_tools.outline import COST, Outline

__all__ = ["Alike", "alike"]

Array = Any
_IN_STEP = 4
"""Operands that are compared as columns; of longer lists all at once."""


class Alike(NamedTuple):
    """Groups of instructions with one opcode, one shape, and operands and attributes that cost alike.

    Attributes:
        of: the group of each row.
        first: the first row of each group.
        operands: the shapes of its operands (as bytes; missing ones are empty).
    """

    of: Array
    first: list[int]
    operands: list[list[bytes]]


def alike(outline: Outline) -> Alike:
    """The groups of a module's instructions; computations that they call make no difference."""
    shapes = {shape: at for at, shape in enumerate(dict.fromkeys(s for _, s in outline.kinds))}
    shape_of_kind = np.array([shapes[shape] for _, shape in outline.kinds], np.int64)
    first, rows = outline.operands
    given = np.full(rows.size, len(shapes))
    given[rows >= 0] = shape_of_kind[outline.kind_of[rows[rows >= 0]]]
    keys = _by_operands(outline.kind_of, first, given)
    for tag in COST:
        keys = _by_field(keys, outline, tag)
    _, leaders, group_of = np.unique(keys, return_index=True, return_inverse=True)
    texts = [*shapes, b""]
    operands = [
        [texts[at] for at in given[first[row] : first[row + 1]].tolist()]
        for row in leaders.tolist()
    ]
    return Alike(group_of, leaders.tolist(), operands)


def _by_operands(keys: Array, first: Array, given: Array) -> Array:
    counts = np.diff(first)
    for place in range(_IN_STEP):
        chosen = np.flatnonzero((counts > place) & (counts <= _IN_STEP))
        keys = _refined(keys, chosen, given[first[chosen] + place])
    chosen = np.flatnonzero(counts > _IN_STEP)
    lists = [given[first[row] : first[row + 1]].tobytes() for row in chosen.tolist()]
    return _refined(keys, chosen, _numbered(lists))


def _by_field(keys: Array, outline: Outline, tag: int) -> Array:
    fields, data = outline.fields.of(tag), outline.data
    values: dict[int, bytes] = {}
    for row, start, end in zip(
        fields.row.tolist(), fields.start.tolist(), fields.end.tolist(), strict=True
    ):
        values[row] = values.get(row, b"") + data[start:end]
    return _refined(keys, np.array(list(values), np.int64), _numbered(list(values.values())))


def _numbered(values: list[bytes]) -> Array:
    numbers = {value: at for at, value in enumerate(dict.fromkeys(values))}
    return np.fromiter(map(numbers.__getitem__, values), np.int64, len(values))


def _refined(keys: Array, chosen: Array, values: Array) -> Array:
    """Keys of the chosen rows that tell their values apart too."""
    if not chosen.size:
        return keys
    pairs = keys[chosen] * (int(values.max()) + 1) + values
    keys = keys.copy()
    keys[chosen] = int(keys.max()) + 1 + np.unique(pairs, return_inverse=True)[1].reshape(-1)
    return keys
