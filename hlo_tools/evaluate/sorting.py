"""Sort by a computation, and the largest elements."""

from __future__ import annotations

import functools

import numpy as np

from hlo_tools.evaluate.elementwise import total_order
from hlo_tools.evaluate.operation import Call, operation
from hlo_tools.evaluate.values import Array, Value, array_parts, wide
from hlo_tools.types.comparison import is_total_order
from hlo_tools.types.element_types import element_of
from hlo_tools.types.ids import LOCAL_MASK

__all__: list[str] = []


@operation("sort")
def _sort(call: Call) -> Value:
    if not call.operands[0].size:
        return call.operands[0] if len(call.operands) == 1 else tuple(call.operands)
    axis = call.row.dimensions[0]
    lanes = [np.moveaxis(operand, axis, -1) for operand in call.operands]
    extents = lanes[0].shape
    if call.evaluator.is_elementwise(call.row.called_computation_ids[0]):
        flat = [np.ascontiguousarray(lane).reshape([-1, extents[-1]]) for lane in lanes]
        key_order = _by_key(call, flat)
        order = (key_order if key_order is not None else _merged(call, flat)).reshape(extents)
    else:
        order = np.empty(extents, dtype=np.int64)
        for place in np.ndindex(*extents[:-1]):
            order[place] = _sorted_order(call, [lane[place] for lane in lanes])
    results = [np.moveaxis(np.take_along_axis(lane, order, -1), -1, axis) for lane in lanes]
    return results[0] if len(results) == 1 else tuple(results)


def _by_key(call: Call, lanes: list[Array]) -> Array | None:
    """The order of each row when the computation compares two parameters and nothing more."""
    body = call.evaluator.body(call.row.called_computation_ids[0])
    rows = {row.id & LOCAL_MASK: row for row in body.instructions}
    root = rows[body.root_id & LOCAL_MASK]
    operands = [rows[number & LOCAL_MASK] for number in root.operand_ids]
    sides = [row for row in operands if row.opcode == "parameter"]
    if root.opcode != "compare" or len(sides) != 2:
        return None
    first, second = (row.parameter_number for row in sides)
    direction = root.comparison_direction
    if first // 2 != second // 2 or first == second or direction not in ("LT", "GT"):
        return None
    key = _ordered(lanes[first // 2], is_total_order(root))
    if key is None:
        return None
    if (direction == "GT") == (first < second):
        key = -key if key.dtype.kind == "f" else ~key
    return np.argsort(key, axis=-1, kind="stable")


def _ordered(lane: Array, total: bool) -> Array | None:
    """Values that NumPy sorts as the comparison does; None for NaN without a total order."""
    kind = element_of(lane.dtype).kind
    if kind == "float":
        key = total_order(lane) if total else wide(lane)
        return None if not total and np.isnan(key).any() else key
    if kind in ("int", "uint"):
        return lane if lane.dtype.kind in "iu" else lane.astype(np.int16)
    return lane.astype(np.int8) if kind == "pred" else None


def _merged(call: Call, lanes: list[Array]) -> Array:
    """A stable merge sort of all rows at once; the order of each row.

    Of two neighbouring runs, every element finds its place in the other by binary search, so that
    one call of the computation serves all elements.
    """
    rows, length = lanes[0].shape
    order: Array = np.broadcast_to(np.arange(length), (rows, length)).copy()
    positions: Array = np.arange(length)
    width = 1
    while width < length:
        start: Array = positions // (2 * width) * (2 * width)
        is_left: Array = positions - start < width
        middle, stop = np.minimum(start + width, length), np.minimum(start + 2 * width, length)
        low: Array = np.broadcast_to(np.where(is_left, middle, start), order.shape).copy()
        first = low.copy()
        high: Array = np.broadcast_to(np.where(is_left, stop, middle), order.shape).copy()
        while (low < high).any():
            probe: Array = (low + high) // 2
            candidates = np.take_along_axis(order, np.minimum(probe, length - 1), -1)
            goes_on = _goes_on(call, lanes, order, candidates, is_left) & (low < high)
            low, high = (
                np.where(goes_on, probe + 1, low),
                np.where(goes_on | (low >= high), high, probe),
            )
        into: Array = np.where(is_left, positions, start + positions - middle) + low - first
        merged: Array = np.empty_like(order)
        np.put_along_axis(merged, into, order, -1)
        order = merged
        width *= 2
    return order


def _goes_on(
    call: Call, lanes: list[Array], order: Array, candidates: Array, is_left: Array
) -> Array:
    """Return where ``candidates`` go before an element: for the left run when less, for the right
    one when the element is not less."""
    pairs: list[Array] = []
    for lane in lanes:
        elements, candidate_values = (
            np.take_along_axis(lane, order, -1),
            np.take_along_axis(lane, candidates, -1),
        )
        pairs += [
            np.where(is_left, candidate_values, elements),
            np.where(is_left, elements, candidate_values),
        ]
    less = np.broadcast_to(array_parts(call.apply(0, pairs))[0], order.shape).astype(np.bool_)
    return np.where(is_left, less, ~less)


def _sorted_order(call: Call, lanes: list[Array]) -> list[int]:
    def before(first: int, second: int) -> int:
        pairs = [np.asarray(lane[position]) for lane in lanes for position in (first, second)]
        if call.holds(0, pairs):
            return -1
        swapped = [np.asarray(lane[position]) for lane in lanes for position in (second, first)]
        return 1 if call.holds(0, swapped) else 0

    return sorted(range(len(lanes[0])), key=functools.cmp_to_key(before))


@operation("topk")
def _topk(call: Call) -> Value:
    if call.operands[0].dtype.kind == "c":
        raise call.fail("takes elements that have an order, not complex numbers")
    return largest(call.operands[0], call.row.k, smallest=not call.row.largest)


def largest(operand: Array, count: int, *, smallest: bool = False) -> Value:
    """The largest elements of each row and their places; of equal ones the first comes first."""
    element = element_of(operand.dtype)
    key = total_order(operand) if element.kind == "float" else operand
    if element.bits < 8 and element.kind in ("int", "uint"):
        key = key.astype(np.int8)
    order = np.argsort(key if smallest else ~key, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(operand, order, -1), order.astype(np.int32)
