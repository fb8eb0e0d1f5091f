"""Replaces arithmetic by operations of the engines that give the same bits in fewer instructions."""

from __future__ import annotations

import numpy as np

from neff.compiler.graph.nodes import Node, derived

__all__ = ["doubled", "rounded_conversion"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""

_WORDS_OR_LESS = frozenset({"s8", "u8", "s16", "u16", "s32", "u32"})


def doubled(node: Node, uses: Uses) -> Node | None:
    """Return ``x * 2`` for ``x + x``: a number needs no second operand from memory."""
    a, b = node.operands
    if a is not b or node.element.name not in ("f32", "bf16") or a.splat is not None:
        return None
    two = derived(node, "constant", (), (), node.element, value=np.asarray(2, node.element.dtype))
    return node.like("multiply", a, node.like("broadcast", two, dimensions=()))


def rounded_conversion(node: Node, uses: Uses) -> Node | None:
    """Convert with rounding to nearest, as the engines do, what was rounded to nearest before."""
    (operand,) = node.operands
    if operand.opcode != "round-nearest-even" or node.element.name not in _WORDS_OR_LESS:
        return None
    if operand.element.name not in ("f32", "bf16", "f16"):
        return None
    return node.like("convert", operand.operands[0], element=node.element.name, rounding="nearest")
