"""A random JAX program from a seed.

A step proposes an expression from the values that are there; ``jax.eval_shape`` says what comes
out of it, and whether JAX takes it at all, so that JAX's rules stand in one place. Steps that jump
(comparisons, rounding, casts to integers, sorts) read exact values only: a jump behind a rounding
error is no difference.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from tests.fuzz.drivers.jax_programs.program import JaxProgram
from tests.fuzz.drivers.jax_programs.steps import STEPS, Step
from tests.fuzz.drivers.programs import Argument, Statement, Value

__all__ = ["Maker", "program"]

SCOPE: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax}
MAX_ELEMENTS = 3000
"""Elements of a value."""
SHAPES = (
    (), (1,), (7,), (2, 3), (4, 4), (3, 1), (2, 3, 4), (130,), (5, 33), (1, 6), (2, 2, 3, 3),
    (129, 2), (16, 8), (0, 3),
)  # fmt: skip
DTYPES = ("float32",) * 8 + (
    "bfloat16", "float16", "int32", "int32", "int32", "uint32", "int16", "uint16", "int8", "uint8", "bool",
)  # fmt: skip
WIDE = ("int64", "uint64", "int64", "float64")


class Proposal(NamedTuple):
    """An expression and whether what it gives is exact."""

    text: str
    uses: tuple[Value, ...]
    exact: bool


class Maker:
    """State of one generation."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.values: list[Value] = []
        self.arguments: list[Argument] = []
        self.statements: list[Statement] = []
        self.wide = self.chance.random() < 0.12

    def argument(self, shape: tuple[int, ...], dtype: str, edges: float) -> Value:
        value = Value(f"x{len(self.arguments)}", shape, dtype)
        self.arguments.append(Argument(value, edges))
        self.values.append(value)
        return value

    def pick(
        self, kinds: str = "fiub", *, exact: bool = False, rank: int | None = None
    ) -> Value | None:
        """A value of a kind, the later the likelier."""
        fits = [
            value for value in self.values
            if value.kind in kinds and (value.exact or not exact) and (rank is None or value.rank == rank)
        ]  # fmt: skip
        if not fits:
            return None
        return fits[max(self.chance.randrange(len(fits)), self.chance.randrange(len(fits)))]

    def like(self, value: Value, *, exact: bool = False) -> Value:
        """A value that broadcasts with this one, of the same dtype; it itself when there is no other."""
        fits = [
            candidate for candidate in self.values
            if candidate.dtype == value.dtype and (candidate.exact or not exact) and _meets(candidate.shape, value.shape)
        ]  # fmt: skip
        return self.chance.choice(fits) if fits else value

    def take(self, step: Step) -> bool:
        """Add a step's expression; False when there is nothing for it, or JAX refuses."""
        proposed = step.propose(self)
        if proposed is None:
            return False
        text, uses, exact = proposed
        shape_and_dtype = inferred(text, uses, wide=self.wide)
        if shape_and_dtype is None or int(np.prod(shape_and_dtype[0])) > MAX_ELEMENTS:
            return False
        result = Value(
            f"v{len(self.statements)}",
            *shape_and_dtype,
            exact and all(operand.exact for operand in uses),
        )
        self.statements.append(
            Statement(
                result, text, tuple(dict.fromkeys(operand.name for operand in uses)), step.jumps
            )
        )
        self.values.append(result)
        return True


def _meets(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(left, right)
    except ValueError:
        return False
    return True


def inferred(
    text: str, uses: tuple[Value, ...], *, wide: bool
) -> tuple[tuple[int, ...], str] | None:
    """Shape and dtype of an expression; None when JAX refuses it, or it is no array."""
    specs = {
        operand.name: jax.ShapeDtypeStruct(operand.shape, getattr(ml_dtypes, operand.dtype, None) or np.dtype(operand.dtype))
        for operand in uses
    }  # fmt: skip
    function: Callable[..., Any] = eval(f"lambda {', '.join(specs)}: {text}", SCOPE)
    try:
        with warnings.catch_warnings(), jax.enable_x64(wide):
            warnings.simplefilter("ignore")
            result = jax.eval_shape(function, *specs.values())
    except (
        TypeError,
        ValueError,
        OverflowError,
        IndexError,
        NotImplementedError,
        ZeroDivisionError,
    ):
        return None
    if not isinstance(result, jax.ShapeDtypeStruct) or result.dtype.name == "key<fry>":
        return None
    return tuple(result.shape), result.dtype.name


def program(seed: int) -> JaxProgram:
    """The program of a seed; a third of them are of one step, on grids of special values."""
    make = Maker(seed)
    single = make.chance.random() < 0.35
    shape = make.chance.choice(SHAPES)
    for _ in range(make.chance.randrange(1, 4)):
        same = make.chance.random() < 0.6
        dtype = make.chance.choice(DTYPES)
        if make.wide and make.chance.random() < 0.5:
            dtype = make.chance.choice(WIDE)
        edges = make.chance.choice((0.5, 0.9)) if single else make.chance.choice((0.0, 0.0, 0.3))
        first = make.argument(shape if same else make.chance.choice(SHAPES), dtype, edges)
        if same and make.chance.random() < 0.7:
            make.argument(shape, first.dtype, edges)
    count = 1 if single else make.chance.randrange(2, 10)
    weights = [step.weight for step in STEPS]
    for _ in range(8 * count):
        if len(make.statements) == count:
            break
        make.take(make.chance.choices(STEPS, weights)[0])
    if not make.statements:
        return program(seed + 1_000_000_007)
    names = [statement.result.name for statement in make.statements]
    results = make.chance.sample(names, min(len(names), make.chance.randrange(1, 4)))
    chosen = tuple(dict.fromkeys([*results, names[-1]]))
    drawn = JaxProgram(seed, tuple(make.arguments), tuple(make.statements), chosen, make.wide)
    return drawn.needed(chosen)
