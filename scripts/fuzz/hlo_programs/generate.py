"""A random HLO module from a seed: opcodes, types and attributes that JAX writes, and those it does not."""

from __future__ import annotations

import math
import random

from programs import Argument, Statement, Value

from hlo_programs.grids import grid
from hlo_programs.program import HloProgram
from hlo_programs.steps import STEPS

__all__ = ["Maker", "module"]

LARGEST = 2000
SHAPES = (
    (),
    (1,),
    (7,),
    (2, 3),
    (4, 4),
    (3, 1),
    (2, 3, 4),
    (40,),
    (5, 9),
    (2, 2, 3, 3),
    (16, 8),
    (0, 3),
)
DTYPES = ("float32",) * 8 + ("int32",) * 3 + (
    "bfloat16", "float16", "float64", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64",
    "bool", "float8_e4m3fn", "float8_e5m2", "complex64", "int4", "uint4",
)  # fmt: skip


class Maker:
    """State of one generation."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.values: list[Value] = []
        self.arguments: list[Argument] = []
        self.statements: list[Statement] = []

    def argument(self, shape: tuple[int, ...], dtype: str, edges: float) -> Value:
        value = Value(f"x{len(self.arguments)}", shape, dtype)
        self.arguments.append(Argument(value, edges))
        self.values.append(value)
        return value

    def pick(
        self, kinds: str = "fiubc", *, exact: bool = False, rank: int | None = None,
        dtypes: tuple[str, ...] = (), shape: tuple[int, ...] | None = None,
    ) -> Value | None:  # fmt: skip
        """A value of a kind, the later the likelier."""
        fits = [
            one for one in self.values
            if one.kind in kinds and (one.exact or not exact) and (rank is None or one.rank == rank)
            and (not dtypes or one.dtype in dtypes) and (shape is None or one.shape == shape)
        ]  # fmt: skip
        if not fits:
            return None
        return fits[max(self.chance.randrange(len(fits)), self.chance.randrange(len(fits)))]

    def like(self, value: Value, *, exact: bool = False) -> Value:
        """A value of the same type; it itself when there is no other."""
        return self.pick(dtypes=(value.dtype,), shape=value.shape, exact=exact) or value

    def emit(
        self, text: str, shape: tuple[int, ...], dtype: str, uses: tuple[Value, ...] = (), *,
        exact: bool = True, jumps: bool = False, called: tuple[str, ...] = (),
    ) -> Value | None:  # fmt: skip
        """Add an instruction; None when it is too large."""
        if math.prod(shape) > LARGEST:
            return None
        keeps = exact and all(one.exact for one in uses)
        made = Value(f"v{len(self.statements)}", shape, dtype, keeps)
        names = tuple(dict.fromkeys(one.name for one in uses))
        self.statements.append(Statement(made, text, names, jumps, called))
        self.values.append(made)
        return made

    def number(self, text: str, dtype: str) -> Value:
        """A scalar constant."""
        made = self.emit(f"constant({text})", (), dtype)
        assert made is not None
        return made


def module(seed: int) -> HloProgram:
    """The module of a seed; a third of them are on special values: of one step, or of each of a kind."""
    make = Maker(seed)
    single = make.chance.random() < 0.3
    shape = make.chance.choice(SHAPES)
    for _ in range(make.chance.randrange(1, 4)):
        same = make.chance.random() < 0.6
        edges = make.chance.choice((0.5, 0.9)) if single else make.chance.choice((0.0, 0.0, 0.3))
        given = make.argument(
            shape if same else make.chance.choice(SHAPES), make.chance.choice(DTYPES), edges
        )
        if make.chance.random() < 0.5:
            make.argument(given.shape, given.dtype, edges)
    if single and make.chance.random() < 0.5 and grid(make):
        names = tuple(one.made.name for one in make.statements)
        return HloProgram(seed, tuple(make.arguments), tuple(make.statements), names)
    wanted = 1 if single else make.chance.randrange(2, 12)
    done = 0
    for _ in range(8 * wanted):
        step, _ = make.chance.choices(STEPS, [weight for _, weight in STEPS])[0]
        done += step(make) is not None
        if done == wanted:
            break
    if not make.statements:
        return module(seed + 1_000_000_007)
    names = [one.made.name for one in make.statements]
    results = make.chance.sample(names, min(len(names), make.chance.randrange(1, 4)))
    chosen = tuple(dict.fromkeys([*results, names[-1]]))
    whole = HloProgram(seed, tuple(make.arguments), tuple(make.statements), chosen)
    return whole.needed(chosen)  # type: ignore[return-value]
