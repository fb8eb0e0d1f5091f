"""Replaces the sum of a row that is zero but for one element by this element.

The gradient of ``log_softmax`` subtracts the sum of the loss's gradient, which is zero but for the
label's element. The sum takes a pass over the whole array; the element is known before.
"""

from __future__ import annotations

import numpy as np

from neff.compiler.graph.nodes import Node, derived
from neff.compiler.graph.rows import source_of, squeezed

__all__ = ["sum_of_one_hot"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""


def sum_of_one_hot(node: Node, uses: Uses) -> Node | None:
    """Return ``select(label is a position, value, 0)`` for ``sum(select(positions == label, value, 0))``.

    The sum is exact, so the results are equal bit for bit, but for the sign of a zero, which is that
    of ``0.0 + value``.
    """
    operand, start = node.operands[0], node.operands[-1]
    if (
        node.attributes["applied"] != "add"
        or len(node.operands) != 2
        or node.element.name != "f32"
        or not _is_positive_zero(start)
    ):
        return None
    signs = 0
    while operand.opcode == "negate":
        operand, signs = operand.operands[0], signs + 1
    if operand.opcode != "select" or operand.operands[2].splat != 0:
        return None
    matches, value, _ = operand.operands
    label = _label(matches, node)
    number = value.splat
    if label is None or number is None:
        return None
    total = np.asarray(number if signs % 2 == 0 else -number, np.float32)
    dimensions: tuple[int, ...] = node.attributes["dimensions"]
    shape, extent = label.shape, operand.shape[dimensions[0]]
    inside = derived(
        node, "and",
        [
            derived(node, "compare", (label, _repeated(label, label, limit)), shape,
                    matches.element, direction=direction)
            for direction, limit in (("GE", 0), ("LT", extent))
        ],
        shape,
    )  # fmt: skip
    chosen, zero = (_repeated(label, start, limit) for limit in (total + np.float32(0), 0.0))
    result = derived(node, "select", (inside, chosen, zero), shape, node.element)
    return result if shape == node.shape else derived(node, "reshape", (result,), node.shape)


def _is_positive_zero(node: Node) -> bool:
    number = node.splat
    return number is not None and number == 0 and not np.signbit(number)


def _label(matches: Node, node: Node) -> Node | None:
    """Return the label of each row that is compared with positions along the reduced dimension."""
    dimensions: tuple[int, ...] = node.attributes["dimensions"]
    if (
        matches.opcode != "compare"
        or matches.attributes["direction"] != "EQ"
        or len(dimensions) != 1
    ):
        return None
    for positions, labels in (matches.operands, matches.operands[::-1]):
        if positions.opcode != "iota" or positions.attributes["dimensions"] != dimensions:
            continue
        label, axis = source_of(labels)
        if (
            axis == "row"
            and label.element.name == "s32"
            and squeezed(label.shape) == squeezed(node.shape)
        ):
            return label
    return None


def _repeated(like: Node, typed: Node, number: object) -> Node:
    """Return a number for each label."""
    value = np.asarray(number, np.int32 if typed.element.name == "s32" else np.float32)
    constant = derived(like, "constant", (), (), typed.element, value=value)
    return derived(like, "broadcast", (constant,), like.shape, dimensions=())
