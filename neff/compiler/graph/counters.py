"""Integers that a counted loop adds to in each turn: how often it runs, and which values they have.

A scalar is *linear* in a loop's turn when it is ``start + step * turn``. Where that is known while
compiling, an index is a register of the engines' sequencers and no value in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Node, derived

__all__ = ["Linear", "counter", "linear", "trip_count"]

_SAME = frozenset({"reshape", "broadcast", "copy", "convert"})


@dataclass(frozen=True, slots=True)
class Linear:
    """``start + step * turn``, turn = 0, 1, ... of a loop.

    Attributes:
        loop: the loop's node; None for a number that no loop changes.
        start, step: as above.
        trips: turns of the loop; None while they are not known.
    """

    loop: Node | None
    start: int
    step: int = 0
    trips: int | None = None

    def range(self) -> tuple[int, int] | None:
        """Least and greatest value in any turn."""
        if self.step and self.trips is None:
            return None
        last = self.start + self.step * max(0, (self.trips or 1) - 1)
        return min(self.start, last), max(self.start, last)


def counter(like: Node, integer: Linear, element: str, shape: tuple[int, ...] = ()) -> Node:
    """One integer with the value of ``integer``: a node ``counter``, or a constant."""
    kind = BY_NAME[element]
    if integer.loop is not None and integer.step:
        return derived(like, "counter", (integer.loop,), shape, kind, linear=integer)
    value = np.full(shape, integer.start).astype(kind.dtype)
    return derived(like, "constant", (), shape, kind, value=value)


def linear(node: Node, counters: Mapping[int, Linear] | None = None) -> Linear | None:
    """Return a scalar integer as a linear function of the loop's iteration; None when it is not one.

    Args:
        node: a value of one element.
        counters: linear integers by the ``id`` of their node, in addition to nodes ``counter``.
    """
    value = (counters or {}).get(id(node))
    if value is not None:
        return value if _fits(value, node) else None
    if node.element.kind not in ("int", "uint") or node.size != 1:
        return None
    if node.opcode == "counter":
        stored: Linear = node.attributes["linear"]
        return stored
    splat = node.splat
    if splat is not None:
        return Linear(None, int(splat))
    if node.opcode in _SAME:
        value = linear(node.operands[0], counters)
    elif node.opcode in ("add", "subtract", "multiply"):
        value = _combined(node, counters)
    elif node.opcode == "select":
        value = _selected(node, counters)
    elif node.opcode in ("maximum", "minimum", "clamp"):
        value = _limited(node, counters)
    return value if value is not None and _fits(value, node) else None


def _combined(node: Node, counters: Mapping[int, Linear] | None) -> Linear | None:
    a, b = (linear(operand, counters) for operand in node.operands)
    if a is None or b is None:
        return None
    if node.opcode == "multiply":
        if b.step:
            a, b = b, a
        return None if b.step else Linear(a.loop, a.start * b.start, a.step * b.start, a.trips)
    sign = -1 if node.opcode == "subtract" else 1
    if a.loop is not None and b.loop is not None and a.loop is not b.loop:
        return None
    trips = a.trips if a.trips is not None else b.trips
    return Linear(a.loop or b.loop, a.start + sign * b.start, a.step + sign * b.step, trips)


def _selected(node: Node, counters: Mapping[int, Linear] | None) -> Linear | None:
    """The branch that is taken in every turn (``i + n if i < 0 else i``)."""
    predicate, on_true, on_false = node.operands
    while predicate.opcode in _SAME:
        predicate = predicate.operands[0]
    if predicate.opcode != "compare":
        return None
    always = _always(predicate, counters)
    return None if always is None else linear(on_true if always else on_false, counters)


def _always(compare: Node, counters: Mapping[int, Linear] | None) -> bool | None:
    a, b = (linear(operand, counters) for operand in compare.operands)
    first, second = (value.range() if value is not None else None for value in (a, b))
    if first is None or second is None:
        return None
    direction = compare.attributes["direction"]
    if direction in ("GT", "GE"):
        first, second, direction = second, first, {"GT": "LT", "GE": "LE"}[direction]
    if direction == "LT":
        return True if first[1] < second[0] else False if first[0] >= second[1] else None
    if direction == "LE":
        return True if first[1] <= second[0] else False if first[0] > second[1] else None
    return None


def _limited(node: Node, counters: Mapping[int, Linear] | None) -> Linear | None:
    """A maximum, minimum or clamp that changes nothing."""
    parts = [linear(operand, counters) for operand in node.operands]
    if any(value is None for value in parts):
        return None
    if node.opcode == "clamp":
        low, operand, high = parts
    else:
        operand, limit = parts
        if limit is not None and limit.step:
            operand, limit = limit, operand
        low, high = (limit, None) if node.opcode == "maximum" else (None, limit)
    reach = operand.range() if operand is not None else None
    if reach is None:
        return None
    if low is not None and (low.step or low.start > reach[0]):
        return None
    if high is not None and (high.step or high.start < reach[1]):
        return None
    return operand


def _fits(value: Linear, node: Node) -> bool:
    """False when a value of it wraps around, in its type or in a register."""
    reach = value.range()
    if reach is None:
        return True  # checked again when the turns are known
    dtype = node.element.dtype
    limits = np.iinfo(dtype) if dtype is not None else np.iinfo(np.int32)
    low, high = max(int(limits.min), -(1 << 31)), min(int(limits.max), (1 << 31) - 1)
    return low <= reach[0] and reach[1] <= high


def trip_count(gate: Node, counters: Mapping[int, Linear]) -> int | None:
    """How often a loop runs whose condition is a comparison of two linear integers.

    Args:
        gate: the condition, over the state of one iteration.
        counters: the parts of the state that count.
    """
    while gate.opcode in ("reshape", "copy"):
        gate = gate.operands[0]
    if gate.opcode != "compare":
        return None
    a, b = (linear(operand, counters) for operand in gate.operands)
    if a is None or b is None:
        return None
    iterations = _turns(a.start - b.start, a.step - b.step, gate.attributes["direction"])
    if iterations is None:
        return None
    # The condition is tested once more than the body runs. None of its integers may wrap around.
    limited = {key: replace(value, trips=iterations + 1) for key, value in counters.items()}
    inside = all(linear(operand, limited) is not None for operand in gate.operands)
    return iterations if inside else None


def _turns(start: int, step: int, direction: str) -> int | None:
    """How many of start, start + step, ... hold against zero before one does not."""
    if direction in ("GT", "GE"):
        return _turns(-start, -step, {"GT": "LT", "GE": "LE"}[direction])
    if direction == "EQ":
        return 0 if start else (1 if step else None)
    if direction == "NE":
        if start == 0:
            return 0
        is_whole = step != 0 and -start % step == 0 and -start // step > 0
        return -start // step if is_whole else None
    end = int(direction == "LE")
    if start >= end:
        return 0
    return -(-(end - start) // step) if step > 0 else None
