"""Expands reductions by any computation: neighbors are combined in pairs until one element is
left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from neff.compiler.graph.nodes import Node, derived, sliced

__all__ = ["reduced"]

Combine = Callable[[list[Node], tuple[int, ...]], list[Node]]
"""Signature: (accumulators and then values, shape) -> accumulators."""


def reduced(
    like: Node, operands: Sequence[Node], starts: Sequence[Node], dims: tuple[int, ...],
    combine: Combine,
) -> list[Node]:  # fmt: skip
    """Reduce the operands together; the initial values are combined once.

    Args:
        like: the node whose name and location the nodes get.
        operands: arrays of one shape.
        starts: an initial scalar for each operand.
        dims: the reduced dimensions.
        combine: applies the computation to whole arrays.
    """
    shape = operands[0].shape
    kept_dims = tuple(dim for dim in range(len(shape)) if dim not in dims)
    order = (*kept_dims, *dims)
    rows, count = prod(shape[dim] for dim in kept_dims), prod(shape[dim] for dim in dims)
    state: list[Node] = []
    for array in operands:
        moved = derived(
            like, "transpose", (array,), [shape[dim] for dim in order], dimensions=order
        )
        state.append(derived(like, "reshape", (moved,), (rows, count)))
    while count > 1:
        state = _halved(like, state, combine)
        count = state[0].shape[1]
    first = [derived(like, "broadcast", (array,), (rows, 1), dimensions=()) for array in starts]
    state = combine([*first, *state], (rows, 1)) if count else first
    result = [shape[dim] for dim in kept_dims]
    return [derived(like, "reshape", (array,), result) for array in state]


def _halved(like: Node, state: list[Node], combine: Combine) -> list[Node]:
    rows, count = state[0].shape
    half = count // 2
    sides: list[list[Node]] = [[], []]
    for array in state:
        even = sliced(like, array, 1, 0, 2 * half)
        pairs = derived(like, "reshape", (even,), (rows, half, 2))
        for side in (0, 1):
            half_pairs = sliced(like, pairs, 2, side, side + 1)
            sides[side].append(derived(like, "reshape", (half_pairs,), (rows, half)))
    combined = combine([*sides[0], *sides[1]], (rows, half))
    if count == 2 * half:
        return combined
    tails = [sliced(like, array, 1, count - 1, count) for array in state]
    return [
        derived(like, "concatenate", (array, tail), (rows, half + 1), dimensions=(1,))
        for array, tail in zip(combined, tails, strict=True)
    ]
