"""Reorders matrix products and their neighbours so that they cost least."""

from __future__ import annotations

from math import prod

import numpy as np

from neff.compiler.graph.nodes import Node, derived
from neff.compiler.graph.rows import product_rows, source_of, squeezed
from neff.compiler.rewrites.row_views import rearranged

__all__ = [
    "by_rows",
    "division_after_product",
    "exchanged",
    "joined",
    "outer_product",
    "reduction_of_unit_dimensions",
    "trailing_first",
    "transposed_outer_product",
]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""

_PRODUCT_TYPES = frozenset({"f32", "bf16"})
_MIN_REDUCED_ROWS, _MIN_REDUCED_COLUMNS = 32, 16
"""From this many rows, and elements of a row, on a reduction by rows is faster."""


_MIN_TRAILING_ELEMENTS = 128
"""From this many elements of a row on it is reduced before the other dimensions."""

_STARTS = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf}


_NO_NEGATIVE_ZERO = frozenset({"abs", "exponential", "logistic"})


def reduction_of_unit_dimensions(node: Node, uses: Uses) -> Node | None:
    """Return the operand of a reduction over dimensions of one element, as gradients of broadcasts
    have.

    A sum from 0.0 maps -0.0 to 0.0, so it stays an addition unless -0.0 is impossible.
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
    reshaped = derived(node, "reshape", (operand,), node.shape)
    if op != "add" or np.signbit(float(start.splat)) or operand.opcode in _NO_NEGATIVE_ZERO:
        return reshaped
    zeros = derived(node, "broadcast", (start,), node.shape, dimensions=())
    return derived(node, "add", (reshaped, zeros), node.shape)


def by_rows(node: Node, uses: Uses) -> Node | None:
    """Reduce rows first, which fuses with the producer of the rows, then reduce their results."""
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
        or prod(operand.shape[:-1]) < _MIN_REDUCED_ROWS
        or operand.shape[-1] < _MIN_REDUCED_COLUMNS
    ):
        return None
    rows = derived(
        node, "reduce", (operand, start), operand.shape[:-1], applied=op, dimensions=(rank - 1,)
    )
    return derived(node, "reduce", (rows, start), (), applied=op, dimensions=tuple(range(rank - 1)))


def trailing_first(node: Node, uses: Uses) -> Node | None:
    """Reduce the innermost of several dimensions first, as for statistics of images by channel.

    The reduction of rows fuses with the arithmetic on them; few elements are left for the other
    dimensions.
    """
    operand, start = node.operands[0], node.operands[-1]
    op, rank = node.attributes["applied"], len(operand.shape)
    dimensions: tuple[int, ...] = node.attributes["dimensions"]
    front = rank
    while front and (front - 1 in dimensions or operand.shape[front - 1] == 1):
        front -= 1
    outer_dims = tuple(dim for dim in dimensions if dim < front)
    if (
        len(node.operands) != 2
        or prod(operand.shape[dim] for dim in outer_dims) < 2
        or prod(operand.shape[:front]) < _MIN_REDUCED_ROWS
        or prod(operand.shape[front:]) < _MIN_TRAILING_ELEMENTS
        or len(dimensions) == rank
        or any(dim >= front and dim not in dimensions for dim in range(rank))
        or operand.element.kind != "float"
        or (op == "add" and operand.element.name != "f32")
        or op not in _STARTS
        or start.splat is None
        or float(start.splat) != _STARTS[op]
    ):
        return None
    rows = derived(
        node, "reduce", (operand, start), operand.shape[:front], applied=op,
        dimensions=tuple(range(front, rank)),
    )  # fmt: skip
    return derived(node, "reduce", (rows, start), node.shape, applied=op, dimensions=outer_dims)


def exchanged(node: Node, uses: Uses) -> Node | None:
    """Swap the operands of a product whose transpose has the product's rows innermost."""
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
    swapped = (*range(batch), *range(middle, rank), *range(batch, middle))
    product_swapped = derived(
        product, "dot", (right, left), [product.shape[dim] for dim in swapped], product.element,
        lhs_batch=fields["rhs_batch"], rhs_batch=fields["lhs_batch"],
        lhs_contracting=fields["rhs_contracting"], rhs_contracting=fields["lhs_contracting"],
    )  # fmt: skip
    order = tuple(swapped.index(dim) for dim in order)
    if order == tuple(range(rank)):
        return product_swapped
    return derived(
        node, "transpose", (product_swapped,), node.shape, node.element, dimensions=order
    )


def joined(node: Node, uses: Uses) -> Node | None:
    """Concatenate the operands of a sum of zero-padded arrays, as gradients of slices are.

    Another term is added to them: that of the operations that read the array whole.
    """
    leaves: list[Node] = []
    remainder: Node | None = None
    stack = [node]
    while stack:
        term = stack.pop()
        if term.opcode == "pad" and term.operands[1].splat == 0:
            leaves.append(term)
        elif term.opcode == "add" and any(_has_pads(operand) for operand in term.operands):
            stack += term.operands
        elif remainder is None and node.element.kind == "float":
            remainder = term
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
    offset = 0
    for leaf in leaves:
        low, high, _ = leaf.attributes["padding"][dim]
        if low != offset or high < 0:
            return None
        offset += leaf.operands[0].shape[dim]
    if offset != node.shape[dim]:
        return None
    parts = tuple(leaf.operands[0] for leaf in leaves)
    joined_pads = derived(node, "concatenate", parts, node.shape, node.element, dimensions=(dim,))
    joined_pads = rearranged(joined_pads, uses) or joined_pads
    return joined_pads if remainder is None else node.like("add", remainder, joined_pads)


def _has_pads(node: Node) -> bool:
    """Return True for a padded array, and a sum of which a term is one."""
    is_sum = node.opcode == "add" and any(value.opcode == "pad" for value in node.operands)
    return node.opcode == "pad" or is_sum


def division_after_product(node: Node, uses: Uses) -> Node | None:
    """Compute ``(exp(x) / rows) @ y`` as ``(exp(x) @ y) / rows``, which divides fewer columns.

    Only for exponentials, as in softmax: they are at most one, so sums stay in range.
    """
    left, right = node.operands
    casts: list[Node] = []
    while left.opcode == "convert" and left.element.kind == "float":
        casts.append(left)
        left = left.operands[0]
    if (
        left.opcode != "divide"
        or node.element.name not in _PRODUCT_TYPES
        or left.element.name not in _PRODUCT_TYPES
    ):
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
    return derived(left, "divide", (product, spread), node.shape, node.element)


def outer_product(node: Node, uses: Uses) -> Node | None:
    """Return a product without a sum, as of one-hot rows and values, as an elementwise product."""
    fields = node.attributes
    left, right = node.operands
    contracted: tuple[int, ...] = fields["lhs_contracting"]
    if (
        any(left.shape[dim] != 1 for dim in contracted)
        or not {value.element.name for value in (node, left, right)} <= _PRODUCT_TYPES
        or not node.size
    ):
        return None
    batch = len(fields["lhs_batch"])
    left = _ordered(node, left, fields["lhs_batch"], contracted)
    right = _ordered(node, right, fields["rhs_batch"], fields["rhs_contracting"])
    rows = len(left.shape) - batch
    left_dims = tuple(range(batch + rows))
    right_dims = (*range(batch), *range(batch + rows, len(node.shape)))
    sides = [
        derived(node, "broadcast", (side,), node.shape, dimensions=dims)
        for side, dims in ((left, left_dims), (right, right_dims))
    ]
    return derived(node, "multiply", sides, node.shape)


def _ordered(
    node: Node, operand: Node, batch: tuple[int, ...], contracted: tuple[int, ...]
) -> Node:
    """Return an operand in the product's type: batch and free dimensions, without contracted ones."""
    free = [dim for dim in range(len(operand.shape)) if dim not in (*batch, *contracted)]
    order = (*batch, *free, *contracted)
    if order != tuple(range(len(order))):
        shape = [operand.shape[dim] for dim in order]
        operand = derived(operand, "transpose", (operand,), shape, dimensions=order)
    if contracted:
        outer_shape = operand.shape[: len(operand.shape) - len(contracted)]
        operand = derived(operand, "reshape", (operand,), outer_shape)
    if operand.element is not node.element:
        operand = operand.like("convert", operand, element=node.element.name)
    return operand


def transposed_outer_product(node: Node, uses: Uses) -> Node | None:
    """Return a transposed product of two broadcasts as a product of them in the other order."""
    product = node.operands[0]
    if product.opcode != "multiply" or uses.get(id(product), 0) != 1:
        return None
    if any(side.opcode != "broadcast" or not side.operands[0].shape for side in product.operands):
        return None
    order: tuple[int, ...] = node.attributes["dimensions"]
    sides: list[Node] = []
    for side in product.operands:
        source, dims = side.operands[0], side.attributes["dimensions"]
        positions = [order.index(dim) for dim in dims]
        moved = tuple(sorted(range(len(positions)), key=positions.__getitem__))
        if moved != tuple(range(len(moved))):
            shape = [source.shape[number] for number in moved]
            source = derived(source, "transpose", (source,), shape, dimensions=moved)
        sides.append(
            derived(node, "broadcast", (source,), node.shape, dimensions=tuple(sorted(positions)))
        )
    return derived(node, "multiply", sides, node.shape)
