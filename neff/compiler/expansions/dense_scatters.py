"""Expands scatters with many updates for few elements: every index is compared with every element.

A scatter needs two transfers for each update, in sequence. If the operand is small (a histogram, the
gradient of a small table), a mask of elements by updates, and a reduction over the updates, costs
less and is one loop nest.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Node, derived, sliced

__all__ = ["by_comparison"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""

_PRED, _INDEX = BY_NAME["pred"], BY_NAME["s32"]
_MIN_UPDATES = 256
"""From this number of updates on the comparison is faster."""

_MAX_ELEMENTS = 1 << 12
"""Limit on the operand's elements: each costs three passes of the vector engine over the updates.
Two transfers take as long as about 500,000 elements of such a pass.
"""


def _full(like: Node, value: object, shape: tuple[int, ...], kind: str) -> Node:
    element = BY_NAME[kind]
    number = np.asarray(value).astype(element.dtype)
    scalar = derived(like, "constant", (), (), element, value=number)
    return derived(like, "broadcast", (scalar,), shape, dimensions=()) if shape else scalar


def _idle(applied: str, kind: str) -> object:
    """Return the neutral element of a reduction."""
    element = BY_NAME[kind]
    if applied == "add":
        return 0
    if element.kind == "float":
        return -np.inf if applied == "maximum" else np.inf
    limits = np.iinfo(element.dtype)
    return limits.min if applied == "maximum" else limits.max


def _applies(node: Node) -> bool:
    """Return True for one operand of few elements, an associative operation and windows of full
    rows.
    """
    fields = node.attributes
    if len(node.operands) != 3 or fields["applied"] not in ("add", "maximum", "minimum"):
        return False
    operand, starts, updates = node.operands
    inserted = fields["inserted"]
    if sorted(inserted) != sorted(fields["start_map"]) or fields["operand_batching"]:
        return False
    rows = tuple(extent for dim, extent in enumerate(operand.shape) if dim not in inserted)
    windowed: tuple[int, ...] = fields["window_dims"]
    window = tuple(updates.shape[dim] for dim in sorted(windowed))
    return (
        window == rows
        and 0 < operand.size <= _MAX_ELEMENTS
        and updates.size >= _MIN_UPDATES * prod(window)
        and operand.element.kind in ("int", "uint", "float")
        and 8 <= operand.element.bits <= 32
        and starts.element.kind in ("int", "uint")
        and 8 <= starts.element.bits <= 32
    )


def _numbers(node: Node, extents: tuple[int, ...]) -> Node:
    """Return the number of the row that each update goes to; -1 for none."""
    starts, dim = node.operands[1], node.attributes["index_vector"]
    if dim == len(starts.shape):
        starts = derived(node, "reshape", (starts,), (*starts.shape, 1))
    if starts.element is not _INDEX:
        starts = derived(node, "convert", (starts,), starts.shape, _INDEX)
    count = starts.size // len(extents)
    kind = _INDEX.name
    row_numbers: Node | None = None
    inside: Node | None = None
    for index, extent in enumerate(extents):
        component = sliced(node, starts, dim, index, index + 1)
        component = derived(node, "reshape", (component,), (count,))
        for direction, limit in (("GE", 0), ("LT", extent)):
            bound = _full(node, limit, (count,), kind)
            fits = derived(
                node, "compare", (component, bound), (count,), _PRED, direction=direction
            )
            inside = fits if inside is None else derived(node, "and", (inside, fits), (count,))
        if row_numbers is not None:
            wide = derived(
                node, "multiply", (row_numbers, _full(node, extent, (count,), kind)), (count,)
            )
            component = derived(node, "add", (wide, component), (count,))
        row_numbers = component
    assert row_numbers is not None and inside is not None
    no_row = _full(node, -1, (count,), kind)
    return derived(node, "select", (inside, row_numbers, no_row), (count,), _INDEX)


def by_comparison(node: Node, uses: Uses) -> Node | None:
    """Combine the operand with a reduction, over all updates, of the updates of each element."""
    if not _applies(node):
        return None
    fields, applied = node.attributes, node.attributes["applied"]
    operand, _, updates = node.operands
    indexed_dims: tuple[int, ...] = fields["start_map"]
    numbers = _numbers(node, tuple(operand.shape[dim] for dim in indexed_dims))
    window_dims = [dim for dim in range(len(operand.shape)) if dim not in indexed_dims]
    rows, width = (
        prod(operand.shape[dim] for dim in indexed_dims),
        prod(operand.shape[dim] for dim in window_dims),
    )
    count = numbers.size

    batch = [dim for dim in range(len(updates.shape)) if dim not in fields["window_dims"]]
    order = (*sorted(fields["window_dims"]), *batch)
    moved = tuple(updates.shape[dim] for dim in order)
    by_row = derived(node, "transpose", (updates,), moved, dimensions=order)
    by_row = derived(node, "reshape", (by_row,), (width, count))

    shape, kind = (rows, width, count), operand.element.name
    row_numbers = derived(node, "iota", (), shape, _INDEX, dimensions=(0,))
    update_rows = derived(node, "broadcast", (numbers,), shape, dimensions=(2,))
    hit = derived(node, "compare", (update_rows, row_numbers), shape, _PRED, direction="EQ")
    value = derived(node, "broadcast", (by_row,), shape, dimensions=(1, 2))
    idle = _idle(applied, kind)
    chosen = derived(
        node, "select", (hit, value, _full(node, idle, shape, kind)), shape, operand.element
    )
    total = derived(
        node, "reduce", (chosen, _full(node, idle, (), kind)), shape[:2], dimensions=(2,),
        applied=applied,
    )  # fmt: skip
    split = tuple(operand.shape[dim] for dim in (*indexed_dims, *window_dims))
    total = derived(node, "reshape", (total,), split)
    back = tuple((*indexed_dims, *window_dims).index(dim) for dim in range(len(split)))
    total = derived(node, "transpose", (total,), operand.shape, dimensions=back)
    return derived(node, applied, (operand, total), operand.shape)
