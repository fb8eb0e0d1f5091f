"""A random HLO module from a seed: opcodes, types and attributes that JAX writes, and those it does not."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

from tests.fuzz.drivers.hlo_programs.grids import grid
from tests.fuzz.drivers.hlo_programs.parts import array_constant
from tests.fuzz.drivers.hlo_programs.program import HloProgram, body, typed
from tests.fuzz.drivers.hlo_programs.steps import SIMPLE, STEPS, Steps
from tests.fuzz.drivers.programs import Argument, Statement, Value

__all__ = ["Maker", "module"]

MAX_ELEMENTS = 2000
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
    "float8_e4m3", "float8_e3m4", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz",
)  # fmt: skip


class Inner(NamedTuple):
    """A computation that others call.

    Attributes:
        name: of the computation.
        used: which of the arguments it has.
        exact: whether nothing in it rounds.
        called: its text, after those of what it calls.
    """

    name: str
    used: tuple[int, ...]
    exact: bool
    called: tuple[str, ...]


class Maker:
    """State of one generation."""

    def __init__(self, seed: int, tag: str = "") -> None:
        self.chance = random.Random(seed)
        self._tag, self._names, self._depth, self._is_closed = tag, 0, tag.count("_"), False
        self.values: list[Value] = []
        self.arguments: list[Argument] = []
        self.statements: list[Statement] = []

    def argument(self, shape: tuple[int, ...], dtype: str, edges: float) -> Value:
        """A parameter of the module; in a computation that is called, a constant."""
        if self._is_closed:
            constant = array_constant(self, shape, dtype, 0 if dtype[0] == "u" else -2)
            assert constant is not None, "arguments are small"
            return constant
        value = Value(f"x{len(self.arguments)}{self._tag}", shape, dtype)
        self.arguments.append(Argument(value, edges))
        self.values.append(value)
        return value

    def pick(
        self, kinds: str = "fiubc", *, exact: bool = False, rank: int | None = None,
        dtypes: tuple[str, ...] = (), shape: tuple[int, ...] | None = None,
    ) -> Value | None:  # fmt: skip
        """A value of a kind, the later the likelier."""
        fits = [
            value for value in self.values
            if value.kind in kinds and (value.exact or not exact) and (rank is None or value.rank == rank)
            and (not dtypes or value.dtype in dtypes) and (shape is None or value.shape == shape)
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
        if math.prod(shape) > MAX_ELEMENTS:
            return None
        keeps = exact and all(operand.exact for operand in uses)
        result = Value(f"v{len(self.statements)}{self._tag}", shape, dtype, keeps)
        names = tuple(dict.fromkeys(operand.name for operand in uses))
        self.statements.append(Statement(result, text, names, jumps, called))
        self.values.append(result)
        return result

    def number(self, text: str, dtype: str) -> Value:
        """A scalar constant."""
        value = self.emit(f"constant({text})", (), dtype)
        assert value is not None
        return value

    def unique(self, name: str) -> str:
        """The name of a computation, which no other has."""
        self._names += 1
        return f"{name}_{self._names}{self._tag}"

    def inner(self, name: str, outer: tuple[Value, ...], *, simple: bool = False) -> Inner:
        """A computation of some random instructions that gives a value like its first argument.

        Args:
            name: the computation's.
            outer: values like its arguments.
            simple: for a fusion: nothing that calls, and nothing unused.
        """
        make = Maker(self.chance.getrandbits(32), f"{self._tag}_{self._names}")
        for value in outer:
            make.argument(value.shape, value.dtype, 0.0)
        make._is_closed = True
        _grow(make, self.chance.randrange(1, 5), SIMPLE if simple or self._depth else STEPS)
        like = make.arguments[0].value
        last = make.pick(dtypes=(like.dtype,), shape=like.shape) or like
        drawn = HloProgram(0, tuple(make.arguments), tuple(make.statements), (last.name,))
        reduced = drawn.needed((last.name,))
        used = [n for n, argument in enumerate(make.arguments)
                if not simple or argument in reduced.arguments or argument.value is last]  # fmt: skip
        lines = body([make.arguments[n].value for n in used], reduced.statements, typed)
        lines.append(f"  ROOT last = {typed(last)} copy({last.name})")
        called = [text for statement in reduced.statements for text in statement.called]
        return Inner(
            name, tuple(used), last.exact, (*called, "\n".join([f"{name} {{", *lines, "}"]))
        )


def _grow(make: Maker, count: int, steps: Steps) -> None:
    """Add that many instructions, if so many fit."""
    done = 0
    for _ in range(8 * count):
        step, _ = make.chance.choices(steps, [weight for _, weight in steps])[0]
        done += step(make) is not None
        if done == count:
            break


def module(seed: int) -> HloProgram:
    """The module of a seed; a third of them are on special values: of one step, or of each of a kind."""
    make = Maker(seed)
    single = make.chance.random() < 0.3
    shape = make.chance.choice(SHAPES)
    for _ in range(make.chance.randrange(1, 4)):
        same = make.chance.random() < 0.6
        edges = make.chance.choice((0.5, 0.9)) if single else make.chance.choice((0.0, 0.0, 0.3))
        first = make.argument(
            shape if same else make.chance.choice(SHAPES), make.chance.choice(DTYPES), edges
        )
        if make.chance.random() < 0.5:
            make.argument(first.shape, first.dtype, edges)
    if single and make.chance.random() < 0.5 and grid(make):
        names = tuple(statement.result.name for statement in make.statements)
        return HloProgram(seed, tuple(make.arguments), tuple(make.statements), names)
    _grow(make, 1 if single else make.chance.randrange(2, 12), STEPS)
    if not make.statements:
        return module(seed + 1_000_000_007)
    names = [statement.result.name for statement in make.statements]
    results = make.chance.sample(names, min(len(names), make.chance.randrange(1, 4)))
    chosen = tuple(dict.fromkeys([*results, names[-1]]))
    drawn = HloProgram(seed, tuple(make.arguments), tuple(make.statements), chosen)
    return drawn.needed(chosen)  # type: ignore[return-value]
