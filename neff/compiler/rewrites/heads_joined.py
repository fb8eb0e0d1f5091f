"""Joins the products of probabilities and values of all heads that read a few rows each.

A decoding step multiplies one row, or one for each query head of a key head, by the values of
every head: (batch..., heads, rows, keys) by (batch..., keys, heads, columns). For each head alone, the
tensor engine loads 128 values for a row. The rows of all heads together read the values in the order
of memory, each once::

    product   (batch..., heads * rows, heads' * columns)
    result    the columns of heads' == heads, chosen and not multiplied: infinities stay in their head
"""

from __future__ import annotations

from math import prod

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Node, derived

__all__ = ["heads_joined"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""

_FLOATS = frozenset({"f32", "bf16", "f16"})

_MAX_JOINED_ROWS = 128
"""Rows of all heads: the stationary operand of one product instruction."""

_MAX_ROWS = 16
"""From more rows of a head on, the products that are not read cost more than is gained."""

_MIN_KEYS = 256
"""With fewer keys the choice of the columns costs more than the products."""

_VIEWS_WITH_OTHER_ORDER = frozenset({"transpose", "broadcast", "reverse"})


def heads_joined(node: Node, uses: Uses) -> Node | None:
    """Return the product of a few rows of each head with (batch..., keys, heads, columns)."""
    if {value.element.name for value in (node, *node.operands)} - _FLOATS or not node.size:
        return None
    for side, name, other_name in ((0, "lhs", "rhs"), (1, "rhs", "lhs")):
        rows, values = node.operands[side], node.operands[1 - side]
        batch: tuple[int, ...] = node.attributes[f"{other_name}_batch"]
        keys: tuple[int, ...] = node.attributes[f"{other_name}_contracting"]
        rank = len(values.shape)
        wide = [dim for dim in range(rank) if values.shape[dim] != 1]
        if len(keys) != 1 or rank - len(batch) != 2 or wide[-3:] != [keys[0], rank - 2, rank - 1]:
            continue
        if rank - 2 not in batch or values.opcode in _VIEWS_WITH_OTHER_ORDER:
            continue
        outer = [dim for dim in batch if dim != rank - 2]
        heads = values.shape[rank - 2]
        count = rows.size // (prod(values.shape[dim] for dim in batch) * values.shape[keys[0]])
        if count > _MAX_ROWS or not 1 < heads <= _MAX_JOINED_ROWS // count:
            continue
        if values.shape[keys[0]] < _MIN_KEYS or outer != sorted(outer):
            continue
        rows_batch: tuple[int, ...] = node.attributes[f"{name}_batch"]
        order = [rows_batch[batch.index(dim)] for dim in (*outer, rank - 2)]
        return _joined(node, side, order, [*batch].index(rank - 2))
    return None


def _joined(node: Node, side: int, order: list[int], head: int) -> Node:
    """Return the product.

    Args:
        node: the product of each head.
        side: which operand has the rows.
        order: its batch dimensions, that of the heads last.
        head: the position of the heads among the batch dimensions of the product.
    """
    rows, values = node.operands[side], node.operands[1 - side]
    contracting: tuple[int, ...] = node.attributes[("lhs", "rhs")[side] + "_contracting"]
    free = [dim for dim in range(len(rows.shape)) if dim not in (*order, *contracting)]
    dims = (*order, *free, *contracting)
    batch = tuple(rows.shape[dim] for dim in order[:-1])
    heads, count = rows.shape[order[-1]], prod(rows.shape[dim] for dim in free)
    keys, columns = rows.shape[contracting[0]], values.shape[-1]
    if dims != tuple(range(len(dims))):
        shape = [rows.shape[dim] for dim in dims]
        rows = derived(rows, "transpose", (rows,), shape, dimensions=dims)
    rows = derived(rows, "reshape", (rows,), (*batch, heads * count, keys))
    values = derived(values, "reshape", (values,), (*batch, keys, heads * columns))
    rank = len(batch)
    total = derived(
        node, "dot", (rows, values), (*batch, heads * count, heads * columns), BY_NAME["f32"],
        lhs_batch=tuple(range(rank)), rhs_batch=tuple(range(rank)),
        lhs_contracting=(rank + 1,), rhs_contracting=(rank,),
    )  # fmt: skip
    split = (*batch, heads, count, heads, columns)
    chosen = _choice(node, derived(total, "reshape", (total,), split), rank)
    if node.element.name != "f32":
        chosen = derived(node, "convert", (chosen,), chosen.shape, node.element)
    return _in_order(node, chosen, head, side, _free(node, side))


def _free(node: Node, side: int) -> list[int]:
    """Return the extents of the rows' dimensions that are dimensions of the result."""
    rows, name = node.operands[side], ("lhs", "rhs")[side]
    used_dims = (*node.attributes[f"{name}_batch"], *node.attributes[f"{name}_contracting"])
    return [extent for dim, extent in enumerate(rows.shape) if dim not in used_dims]


def _choice(node: Node, products: Node, rank: int) -> Node:
    """Return the columns of each head's rows: (batch..., heads, rows, columns).

    Args:
        node: for names.
        products: (batch..., heads, rows, heads, columns).
        rank: number of batch dimensions.
    """
    shape = products.shape
    heads, word = shape[rank], BY_NAME["s32"]
    numbers = derived(products, "iota", (), (heads,), word, dimensions=(0,))
    sides = [
        derived(numbers, "broadcast", (numbers,), shape, dimensions=(dim,))
        for dim in (rank, rank + 2)
    ]
    is_same = derived(node, "compare", sides, shape, BY_NAME["pred"], direction="EQ")
    zero = derived(node, "constant", (), (), BY_NAME["f32"], value=np.zeros((), np.float32))
    zeros = derived(zero, "broadcast", (zero,), shape, dimensions=())
    chosen = derived(node, "select", (is_same, products, zeros), shape, BY_NAME["f32"])
    kept_shape = (*shape[: rank + 2], shape[-1])
    return derived(
        node, "reduce", (chosen, zero), kept_shape, BY_NAME["f32"],
        applied="add", dimensions=(rank + 2,),
    )  # fmt: skip


def _in_order(node: Node, chosen: Node, head: int, side: int, free: list[int]) -> Node:
    """Return (batch..., heads, rows, columns) with the dimensions of the product.

    Args:
        node: the product.
        chosen: the value.
        head: the position of the heads among the product's batch dimensions.
        side: which operand has the rows.
        free: extents of their dimensions.
    """
    rank = len(chosen.shape) - 3
    split = (*chosen.shape[: rank + 1], *free, chosen.shape[-1])
    value = derived(chosen, "reshape", (chosen,), split)
    batch = [*range(rank)]
    batch.insert(head, rank)
    row_dims = [*range(rank + 1, rank + 1 + len(free))]
    column = [len(split) - 1]
    dims = (*batch, *(row_dims + column if side == 0 else column + row_dims))
    if dims != tuple(range(len(dims))):
        value = derived(value, "transpose", (value,), node.shape, dimensions=dims)
    return value
