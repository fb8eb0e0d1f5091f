"""Replaces arithmetic by fewer operations on full arrays, which differ by rounding at most."""

from __future__ import annotations

import numpy as np

from neff.compiler.graph.nodes import Node, derived

__all__ = ["doubled", "joined_scales", "rounded_conversion"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""

_MIN_RATIO = 16
"""An operation on a repeated value is free if the array has at least this many times its elements."""

_WORDS_OR_LESS = frozenset({"s8", "u8", "s16", "u16", "s32", "u32"})


def doubled(node: Node, uses: Uses) -> Node | None:
    """Return ``x * 2`` for ``x + x``, and ``a + x * 2`` for ``(a + x) + x`` of a product, as
    gradients of squares have.

    A product with a value of each row or column is doubled in this value: ``x * (2 * value)``.
    """
    if node.element.name not in ("f32", "bf16"):
        return None
    a, b = node.operands
    if a is b and a.splat is None:
        return _twice(node, a)
    for total, term in ((a, b), (b, a)):
        if total.opcode != "add" or node.element.name != "f32" or uses.get(id(total), 0) > 1:
            continue
        addends = [operand for operand in total.operands if operand is not term]
        if len(addends) == 1 and term.opcode == "multiply":
            return node.like("add", addends[0], _twice(node, term))
    return None


def _twice(node: Node, value: Node) -> Node:
    if value.opcode == "multiply":
        for factor, operand in (value.operands, value.operands[::-1]):
            if factor.opcode == "broadcast" and factor.operands[0].size * _MIN_RATIO <= value.size:
                (source,) = factor.operands
                spread = factor.like(
                    "broadcast", _scaled(source), dimensions=factor.attributes["dimensions"]
                )
                return value.like("multiply", spread, operand)
    return _scaled(value, node)


def _scaled(value: Node, like: Node | None = None) -> Node:
    like = like or value
    number = derived(
        value, "constant", (), (), value.element, value=np.asarray(2, value.element.dtype)
    )
    return like.like("multiply", value, like.like("broadcast", number, dimensions=()))


def joined_scales(node: Node, uses: Uses) -> Node | None:
    """Return ``x * (a * b)`` for ``(x * a) * b`` of values that repeat along the same dimensions.

    One of them is a reciprocal root, as in a batch normalization, so that the product of both stays
    in range.
    """
    if node.element.name != "f32":
        return None
    for product, second in (node.operands, node.operands[::-1]):
        if product.opcode != "multiply" or uses.get(id(product), 0) > 1:
            continue
        for first, value in (product.operands, product.operands[::-1]):
            scale = _joined_scale(node, first, second)
            if scale is not None and value.opcode != "broadcast":
                return node.like("multiply", value, scale)
    return None


def _joined_scale(node: Node, first: Node, second: Node) -> Node | None:
    if first.opcode != "broadcast" or second.opcode != "broadcast":
        return None
    a, b = first.operands[0], second.operands[0]
    dims = first.attributes["dimensions"]
    if a.shape != b.shape or not a.shape or a.size * _MIN_RATIO > node.size:
        return None
    if dims != second.attributes["dimensions"] or not (_is_root(a) or _is_root(b)):
        return None
    return first.like("broadcast", a.like("multiply", a, b), dimensions=dims)


def _is_root(node: Node) -> bool:
    while node.opcode in ("reshape", "broadcast") and node.operands:
        node = node.operands[0]
    return node.opcode == "rsqrt"


def rounded_conversion(node: Node, uses: Uses) -> Node | None:
    """Convert with rounding to nearest, as the engines do, what was rounded to nearest before."""
    (operand,) = node.operands
    if operand.opcode != "round-nearest-even" or node.element.name not in _WORDS_OR_LESS:
        return None
    if operand.element.name not in ("f32", "bf16", "f16"):
        return None
    return node.like("convert", operand.operands[0], element=node.element.name, rounding="nearest")
