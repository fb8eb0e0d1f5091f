"""Expands reductions of long windows by doubling: windows of 2, 4, 8, … elements, from two shorter.

A view of windows has the number of positions times the window's size elements, which is the square of
a cumulative sum's length. Doubling takes two operations for each bit of the window's size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from neff.compiler.expansions.reducers import Combine
from neff.compiler.expansions.spans import Span
from neff.compiler.graph.nodes import Node, derived, sliced

__all__ = ["is_cheaper_doubled", "slid"]

_READS_OF_STEP = 8
"""Reads of an element in a view that take as long as a step of doubling takes for it."""


def is_cheaper_doubled(
    shape: Sequence[int], positions: Sequence[int], spans: Sequence[Span]
) -> bool:
    """Return True if doubling moves less than a view of windows.

    Args:
        shape: the shape of the padded operand.
        positions: the number of positions of the windows.
        spans: the window along each dimension.
    """
    steps = sum(2 * span.size.bit_length() for span in spans if span.size > 1)
    viewed = prod(positions) * prod(span.size for span in spans)
    return viewed > _READS_OF_STEP * steps * prod(shape)


def slid(
    like: Node, operands: Sequence[Node], starts: Sequence[Node], spans: Mapping[int, Span],
    combine: Combine,
) -> list[Node]:  # fmt: skip
    """Reduce the operands together in every window; the initial values are combined once.

    Args:
        like: the node whose name and location the nodes get.
        operands: arrays of one shape, padded and with their holes.
        starts: an initial scalar for each operand.
        spans: the window along each dimension.
        combine: applies the computation to whole arrays.
    """
    state = list(operands)
    for dim, span in spans.items():
        state = _strided(like, _doubled(like, state, dim, span, combine), dim, span.stride)
    shape = state[0].shape
    first = [derived(like, "broadcast", (start,), shape, dimensions=()) for start in starts]
    return combine([*first, *state], shape)


def _doubled(like: Node, state: list[Node], dim: int, span: Span, combine: Combine) -> list[Node]:
    """Return the windows of a dimension at all positions, from windows of powers of two in
    order.
    """
    windows, size = state, 1
    total: list[Node] | None = None
    covered = 0
    while True:
        if span.size & size:
            total = windows if total is None else _joined(
                like, total, windows, dim, covered * span.window_dilation, combine
            )  # fmt: skip
            covered += size
        if covered == span.size:
            break
        windows = _joined(like, windows, windows, dim, size * span.window_dilation, combine)
        size *= 2
    assert total is not None
    return total


def _joined(
    like: Node, first: list[Node], second: list[Node], dim: int, offset: int, combine: Combine
) -> list[Node]:
    """Combine windows with the windows that start ``offset`` after them."""
    count = min(first[0].shape[dim], second[0].shape[dim] - offset)
    pairs = [sliced(like, node, dim, 0, count) for node in first]
    pairs += [sliced(like, node, dim, offset, offset + count) for node in second]
    return combine(pairs, pairs[0].shape)


def _strided(like: Node, state: list[Node], dim: int, stride: int) -> list[Node]:
    """Return every ``stride``-th element along a dimension."""
    if stride == 1:
        return state
    shape = list(state[0].shape)
    limits = tuple(shape)
    shape[dim] = -(-shape[dim] // stride)
    strides = tuple(stride if axis == dim else 1 for axis in range(len(shape)))
    starts = (0,) * len(shape)
    return [
        derived(like, "slice", (node,), shape, starts=starts, limits=limits, strides=strides)
        for node in state
    ]
