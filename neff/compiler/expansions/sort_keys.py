"""Finds integer keys that order the elements of a sort, if its comparison is of one number each.

Frameworks compare the same function of both elements: the elements, or floats without the sign of
zero and with one NaN. This function of the operand gives *keys*, integers in the order of the sort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hlo_tools.types.element_types import BY_NAME, ElementType
from neff.compiler.graph.nodes import Node, derived

__all__ = ["Before", "keys_of", "number", "ordered"]

Before = Callable[[list[Node], tuple[int, ...]], Node]
"""Signature: (operands of the first and second element in turn, shape) -> the first comes
before.
"""

_INDEX = BY_NAME["s32"]
_KEY_TYPES = frozenset({"f32", "bf16", "f16", "s8", "u8", "s16", "u16", "s32", "u32", "pred"})


def number(like: Node, value: int, shape: Sequence[int], element: ElementType) -> Node:
    """Return an array filled with a number."""
    constant = derived(like, "constant", (), (), element, value=np.asarray(value, element.dtype))
    return derived(like, "broadcast", (constant,), shape, dimensions=())


def ordered(value: Node) -> Node:
    """Return integers in the total order of floats: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    if value.element.kind != "float":
        return value
    wide = value.like("convert", value, element="f32") if value.element.name != "f32" else value
    bits = wide.like("bitcast-convert", wide, element="s32")
    sign = bits.like("shift-right-arithmetic", bits, number(value, 31, value.shape, _INDEX))
    flip = bits.like("and", sign, number(value, 0x7FFFFFFF, value.shape, _INDEX))
    return bits.like("xor", bits, flip)


def keys_of(like: Node, operands: Sequence[Node], before: Before) -> Node | None:
    """Return an s32 for each element, in the order of ``before``; equal where neither comes before.

    Args:
        like: the node whose name and location the nodes get.
        operands: the arrays that are sorted together, of one shape.
        before: the order.

    Returns:
        The keys; None for any other comparison.
    """
    second_operands = [
        derived(like, "parameter", (), operand.shape, operand.element) for operand in operands
    ]
    pairs = [operand for pair in zip(operands, second_operands, strict=True) for operand in pair]
    root = before(pairs, operands[0].shape)
    if root.opcode != "compare" or root.attributes["direction"] not in ("LT", "GT"):
        return None
    falls = root.attributes["direction"] == "GT"
    first, second = root.operands
    equal_nodes = {(id(a), id(b)) for a, b in zip(operands, second_operands, strict=True)}
    if not _alike(first, second, equal_nodes):
        first, second = second, first
        falls = not falls
        if not _alike(first, second, equal_nodes):
            return None
    if first.element.name not in _KEY_TYPES:
        return None
    keys = _words(like, first)
    return keys.like("xor", keys, number(like, -1, keys.shape, _INDEX)) if falls else keys


def _words(like: Node, value: Node) -> Node:
    """Return s32 in the order of a value's ``<``: zeros are equal, and NaN is anywhere."""
    if value.element.kind == "float":
        zero = number(like, 0, value.shape, value.element)
        is_zero = value.like("compare", value, zero, element="pred", direction="EQ")
        return ordered(value.like("select", is_zero, zero, value))
    if value.element.name == "u32":
        top = number(like, 1 << 31, value.shape, value.element)
        return value.like("bitcast-convert", value.like("xor", value, top), element="s32")
    return value if value.element is _INDEX else value.like("convert", value, element="s32")


def _alike(first: Node, second: Node, equal_nodes: set[tuple[int, int]]) -> bool:
    """Return True if two nodes are the same function of the first and the second operands.

    ``equal_nodes`` has the pairs of ids known to correspond.
    """
    pair = (id(first), id(second))
    if pair in equal_nodes:
        return True
    if (first.opcode, first.shape, first.element) != (second.opcode, second.shape, second.element):
        return False
    leaf = not first.operands
    if leaf and (first.opcode != "constant" or first.attributes.keys() != {"value"}):
        return False
    if len(first.operands) != len(second.operands) or not _same_fields(first, second):
        return False
    if not all(
        _alike(a, b, equal_nodes) for a, b in zip(first.operands, second.operands, strict=True)
    ):
        return False
    equal_nodes.add(pair)
    return True


def _same_fields(first: Node, second: Node) -> bool:
    if first.value is not None and second.value is not None:
        return first.value.tobytes() == second.value.tobytes()
    return first.attributes == second.attributes
