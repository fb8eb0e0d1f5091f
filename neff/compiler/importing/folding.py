"""Evaluates small constant expressions while the module is imported.

Only operations that are exact in every implementation are folded: integers, comparisons, selections, and float
operations that IEEE 754 defines to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from neff.compiler.graph.nodes import Node
from nki_lang.base.dtypes import Array

__all__ = ["fold"]

_MAX_FOLDED_ELEMENTS = 4096
"""Limit on the elements of a folded result; a larger one is cheaper to compute on the device."""


def fold(node: Node) -> Node:
    """Return a constant if the node's value is known and small, else the node."""
    rule = _RULES.get(node.opcode)
    if rule is None or node.size > _MAX_FOLDED_ELEMENTS or not node.operands:
        return node
    values = [operand.value for operand in node.operands]
    if any(value is None for value in values) or node.element.dtype is None:
        return node
    with np.errstate(all="ignore"):
        folded = rule(node, *values)
    if folded is None:
        return node
    value = np.asarray(folded).astype(node.element.dtype, copy=False).reshape(node.shape)
    return node.like("constant", value=np.ascontiguousarray(value).reshape(node.shape))


def _binary(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def apply(node: Node, a: Array, b: Array) -> Array:
        return function(a, b)

    return apply


def _unary(function: Callable[[Array], Array]) -> Callable[..., Array]:
    def apply(node: Node, a: Array) -> Array:
        return function(a)

    return apply


def _select(node: Node, predicate: Array, a: Array, b: Array) -> Array:
    return np.where(predicate, a, b)


def _transpose(node: Node, a: Array) -> Array:
    return a.transpose(node.attributes["dimensions"])


def _concatenate(node: Node, *parts: Array) -> Array:
    return np.concatenate(parts, node.attributes["dimensions"][0])


def _bitcast(node: Node, a: Array) -> Array | None:
    """Reinterpret the bits; return None if the element size changes."""
    dtype = node.element.dtype
    return a.view(dtype) if dtype is not None and a.dtype.itemsize == dtype.itemsize else None


def _same(a: Array) -> Array:
    return a


def _broadcast(node: Node, value: Array) -> Array | None:
    if value.size == 1:
        return None
    shape = [1] * len(node.shape)
    for source, target in enumerate(node.attributes["dimensions"]):
        shape[target] = value.shape[source]
    return np.broadcast_to(value.reshape(shape), node.shape)


def _slice(node: Node, value: Array) -> Array:
    fields = node.attributes
    cut = zip(fields["starts"], fields["limits"], fields["strides"], strict=True)
    return value[tuple(slice(*bounds) for bounds in cut)]


def _compare(node: Node, a: Array, b: Array) -> Array:
    return COMPARISONS[node.attributes["direction"]](a, b)


def _shift(function: Callable[[Array, Array], Array], fill: bool) -> Callable[..., Array]:
    def apply(node: Node, a: Array, b: Array) -> Array:
        bits = a.dtype.itemsize * 8
        over = (b < 0) | (b >= bits)
        word = a.view(f"i{a.dtype.itemsize}") if fill else a  # the sign is the highest bit
        shifted = function(word, np.where(over, 0, b).astype(word.dtype))
        beyond = np.where(word < 0, -1, 0).astype(word.dtype) if fill else np.zeros_like(a)
        return np.where(over, beyond, shifted).view(a.dtype)

    return apply


def _logical_right(a: Array, b: Array) -> Array:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return (a.view(unsigned) >> b.astype(unsigned)).view(a.dtype)


def _divide(node: Node, a: Array, b: Array) -> Array | None:
    if node.element.kind == "float":
        return a / b
    return None


def _convert(node: Node, value: Array) -> Array | None:
    assert node.element.dtype is not None
    if value.dtype.kind in "fV" and node.element.kind in ("int", "uint"):
        return None
    if value.dtype.kind == "c" and node.element.kind != "complex":
        return None
    if node.element.kind == "pred":
        return value != 0
    return value.astype(node.element.dtype)


COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}

_RULES: dict[str, Callable[..., Array | None]] = {
    "add": _binary(np.add),
    "subtract": _binary(np.subtract),
    "multiply": _binary(np.multiply),
    "divide": _divide,
    "maximum": _binary(np.maximum),
    "minimum": _binary(np.minimum),
    "and": _binary(np.bitwise_and),
    "or": _binary(np.bitwise_or),
    "xor": _binary(np.bitwise_xor),
    "shift-left": _shift(np.left_shift, False),
    "shift-right-logical": _shift(_logical_right, False),
    "shift-right-arithmetic": _shift(np.right_shift, True),
    "not": _unary(np.invert),
    "negate": _unary(np.negative),
    "compare": _compare,
    "select": _select,
    "convert": _convert,
    "reshape": _unary(_same),
    "broadcast": _broadcast,
    "slice": _slice,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "bitcast-convert": _bitcast,
}
"""Opcode -> its evaluation; a result of None leaves the node unchanged."""
