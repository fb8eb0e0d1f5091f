"""Scatters that update a few elements of each row of a batch, by comparison with the indices.

Update by update, a scatter takes two transfers each, one behind the other. Where each row of a
batch has updates of its own, as in the gradient of ``take_along_axis``, an element is compared with
the few indices of its row: that is elementwise, and fused with what reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Node, derived

__all__ = ["by_choice"]

Uses = dict[int, int]
"""How often each node is read, by ``id``."""

_PRED, _INDEX = BY_NAME["pred"], BY_NAME["s32"]
_MOST = 16
"""Updates of one row at most: each is some operations on the whole operand."""

_ELEMENTS = 1 << 17
"""Elements of a row, times updates that all rows have, for each update that takes its turn: two
transfers take as long as some 500,000 elements of one pass of the vector engine, a comparison is three
of them."""

_APPLIED = frozenset({"add", "maximum", "minimum", "multiply", "and", "or", "second"})


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a scatter means, row by row.

    Attributes:
        batch: (dimension of the indices without components, of the operand) of each batch dimension.
        turns: the other dimensions of the indices: one update for each place in them.
        at: where the indices have their components.
        inserted: the operand's dimension that each component counts along.
        update: the operand's dimension for each of the updates', None for those of ``turns``.
    """

    batch: tuple[tuple[int, int], ...]
    turns: tuple[int, ...]
    at: int
    inserted: tuple[int, ...]
    update: tuple[int | None, ...]


def _rows(node: Node) -> _Rows:
    fields, (operand, starts, updates) = node.attributes, node.operands
    at: int = fields["index_vector"]
    own = [dim - (dim > at) for dim in fields["start_batching"]]
    batch = tuple(sorted(zip(own, fields["operand_batching"], strict=True)))
    rank = len(starts.shape) - (at < len(starts.shape))
    turns = tuple(dim for dim in range(rank) if dim not in own)
    inserted = tuple(fields["start_map"])
    dropped = {*fields["inserted"], *fields["operand_batching"]}
    kept = iter(dim for dim in range(len(operand.shape)) if dim not in dropped)
    outer = iter(range(rank))
    places: list[int | None] = []
    for dim in range(len(updates.shape)):
        windowed = dim in fields["window_dims"]
        places.append(next(kept) if windowed else dict(batch).get(next(outer)))
    return _Rows(batch, turns, at, inserted, tuple(places))


def _applies(node: Node) -> bool:
    """One operand, windows that are whole but for the indexed dimensions, few updates of a row."""
    fields = node.attributes
    if len(node.operands) != 3 or fields["applied"] not in _APPLIED:
        return False
    operand, starts, updates = node.operands
    if not fields["operand_batching"] or not updates.size:
        return False
    if sorted(fields["inserted"]) != sorted(fields["start_map"]):
        return False
    if starts.element.kind not in ("int", "uint") or not 8 <= starts.element.bits <= 32:
        return False
    rows = _rows(node)
    wanted = [operand.shape[dim] for dim in rows.update if dim is not None]
    given = [n for n, dim in zip(updates.shape, rows.update, strict=True) if dim is not None]
    turns = prod(n for n, dim in zip(updates.shape, rows.update, strict=True) if dim is None)
    count = turns * prod(operand.shape[dim] for _, dim in rows.batch)
    whole = operand.size * min(turns, _MOST)
    return wanted == given and turns <= _MOST and whole <= _ELEMENTS * count


def _spread(node: Node, one: Node, dims: Sequence[int], shape: tuple[int, ...]) -> Node:
    """An array whose dimensions are some of the result's, in any order, over all of it."""
    order = sorted(range(len(dims)), key=dims.__getitem__)
    if order != list(range(len(dims))):
        moved = [one.shape[dim] for dim in order]
        one = derived(node, "transpose", (one,), moved, dimensions=tuple(order))
    return derived(node, "broadcast", (one,), shape, dimensions=tuple(sorted(dims)))


def _at(node: Node, one: Node, where: dict[int, int]) -> Node:
    """The part of an array at these places of some dimensions, without them."""
    starts = [where.get(dim, 0) for dim in range(len(one.shape))]
    limits = [where[dim] + 1 if dim in where else n for dim, n in enumerate(one.shape)]
    shape = [high - low for low, high in zip(starts, limits, strict=True)]
    fields: dict[str, Any] = {"starts": tuple(starts), "limits": tuple(limits)}
    if tuple(shape) != one.shape:
        one = derived(node, "slice", (one,), shape, strides=(1,) * len(shape), **fields)
    kept = [n for dim, n in enumerate(shape) if dim not in where]
    return derived(node, "reshape", (one,), kept)


def _updates(node: Node, rows: _Rows) -> Iterator[tuple[list[Node], Node]]:
    """The components of each update's index, and what it has, over the rows that it is in."""
    _, starts, updates = node.operands
    if rows.at == len(starts.shape):
        starts = derived(node, "reshape", (starts,), (*starts.shape, 1))
    if starts.element is not _INDEX:
        starts = derived(node, "convert", (starts,), starts.shape, _INDEX)
    apart = [dim for dim, to in enumerate(rows.update) if to is None]
    for turn in product(*(range(updates.shape[dim]) for dim in apart)):
        where = {dim + (dim >= rows.at): place for dim, place in zip(rows.turns, turn, strict=True)}
        numbers = range(len(rows.inserted))
        found = [_at(node, starts, where | {rows.at: number}) for number in numbers]
        yield found, _at(node, updates, dict(zip(apart, turn, strict=True)))


def by_choice(node: Node, uses: Uses) -> Node | None:
    """The operand, with each update where the element's place is that of its index."""
    if not _applies(node):
        return None
    rows, shape = _rows(node), node.shape
    result = node.operands[0]
    own = [dim for _, dim in rows.batch]
    to = [dim for dim in rows.update if dim is not None]
    for indices, update in _updates(node, rows):
        hit: Node | None = None
        for index, dim in zip(indices, rows.inserted, strict=True):
            place = derived(node, "iota", (), shape, _INDEX, dimensions=(dim,))
            given = _spread(node, index, own, shape)
            same = derived(node, "compare", (given, place), shape, _PRED, direction="EQ")
            hit = same if hit is None else derived(node, "and", (hit, same), shape)
        assert hit is not None
        value = _spread(node, update, to, shape)
        applied = node.attributes["applied"]
        new = value if applied == "second" else derived(node, applied, (result, value), shape)
        result = derived(node, "select", (hit, new, result), shape, result.element)
    return result
