"""The state that the rewrites of one function share."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import libcst as cst

from hlo_tools.migrate.facts import CallFact, Fact, Facts, IndexFact, NumberFact, TileFact
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.source import Scope, Source, text_of

__all__ = ["Context"]


@dataclass(slots=True)
class Context:
    """The state of a rewrite.

    Attributes:
        source: the file.
        facts: what the run recorded.
        rewrite: rewrites an expression.
        scope: of the function that is rewritten.
        before: statements to put before the statement that is rewritten.
        guards: conditions under which instructions run.
        literals: lines where a number of the recorded run replaces an unknown text.
        used_names: names that the file uses.
        nki: name of ``nki`` in the file.
        nl: name of ``nki.language`` in the file.
        nisa: name of ``nki.isa`` in the file.
        imports: statements that import modules which the result needs.
        grid_kernels: kernels that ask for their program.
    """

    source: Source
    facts: Facts
    rewrite: Callable[[cst.BaseExpression], cst.BaseExpression]
    scope: Scope
    nki: str = "nki"
    nl: str = "nl"
    nisa: str = "nisa"
    before: list[str] = field(default_factory=list[str])
    guards: list[str] = field(default_factory=list[str])
    literals: set[int] = field(default_factory=set[int])
    used_names: set[str] = field(default_factory=set[str])
    imports: set[str] = field(default_factory=set[str])
    grid_kernels: frozenset[str] = frozenset()

    @contextmanager
    def under(self, guards: Sequence[str]) -> Generator[None]:
        """Put the instructions that are issued under conditions."""
        outer, self.guards = self.guards, list(guards)
        try:
            yield
        finally:
            self.guards = outer

    def all_facts(self, node: cst.BaseExpression) -> set[Fact]:
        """Return every fact of an expression."""
        return set(self.facts.of(self.source.place(node)))

    def tile(self, node: cst.BaseExpression) -> TileFact | None:
        """Return a fact of an expression that is a tile in every run, else None.

        Raises:
            Unmigrated: NKI-M005; it is a tile in one run and something else in another.
        """
        facts = self.all_facts(node)
        tiles = sorted((fact for fact in facts if isinstance(fact, TileFact)), key=repr)
        if tiles and len(tiles) != len(facts):
            raise Unmigrated("NKI-M005", text_of(node), "it is a tile in one call and none in another",
                             "write one function for each kind of value")  # fmt: skip
        return tiles[0] if tiles else None

    def tiles(self, node: cst.BaseExpression) -> list[TileFact]:
        """Return all facts of a tile."""
        self.tile(node)
        return [fact for fact in self.all_facts(node) if isinstance(fact, TileFact)]

    def index(self, node: cst.BaseExpression) -> IndexFact | None:
        """Return the fact of an index expression whose steps are the same in every run.

        Raises:
            Unmigrated: NKI-M003; its steps depend on the call.
        """
        facts = self.all_facts(node)
        indices = [fact for fact in facts if isinstance(fact, IndexFact)]
        if not indices:
            return None
        if len(indices) != len(facts) or len({fact.steps for fact in indices}) > 1:
            raise Unmigrated("NKI-M003", text_of(node), "its steps differ between calls",
                             "write slices with a step, or one function for each case")  # fmt: skip
        return indices[0]

    def is_number(self, node: cst.BaseExpression) -> bool:
        """Return True for an expression that is a number in every run."""
        facts = self.all_facts(node)
        if isinstance(node, (cst.Integer, cst.Float)):
            return True
        return bool(facts) and all(isinstance(fact, NumberFact) for fact in facts)

    def calls(self, node: cst.Call) -> set[CallFact]:
        """Return the facts of a call."""
        return self.facts.calls.get(self.source.place(node), set())

    def text(self, node: cst.BaseExpression) -> str:
        """Return the code of an expression after its rewrite."""
        return text_of(self.rewrite(node))

    def constant(self, values: set[int], node: cst.CSTNode, what: str) -> str:
        """Return the text of a number of the recorded run.

        Raises:
            Unmigrated: NKI-M003; the run had several.
        """
        if len(values) != 1:
            raise Unmigrated("NKI-M003", what, "its extent differs between iterations, and the"
                             " source has no expression for it", "write the slice by hand")  # fmt: skip
        self.literals.add(self.source.line(node))
        return str(next(iter(values)))

    def fresh(self, stem: str) -> str:
        """Return a new name."""
        number = 0
        name = stem
        while name in self.used_names:
            number += 1
            name = f"{stem}_{number}"
        self.used_names.add(name)
        return name
