"""Which number orders the elements of a sort, if its comparison is of one number of each element.

Frameworks compare the same function of both elements: themselves, or floats without the sign of zero and
with one NaN. That function of the whole operand gives *keys*, integers in the order of the sort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hlo_tools.types.element_types import BY_NAME, ElementType
from neff.compiler.graph.nodes import Node, derived

__all__ = ["Before", "keys_of", "number", "ordered"]

Before = Callable[[list[Node], tuple[int, ...]], Node]
"""(first element's operands and second's in turn, shape) -> whether the first comes before."""

_INDEX = BY_NAME["s32"]
_BITS = frozenset({"f32", "bf16", "f16", "s8", "u8", "s16", "u16", "s32", "u32", "pred"})


def number(like: Node, value: int, shape: Sequence[int], element: ElementType) -> Node:
    """An array of one number."""
    constant = derived(like, "constant", (), (), element, value=np.asarray(value, element.dtype))
    return derived(like, "broadcast", (constant,), shape, dimensions=())


def ordered(value: Node) -> Node:
    """Integers in the total order of floats: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    if value.element.kind != "float":
        return value
    wide = value.like("convert", value, element="f32") if value.element.name != "f32" else value
    bits = wide.like("bitcast-convert", wide, element="s32")
    sign = bits.like("shift-right-arithmetic", bits, number(value, 31, value.shape, _INDEX))
    flip = bits.like("and", sign, number(value, 0x7FFFFFFF, value.shape, _INDEX))
    return bits.like("xor", bits, flip)


def keys_of(like: Node, operands: Sequence[Node], before: Before) -> Node | None:
    """An s32 for each element, in the order of ``before``; equal where neither comes before.

    Args:
        like: whose name and place the nodes get.
        operands: what is sorted together, of one shape.
        before: the order.

    Returns:
        The keys; None where the comparison is anything else.
    """
    others = [derived(like, "parameter", (), one.shape, one.element) for one in operands]
    pairs = [one for both in zip(operands, others, strict=True) for one in both]
    root = before(pairs, operands[0].shape)
    if root.opcode != "compare" or root.attributes["direction"] not in ("LT", "GT"):
        return None
    falls = root.attributes["direction"] == "GT"
    first, second = root.operands
    known = {(id(a), id(b)) for a, b in zip(operands, others, strict=True)}
    if not _alike(first, second, known):
        first, second = second, first
        falls = not falls
        if not _alike(first, second, known):
            return None
    if first.element.name not in _BITS:
        return None
    keys = _words(like, first)
    return keys.like("xor", keys, number(like, -1, keys.shape, _INDEX)) if falls else keys


def _words(like: Node, value: Node) -> Node:
    """The s32 that are in the order of a value's ``<``: zeros are equal, and NaN anywhere."""
    if value.element.kind == "float":
        zero = number(like, 0, value.shape, value.element)
        is_zero = value.like("compare", value, zero, element="pred", direction="EQ")
        return ordered(value.like("select", is_zero, zero, value))
    if value.element.name == "u32":
        top = number(like, 1 << 31, value.shape, value.element)
        return value.like("bitcast-convert", value.like("xor", value, top), element="s32")
    return value if value.element is _INDEX else value.like("convert", value, element="s32")


def _alike(first: Node, second: Node, known: set[tuple[int, int]]) -> bool:
    """True where both are the same function, the first of ``known``'s first nodes, the second of its
    second ones."""
    pair = (id(first), id(second))
    if pair in known:
        return True
    if (first.opcode, first.shape, first.element) != (second.opcode, second.shape, second.element):
        return False
    leaf = not first.operands
    if leaf and (first.opcode != "constant" or first.attributes.keys() != {"value"}):
        return False
    if len(first.operands) != len(second.operands) or not _same_fields(first, second):
        return False
    if not all(_alike(a, b, known) for a, b in zip(first.operands, second.operands, strict=True)):
        return False
    known.add(pair)
    return True


def _same_fields(first: Node, second: Node) -> bool:
    if first.value is not None and second.value is not None:
        return first.value.tobytes() == second.value.tobytes()
    return first.attributes == second.attributes
