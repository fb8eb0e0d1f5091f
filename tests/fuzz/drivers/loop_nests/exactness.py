"""Programs whose floats stay integers that their dtypes hold, so that every difference is a fault."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from tests.fuzz.drivers.loop_nests.interpret import Interpreter, RunawayError
from tests.fuzz.drivers.loop_nests.nodes import (
    Body,
    Branch,
    Compute,
    Input,
    Nest,
    Statement,
    WhileLoop,
)

__all__ = ["CALLS", "arrays_of", "exact_nest", "mapped", "typed_arrays"]

Array = np.ndarray[Any, Any]
CALLS = 2
"""Sets of data that each program runs with."""
MAX_REPAIRS = 12
BOUNDS = {"float32": 99, "bfloat16": 3}
"""Where values are clipped: sums of as many of them as a program adds are exact."""


def arrays_of(nest: Nest, call: int) -> list[Array]:
    """The arguments of a call; each depends on its name and the seed alone."""
    return [_array(argument, nest.seed + call) for argument in nest.inputs]


def _array(argument: Input, seed: int) -> Array:
    variable = argument.variable
    chance = np.random.default_rng((zlib.crc32(variable.name.encode()), seed))
    values = chance.integers(argument.low, argument.high + 1, variable.shape)
    return np.asarray(values).astype(getattr(ml_dtypes, variable.dtype, variable.dtype))


def typed_arrays(nest: Nest, results: list[Array]) -> list[Array]:
    """The interpreter's results in the dtypes of the program's."""
    typed = []
    for result, array in zip(nest.body.results, results, strict=True):
        dtype = getattr(ml_dtypes, result.dtype, result.dtype)
        typed.append(np.asarray(array).astype(dtype))
    return typed


def exact_nest(nest: Nest) -> Nest | None:
    """The nest with as many values clipped as it takes; None when it runs too long or stays inexact."""
    for _ in range(MAX_REPAIRS):
        inexact: set[str] = set()
        for call in range(CALLS):
            interpreter = Interpreter()
            try:
                interpreter.run(nest, arrays_of(nest, call))
            except RunawayError:
                return None
            inexact |= interpreter.inexact
        if not inexact:
            return nest
        clipped = replace(nest, body=_clipped(nest.body, inexact))
        if clipped == nest:
            return None
        nest = clipped
    return None


def _clipped(body: Body, names: set[str]) -> Body:
    def clip(statement: Statement) -> Statement:
        if isinstance(statement, Compute) and statement.target.name in names:
            return replace(statement, bound=BOUNDS[statement.target.dtype])
        return statement

    return mapped(body, clip)


def mapped(body: Body, change: Callable[[Statement], Statement]) -> Body:
    """A body with each statement changed, also those of the bodies within."""
    statements = []
    for statement in body.statements:
        match statement:
            case Compute():
                pass
            case WhileLoop():
                test, inner = mapped(statement.test, change), mapped(statement.body, change)
                statement = replace(statement, test=test, body=inner)
            case Branch():
                bodies = tuple(mapped(inner, change) for inner in statement.bodies)
                statement = replace(statement, bodies=bodies)
            case _:
                statement = replace(statement, body=mapped(statement.body, change))
        statements.append(change(statement))
    return replace(body, statements=tuple(statements))
