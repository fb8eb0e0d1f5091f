"""Bands: masks of attention that compile time proves, as a range of the distance of query and key.

A predicate that compares counters (``iota``) of two dimensions is true exactly where their distance
``query - key`` lies in a range. Causal masks, sliding windows and their conjunctions have this form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neff.compiler.graph.nodes import Node
from nki_lang.base.dtypes import Array

__all__ = ["Band", "band_of"]

Axes = tuple[int | None, ...]
"""For each dimension of a value the dimension of the mask that it walks; None for one element."""


@dataclass(frozen=True, slots=True)
class Band:
    """The pairs of a query and a key with ``low <= query - key <= high``.

    Attributes:
        low, high: limits of the distance; None for no limit.
    """

    low: int | None = None
    high: int | None = None

    def meet(self, band: Band) -> Band:
        """Return the pairs that are in both bands."""
        lows = [low for low in (self.low, band.low) if low is not None]
        highs = [high for high in (self.high, band.high) if high is not None]
        return Band(max(lows, default=None), min(highs, default=None))

    def complement(self) -> Band | None:
        """Return the pairs that are not in the band, or None if they are no band."""
        if self.low is not None and self.high is None:
            return Band(high=self.low - 1)
        if self.high is not None and self.low is None:
            return Band(low=self.high + 1)
        return None

    def contains(self, queries: range, keys: range) -> bool:
        """Return True if every pair of the ranges is in the band."""
        return (self.low is None or self.low <= queries[0] - keys[-1]) and (
            self.high is None or queries[-1] - keys[0] <= self.high
        )

    def keys(self, queries: range, count: int) -> range:
        """Return the keys, of ``count``, that at least one of the queries sees."""
        first = 0 if self.high is None else max(0, queries[0] - self.high)
        stop = count if self.low is None else min(count, queries[-1] - self.low + 1)
        return range(first, max(first, stop))

    def leaves_no_row_empty(self, queries: int, keys: int) -> bool:
        """Return True if each of the queries sees at least one of the keys."""
        is_empty = self.low is not None and self.high is not None and self.low > self.high
        has_first = self.low is None or self.low <= 0
        has_last = self.high is None or queries - 1 - self.high <= keys - 1
        return not is_empty and has_first and has_last


def band_of(mask: Node, query: int, key: int) -> Band | None:
    """Return the band in which a predicate is true, or None if it is not proved to be one.

    Args:
        mask: the predicate.
        query, key: the dimensions of the mask that count queries and keys.
    """
    return _band(mask, tuple(range(len(mask.shape))), query, key)


def _band(node: Node, axes: Axes, query: int, key: int) -> Band | None:
    if node.splat is not None:
        return Band() if node.splat else None
    source = _viewed(node, axes)
    if source is not None:
        return _band(*source, query, key)
    rule = _RULES.get(node.opcode)
    return None if rule is None else rule(node, axes, query, key)


def _viewed(node: Node, axes: Axes) -> tuple[Node, Axes] | None:
    """Return the operand of a view and its axes, or None if the node is no view that is covered."""
    if node.opcode == "broadcast":
        (operand,) = node.operands
        dimensions: tuple[int, ...] = node.attributes["dimensions"]
        is_repeated = [
            extent == 1 and node.shape[dim] != 1
            for extent, dim in zip(operand.shape, dimensions, strict=True)
        ]
        picked = [
            None if repeats else axes[dim]
            for dim, repeats in zip(dimensions, is_repeated, strict=True)
        ]
        return operand, tuple(picked)
    if node.opcode == "transpose":
        order: tuple[int, ...] = node.attributes["dimensions"]
        operand_axes: list[int | None] = [None] * len(order)
        for position, dim in enumerate(order):
            operand_axes[dim] = axes[position]
        return node.operands[0], tuple(operand_axes)
    if node.opcode == "reshape":
        (operand,) = node.operands
        wide = [axis for axis, extent in zip(axes, node.shape, strict=True) if extent != 1]
        if [extent for extent in operand.shape if extent != 1] != [
            extent for extent in node.shape if extent != 1
        ]:
            return None
        axes_left = iter(wide)
        return operand, tuple(next(axes_left) if extent != 1 else None for extent in operand.shape)
    return None


def _conjunction(node: Node, axes: Axes, query: int, key: int) -> Band | None:
    bands = [_band(operand, axes, query, key) for operand in node.operands]
    left, right = bands
    return None if left is None or right is None else left.meet(right)


def _negation(node: Node, axes: Axes, query: int, key: int) -> Band | None:
    band = _band(node.operands[0], axes, query, key)
    return None if band is None else band.complement()


def _choice(node: Node, axes: Axes, query: int, key: int) -> Band | None:
    """Return the band of ``select(p, q, false)`` and of ``select(p, false, q)``."""
    predicate, on_true, on_false = node.operands
    band = _band(predicate, axes if predicate.shape == node.shape else (), query, key)
    if band is None or predicate.shape != node.shape:
        return None
    if on_false.splat is not None and not on_false.splat:
        chosen = _band(on_true, axes, query, key)
        return None if chosen is None else band.meet(chosen)
    outside = band.complement()
    if outside is not None and on_true.splat is not None and not on_true.splat:
        chosen = _band(on_false, axes, query, key)
        return None if chosen is None else outside.meet(chosen)
    return None


@dataclass(frozen=True, slots=True)
class _Affine:
    """The integer ``queries * query + keys * key + offset``."""

    queries: int
    keys: int
    offset: int

    def plus(self, form: _Affine, sign: int) -> _Affine:
        return _Affine(
            self.queries + sign * form.queries,
            self.keys + sign * form.keys,
            self.offset + sign * form.offset,
        )


_MAX_COUNTER = 1 << 30
"""Counters and offsets below it do not overflow 32 bits when two of them are added."""

_COUNTER_TYPES = frozenset({"s32", "s64"})


def _affine(node: Node, axes: Axes, query: int, key: int) -> _Affine | None:
    """Return a signed integer as an affine form of the two counters, or None."""
    if node.element.name not in _COUNTER_TYPES:
        return None
    if node.splat is not None:
        offset = int(node.splat)
        return _Affine(0, 0, offset) if abs(offset) < _MAX_COUNTER else None
    source = _viewed(node, axes)
    if source is not None:
        return _affine(*source, query, key)
    if node.opcode == "iota":
        dimensions: tuple[int, ...] = node.attributes["dimensions"]
        axis, counted = axes[dimensions[0]], {query: _Affine(1, 0, 0), key: _Affine(0, 1, 0)}
        return None if axis is None or node.size >= _MAX_COUNTER else counted.get(axis)
    if node.value is not None:
        return _counter(node.value, axes, query, key)
    sign = {"add": 1, "subtract": -1}.get(node.opcode)
    if sign is None:
        return None
    left, right = (_affine(operand, axes, query, key) for operand in node.operands)
    if left is None or right is None:
        return None
    total = left.plus(right, sign)
    return total if abs(total.offset) < _MAX_COUNTER else None


def _counter(value: Array, axes: Axes, query: int, key: int) -> _Affine | None:
    """Return the form of a constant that counts one dimension in steps of one, or None."""
    wide = [dim for dim, extent in enumerate(value.shape) if extent != 1]
    if len(wide) != 1:
        return None
    numbers = value.reshape(-1).astype(np.int64)
    axis, first = axes[wide[0]], int(numbers[0])
    if axis not in (query, key) or (np.diff(numbers) != 1).any():
        return None
    is_small = abs(first) + numbers.size < _MAX_COUNTER
    return _Affine(int(axis == query), int(axis == key), first) if is_small else None


def _constant(node: Node, axes: Axes, query: int, key: int) -> Band | None:
    """Return the band of a constant predicate over queries and keys."""
    value: Array = node.attributes["value"]
    wide = [dim for dim, extent in enumerate(value.shape) if extent != 1]
    if [axes[dim] for dim in wide] not in ([query, key], [key, query]):
        return None
    rows, columns = (value.shape[dim] for dim in wide)
    queries, keys = np.nonzero(value.reshape((rows, columns)))
    if axes[wide[0]] != query:
        queries, keys, rows, columns = keys, queries, columns, rows
    if not queries.size:
        return None
    low, high = int((queries - keys).min()), int((queries - keys).max())
    band = Band(None if low == 1 - columns else low, None if high == rows - 1 else high)
    counts = (len(band.keys(range(number, number + 1), columns)) for number in range(rows))
    return band if queries.size == sum(counts) else None


def _comparison(node: Node, axes: Axes, query: int, key: int) -> Band | None:
    left, right = (_affine(operand, axes, query, key) for operand in node.operands)
    if left is None or right is None:
        return None
    difference = left.plus(right, -1)
    if (difference.queries, difference.keys) not in ((1, -1), (-1, 1)):
        return None
    # sign * (query - key) + offset  <direction>  0
    limits = _LIMITS.get(node.attributes["direction"])
    if limits is None:
        return None
    low, high = (None if limit is None else limit - difference.offset for limit in limits)
    if difference.queries == 1:
        return Band(low, high)
    return Band(None if high is None else -high, None if low is None else -low)


_LIMITS: dict[str, tuple[int | None, int | None]] = {
    "GE": (0, None),
    "GT": (1, None),
    "LE": (None, 0),
    "LT": (None, -1),
    "EQ": (0, 0),
}
"""Direction of a comparison of an integer with 0 -> the range in which it holds."""

_RULES: dict[str, Callable[[Node, Axes, int, int], Band | None]] = {
    "and": _conjunction,
    "compare": _comparison,
    "constant": _constant,
    "convert": lambda node, axes, query, key: (
        _band(node.operands[0], axes, query, key)
        if node.operands[0].element.name == "pred"
        else None
    ),
    "not": _negation,
    "select": _choice,
}
