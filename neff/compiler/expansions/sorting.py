"""Sorting as a network of comparisons between two halves of the data, all rows at once.

``sort`` and ``topk`` become a bitonic network whose every step puts the lesser element first. The
number of an element's place takes part in the comparison, so equal elements keep their order and
the network's result does not depend on how it is laid out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.expansions.sort_keys import Before, keys_of, number, ordered
from neff.compiler.graph.nodes import Node, derived, sliced

__all__ = ["sorted_rows", "top"]

_PRED, _INDEX = BY_NAME["pred"], BY_NAME["s32"]
_MOVED = frozenset({"f32", "bf16", "f16", "s32", "u32", "s16", "u16", "s8", "u8"})
"""Types of elements that are gathered on chip."""

_LONGEST, _LONGEST_OF_FEW, _FEW = 8192, 4096, 8
"""Elements of a row that is sorted on chip; of so few rows on as many partitions, fewer elements."""


def sorted_rows(like: Node, operands: Sequence[Node], dim: int, before: Before) -> list[Node]:
    """The operands, sorted together along a dimension.

    Args:
        like: whose name and place the nodes get.
        operands: of one shape.
        dim: what is sorted.
        before: the order.
    """
    shape = operands[0].shape
    extent = shape[dim]
    if extent < 2:
        return list(operands)
    order = (*(d for d in range(len(shape)) if d != dim), dim)
    moved = tuple(shape[d] for d in order)
    rows = prod(moved[:-1])
    results = _by_keys(like, operands, order, (rows, extent), before)
    if results:
        return [_laid_back(like, one, order, moved) for one in results]
    length = 1 << (extent - 1).bit_length()
    state = [_row_major(like, one, order, (rows, extent), length) for one in operands]
    places = derived(like, "iota", (), (length,), _INDEX, dimensions=(0,))
    state.append(derived(like, "broadcast", (places,), (rows, length), dimensions=(1,)))
    for half, mirrored in _steps(length):
        state = _exchanged(like, state, half, mirrored, extent, before)
    cut = [sliced(like, one, 1, 0, extent) for one in state[:-1]]
    return [_laid_back(like, one, order, moved) for one in cut]


def _laid_back(like: Node, rows: Node, order: tuple[int, ...], moved: tuple[int, ...]) -> Node:
    """Rows in the order of the operands' dimensions, which were taken in ``order``."""
    back = tuple(order.index(dim) for dim in range(len(order)))
    whole = derived(like, "reshape", (rows,), moved)
    return derived(like, "transpose", (whole,), [moved[dim] for dim in back], dimensions=back)


def _by_keys(
    like: Node, operands: Sequence[Node], order: tuple[int, ...], shape: tuple[int, int],
    before: Before,
) -> list[Node]:  # fmt: skip
    """The operands' rows, sorted on chip by one number of each element (lowering/sorted_rows.py);
    none where there is no such number, or rows are too long."""
    rows, extent = shape
    if extent > (_LONGEST if rows >= _FEW else _LONGEST_OF_FEW):
        return []
    if not rows or any(one.element.name not in _MOVED for one in operands):
        return []
    state = [_row_major(like, one, order, shape, extent) for one in operands]
    keys = keys_of(like, state, before)
    if keys is None:
        return []
    upper = keys.like("shift-right-arithmetic", keys, number(like, 8, shape, _INDEX))
    lower = keys.like("and", keys, number(like, 255, shape, _INDEX))
    parts = [one.like("convert", one, element="f32") for one in (upper, lower)]
    made = derived(like, "sorted", (*parts, *state), shape)
    return [
        derived(like, "result", (made,), shape, one.element, index=at)
        for at, one in enumerate(state)
    ]


def _row_major(
    like: Node, one: Node, order: tuple[int, ...], shape: tuple[int, int], length: int
) -> Node:
    """The operand with what is sorted last, the rest as one, padded to a power of two."""
    moved = derived(like, "transpose", (one,), [one.shape[d] for d in order], dimensions=order)
    flat = derived(like, "reshape", (moved,), shape)
    if length == shape[1]:
        return flat
    zero = derived(like, "constant", (), (), one.element, value=np.zeros((), one.element.dtype))
    padding = ((0, 0, 0), (0, length - shape[1], 0))
    return derived(like, "pad", (flat, zero), (shape[0], length), padding=padding)


def _steps(length: int) -> Iterator[tuple[int, bool]]:
    """Half the size of the blocks of each step, and whether their second half is mirrored."""
    block = 1
    while block < length:
        yield block, True
        half = block // 2
        while half:
            yield half, False
            half //= 2
        block *= 2


def _exchanged(
    like: Node, state: list[Node], half: int, mirrored: bool, extent: int, before: Before
) -> list[Node]:
    """One step: pairs that stand the wrong way round change places.

    Padding is at the end and stays there: it comes before nothing.
    """
    rows, length = state[0].shape
    blocks = length // (2 * half)
    shape = (rows, blocks, 1, half)
    pairs: list[tuple[Node, Node]] = []
    for one in state:
        cut = derived(like, "reshape", (one,), (rows, blocks, 2, half))
        second = sliced(like, cut, 2, 1, 2)
        if mirrored and half > 1:
            second = derived(like, "reverse", (second,), shape, dimensions=(3,))
        pairs.append((sliced(like, cut, 2, 0, 1), second))
    swap = _wrong(like, pairs, shape, before)
    if extent < length:
        inside = derived(
            like, "compare", (pairs[-1][1], number(like, extent, shape, _INDEX)), shape, _PRED,
            direction="LT",
        )  # fmt: skip
        swap = derived(like, "and", (swap, inside), shape)
    made: list[Node] = []
    for first, second in pairs:
        low = derived(like, "select", (swap, second, first), shape, first.element)
        high = derived(like, "select", (swap, first, second), shape, first.element)
        if mirrored and half > 1:
            high = derived(like, "reverse", (high,), shape, dimensions=(3,))
        both = derived(like, "concatenate", (low, high), (rows, blocks, 2, half), dimensions=(2,))
        made.append(derived(like, "reshape", (both,), (rows, length)))
    return made


def _wrong(
    like: Node, pairs: list[tuple[Node, Node]], shape: tuple[int, ...], before: Before
) -> Node:
    """Whether the second of each pair comes before the first; of equal ones the earlier."""
    values = pairs[:-1]
    backward = before([one for first, second in values for one in (second, first)], shape)
    forward = before([one for first, second in values for one in (first, second)], shape)
    earlier = derived(like, "compare", pairs[-1][::-1], shape, _PRED, direction="LT")
    equal = derived(like, "not", (forward,), shape)
    tie = derived(like, "and", (equal, earlier), shape)
    return derived(like, "or", (backward, tie), shape)


_DIRECT = frozenset({"f32", "bf16", "f16", "s8", "u8", "s16", "u16"})
_STEP = 9
"""Elements that are found in the time of one step of a sort on chip, by the timing model."""

_MOST = 1 << 16
"""Instructions of one top-k at most."""


def _is_direct(operand: Node, count: int) -> bool:
    *rows, extent = operand.shape
    turns = -(-prod(rows) // 128) * -(-extent // 8192) * -(-count // 8)
    digits = (extent - 1).bit_length()
    if extent <= _LONGEST_OF_FEW and count > _STEP * digits * (digits + 1) // 2:
        return False
    return operand.element.name in _DIRECT and 0 < count <= extent and 3 * turns <= _MOST


def top(like: Node, operand: Node, count: int, largest: bool) -> tuple[Node, Node]:
    """The ``count`` greatest (or least) of the last dimension, in order, and their places.

    A node of its own for numbers that float32 holds (lowering/top.py); others are sorted.
    """
    shape = operand.shape
    last = len(shape) - 1
    if _is_direct(operand, count):
        wanted = (*shape[:last], count)
        fields = {"largest": largest}
        both = derived(like, "topk", (operand,), wanted, operand.element, **fields)
        return (
            derived(like, "result", (both,), wanted, operand.element, index=0),
            derived(like, "result", (both,), wanted, _INDEX, index=1),
        )
    places = derived(like, "iota", (), shape, _INDEX, dimensions=(last,))
    keys = ordered(operand)

    def before(pairs: list[Node], where: tuple[int, ...]) -> Node:
        direction = "GT" if largest else "LT"
        return derived(like, "compare", pairs[:2], where, _PRED, direction=direction)

    found = sorted_rows(like, [keys, operand, places], last, before)
    values, indices = (sliced(like, one, last, 0, count) for one in found[1:])
    return values, indices
