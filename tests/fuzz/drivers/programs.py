"""A generated program as data: statements that can be dropped one by one."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["Argument", "Program", "Statement", "Value"]

FLOAT_GRID = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-30, 1e30, -3e38,
    100.7, -100.7, 65504.0, 448.0, 2147483648.0, -2147483904.0, 16777217.0, 0.49999997, 8388609.0,
)  # fmt: skip


SUMMED = re.compile(
    r"grad|einsum|dot|matmul|inner|outer|conv|window|random|scan|reduce|sum|scatter|fft|call\(|fusion\(|conditional\(|\.(max|min)\(\)"
)
"""Operations that XLA may sum in another order, or with other zeros; -0.0 and 0.0 are equal maxima."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the program.

    Attributes:
        name: of its variable.
        shape: its extents.
        dtype: name.
        exact: no rounding stands before it, so that a step may jump on it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    exact: bool = True

    @property
    def kind(self) -> str:
        """``f``, ``i``, ``u``, ``b`` or ``c``."""
        if "float" in self.dtype:
            return "f"
        return (
            self.dtype[0]
            if self.dtype[-1] == "4" and "int" in self.dtype
            else np.dtype(self.dtype).kind
        )

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that the program is called with.

    Attributes:
        value: name, shape, dtype.
        edges: share of special values.
    """

    value: Value
    edges: float = 0.0

    def make(self, seed: int) -> np.ndarray[Any, Any]:
        """Its elements; they depend on the name and the seed alone."""
        chance = np.random.default_rng((zlib.crc32(self.value.name.encode()), seed))
        shape, dtype = self.value.shape, self.value.dtype
        if self.value.kind == "b":
            return chance.random(shape) < 0.5
        if self.value.kind in "iu":
            if dtype in ("int4", "uint4"):
                return chance.integers(-8 if dtype == "int4" else 0, 8, shape).astype(
                    getattr(ml_dtypes, dtype)
                )
            info = np.iinfo(dtype)
            small = chance.integers(max(info.min, -9), 10, shape)
            grid = [info.min, info.max, info.min + 1, info.max - 1, 0, 1, 7, 31, 32, 64]
            edges = chance.choice(np.array(grid, dtype), shape)
            wide = chance.integers(info.min, info.max, shape, dtype, endpoint=True)
            edges = np.where(chance.random(shape) < 0.5, edges, wide)
            share = max(self.edges, 0.1)
            return np.where(chance.random(shape) < share, edges, small.astype(dtype))
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        plain = chance.standard_normal(shape) * chance.choice([0.5, 1.0, 3.0])
        if self.value.kind == "c":
            return (plain + 1j * chance.standard_normal(shape)).astype(kind)
        mixed = np.where(chance.random(shape) < self.edges, chance.choice(FLOAT_GRID, shape), plain)
        with np.errstate(all="ignore"):
            return mixed.astype(kind)


@dataclass(frozen=True, slots=True)
class Statement:
    """``name = text``.

    Attributes:
        result: the value that it defines.
        text: expression.
        uses: names of the values that it reads.
        jumps: whether a small change of an operand may be a large one of the result.
        called: definitions that the text refers to.
    """

    result: Value
    text: str
    uses: tuple[str, ...]
    jumps: bool = False
    called: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A program and what it is called with; a subclass has its language.

    Attributes:
        seed: of the generator.
        arguments: arrays.
        statements: its body.
        results: names of what it returns.
        wide: whether 64-bit types are on.
    """

    seed: int
    arguments: tuple[Argument, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    wide: bool = False

    def source(self) -> str:
        """Its text."""
        raise NotImplementedError

    def arrays(self, call: int = 0) -> list[np.ndarray[Any, Any]]:
        """The arguments of a call."""
        return [argument.make(self.seed + call) for argument in self.arguments]

    def shown(self) -> str:
        """Its source with its arguments, as a comment."""
        lines = [
            f"# {argument.value.name}: {array.dtype}{list(array.shape)} {array.tolist()}"[:1500]
            for argument, array in zip(self.arguments, self.arrays(), strict=True)
        ]
        return "\n".join([*lines, self.source()])

    @property
    def is_smooth(self) -> bool:
        """True when a rounded operand changes the results only a little."""
        return not any(statement.jumps for statement in self.statements)

    @property
    def is_plain(self) -> bool:
        """True when no operation sums or reads another's result, so that elements are compared one by one."""
        argument_names = {argument.value.name for argument in self.arguments}
        return all(
            argument_names.issuperset(statement.uses) and not SUMMED.search(statement.text)
            for statement in self.statements
        )

    def smaller(self) -> Iterator[Program]:
        """With one result, or a statement as an argument instead, or an argument without edges."""
        if len(self.results) > 1:
            yield from (self.needed((name,)) for name in self.results)
        for number in reversed(range(len(self.statements))):
            statement = self.statements[number]
            if statement.result.name in self.results:
                for used in statement.uses:
                    yield self.needed((used,)) if self._is_made(used) else self
            statements = (*self.statements[:number], *self.statements[number + 1 :])
            arguments = (*self.arguments, Argument(replace(statement.result, exact=True)))
            yield replace(self, statements=statements, arguments=arguments).needed(self.results)
        for number, argument in enumerate(self.arguments):
            if argument.edges:
                plain = replace(argument, edges=0.0)
                changed = (*self.arguments[:number], plain, *self.arguments[number + 1 :])
                yield replace(self, arguments=changed)

    def _is_made(self, name: str) -> bool:
        return any(statement.result.name == name for statement in self.statements)

    def needed(self, results: tuple[str, ...]) -> Program:
        """Return the program with only the statements and arguments that the results need."""
        needed = set(results)
        reversed_statements: list[Statement] = []
        for statement in reversed(self.statements):
            if statement.result.name in needed:
                reversed_statements.append(statement)
                needed |= set(statement.uses)
        return replace(
            self,
            statements=tuple(reversed(reversed_statements)),
            arguments=tuple(
                argument for argument in self.arguments if argument.value.name in needed
            ),
            results=results,
        )
