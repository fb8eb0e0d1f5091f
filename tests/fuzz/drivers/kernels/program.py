"""A generated kernel as data: statements that can be dropped one by one, and its Python source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

__all__ = ["Argument", "GeneratedKernel", "Statement"]

_HEADER = '''"""Kernel {seed}, made by a driver of tests/fuzz/drivers."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit(platform_target="{target}")
def kernel({parameters}):
'''


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that the kernel is called with.

    Attributes:
        name: parameter of the kernel.
        shape: its extents.
        dtype: name of a dtype of the language.
        limits: integers lie in [low, high), for indices; None for any value of the dtype.
        written: whether the kernel writes it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    limits: tuple[int, int] | None = None
    written: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """Some lines of the kernel.

    Attributes:
        lines: source, indented relative to the statement.
        defines: names that later statements may use.
        uses: names that it needs.
        body: the statements of a loop, of which ``lines`` is the header.
    """

    lines: tuple[str, ...]
    defines: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    body: tuple[Statement, ...] = ()

    def render(self, indent: str) -> Iterator[str]:
        """Its source lines."""
        yield from (indent + line for line in self.lines)
        for inner in self.body:
            yield from inner.render(indent + "    ")

    def names(self) -> set[str]:
        """Every name that it needs, those of its body included."""
        inner: set[str] = set()
        for statement in self.body:
            inner |= statement.names()
        return set(self.uses) | (inner - set(self.defines))


@dataclass(frozen=True, slots=True)
class GeneratedKernel:
    """A kernel and what it is called with.

    Attributes:
        seed: of the generator.
        target: family it is written for.
        arguments: arrays.
        constants: name -> the two numbers of the two calls.
        statements: its body.
        results: names of the tensors that it returns.
        features: what it has that some ways cannot take, such as ``"writes"``.
    """

    seed: int
    target: str
    arguments: tuple[Argument, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    constants: dict[str, tuple[float, float]] = field(default_factory=dict)
    features: frozenset[str] = frozenset()

    @property
    def writes(self) -> bool:
        """True when the kernel writes an argument."""
        return any(self.is_written(argument) for argument in self.arguments)

    def is_written(self, argument: Argument) -> bool:
        """Return True when the kernel writes that argument."""
        start = f"nisa.dma_copy({argument.name},"
        return any(
            line.startswith(start) for statement in self.statements for line in statement.lines
        )

    def source(self) -> str:
        """A Python module with the function ``kernel``."""
        parameters = ", ".join([*(argument.name for argument in self.arguments), *self.constants])
        lines = [line for statement in self.statements for line in statement.render("    ")]
        returned = ", ".join(self.results) + ("," if len(self.results) == 1 else "")
        text = _HEADER.format(seed=self.seed, target=self.target, parameters=parameters)
        launched = "\n\nkernel = kernel[2]\n" if "cores" in self.features else ""
        return text + "\n".join([*lines, f"    return ({returned})"]) + "\n" + launched

    def smaller(self) -> Iterator[GeneratedKernel]:
        """The kernel with less in it: without a result, or without a statement and its users."""
        for name in self.results if len(self.results) > 1 else ():
            yield self._keeping(
                self.statements, [result for result in self.results if result != name]
            )
        for number in reversed(range(len(self.statements))):
            yield self._keeping(
                [*self.statements[:number], *self.statements[number + 1 :]], self.results
            )
            statement = self.statements[number]
            for inner in reversed(range(len(statement.body))):
                body = statement.body[:inner] + statement.body[inner + 1 :]
                if body:
                    changed = replace(statement, body=body)
                    yield self._keeping(
                        [*self.statements[:number], changed, *self.statements[number + 1 :]],
                        self.results,
                    )

    def _keeping(self, statements: Iterable[Statement], results: Iterable[str]) -> GeneratedKernel:
        """With what has all that it needs, and nothing that no result depends on."""
        defined = {argument.name for argument in self.arguments} | set(self.constants)
        remaining_statements: list[Statement] = []
        for statement in statements:
            if statement.names() <= defined:
                remaining_statements.append(statement)
                defined |= set(statement.defines)
        return replace(
            self,
            statements=tuple(remaining_statements),
            results=tuple(name for name in results if name in defined),
        )
