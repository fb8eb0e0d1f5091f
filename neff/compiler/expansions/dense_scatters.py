"""Scatters with many updates for few elements, by comparison of every index with every element.

Update by update, a scatter takes two transfers each, one behind the other. Where the operand is
small (a histogram, the gradient of a small table), a mask of elements by updates, and a reduction
over the updates, costs less and is one loop nest.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Node, derived, sliced

__all__ = ["by_comparison"]

Uses = dict[int, int]
"""How often each node is read, by ``id``."""

_PRED, _INDEX = BY_NAME["pred"], BY_NAME["s32"]
_UPDATES = 256
"""Updates from which on it is worth while."""

_ELEMENTS = 1 << 12
"""Elements of the operand at most: each costs three passes of the vector engine over the updates, two
transfers take as long as some 500,000 elements of such a pass."""


def _full(like: Node, value: object, shape: tuple[int, ...], kind: str) -> Node:
    element = BY_NAME[kind]
    number = np.asarray(value).astype(element.dtype)
    scalar = derived(like, "constant", (), (), element, value=number)
    return derived(like, "broadcast", (scalar,), shape, dimensions=()) if shape else scalar


def _idle(applied: str, kind: str) -> object:
    """What changes nothing when it is combined."""
    element = BY_NAME[kind]
    if applied == "add":
        return 0
    if element.kind == "float":
        return -np.inf if applied == "maximum" else np.inf
    limits = np.iinfo(element.dtype)
    return limits.min if applied == "maximum" else limits.max


def _applies(node: Node) -> bool:
    """One operand of few elements, an associative operation, windows that are whole rows."""
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
        and 0 < operand.size <= _ELEMENTS
        and updates.size >= _UPDATES * prod(window)
        and operand.element.kind in ("int", "uint", "float")
        and 8 <= operand.element.bits <= 32
        and starts.element.kind in ("int", "uint")
        and 8 <= starts.element.bits <= 32
    )


def _numbers(node: Node, extents: tuple[int, ...]) -> Node:
    """The number of the row that each update goes to; -1 for none."""
    starts, at = node.operands[1], node.attributes["index_vector"]
    if at == len(starts.shape):
        starts = derived(node, "reshape", (starts,), (*starts.shape, 1))
    if starts.element is not _INDEX:
        starts = derived(node, "convert", (starts,), starts.shape, _INDEX)
    count = starts.size // len(extents)
    kind = _INDEX.name
    found: Node | None = None
    inside: Node | None = None
    for place, extent in enumerate(extents):
        part = sliced(node, starts, at, place, place + 1)
        part = derived(node, "reshape", (part,), (count,))
        for direction, limit in (("GE", 0), ("LT", extent)):
            bound = _full(node, limit, (count,), kind)
            fits = derived(node, "compare", (part, bound), (count,), _PRED, direction=direction)
            inside = fits if inside is None else derived(node, "and", (inside, fits), (count,))
        if found is not None:
            wide = derived(node, "multiply", (found, _full(node, extent, (count,), kind)), (count,))
            part = derived(node, "add", (wide, part), (count,))
        found = part
    assert found is not None and inside is not None
    none = _full(node, -1, (count,), kind)
    return derived(node, "select", (inside, found, none), (count,), _INDEX)


def by_comparison(node: Node, uses: Uses) -> Node | None:
    """The operand combined with a reduction, over all updates, of those that go to an element."""
    if not _applies(node):
        return None
    fields, applied = node.attributes, node.attributes["applied"]
    operand, _, updates = node.operands
    places: tuple[int, ...] = fields["start_map"]
    numbers = _numbers(node, tuple(operand.shape[dim] for dim in places))
    kept = [dim for dim in range(len(operand.shape)) if dim not in places]
    rows, width = (
        prod(operand.shape[dim] for dim in places),
        prod(operand.shape[dim] for dim in kept),
    )
    count = numbers.size

    batch = [dim for dim in range(len(updates.shape)) if dim not in fields["window_dims"]]
    order = (*sorted(fields["window_dims"]), *batch)
    moved = tuple(updates.shape[dim] for dim in order)
    turned = derived(node, "transpose", (updates,), moved, dimensions=order)
    turned = derived(node, "reshape", (turned,), (width, count))

    shape, kind = (rows, width, count), operand.element.name
    wanted = derived(node, "iota", (), shape, _INDEX, dimensions=(0,))
    given = derived(node, "broadcast", (numbers,), shape, dimensions=(2,))
    hit = derived(node, "compare", (given, wanted), shape, _PRED, direction="EQ")
    value = derived(node, "broadcast", (turned,), shape, dimensions=(1, 2))
    idle = _idle(applied, kind)
    chosen = derived(
        node, "select", (hit, value, _full(node, idle, shape, kind)), shape, operand.element
    )
    total = derived(
        node, "reduce", (chosen, _full(node, idle, (), kind)), shape[:2], dimensions=(2,),
        applied=applied,
    )  # fmt: skip
    split = tuple(operand.shape[dim] for dim in (*places, *kept))
    total = derived(node, "reshape", (total,), split)
    back = tuple((*places, *kept).index(dim) for dim in range(len(split)))
    total = derived(node, "transpose", (total,), operand.shape, dimensions=back)
    return derived(node, applied, (operand, total), operand.shape)
