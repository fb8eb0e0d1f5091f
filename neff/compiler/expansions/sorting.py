"""Expands sorts to a network of comparisons between two halves of the data, all rows at once.

``sort`` and ``topk`` become a bitonic network whose every step moves the lesser element to the front.
The element's original index breaks ties, so equal elements keep their order and the result does not
depend on the network's layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.expansions.few_rows import cut_rows, part_count
from neff.compiler.expansions.sort_keys import Before, keys_of, number, ordered
from neff.compiler.graph.nodes import Node, derived, sliced

__all__ = ["sorted_rows", "top"]

_PRED, _INDEX = BY_NAME["pred"], BY_NAME["s32"]
_GATHERED_TYPES = frozenset({"f32", "bf16", "f16", "s32", "u32", "s16", "u16", "s8", "u8"})
"""Types of elements that are gathered on chip."""

_MAX_ROW_ELEMENTS, _MAX_ELEMENTS_OF_FEW_ROWS, _MIN_FULL_ROWS = 8192, 4096, 8
"""Limits on the elements of a row that is sorted on chip; with fewer rows than the last the second
limit applies, since most partitions are idle.
"""


def sorted_rows(like: Node, operands: Sequence[Node], dim: int, before: Before) -> list[Node]:
    """Return the operands, sorted together along a dimension.

    Args:
        like: the node whose name and location the nodes get.
        operands: arrays of one shape.
        dim: the sorted dimension.
        before: the order.
    """
    shape = operands[0].shape
    extent = shape[dim]
    if extent < 2:
        return list(operands)
    order = (*(axis for axis in range(len(shape)) if axis != dim), dim)
    moved = tuple(shape[axis] for axis in order)
    rows = prod(moved[:-1])
    results = _by_keys(like, operands, order, (rows, extent), before)
    if results:
        return [_laid_back(like, rows_of_operand, order, moved) for rows_of_operand in results]
    length = 1 << (extent - 1).bit_length()
    state = [
        _row_major(like, rows_of_operand, order, (rows, extent), length)
        for rows_of_operand in operands
    ]
    positions = derived(like, "iota", (), (length,), _INDEX, dimensions=(0,))
    state.append(derived(like, "broadcast", (positions,), (rows, length), dimensions=(1,)))
    for half, mirrored in _steps(length):
        state = _exchanged(like, state, half, mirrored, extent, before)
    cut = [sliced(like, rows_of_operand, 1, 0, extent) for rows_of_operand in state[:-1]]
    return [_laid_back(like, rows_of_operand, order, moved) for rows_of_operand in cut]


def _laid_back(like: Node, rows: Node, order: tuple[int, ...], moved: tuple[int, ...]) -> Node:
    """Return rows in the order of the operands' dimensions, which were permuted by ``order``."""
    back = tuple(order.index(dim) for dim in range(len(order)))
    permuted = derived(like, "reshape", (rows,), moved)
    return derived(like, "transpose", (permuted,), [moved[dim] for dim in back], dimensions=back)


def _by_keys(
    like: Node, operands: Sequence[Node], order: tuple[int, ...], shape: tuple[int, int],
    before: Before,
) -> list[Node]:  # fmt: skip
    """Sort the operands' rows on chip by a number of each element (lowering/indexing/sorted_rows.py).

    The list is empty if no such number exists, or rows are too long.
    """
    rows, extent = shape
    if extent > (_MAX_ROW_ELEMENTS if rows >= _MIN_FULL_ROWS else _MAX_ELEMENTS_OF_FEW_ROWS):
        return []
    if not rows or any(array.element.name not in _GATHERED_TYPES for array in operands):
        return []
    state = [_row_major(like, array, order, shape, extent) for array in operands]
    keys = keys_of(like, state, before)
    if keys is None:
        return []
    upper = keys.like("shift-right-arithmetic", keys, number(like, 8, shape, _INDEX))
    lower = keys.like("and", keys, number(like, 255, shape, _INDEX))
    parts = [array.like("convert", array, element="f32") for array in (upper, lower)]
    sorted_node = derived(like, "sorted", (*parts, *state), shape)
    return [
        derived(like, "result", (sorted_node,), shape, array.element, index=index)
        for index, array in enumerate(state)
    ]


def _row_major(
    like: Node, operand: Node, order: tuple[int, ...], shape: tuple[int, int], length: int
) -> Node:
    """Return the operand with the sorted dimension last, the others joined, padded to
    ``length``.
    """
    moved = derived(
        like, "transpose", (operand,), [operand.shape[dim] for dim in order], dimensions=order
    )
    flat = derived(like, "reshape", (moved,), shape)
    if length == shape[1]:
        return flat
    zero = derived(
        like, "constant", (), (), operand.element, value=np.zeros((), operand.element.dtype)
    )
    padding = ((0, 0, 0), (0, length - shape[1], 0))
    return derived(like, "pad", (flat, zero), (shape[0], length), padding=padding)


def _steps(length: int) -> Iterator[tuple[int, bool]]:
    """Yield half the size of the blocks of each step, and True if their second half is mirrored."""
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
    """Do one step: swap pairs in the wrong order.

    Padding is at the end and stays there: it comes before nothing.
    """
    rows, length = state[0].shape
    blocks = length // (2 * half)
    shape = (rows, blocks, 1, half)
    pairs: list[tuple[Node, Node]] = []
    for array in state:
        cut = derived(like, "reshape", (array,), (rows, blocks, 2, half))
        second = sliced(like, cut, 2, 1, 2)
        if mirrored and half > 1:
            second = derived(like, "reverse", (second,), shape, dimensions=(3,))
        pairs.append((sliced(like, cut, 2, 0, 1), second))
    swap = _out_of_order(like, pairs, shape, before)
    if extent < length:
        inside = derived(
            like, "compare", (pairs[-1][1], number(like, extent, shape, _INDEX)), shape, _PRED,
            direction="LT",
        )  # fmt: skip
        swap = derived(like, "and", (swap, inside), shape)
    arrays: list[Node] = []
    for first, second in pairs:
        low = derived(like, "select", (swap, second, first), shape, first.element)
        high = derived(like, "select", (swap, first, second), shape, first.element)
        if mirrored and half > 1:
            high = derived(like, "reverse", (high,), shape, dimensions=(3,))
        blocks_of_pairs = derived(
            like, "concatenate", (low, high), (rows, blocks, 2, half), dimensions=(2,)
        )
        arrays.append(derived(like, "reshape", (blocks_of_pairs,), (rows, length)))
    return arrays


def _out_of_order(
    like: Node, pairs: list[tuple[Node, Node]], shape: tuple[int, ...], before: Before
) -> Node:
    """Return where the second of a pair comes before the first; equal elements compare by index."""
    values = pairs[:-1]
    backward = before([array for first, second in values for array in (second, first)], shape)
    forward = before([array for first, second in values for array in (first, second)], shape)
    earlier = derived(like, "compare", pairs[-1][::-1], shape, _PRED, direction="LT")
    equal = derived(like, "not", (forward,), shape)
    tie = derived(like, "and", (equal, earlier), shape)
    return derived(like, "or", (backward, tie), shape)


_DIRECT_TYPES = frozenset({"f32", "bf16", "f16", "s8", "u8", "s16", "u16"})
_ELEMENTS_PER_SORT_STEP = 9
"""Top-k elements that are found in the time of a step of a sort on chip, by the timing model."""

_PARTITIONS = 128
_MAX_CANDIDATES = 8192
"""Limit on the elements of a row that the second step searches: a chunk of lowering/indexing/top_elements.py."""

_MAX_TOPK_INSTRUCTIONS = 1 << 16
"""Limit on the instructions of a top-k."""


def _is_direct(operand: Node, count: int) -> bool:
    *rows, extent = operand.shape
    iterations = -(-prod(rows) // 128) * -(-extent // 8192) * -(-count // 8)
    digits = (extent - 1).bit_length()
    if (
        extent <= _MAX_ELEMENTS_OF_FEW_ROWS
        and count > _ELEMENTS_PER_SORT_STEP * digits * (digits + 1) // 2
    ):
        return False
    return (
        operand.element.name in _DIRECT_TYPES
        and 0 < count <= extent
        and 3 * iterations <= _MAX_TOPK_INSTRUCTIONS
    )


def _candidate_parts(operand: Node, count: int) -> int:
    """Return the parts of a few long rows whose greatest elements are found first; 1 for none."""
    last = len(operand.shape) - 1
    if last < 0 or operand.element.name not in _DIRECT_TYPES or count < 1:
        return 1
    parts = part_count(operand.shape, last)
    extent = operand.shape[last]
    return min(parts, (_MAX_CANDIDATES - _PARTITIONS) // count, extent // (4 * count))


def _top_of_parts(
    like: Node, operand: Node, count: int, largest: bool, parts: int
) -> tuple[Node, Node]:
    """Return the greatest elements of the parts of rows, then the greatest of these."""
    *rows, extent = operand.shape
    last = len(rows)
    length = extent // parts
    main, remainder = cut_rows(like, operand, parts)
    values, locations = _direct(like, (main,), count, largest)
    starts = np.arange(parts, dtype=np.int32) * length
    offsets = derived(like, "constant", (), (parts,), _INDEX, value=starts)
    offsets = derived(like, "broadcast", (offsets,), locations.shape, dimensions=(last,))
    locations = derived(like, "add", (locations, offsets), locations.shape)
    shape = (*rows, parts * count)
    candidates = [derived(like, "reshape", (array,), shape) for array in (values, locations)]
    if remainder is not None:
        shape = (*rows, extent - parts * length)
        numbers = derived(like, "iota", (), shape, _INDEX, dimensions=(last,))
        begin = derived(like, "constant", (), (), _INDEX, value=np.int32(parts * length))
        begin = derived(like, "broadcast", (begin,), shape, dimensions=())
        numbers = derived(like, "add", (numbers, begin), shape)
        shape = (*rows, parts * count + shape[-1])
        candidates = [
            derived(like, "concatenate", pair, shape, dimensions=(last,))
            for pair in zip(candidates, (remainder, numbers), strict=True)
        ]
    return _direct(like, tuple(candidates), count, largest)


def _direct(like: Node, operands: tuple[Node, ...], count: int, largest: bool) -> tuple[Node, Node]:
    """Return the results of a node that the engines compute; a second operand has the indices."""
    shape = (*operands[0].shape[:-1], count)
    element = operands[0].element
    pair_node = derived(like, "topk", operands, shape, element, largest=largest)
    return (
        derived(like, "result", (pair_node,), shape, element, index=0),
        derived(like, "result", (pair_node,), shape, _INDEX, index=1),
    )


def top(like: Node, operand: Node, count: int, largest: bool) -> tuple[Node, Node]:
    """Return the ``count`` greatest (or least) of the last dimension, in order, and their indices.

    Numbers that float32 holds have a node for it (lowering/indexing/top_elements.py); others are sorted.
    """
    shape = operand.shape
    last = len(shape) - 1
    parts = _candidate_parts(operand, count)
    if parts > 1:
        return _top_of_parts(like, operand, count, largest, parts)
    if _is_direct(operand, count):
        return _direct(like, (operand,), count, largest)
    positions = derived(like, "iota", (), shape, _INDEX, dimensions=(last,))
    keys = ordered(operand)

    def before(pairs: list[Node], shape_compared: tuple[int, ...]) -> Node:
        direction = "GT" if largest else "LT"
        return derived(like, "compare", pairs[:2], shape_compared, _PRED, direction=direction)

    sorted_operands = sorted_rows(like, [keys, operand, positions], last, before)
    values, indices = (sliced(like, rows, last, 0, count) for rows in sorted_operands[1:])
    return values, indices
