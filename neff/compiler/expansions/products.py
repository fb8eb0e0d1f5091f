"""Expands integer products exactly: the tensor engine multiplies bytes, whose sums float32 holds.

A product of bytes is one operation of any depth: its kernel adds exact sums of float32 as words. A 16- or 32-bit operand is split into bytes; only products of bytes that reach the result's low bits
are needed (it wraps around). 64-bit integers are multiplied and added element by element, so that
the bounds of their values can be followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from hlo_tools.types.element_types import BY_NAME, ElementType
from neff.compiler.graph.nodes import Node, derived, uncovered

__all__ = ["exact_product"]

_S32, _U8 = BY_NAME["s32"], BY_NAME["u8"]
_MAX_WIDE_PRODUCTS = 1 << 22
"""Limit on products of 64-bit integers; each is an element of an array."""


@dataclass(frozen=True, slots=True)
class _Sides:
    """The operands as (batch, rows, depth) and (batch, depth, columns)."""

    left: Node
    right: Node

    @property
    def extents(self) -> tuple[int, int, int, int]:
        """Return batch, rows, depth, columns."""
        batch, rows, depth = self.left.shape
        return batch, rows, depth, self.right.shape[2]


def exact_product(node: Node) -> Node:
    """Return a ``dot`` as exact products; the node itself where it is exact.

    Raises:
        NeffCompileError: ``NEFF-SIZE``; too many products of 64-bit integers.
    """
    kinds = {operand.element.kind for operand in node.operands}
    if not kinds <= {"int", "uint", "pred"} or node.element.kind not in ("int", "uint"):
        return node
    fields = node.attributes
    contracted: Sequence[int] = fields["lhs_contracting"]
    depth = prod(node.operands[0].shape[dim] for dim in contracted)
    if not depth or not node.size:
        return node
    if node.element.itemsize <= 4:
        narrow = [_before_widening(operand, node.element) for operand in node.operands]
        if all(operand.element.itemsize == 1 for operand in narrow):
            return derived(node, "dot", narrow, node.shape, node.element, **fields)
    sides = _Sides(
        _arranged(node.operands[0], fields["lhs_batch"], fields["lhs_contracting"], True),
        _arranged(node.operands[1], fields["rhs_batch"], fields["rhs_contracting"], False),
    )
    product = _wide(node, sides) if node.element.itemsize == 8 else _by_bytes(node, sides)
    return derived(node, "reshape", (product,), node.shape)


def _before_widening(operand: Node, result: ElementType) -> Node:
    """Return what conversions to wider integers were applied to, as far as the low bits of a
    ``result`` are the same.
    """
    while operand.opcode == "convert":
        source = operand.operands[0].element
        widens = source.kind in ("int", "uint", "pred") and (
            source.itemsize < operand.element.itemsize
        )
        keeps_value = source.kind != "int" or operand.element.kind == "int"
        if not widens or not (keeps_value or result.itemsize <= operand.element.itemsize):
            return operand
        operand = operand.operands[0]
    return operand


def _arranged(
    operand: Node, batch: tuple[int, ...], contracting: tuple[int, ...], left: bool
) -> Node:  # fmt: skip
    free = tuple(
        dim for dim in range(len(operand.shape)) if dim not in batch and dim not in contracting
    )
    parts = (batch, free, contracting) if left else (batch, contracting, free)
    order = tuple(dim for dims in parts for dim in dims)
    moved = derived(
        operand, "transpose", (operand,), [operand.shape[dim] for dim in order], dimensions=order
    )
    return derived(
        operand, "reshape", (moved,), [prod(operand.shape[dim] for dim in dims) for dims in parts]
    )


def _wide(node: Node, sides: _Sides) -> Node:
    batch, rows, _, columns = shape = sides.extents
    if prod(shape) > _MAX_WIDE_PRODUCTS:
        raise uncovered(
            node, f"{prod(shape)} products of 64-bit integers, at most {_MAX_WIDE_PRODUCTS} are compiled",
            code="NEFF-SIZE",
        )  # fmt: skip
    spread = [
        derived(
            node, "broadcast", (_as(operand, node.element),), shape, node.element, dimensions=dims
        )
        for operand, dims in ((sides.left, (0, 1, 2)), (sides.right, (0, 2, 3)))
    ]  # fmt: skip
    zero = derived(node, "constant", (), (), node.element, value=np.zeros((), node.element.dtype))
    products = derived(node, "multiply", spread, shape, node.element)
    return derived(
        node, "reduce", (products, zero), (batch, rows, columns), node.element, dimensions=(2,),
        applied="add",
    )  # fmt: skip


def _as(operand: Node, element: ElementType) -> Node:
    return (
        operand
        if operand.element is element
        else operand.like("convert", operand, element=element.name)
    )


def _by_bytes(node: Node, sides: _Sides) -> Node:
    """Return the sum of the products of bytes, each shifted to its position; words wrap around."""
    width = node.element.itemsize
    lefts, rights = _bytes(sides.left, width), _bytes(sides.right, width)
    total: Node | None = None
    for i, left in enumerate(lefts):
        for j, right in enumerate(rights[: width - i]):
            term = _moved(_product_of_bytes(node, left, right), 8 * (i + j))
            total = term if total is None else term.like("add", total, term)
    assert total is not None
    return _as(total, node.element)


def _bytes(operand: Node, width: int) -> list[Node]:
    """Return the bytes of an operand that reach a result of ``width`` bytes, the lowest first."""
    operand_bytes = operand.element.itemsize
    count = width if operand.element.kind == "int" else min(operand_bytes, width)
    word = _as(operand, _S32)
    return [_as(_shifted(word, 8 * number), _U8) for number in range(count)]


def _shifted(word: Node, by: int) -> Node:
    return word if not by else word.like("shift-right-logical", word, _full(word, by))


def _moved(word: Node, by: int) -> Node:
    return word if not by else word.like("shift-left", word, _full(word, by))


def _full(like: Node, value: int) -> Node:
    scalar = derived(like, "constant", (), (), like.element, value=np.asarray(value, np.int32))
    return derived(like, "broadcast", (scalar,), like.shape, dimensions=())


def _product_of_bytes(node: Node, left: Node, right: Node) -> Node:
    """Return the product of two arrays of bytes as words."""
    return derived(
        node, "dot", (left, right), (*left.shape[:2], right.shape[2]), _S32,
        lhs_batch=(0,), rhs_batch=(0,), lhs_contracting=(2,), rhs_contracting=(1,),
    )  # fmt: skip
