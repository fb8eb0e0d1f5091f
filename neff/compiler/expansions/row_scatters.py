"""Expands scatters that update a few elements of each row of a batch, by comparison with the
indices.

A scatter needs two transfers for each update, in sequence. If each row of a batch has its own
updates, as in the gradient of ``take_along_axis``, an element is compared with the few indices of
its row: that is elementwise, and fuses with its readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Node, derived

__all__ = ["by_choice"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""

_PRED, _INDEX = BY_NAME["pred"], BY_NAME["s32"]
_MAX_UPDATES_PER_ROW = 16
"""Limit on the updates of a row: each adds operations on all of the operand."""

_MAX_COMPARED_ELEMENTS = 1 << 17
"""Limit on compared elements for each update that a scatter would do in sequence. Two transfers
take as long as about 500,000 elements of a pass of the vector engine; a comparison is three passes.
"""

_REDUCTIONS = frozenset({"add", "maximum", "minimum", "multiply", "and", "or", "second"})


@dataclass(frozen=True, slots=True)
class _Rows:
    """The semantics of a scatter, row by row.

    Attributes:
        batch: (dimension of the indices without components, of the operand) of each batch dimension.
        update_dims: the other dimensions of the indices: an update for each of their elements.
        index_vector: the dimension of the indices' components.
        inserted: the operand's dimension that each component counts along.
        update: the operand's dimension for each dimension of the updates; None for
            ``update_dims``.
    """

    batch: tuple[tuple[int, int], ...]
    update_dims: tuple[int, ...]
    index_vector: int
    inserted: tuple[int, ...]
    update: tuple[int | None, ...]


def _rows(node: Node) -> _Rows:
    fields, (operand, starts, updates) = node.attributes, node.operands
    index_vector: int = fields["index_vector"]
    batch_dims = [dim - (dim > index_vector) for dim in fields["start_batching"]]
    batch = tuple(sorted(zip(batch_dims, fields["operand_batching"], strict=True)))
    rank = len(starts.shape) - (index_vector < len(starts.shape))
    update_dims = tuple(dim for dim in range(rank) if dim not in batch_dims)
    inserted = tuple(fields["start_map"])
    dropped = {*fields["inserted"], *fields["operand_batching"]}
    window_dims = iter(dim for dim in range(len(operand.shape)) if dim not in dropped)
    outer = iter(range(rank))
    operand_dims: list[int | None] = []
    for dim in range(len(updates.shape)):
        windowed = dim in fields["window_dims"]
        operand_dims.append(next(window_dims) if windowed else dict(batch).get(next(outer)))
    return _Rows(batch, update_dims, index_vector, inserted, tuple(operand_dims))


def _applies(node: Node) -> bool:
    """Return True for one operand, windows of full rows but for the indexed dimensions, and few
    updates.
    """
    fields = node.attributes
    if len(node.operands) != 3 or fields["applied"] not in _REDUCTIONS:
        return False
    operand, starts, updates = node.operands
    if not fields["operand_batching"] or not updates.size:
        return False
    if sorted(fields["inserted"]) != sorted(fields["start_map"]):
        return False
    if starts.element.kind not in ("int", "uint") or not 8 <= starts.element.bits <= 32:
        return False
    rows = _rows(node)
    operand_extents = [operand.shape[dim] for dim in rows.update if dim is not None]
    update_extents = [
        extent for extent, dim in zip(updates.shape, rows.update, strict=True) if dim is not None
    ]
    updates_per_row = prod(
        extent for extent, dim in zip(updates.shape, rows.update, strict=True) if dim is None
    )
    count = updates_per_row * prod(operand.shape[dim] for _, dim in rows.batch)
    compared = operand.size * min(updates_per_row, _MAX_UPDATES_PER_ROW)
    return (
        operand_extents == update_extents
        and updates_per_row <= _MAX_UPDATES_PER_ROW
        and compared <= _MAX_COMPARED_ELEMENTS * count
    )


def _spread(node: Node, array: Node, dims: Sequence[int], shape: tuple[int, ...]) -> Node:
    """Broadcast an array whose dimensions are some of the result's, in any order."""
    order = sorted(range(len(dims)), key=dims.__getitem__)
    if order != list(range(len(dims))):
        moved = [array.shape[dim] for dim in order]
        array = derived(node, "transpose", (array,), moved, dimensions=tuple(order))
    return derived(node, "broadcast", (array,), shape, dimensions=tuple(sorted(dims)))


def _indexed(node: Node, array: Node, index_of: dict[int, int]) -> Node:
    """Return the subarray at fixed indices of some dimensions, without these dimensions."""
    starts = [index_of.get(dim, 0) for dim in range(len(array.shape))]
    limits = [
        index_of[dim] + 1 if dim in index_of else extent for dim, extent in enumerate(array.shape)
    ]
    shape = [high - low for low, high in zip(starts, limits, strict=True)]
    fields: dict[str, Any] = {"starts": tuple(starts), "limits": tuple(limits)}
    if tuple(shape) != array.shape:
        array = derived(node, "slice", (array,), shape, strides=(1,) * len(shape), **fields)
    other_extents = [extent for dim, extent in enumerate(shape) if dim not in index_of]
    return derived(node, "reshape", (array,), other_extents)


def _updates(node: Node, rows: _Rows) -> Iterator[tuple[list[Node], Node]]:
    """Yield the components of each update's index, and its value, over the rows of the batch."""
    _, starts, updates = node.operands
    if rows.index_vector == len(starts.shape):
        starts = derived(node, "reshape", (starts,), (*starts.shape, 1))
    if starts.element is not _INDEX:
        starts = derived(node, "convert", (starts,), starts.shape, _INDEX)
    update_dims = [dim for dim, dim_of_operand in enumerate(rows.update) if dim_of_operand is None]
    for indices in product(*(range(updates.shape[dim]) for dim in update_dims)):
        index_of = {
            dim + (dim >= rows.index_vector): index
            for dim, index in zip(rows.update_dims, indices, strict=True)
        }
        numbers = range(len(rows.inserted))
        components = [
            _indexed(node, starts, index_of | {rows.index_vector: number}) for number in numbers
        ]
        yield components, _indexed(node, updates, dict(zip(update_dims, indices, strict=True)))


def by_choice(node: Node, uses: Uses) -> Node | None:
    """Select each update where the element's position equals the update's index."""
    if not _applies(node):
        return None
    rows, shape = _rows(node), node.shape
    result = node.operands[0]
    batch_dims = [dim for _, dim in rows.batch]
    value_dims = [dim for dim in rows.update if dim is not None]
    for indices, update in _updates(node, rows):
        hit: Node | None = None
        for index, dim in zip(indices, rows.inserted, strict=True):
            positions = derived(node, "iota", (), shape, _INDEX, dimensions=(dim,))
            update_index = _spread(node, index, batch_dims, shape)
            same = derived(node, "compare", (update_index, positions), shape, _PRED, direction="EQ")
            hit = same if hit is None else derived(node, "and", (hit, same), shape)
        assert hit is not None
        value = _spread(node, update, value_dims, shape)
        applied = node.attributes["applied"]
        new = value if applied == "second" else _applied(node, applied, result, value)
        result = derived(node, "select", (hit, new, result), shape, result.element)
    return result


def _applied(node: Node, op: str, result: Node, value: Node) -> Node:
    """Return the result with an update; a number if both are."""
    numbers = result.splat, value.splat
    if op != "add" or node.element.name != "f32" or None in numbers:
        return derived(node, op, (result, value), node.shape)
    total = np.asarray(np.add(*numbers), np.float32)
    constant = derived(node, "constant", (), (), node.element, value=total)
    return derived(node, "broadcast", (constant,), node.shape, dimensions=())
