"""Values whose dimensions are labeled with the dimensions of a softmax that they walk.

A reshape may join dimensions (heads of a batch) or divide them, so a dimension walks a sequence of
labels, the slowest first. Dimensions of one element walk none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from neff.compiler.graph.nodes import Node, derived

__all__ = [
    "COLUMNS", "DEPTH", "FLOATS", "Axes", "Extents", "Labeled", "arranged", "contracted",
    "dot_dims", "free_dims", "in_dims", "operand_of", "regrouped", "same", "up",
]  # fmt: skip

Axes = tuple[tuple[int, ...], ...]
"""For each dimension the labels that it walks, the slowest first."""

Extents = Mapping[int, int]
"""Label -> extent."""

DEPTH, COLUMNS = -1, -2
"""Labels of the depth of queries and keys, and of the columns of values."""

FLOATS = frozenset({"f32", "bf16"})


@dataclass(frozen=True, slots=True)
class Labeled:
    """A value and the labels of its dimensions."""

    node: Node
    axes: Axes

    @property
    def labels(self) -> tuple[int, ...]:
        """Return the labels of all dimensions in order."""
        return tuple(chain.from_iterable(self.axes))

    def operand(self, number: int) -> Labeled:
        """Return an operand of the same shape."""
        return Labeled(self.node.operands[number], self.axes)


def regrouped(labels: Sequence[int], shape: Sequence[int], extents: Extents) -> Axes | None:
    """Return the labels of each dimension of a reshaped value, or None if a label is divided."""
    axes: list[tuple[int, ...]] = []
    position = 0
    for extent in shape:
        first, size = position, 1
        while size < extent and position < len(labels):
            size *= extents[labels[position]]
            position += 1
        if size != extent:
            return None
        axes.append(tuple(labels[first:position]))
    return tuple(axes) if position == len(labels) else None


def up(value: Labeled, extents: Extents) -> Labeled:
    """Return the value behind casts between floats, reshapes, transposes and broadcasts."""
    while (operand := _viewed(value, extents)) is not None:
        value = operand
    return value


def _viewed(value: Labeled, extents: Extents) -> Labeled | None:
    node = value.node
    if node.opcode == "convert":
        is_float = {node.element.name, node.operands[0].element.name} <= FLOATS
        return value.operand(0) if is_float else None
    if node.opcode == "transpose":
        axes: list[tuple[int, ...]] = [()] * len(value.axes)
        for axis, dim in zip(value.axes, node.attributes["dimensions"], strict=True):
            axes[dim] = axis
        return Labeled(node.operands[0], tuple(axes))
    if node.opcode == "broadcast":
        (operand,) = node.operands
        dims: tuple[int, ...] = node.attributes["dimensions"]
        pairs = zip(operand.shape, dims, strict=True)
        return Labeled(operand, tuple(() if n == 1 else value.axes[dim] for n, dim in pairs))
    if node.opcode == "reshape":
        (operand,) = node.operands
        regroup = regrouped(value.labels, operand.shape, extents)
        return None if regroup is None else Labeled(operand, regroup)
    return None


def same(left: Labeled, right: Labeled, extents: Extents) -> bool:
    """Return True if two values have the same elements up to casts between floats."""
    left, right = up(left, extents), up(right, extents)
    return left.node is right.node and left.axes == right.axes


def dot_dims(node: Node, side: int, which: str) -> tuple[int, ...]:
    """Return the ``batch`` or ``contracting`` dimensions of an operand of a product."""
    dims: tuple[int, ...] = node.attributes[f"{('lhs', 'rhs')[side]}_{which}"]
    return dims


def free_dims(node: Node, side: int) -> list[int]:
    """Return the dimensions of an operand that are dimensions of the product alone."""
    used_dims = (*dot_dims(node, side, "batch"), *dot_dims(node, side, "contracting"))
    return [dim for dim in range(len(node.operands[side].shape)) if dim not in used_dims]


def operand_of(product: Labeled, side: int, label: int) -> Labeled | None:
    """Return an operand of a labeled product, whose contracted dimension gets a label.

    None if it contracts several dimensions, or none of more than one element.
    """
    node = product.node
    operand = node.operands[side]
    wide = [dim for dim in dot_dims(node, side, "contracting") if operand.shape[dim] != 1]
    if len(wide) != 1:
        return None
    axes: list[tuple[int, ...]] = [()] * len(operand.shape)
    axes[wide[0]] = (label,)
    for position, dim in enumerate(dot_dims(node, side, "batch")):
        axes[dim] = product.axes[position]
    first = len(dot_dims(node, side, "batch")) + (len(free_dims(node, 0)) if side else 0)
    for position, dim in enumerate(free_dims(node, side)):
        axes[dim] = product.axes[first + position]
    return Labeled(operand, tuple(axes))


def contracted(
    node: Node, side: int, axes: Axes, label: int
) -> tuple[Labeled, Labeled, tuple[int, ...]] | None:
    """Label a product from one of its operands.

    Args:
        node: the product.
        side: the operand whose labels are ``axes``.
        axes: its labels.
        label: label of the only free dimension of the other operand.

    Returns:
        The product, its other operand, and the labels that are contracted; None if the other
        operand has several free dimensions, or none of more than one element.
    """
    operand = node.operands[1 - side]
    wide = [dim for dim in free_dims(node, 1 - side) if operand.shape[dim] != 1]
    if len(wide) != 1:
        return None
    operand_axes: list[tuple[int, ...]] = [()] * len(operand.shape)
    operand_axes[wide[0]] = (label,)
    labels: list[int] = []
    for which in ("batch", "contracting"):
        for dim, position in zip(
            dot_dims(node, 1 - side, which), dot_dims(node, side, which), strict=True
        ):
            operand_axes[dim] = axes[position]
            if which == "contracting":
                labels += axes[position]
    batch = [axes[dim] for dim in dot_dims(node, side, "batch")]
    sides = [[axes[dim] for dim in free_dims(node, side)]]
    sides.append([operand_axes[dim] for dim in free_dims(node, 1 - side)])
    if side:
        sides.reverse()
    product_axes = (*batch, *sides[0], *sides[1])
    return Labeled(node, product_axes), Labeled(operand, tuple(operand_axes)), tuple(labels)


def arranged(value: Labeled, order: Sequence[int], extents: Extents) -> Node | None:
    """Return the value with a dimension for each of the labels in this order.

    None if it walks other labels.
    """
    labels = value.labels
    if sorted(labels) != sorted(order):
        return None
    node = value.node
    split = tuple(extents[label] for label in labels)
    if split != node.shape:
        node = derived(node, "reshape", (node,), split)
    dims = tuple(labels.index(label) for label in order)
    if dims != tuple(range(len(dims))):
        shape = [split[dim] for dim in dims]
        node = derived(node, "transpose", (node,), shape, dimensions=dims)
    return node


def in_dims(value: Labeled, axes: Axes, shape: Sequence[int]) -> Node:
    """Return a value of one label for each dimension in the dimensions of another value.

    Args:
        value: the value.
        axes: the labels of the other value, the same ones.
        shape: its shape.
    """
    node, labels = value.node, value.labels
    dims = tuple(labels.index(label) for label in chain.from_iterable(axes))
    if dims != tuple(range(len(dims))):
        moved = [node.shape[dim] for dim in dims]
        node = derived(node, "transpose", (node,), moved, dimensions=dims)
    return node if node.shape == tuple(shape) else derived(node, "reshape", (node,), shape)
