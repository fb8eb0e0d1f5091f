"""Products of matrices and what stands around them, in the order that costs least."""

from __future__ import annotations

from math import prod

import numpy as np

from neff.compiler.graph.nodes import Node, derived
from neff.compiler.graph.rows import product_rows, source_of, squeezed

__all__ = ["by_rows", "divided_behind", "exchanged", "joined", "of_nothing"]

Uses = dict[int, int]
"""How often each node is read, by ``id``."""

_WIDE = frozenset({"f32", "bf16"})
_ROWS, _COLUMNS = 32, 16
"""Rows, and elements of one, from which on a reduction by rows is worth while."""


_STARTS = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf}


_NO_NEGATIVE_ZERO = frozenset({"abs", "exponential", "logistic"})


def of_nothing(node: Node, uses: Uses) -> Node | None:
    """A reduction over dimensions of one element as its operand: gradients of broadcasts have them.

    A sum from 0.0 on makes 0.0 of -0.0, so it stays an addition unless there can be no -0.0.
    """
    operand, start = node.operands[0], node.operands[-1]
    op = node.attributes["applied"]
    dimensions: tuple[int, ...] = node.attributes["dimensions"]
    if (
        len(node.operands) != 2
        or operand.element.kind != "float"
        or op not in _STARTS
        or start.splat is None
        or float(start.splat) != _STARTS[op]
        or any(operand.shape[dim] != 1 for dim in dimensions)
    ):
        return None
    found = derived(node, "reshape", (operand,), node.shape)
    if op != "add" or np.signbit(float(start.splat)) or operand.opcode in _NO_NEGATIVE_ZERO:
        return found
    zeros = derived(node, "broadcast", (start,), node.shape, dimensions=())
    return derived(node, "add", (found, zeros), node.shape)


def by_rows(node: Node, uses: Uses) -> Node | None:
    """A reduction of everything as one of each row, which joins who makes the rows, and the rest."""
    operand, start = node.operands[0], node.operands[-1]
    op, rank = node.attributes["applied"], len(operand.shape)
    if (
        len(node.operands) != 2
        or rank < 2
        or len(node.attributes["dimensions"]) != rank
        or operand.element.kind != "float"
        or op not in _STARTS
        or start.splat is None
        or float(start.splat) != _STARTS[op]
        or prod(operand.shape[:-1]) < _ROWS
        or operand.shape[-1] < _COLUMNS
    ):
        return None
    rows = derived(
        node, "reduce", (operand, start), operand.shape[:-1], applied=op, dimensions=(rank - 1,)
    )
    return derived(node, "reduce", (rows, start), (), applied=op, dimensions=tuple(range(rank - 1)))


def exchanged(node: Node, uses: Uses) -> Node | None:
    """A transpose that puts a product's rows innermost: of the operands in the other order, whose
    columns these are."""
    (product,) = node.operands
    if product.opcode != "dot" or uses.get(id(product), 0) > 1:
        return None
    fields = product.attributes
    batch = len(fields["lhs_batch"])
    left, right = product.operands
    middle = len(left.shape) - len(fields["lhs_contracting"])
    rank = len(product.shape)
    order: tuple[int, ...] = node.attributes["dimensions"]
    if not batch <= order[-1] < middle:
        return None
    turned = (*range(batch), *range(middle, rank), *range(batch, middle))
    made = derived(
        node, "dot", (right, left), [product.shape[dim] for dim in turned], product.element,
        lhs_batch=fields["rhs_batch"], rhs_batch=fields["lhs_batch"],
        lhs_contracting=fields["rhs_contracting"], rhs_contracting=fields["lhs_contracting"],
    )  # fmt: skip
    order = tuple(turned.index(dim) for dim in order)
    if order == tuple(range(rank)):
        return made
    return derived(node, "transpose", (made,), node.shape, node.element, dimensions=order)


def joined(node: Node, uses: Uses) -> Node | None:
    """A sum of arrays that are zero but for a part each, as gradients of slices are: the parts side
    by side."""
    leaves: list[Node] = []
    stack = [node]
    while stack:
        one = stack.pop()
        if one.opcode == "add":
            stack += one.operands
        elif one.opcode == "pad" and one.operands[1].splat == 0:
            leaves.append(one)
        else:
            return None
    dims = {
        dim
        for leaf in leaves
        for dim, padding in enumerate(leaf.attributes["padding"])
        if any(padding)
    }
    if len(dims) != 1 or any(n for leaf in leaves for _, _, n in leaf.attributes["padding"]):
        return None
    (dim,) = dims
    leaves.sort(key=lambda leaf: leaf.attributes["padding"][dim][0])
    at = 0
    for leaf in leaves:
        low, high, _ = leaf.attributes["padding"][dim]
        if low != at or high < 0:
            return None
        at += leaf.operands[0].shape[dim]
    if at != node.shape[dim]:
        return None
    parts = tuple(leaf.operands[0] for leaf in leaves)
    return derived(node, "concatenate", parts, node.shape, node.element, dimensions=(dim,))


def divided_behind(node: Node, uses: Uses) -> Node | None:
    """``(exp(x) / rows) @ y`` as ``(exp(x) @ y) / rows``: there are fewer columns to divide.

    Only behind exponentials, as softmax has them: they are at most one, so sums stay in range.
    """
    left, right = node.operands
    casts: list[Node] = []
    while left.opcode == "convert" and left.element.kind == "float":
        casts.append(left)
        left = left.operands[0]
    if left.opcode != "divide" or node.element.name not in _WIDE or left.element.name not in _WIDE:
        return None
    top, below = left.operands
    inner = top
    while inner.opcode == "convert":
        inner = inner.operands[0]
    source, axis = source_of(below)
    rows = product_rows(node)
    contracting = node.attributes["lhs_contracting"]
    rank = len(left.shape)
    if (
        inner.opcode != "exponential"
        or axis != "row"
        or squeezed(source.shape) != rows
        or contracting != tuple(range(rank - len(contracting), rank))
        or node.attributes["lhs_batch"] != tuple(range(len(node.attributes["lhs_batch"])))
    ):
        return None
    for cast in reversed(casts):
        top = cast.like("convert", top)
    product = derived(node, "dot", (top, right), node.shape, node.element, **node.attributes)
    if source.element is not node.element:
        source = derived(node, "convert", (source,), source.shape, node.element)
    front = rank - len(contracting)
    line = derived(node, "reshape", (source,), node.shape[:front])
    spread = derived(node, "broadcast", (line,), node.shape, dimensions=tuple(range(front)))
    return node.like("divide", product, spread)
