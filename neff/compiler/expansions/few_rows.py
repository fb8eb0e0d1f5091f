"""Cuts a few long rows into parts, so that all partitions work: each part first, then the parts.

A row is on one partition, and an operation along it takes as long for one row as for 128. Cumulative
sums, indices of extremes and the greatest elements of fewer than 32 rows are computed for parts of
the rows, and combined.
"""

from __future__ import annotations

from math import prod

import numpy as np

from hlo_tools.types.element_types import BY_NAME, ElementType
from neff.compiler.graph.nodes import Node, derived, sliced

__all__ = ["cumulative_in_parts", "cut_rows", "overlapping_parts", "padded_rows", "part_count"]

_PARTITIONS = 128
_MAX_ROWS = 31
"""More rows than that have enough work for the partitions."""

_MIN_ROW_ELEMENTS = 4096
"""Shorter rows take less time than a second pass."""

_SPLIT_REDUCTIONS = frozenset({"add", "maximum", "minimum"})
"""A product of a part alone may overflow, so products stay in order."""


def part_count(shape: tuple[int, ...], dim: int) -> int:
    """Return the parts into which each row along a dimension is cut; 1 if it stays whole."""
    extent = shape[dim]
    rows = prod(shape) // max(1, extent)
    if not 0 < rows <= _MAX_ROWS or extent < _MIN_ROW_ELEMENTS:
        return 1
    return _PARTITIONS // rows


def cut_rows(like: Node, value: Node, parts: int) -> tuple[Node, Node | None]:
    """Return the last dimension in equal parts, (..., parts, elements), and what is left.

    Args:
        like: the node whose name and place the views get.
        value: the rows.
        parts: number of parts.
    """
    *front, extent = value.shape
    last = len(front)
    length = extent // parts
    main = sliced(like, value, last, 0, parts * length)
    main = derived(like, "reshape", (main,), (*front, parts, length), value.element)
    if parts * length == extent:
        return main, None
    return main, sliced(like, value, last, parts * length, extent)


def overlapping_parts(like: Node, value: Node, parts: int) -> tuple[Node, int]:
    """Return the last dimension in equal parts, (..., parts, elements), and the step between parts.

    If the parts do not divide the extent, each one has the first elements of the next one too: for
    operations that elements may enter twice. The number of parts between ``parts // 2`` and
    ``parts`` is taken whose parts are shortest.
    """
    *front, extent = value.shape

    def length(count: int) -> int:
        return extent - (count - 1) * (extent // count)

    parts = min(range(parts // 2, parts + 1), key=length)
    last, step = len(front), extent // parts
    shape = (*front, parts, length(parts))
    steps = (*((dim, 1) for dim in range(last)), (last, step), (last, 1))
    return derived(like, "restride", (value,), shape, value.element, steps=steps), step


def padded_rows(like: Node, value: Node, fill: Node, dim: int, parts: int) -> Node:
    """Return rows along a dimension as equal parts, (..., parts, elements, ...), filled at the end.

    Args:
        like: the node whose name and place the nodes get.
        value: the rows.
        fill: the scalar that rows are filled up with.
        dim: the dimension.
        parts: number of parts.
    """
    front, extent, back = value.shape[:dim], value.shape[dim], value.shape[dim + 1 :]
    length = -(-extent // parts)
    if parts * length != extent:
        padding = [(0, 0, 0)] * len(value.shape)
        padding[dim] = (0, parts * length - extent, 0)
        shape = (*front, parts * length, *back)
        value = derived(like, "pad", (value, fill), shape, value.element, padding=tuple(padding))
    return derived(like, "reshape", (value,), (*front, parts, length, *back), value.element)


def cumulative_in_parts(node: Node) -> Node:
    """Return a cumulative operation, or that of the parts of its rows and of their totals.

    Sums are in float32 until the last step.
    """
    operand, start = node.operands
    dim: int = node.attributes["dimension"]
    parts = part_count(node.shape, dim)
    if parts == 1 or node.attributes["applied"] not in _SPLIT_REDUCTIONS:
        return node
    front, extent, back = node.shape[:dim], node.shape[dim], node.shape[dim + 1 :]
    divisors = [count for count in range(parts // 2, parts + 1) if extent % count == 0]
    parts = divisors[-1] if divisors else parts
    length = -(-extent // parts)
    wide = BY_NAME["f32"]
    value, start = (_converted(array, wide) for array in (operand, start))
    value = padded_rows(node, value, start, dim, parts)
    shape = value.shape
    inner = _scanned(node, value, start, dim + 1)
    before = _totals_before(node, inner, start, dim)
    dims = tuple(axis for axis in range(len(shape)) if axis != dim + 1)
    before = derived(node, "broadcast", (before,), shape, dimensions=dims)
    total = derived(node, node.attributes["applied"], (inner, before), shape)
    total = derived(node, "reshape", (total,), (*front, parts * length, *back))
    return _converted(sliced(node, total, dim, 0, extent), node.element)


def _scanned(node: Node, value: Node, start: Node, dim: int) -> Node:
    """Return the cumulative operation of ``node`` on another value, along another dimension."""
    fields = node.attributes
    return derived(
        node, "cumulative", (value, start), value.shape,
        dimension=dim, reverse=fields["reverse"], applied=fields["applied"],
    )  # fmt: skip


def _totals_before(node: Node, inner: Node, start: Node, dim: int) -> Node:
    """Return for each part the total of the parts in front of it: (front, parts, back)."""
    reverse: bool = node.attributes["reverse"]
    parts, length = inner.shape[dim : dim + 2]
    edge = 0 if reverse else length - 1
    totals = sliced(node, inner, dim + 1, edge, edge + 1)
    totals = derived(node, "reshape", (totals,), (*inner.shape[: dim + 1], *inner.shape[dim + 2 :]))
    totals = _scanned(node, totals, start, dim)
    shape = totals.shape
    totals = sliced(node, totals, dim, 1, parts) if reverse else sliced(
        node, totals, dim, 0, parts - 1
    )  # fmt: skip
    padding = [(0, 0, 0)] * len(shape)
    padding[dim] = (0, 1, 0) if reverse else (1, 0, 0)
    return derived(node, "pad", (totals, start), shape, padding=tuple(padding))


def _converted(value: Node, element: ElementType) -> Node:
    if value.element is element:
        return value
    if value.value is not None:
        number = np.asarray(value.value).astype(element.dtype)
        return derived(value, "constant", (), value.shape, element, value=number)
    return derived(value, "convert", (value,), value.shape, element)
