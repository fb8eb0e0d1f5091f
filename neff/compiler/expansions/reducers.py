"""Reductions by any computation: neighbours are combined in pairs until one element is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from neff.compiler.graph.nodes import Node, derived, sliced

__all__ = ["reduced"]

Combine = Callable[[list[Node], tuple[int, ...]], list[Node]]
"""(accumulators and then values, shape) -> accumulators."""


def reduced(
    like: Node, operands: Sequence[Node], starts: Sequence[Node], dims: tuple[int, ...],
    combine: Combine,
) -> list[Node]:  # fmt: skip
    """The operands, reduced together; the initial values take part once.

    Args:
        like: whose name and place the nodes get.
        operands: of one shape.
        starts: a scalar for each.
        dims: what is reduced.
        combine: the computation on whole arrays.
    """
    shape = operands[0].shape
    kept = tuple(dim for dim in range(len(shape)) if dim not in dims)
    order = (*kept, *dims)
    rows, count = prod(shape[dim] for dim in kept), prod(shape[dim] for dim in dims)
    state: list[Node] = []
    for one in operands:
        moved = derived(like, "transpose", (one,), [shape[d] for d in order], dimensions=order)
        state.append(derived(like, "reshape", (moved,), (rows, count)))
    while count > 1:
        state = _halved(like, state, combine)
        count = state[0].shape[1]
    first = [derived(like, "broadcast", (one,), (rows, 1), dimensions=()) for one in starts]
    state = combine([*first, *state], (rows, 1)) if count else first
    result = [shape[dim] for dim in kept]
    return [derived(like, "reshape", (one,), result) for one in state]


def _halved(like: Node, state: list[Node], combine: Combine) -> list[Node]:
    rows, count = state[0].shape
    half = count // 2
    sides: list[list[Node]] = [[], []]
    for one in state:
        even = sliced(like, one, 1, 0, 2 * half)
        pairs = derived(like, "reshape", (even,), (rows, half, 2))
        for side in (0, 1):
            part = sliced(like, pairs, 2, side, side + 1)
            sides[side].append(derived(like, "reshape", (part,), (rows, half)))
    made = combine([*sides[0], *sides[1]], (rows, half))
    if count == 2 * half:
        return made
    rest = [sliced(like, one, 1, count - 1, count) for one in state]
    return [
        derived(like, "concatenate", (one, tail), (rows, half + 1), dimensions=(1,))
        for one, tail in zip(made, rest, strict=True)
    ]
