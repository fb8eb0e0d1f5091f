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
from programs import Argument, Statement, Value

from jax_programs.program import JaxProgram
from jax_programs.steps import STEPS, Step

__all__ = ["Maker", "program"]

SCOPE: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax}
LARGEST = 3000
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
            one for one in self.values
            if one.kind in kinds and (one.exact or not exact) and (rank is None or one.rank == rank)
        ]  # fmt: skip
        if not fits:
            return None
        return fits[max(self.chance.randrange(len(fits)), self.chance.randrange(len(fits)))]

    def like(self, value: Value, *, exact: bool = False) -> Value:
        """A value that broadcasts with this one, of the same dtype; it itself when there is no other."""
        fits = [
            one for one in self.values
            if one.dtype == value.dtype and (one.exact or not exact) and _meets(one.shape, value.shape)
        ]  # fmt: skip
        return self.chance.choice(fits) if fits else value

    def take(self, step: Step) -> bool:
        """Add a step's expression; False when there is nothing for it, or JAX refuses."""
        proposed = step.propose(self)
        if proposed is None:
            return False
        text, uses, exact = proposed
        found = inferred(text, uses, wide=self.wide)
        if found is None or int(np.prod(found[0])) > LARGEST:
            return False
        made = Value(f"v{len(self.statements)}", *found, exact and all(one.exact for one in uses))
        self.statements.append(
            Statement(made, text, tuple(dict.fromkeys(one.name for one in uses)), step.jumps)
        )
        self.values.append(made)
        return True


def _meets(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        return False
    return True


def inferred(
    text: str, uses: tuple[Value, ...], *, wide: bool
) -> tuple[tuple[int, ...], str] | None:
    """Shape and dtype of an expression; None when JAX refuses it, or it is no array."""
    given = {
        one.name: jax.ShapeDtypeStruct(one.shape, getattr(ml_dtypes, one.dtype, None) or np.dtype(one.dtype))
        for one in uses
    }  # fmt: skip
    function: Callable[..., Any] = eval(f"lambda {', '.join(given)}: {text}", SCOPE)
    try:
        with warnings.catch_warnings(), jax.enable_x64(wide):
            warnings.simplefilter("ignore")
            found = jax.eval_shape(function, *given.values())
    except (
        TypeError,
        ValueError,
        OverflowError,
        IndexError,
        NotImplementedError,
        ZeroDivisionError,
    ):
        return None
    if not isinstance(found, jax.ShapeDtypeStruct) or found.dtype.name == "key<fry>":
        return None
    return tuple(found.shape), found.dtype.name


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
        given = make.argument(shape if same else make.chance.choice(SHAPES), dtype, edges)
        if same and make.chance.random() < 0.7:
            make.argument(shape, given.dtype, edges)
    wanted = 1 if single else make.chance.randrange(2, 10)
    weights = [one.weight for one in STEPS]
    for _ in range(8 * wanted):
        if len(make.statements) == wanted:
            break
        make.take(make.chance.choices(STEPS, weights)[0])
    if not make.statements:
        return program(seed + 1_000_000_007)
    names = [one.made.name for one in make.statements]
    results = make.chance.sample(names, min(len(names), make.chance.randrange(1, 4)))
    chosen = tuple(dict.fromkeys([*results, names[-1]]))
    whole = JaxProgram(seed, tuple(make.arguments), tuple(make.statements), chosen, make.wide)
    return whole.needed(chosen)
