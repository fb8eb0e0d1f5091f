"""The state of one generation: names in scope, statements of the body that is being drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tests.fuzz.drivers.loop_nests.nodes import Compute, Number, Operand, Statement, Variable

__all__ = ["NUMERIC", "Maker", "Type"]

NUMERIC = ("float32", "bfloat16", "int32")
Type = tuple[tuple[int, ...], str]


class Maker:
    """Draws from a seed.

    Attributes:
        chance: the source of all choices.
        rows, columns: the extents that most arrays of the program have.
        scopes: the names of each body around, the innermost last.
        statements: of the innermost body.
        budget: statements that may still be drawn.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(f"loop nest {seed}")
        self.rows = self.chance.choice((1, 2, 3, 4, 5, 6, 8, 8, 12, 130))
        self.columns = self.chance.choice((1, 3, 4, 5, 7, 8, 16))
        self.scopes: list[list[Variable]] = [[]]
        self.statements: list[Statement] = []
        self.budget = self.chance.choice((5, 8, 12, 18, 30))
        self._count = 0
        self._read: set[str] = set()

    def variable(self, shape: tuple[int, ...], dtype: str, prefix: str = "v") -> Variable:
        """A new name; it is not in scope yet."""
        self._count += 1
        return Variable(f"{prefix}{self._count}", shape, dtype)

    def read(self, *variables: Variable) -> None:
        """Note that a statement with bodies, or a body's result, reads names."""
        self._read.update(variable.name for variable in variables)

    def bind(self, *variables: Variable) -> None:
        """Bring names into the innermost scope."""
        self.scopes[-1].extend(variables)

    @contextmanager
    def body(self, parameters: Sequence[Variable]) -> Iterator[list[Statement]]:
        """A body's scope; the list holds its statements afterwards."""
        outer, self.statements = self.statements, []
        self.scopes.append(list(parameters))
        try:
            yield self.statements
        finally:
            self.scopes.pop()
            self.statements = outer

    def visible(self) -> list[Variable]:
        """Every name that a statement may read here."""
        return [variable for scope in self.scopes for variable in scope]

    def pick(self, fits: Callable[[Variable], bool]) -> Variable | None:
        """A visible name: one of the innermost body, or as often one of a body around it."""
        scopes = [[variable for variable in scope if fits(variable)] for scope in self.scopes]
        scopes = [scope for scope in scopes if scope]
        if not scopes:
            return None
        inner = self.chance.random() < 0.5
        scope = scopes[-1] if inner else self.chance.choice(scopes)
        unread = [variable for variable in scope if variable.name not in self._read]
        if unread and self.chance.random() < 0.6:
            scope = unread
        last = max(self.chance.randrange(len(scope)), self.chance.randrange(len(scope)))
        return scope[last]

    def unread(self) -> list[Variable]:
        """Names of the innermost body that nothing has read yet."""
        return [variable for variable in self.scopes[-1] if variable.name not in self._read]

    def pick_type(self, value_type: Type) -> Variable | None:
        """A visible name of a type."""
        return self.pick(lambda variable: variable.type == value_type)

    def compute(
        self,
        operator: str,
        operands: Sequence[Operand],
        shape: tuple[int, ...],
        dtype: str,
        *parameters: int,
    ) -> Variable:
        """Add a statement; its target."""
        target = self.variable(shape, dtype)
        self._read.update(operand.name for operand in operands if isinstance(operand, Variable))
        self.statements.append(Compute(target, operator, tuple(operands), parameters))
        self.bind(target)
        self.budget -= 1
        return target

    def value(self, value_type: Type) -> Variable:
        """A visible value of a type; made of others when there is none."""
        shape, dtype = value_type
        present = self.pick_type(value_type)
        if present is not None and self.chance.random() < 0.9:
            return present
        scalar = self.pick_type(((), dtype))
        if shape and scalar is not None and self.chance.random() < 0.5:
            return self.compute("broadcast", [scalar], shape, dtype)
        if dtype == "bool":
            count = self.value((shape, "int32"))
            return self.compute(
                "greater", [count, Number(self.chance.randrange(-3, 4))], shape, dtype
            )
        return self.compute("full", [Number(self.chance.randrange(-3, 4))], shape, dtype)

    def index(self) -> Operand:
        """A position: a counter or another scalar integer, sometimes outside, or a literal."""
        if self.chance.random() < 0.1:
            return Number(self.chance.randrange(-1, 3))
        scalar = self.pick_type(((), "int32"))
        return scalar if scalar is not None else Number(0)

    def bounded(self, most: int) -> Variable | None:
        """A scalar integer of 0 to ``most`` that depends on data."""
        scalar = self.pick_type(((), "int32"))
        if scalar is None:
            return None
        return self.compute("remainder", [scalar, Number(most + 1)], (), "int32")

    def type(self) -> Type:
        """A type of the program's extents."""
        rows, columns = self.rows, self.columns
        shapes = ((), (), (columns,), (rows,), (rows, columns), (rows, columns), (rows, columns))
        dtype = self.chance.choice(("float32",) * 6 + ("int32",) * 4 + ("bfloat16", "bool"))
        return self.chance.choice(shapes), dtype
