"""Trip counts of loops that count from one constant to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.ordering import behind
from hlo_tools.rewrite.emitting import splat

__all__ = ["trip_count"]

Integer = np.integer[Any]
_MIRRORED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}


def trip_count(view: Instruction) -> int | None:
    """Return how often a ``while`` runs its body, or None if unknown (or not a while)."""
    if view.opcode != "while":
        return None
    if (len(view.operands), len(view.called_computations)) != (1, 2):  # the module is damaged
        return None
    loop = _Loop(view)
    compared = loop.comparison()
    if compared is None:
        return None
    location, direction, limit = compared
    start, step = loop.start(location), loop.step(location)
    if start is None or step is None:
        return None
    count = _iterations(int(start), int(limit), step, direction)
    if count is None:
        return None
    bounds = np.iinfo(start.dtype)
    fits = bounds.min <= int(start) + count * step <= bounds.max
    return count if fits else None


@dataclass(frozen=True, slots=True)
class _Loop:
    """A while instruction. A place is a number in its tuple, or -1 when it carries one value."""

    view: Instruction

    def comparison(self) -> tuple[int, str, Integer] | None:
        """(place of the counter, direction, limit) when the condition is such a comparison."""
        root = self.view.called_computations[1].root
        if root.opcode != "compare" or len(root.operands) != 2:
            return None
        first, second = root.operands
        direction = root.proto.comparison_direction
        for counter, bound, relation in (
            (first, second, direction),
            (second, first, _MIRRORED.get(direction)),
        ):
            location = _place(counter)
            limit = self._invariant(bound)
            if (
                location is not None
                and limit is not None
                and relation
                and self.step(location) is not None
            ):
                return location, relation, limit
        return None

    def start(self, position: int) -> Integer | None:
        """The counter's first value, a NumPy integer, or None."""
        operand = self._result(self.view.operands[0], position)
        return None if operand is None else _integer(operand)

    def step(self, position: int) -> int | None:
        """Return the increment of the counter per iteration, or None."""
        body = self.view.called_computations[0]
        update = self._result(body.root, position)
        if update is None or update.opcode not in ("add", "subtract") or len(update.operands) != 2:
            return None
        first, second = update.operands
        if update.opcode == "subtract":
            step = self._invariant(second) if _place(first) == position else None
            return None if step is None else -int(step)
        for counter, increment in ((first, second), (second, first)):
            step = self._invariant(increment)
            if _place(counter) == position and step is not None:
                return int(step)
        return None

    def _result(self, root: Instruction, position: int) -> Instruction | None:
        if position < 0:
            return root
        has_place = root.opcode == "tuple" and position < len(root.operands)
        return root.operands[position] if has_place else None

    def _invariant(self, view: Instruction) -> Integer | None:
        """Return the value of a constant, or of a loop state that the body preserves."""
        constant_value = _integer(view)
        location = _place(view)
        if constant_value is not None or location is None or location < 0:
            return constant_value
        passed_on = self._result(self.view.called_computations[0].root, location)
        if passed_on is None or _place(passed_on) != location:
            return None
        return self.start(location)


def _integer(view: Instruction) -> Integer | None:
    constant_value = splat(view) if view.shape.is_scalar else None
    return (
        constant_value if constant_value is not None and constant_value.dtype.kind in "iu" else None
    )


def _place(view: Instruction) -> int | None:
    """Return the number of the loop-state element that an instruction reads."""
    view = behind(view, "copy")
    if view.opcode == "parameter":
        return -1
    if view.opcode != "get-tuple-element" or not view.operands:
        return None
    return view.proto.tuple_index if view.operands[0].opcode == "parameter" else None


def _iterations(start: int, limit: int, step: int, direction: str) -> int | None:
    """Count the terms of start, start + step, ... before the comparison fails; None: endless."""
    if direction in ("GT", "GE"):
        return _iterations(-start, -limit, -step, {"GT": "LT", "GE": "LE"}[direction])
    if direction == "EQ":
        return (1 if step else None) if start == limit else 0
    if direction == "NE":
        if start == limit:
            return 0
        is_exact = step != 0 and (limit - start) % step == 0 and (limit - start) // step > 0
        return (limit - start) // step if is_exact else None
    end = limit + (direction == "LE")
    if start >= end:
        return 0
    return -(-(end - start) // step) if step > 0 else None
