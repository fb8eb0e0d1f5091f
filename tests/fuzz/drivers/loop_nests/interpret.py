"""The second oracle: a loop nest executed by NumPy, and the measure of its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.fuzz.drivers.loop_nests.nodes import (
    Body,
    Branch,
    Compute,
    ForLoop,
    Map,
    Nest,
    Number,
    Operand,
    Scan,
    Statement,
    Variable,
    WhileLoop,
)  # fmt: skip
from tests.fuzz.drivers.loop_nests.operators import EXACT_INTEGERS, OPERATORS

__all__ = ["MAX_STEPS", "Interpreter", "RunawayError"]

Array = np.ndarray[Any, Any]
MAX_STEPS = 1200
"""Statements that one call may execute: longer programs find no more, and take time."""


class RunawayError(Exception):
    """A program executes more statements than :data:`MAX_STEPS`."""


class Interpreter:
    """One call of a nest.

    Attributes:
        inexact: targets of floats beyond the integers that their dtype holds; those of sums by
            their partial sums.
        trips: iterations of all loops.
    """

    def __init__(self) -> None:
        self.inexact: set[str] = set()
        self.trips = 0
        self._steps = 0

    def run(self, nest: Nest, arrays: Sequence[Array]) -> list[Array]:
        """The results, floats as float64."""
        values = [_wide(array) for array in arrays]
        with np.errstate(all="ignore"):
            return [np.asarray(result) for result in self._body(nest.body, values, {})]

    def _body(self, body: Body, arguments: Sequence[Any], around: Mapping[str, Any]) -> list[Any]:
        names = dict(around)
        names.update(
            (parameter.name, value)
            for parameter, value in zip(body.parameters, arguments, strict=True)
        )
        for statement in body.statements:
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise RunawayError(f"more than {MAX_STEPS} statements")
            self._execute(statement, names)
        return [_value(result, names) for result in body.results]

    def _execute(self, statement: Statement, names: dict[str, Any]) -> None:
        match statement:
            case Compute():
                results = [self._compute(statement, names)]
                targets = (statement.target,)
            case ForLoop():
                results, targets = self._for(statement, names), statement.targets
            case WhileLoop():
                results, targets = self._while(statement, names), statement.targets
            case Scan():
                results, targets = self._scan(statement, names), statement.targets
            case Map():
                results, targets = self._map(statement, names), statement.targets
            case Branch():
                results, targets = self._branch(statement, names), statement.targets
        for target, result in zip(targets, results, strict=True):
            result = np.asarray(result)
            assert result.shape == target.shape, (statement, result.shape)
            names[target.name] = result

    def _compute(self, statement: Compute, names: Mapping[str, Any]) -> Any:
        row, target = OPERATORS[statement.operator], statement.target
        operands = [_value(operand, names) for operand in statement.operands]
        bound = statement.bound
        if bound and row.total:
            operands = [
                np.clip(value, -bound, bound) if is_float(operand) else value
                for operand, value in zip(statement.operands, operands, strict=True)
            ]
        result = np.asarray(row.meaning(operands, statement.parameters, target))
        if bound and not row.total:
            result = np.clip(result, -bound, bound)
        limit = EXACT_INTEGERS.get(target.dtype)
        if limit:
            total = row.total(operands, statement.parameters, target) if row.total else result
            if np.size(total) and not np.max(np.abs(total)) <= limit:
                self.inexact.add(target.name)
        return _typed(result, target)

    def _for(self, loop: ForLoop, names: Mapping[str, Any]) -> list[Any]:
        state: list[Any] = [names[init.name] for init in loop.inits]
        for count in range(int(_value(loop.lower, names)), int(_value(loop.upper, names))):
            self.trips += 1
            state = self._body(loop.body, [np.int32(count), *state], names)
        return state

    def _while(self, loop: WhileLoop, names: Mapping[str, Any]) -> list[Any]:
        state: list[Any] = [names[init.name] for init in loop.inits]
        while self._body(loop.test, state, names)[0]:
            self.trips += 1
            state = self._body(loop.body, state, names)
        return state

    def _scan(self, loop: Scan, names: Mapping[str, Any]) -> list[Any]:
        state: list[Any] = [names[init.name] for init in loop.inits]
        rows: list[list[Any]] = [[] for _ in loop.targets[len(state) :]]
        order = range(loop.length)
        for number in reversed(order) if loop.reverse else order:
            self.trips += 1
            elements = [names[sequence.name][number] for sequence in loop.sequences]
            results = self._body(loop.body, [*state, *elements], names)
            state = results[: len(state)]
            for column, row in zip(rows, results[len(state) :], strict=True):
                column.append(row)
        stacked = [np.stack(column[::-1] if loop.reverse else column) for column in rows]
        return [*state, *stacked]

    def _map(self, loop: Map, names: Mapping[str, Any]) -> list[Any]:
        columns = []
        for number in range(loop.sequences[0].shape[0]):
            self.trips += 1
            elements = [names[sequence.name][number] for sequence in loop.sequences]
            columns.append(self._body(loop.body, elements, names))
        return [np.stack(rows) for rows in zip(*columns, strict=True)]

    def _branch(self, branch: Branch, names: Mapping[str, Any]) -> list[Any]:
        selector = names[branch.selector.name]
        if branch.selector.dtype == "bool":
            chosen = 0 if selector else 1
        else:
            chosen = min(max(int(selector), 0), len(branch.bodies) - 1)
        arguments = [names[argument.name] for argument in branch.arguments]
        return self._body(branch.bodies[chosen], arguments, names)


def is_float(operand: Operand) -> bool:
    """True for a variable of a float dtype."""
    return isinstance(operand, Variable) and operand.dtype in EXACT_INTEGERS


def _value(operand: Operand, names: Mapping[str, Any]) -> Any:
    return operand.value if isinstance(operand, Number) else names[operand.name]


def _wide(array: Array) -> Array:
    return array if array.dtype.kind in "ib" else array.astype(np.float64)


def _typed(result: Array, target: Variable) -> Array:
    if target.dtype in EXACT_INTEGERS:
        return result.astype(np.float64)
    if target.dtype == "int32" and result.dtype.kind == "f":
        # XLA converts with saturation.
        return np.clip(result, -(2.0**31), 2.0**31 - 1).astype(np.int64).astype(np.int32)
    return result.astype(target.dtype)
