"""Rewrites products of one vector and one narrow matrix for each batch to elementwise operations.

The tensor engine would use a few of its rows or columns for each element of the batch, one
instruction after the other. On the vector engine the batch is on the partitions. The gradients of
one-hot dispatch and of a gate are such products.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Node, derived, sliced

__all__ = ["narrow_product"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""

_PRODUCT_TYPES = frozenset({"f32", "bf16", "f16"})
_MIN_BATCH = 32
"""A smaller batch would leave most partitions without work."""

_MAX_NARROW_EXTENT = 16
"""Up to this many summands, or columns, the vector engine takes less time than the tensor engine."""


@dataclass(frozen=True, slots=True)
class _Side:
    """An operand of a product: its dimensions in the order batch, free, contracted.

    Attributes:
        value: the operand.
        batch: its batch dimensions.
        contracted: its only contracted dimension.
    """

    value: Node
    batch: tuple[int, ...]
    contracted: int

    @property
    def free(self) -> tuple[int, ...]:
        """The dimensions that the result has from this operand alone."""
        rank = len(self.value.shape)
        return tuple(dim for dim in range(rank) if dim not in (*self.batch, self.contracted))

    @property
    def free_extents(self) -> tuple[int, ...]:
        """The extents of the free dimensions."""
        return tuple(self.value.shape[dim] for dim in self.free)

    @property
    def is_contiguous(self) -> bool:
        """True when the summands of one element are side by side in the operand."""
        source, dim = self.value, self.contracted
        while source.opcode == "transpose":
            order: tuple[int, ...] = source.attributes["dimensions"]
            source, dim = source.operands[0], order[dim]
        return all(extent == 1 for extent in source.shape[dim + 1 :])

    def ordered(self) -> Node:
        """Return the operand with its dimensions in the order batch, free, contracted."""
        order = (*self.batch, *self.free, self.contracted)
        if order == tuple(range(len(order))):
            return self.value
        shape = [self.value.shape[dim] for dim in order]
        return derived(self.value, "transpose", (self.value,), shape, dimensions=order)


def narrow_product(node: Node, uses: Uses) -> Node | None:
    """Multiply and add on the vector engine if one operand is a vector for each batch element.

    A few summands are added one after the other; a few columns are reduced along the summands. All
    arithmetic is in float32.
    """
    sides = _sides(node)
    if sides is None:
        return None
    vector, matrix = sorted(sides, key=lambda side: prod(side.free_extents))
    depth, columns = vector.value.shape[vector.contracted], prod(matrix.free_extents)
    batch = prod(matrix.value.shape[dim] for dim in matrix.batch)
    if prod(vector.free_extents) != 1 or columns < 2 or depth < 2 or batch < _MIN_BATCH:
        return None
    if depth <= _MAX_NARROW_EXTENT and not matrix.is_contiguous:
        total = _added(node, vector, matrix)
    elif columns <= _MAX_NARROW_EXTENT and matrix.is_contiguous and vector.is_contiguous:
        total = _reduced(node, vector, matrix)
    else:
        return None
    narrowed = total
    if total.element is not node.element:
        narrowed = total.like("convert", total, element=node.element.name)
    if narrowed.shape == node.shape:
        return narrowed
    return derived(node, "reshape", (narrowed,), node.shape)


def _sides(node: Node) -> tuple[_Side, _Side] | None:
    fields = node.attributes
    values = (node, *node.operands)
    if not node.size or not {value.element.name for value in values} <= _PRODUCT_TYPES:
        return None
    if len(fields["lhs_contracting"]) != 1:
        return None
    left, right = (
        _Side(operand, fields[f"{side}_batch"], fields[f"{side}_contracting"][0])
        for side, operand in zip(("lhs", "rhs"), node.operands, strict=True)
    )
    return left, right


def _in_float32(value: Node) -> Node:
    return value if value.element.name == "f32" else value.like("convert", value, element="f32")


def _added(node: Node, vector: _Side, matrix: _Side) -> Node:
    """Add the products of each summand: (batch, free), with the batch on the partitions."""
    weights, rows = vector.ordered(), matrix.ordered()
    shape = rows.shape[:-1]
    batch = shape[: len(matrix.batch)]
    total: Node | None = None
    for index in range(rows.shape[-1]):
        weight = sliced(node, weights, len(weights.shape) - 1, index, index + 1)
        weight = derived(node, "reshape", (weight,), batch)
        row = sliced(node, rows, len(shape), index, index + 1)
        row = derived(node, "reshape", (row,), shape)
        dims = tuple(range(len(batch)))
        spread = derived(node, "broadcast", (_in_float32(weight),), shape, dimensions=dims)
        term = derived(node, "multiply", (spread, _in_float32(row)), shape)
        total = term if total is None else derived(node, "add", (total, term), shape)
    assert total is not None
    return total


def _reduced(node: Node, vector: _Side, matrix: _Side) -> Node:
    """Reduce the products along the summands: (batch, free) rows of them."""
    rows = _in_float32(matrix.ordered())
    weights = _in_float32(vector.ordered())
    batch, depth = rows.shape[: len(matrix.batch)], rows.shape[-1]
    line = derived(node, "reshape", (weights,), (*batch, depth))
    dims = (*range(len(batch)), len(rows.shape) - 1)
    spread = derived(node, "broadcast", (line,), rows.shape, dimensions=dims)
    terms = derived(node, "multiply", (spread, rows), rows.shape)
    zero = Node("constant", (), (), BY_NAME["f32"], {"value": np.asarray(0, np.float32)})
    return derived(
        node, "reduce", (terms, zero), rows.shape[:-1],
        applied="add", dimensions=(len(rows.shape) - 1,),
    )  # fmt: skip
