"""Sorting as a network of comparisons between two halves of the data, all rows at once.

``sort`` and ``topk`` become a bitonic network whose every step puts the lesser element first. The
number of an element's place takes part in the comparison, so equal elements keep their order and
the network's result does not depend on how it is laid out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

import numpy as np

from hlo_tools.types.element_types import BY_NAME, ElementType
from neff.compiler.graph.nodes import Node, derived, sliced

__all__ = ["ordered", "sorted_rows", "top"]

Before = Callable[[list[Node], tuple[int, ...]], Node]
"""(first element's operands and second's in turn, shape) -> whether the first comes before."""

_PRED, _INDEX = BY_NAME["pred"], BY_NAME["s32"]


def _number(like: Node, value: int, shape: Sequence[int], element: ElementType) -> Node:
    constant = derived(like, "constant", (), (), element, value=np.asarray(value, element.dtype))
    return derived(like, "broadcast", (constant,), shape, dimensions=())


def ordered(value: Node) -> Node:
    """Integers in the total order of floats: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    if value.element.kind != "float":
        return value
    wide = value.like("convert", value, element="f32") if value.element.name != "f32" else value
    bits = wide.like("bitcast-convert", wide, element="s32")
    sign = bits.like("shift-right-arithmetic", bits, _number(value, 31, value.shape, _INDEX))
    flip = bits.like("and", sign, _number(value, 0x7FFFFFFF, value.shape, _INDEX))
    return bits.like("xor", bits, flip)


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
    length = 1 << (extent - 1).bit_length()
    state = [_row_major(like, one, order, (rows, extent), length) for one in operands]
    places = derived(like, "iota", (), (length,), _INDEX, dimensions=(0,))
    state.append(derived(like, "broadcast", (places,), (rows, length), dimensions=(1,)))
    for half, mirrored in _steps(length):
        state = _exchanged(like, state, half, mirrored, extent, before)
    back = tuple(order.index(d) for d in range(len(shape)))
    results: list[Node] = []
    for one in state[:-1]:
        cut = sliced(like, one, 1, 0, extent)
        whole = derived(like, "reshape", (cut,), moved)
        results.append(derived(like, "transpose", (whole,), shape, dimensions=back))
    return results


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
            like, "compare", (pairs[-1][1], _number(like, extent, shape, _INDEX)), shape, _PRED,
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
_MOST = 1 << 16
"""Instructions of one top-k at most."""


def _is_direct(operand: Node, count: int) -> bool:
    *rows, extent = operand.shape
    turns = -(-prod(rows) // 128) * -(-extent // 8192) * -(-count // 8)
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
