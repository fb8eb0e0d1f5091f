"""The smallest module for which a command still succeeds.

The instructions of the entry are searched by the order in which they run: the last one that is
needed, then the first, then delta debugging (Zeller and Hildebrandt, 2002) between them. What is
left may call others: a body is tried as the entry, and searched in place where it cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from hlo_tools.diff.edits import (
    droppable,
    kept,
    merged_parameters,
    shrunk,
    simplifications,
    stubbed,
)
from hlo_tools.diff.trials import Candidate, Trials
from hlo_tools.errors import HloError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module

__all__ = ["Reduction", "Step", "reduce_module"]

Build = Callable[[Sequence[Instruction]], Module | None]


@dataclass(frozen=True, slots=True)
class Step:
    """One edit that was kept: what it did, and how many instructions are left."""

    what: str
    instructions: int
    runs: int


@dataclass(slots=True)
class Reduction:
    """The outcome of a search.

    Attributes:
        module: the smallest module.
        steps: how it was made.
        is_whole: the search came to its end before its runs did.
    """

    module: Module
    steps: list[Step] = field(default_factory=list[Step])
    is_whole: bool = True


def reduce_module(
    module: Module,
    trials: Trials,
    *,
    start: str = "",
    report: Callable[[Step, Module], None] = lambda step, module: None,
) -> Reduction:
    """Search for the smallest module for which the trials succeed.

    Args:
        module: on which they succeed.
        start: an instruction, ``COMPUTATION/NAME``, near which to look first.
        report: is told of each edit that was kept.

    Raises:
        HloError: they do not succeed on the module itself (HLO-REDUCE).
    """
    module.require_known_fields()
    if trials.first(iter([("the module itself", lambda: module)])) is None:
        raise HloError(
            "the command does not succeed on the module itself",
            code="HLO-REDUCE", place=module.path,
            remedy="the command must exit with 0 for what is looked for; {} is the module's path",
        )  # fmt: skip
    search = _Search(Reduction(module), trials, report)
    search.run(start)
    search.smallest.is_whole = not trials.is_over
    return search.smallest


def _size(module: Module) -> int:
    return sum(len(body.instructions) for body in module.proto.computations)


@dataclass(slots=True)
class _Search:
    """A search and what it has found so far."""

    smallest: Reduction
    trials: Trials
    report: Callable[[Step, Module], None]

    def run(self, start: str) -> None:
        if start:
            self._take(iter([_near(self.smallest.module, start)]))
        before = -1
        while _size(self.smallest.module) != before and not self.trials.is_over:
            before = _size(self.smallest.module)
            self._entry()
            if self._bodies_as_entry():
                continue
            self._bodies_in_place()
            self._take(iter([_merging(self.smallest.module)]))
        for edits in (simplifications, shrunk):
            self._repeat(edits)

    def _repeat(self, edits: Callable[[Module], Iterator[Candidate]]) -> None:
        """Edits of a kind until none succeeds; one that was refused is not tried again."""
        refused: set[str] = set()

        def left() -> Iterator[Candidate]:
            for name, make in edits(self.smallest.module):
                if name not in refused:
                    refused.add(name)
                    yield name, make

        while self._take(left()):
            pass

    def _take(self, candidates: Iterator[Candidate]) -> bool:
        """Keep the first candidate that succeeds."""
        won = self.trials.first(candidates)
        if won is None:
            return False
        self._keep(*won)
        return True

    def _keep(self, what: str, module: Module) -> None:
        step = Step(what, _size(module), self.trials.runs)
        self.smallest.module = module
        self.smallest.steps.append(step)
        self.report(step, module)

    def _try(self, what: str, make: Callable[[], Module | None]) -> bool:
        return self._take(iter([(what, make)]))

    # -- instructions -------------------------------------------------------------------------

    def _entry(self) -> None:
        self._narrow(droppable(self.smallest.module.entry), "the entry", kept)

    def _narrow(self, units: list[Instruction], where: str, build: Build) -> None:
        """Drop units at the end, at the beginning, and then between."""
        if len(units) < 2:
            return
        units = self._shortest(units, where, build, at_end=True)
        units = self._shortest(units, where, build, at_end=False)
        self._between(units, where, build)

    def _shortest(
        self, units: list[Instruction], where: str, build: Build, *, at_end: bool
    ) -> list[Instruction]:
        """Drop the longest removable prefix or suffix (binary search)."""
        low, high = 1, len(units)  # high units suffice
        while low < high and not self.trials.is_over:
            middle = (low + high) // 2
            candidate = units[:middle] if at_end else units[len(units) - middle :]
            what = f"{middle} of {len(units)} instructions of {where}"
            if self._try(what, lambda candidate=candidate: build(candidate)):
                high = middle
            else:
                low = middle + 1
        return units[:high] if at_end else units[len(units) - high :]

    def _between(self, units: list[Instruction], where: str, build: Build) -> None:
        parts = 2
        while len(units) > 1 and not self.trials.is_over:
            size = -(-len(units) // parts)
            chunks = [units[start : start + size] for start in range(0, len(units), size)]
            complements = [
                units[:start] + units[start + size :] for start in range(0, len(units), size)
            ]
            options = [*chunks, *complements] if parts > 2 else chunks
            names = {f"{len(units_left)} of {len(units)} instructions of {where} ({start})": units_left
                     for start, units_left in enumerate(options)}  # fmt: skip
            won = self.trials.first(_built(names, build))
            if won is not None:
                self._keep(won[0].rpartition(" (")[0], won[1])
                chosen = names[won[0]]
                parts = 2 if chosen in chunks else max(parts - 1, 2)
                units = chosen
            elif size == 1:
                return
            else:
                parts = min(parts * 2, len(units))

    # -- computations -------------------------------------------------------------------------

    def _bodies_as_entry(self) -> bool:
        module = self.smallest.module
        bodies = [body for body in module.computations if body is not module.entry]
        bodies.sort(key=len, reverse=True)
        return self._take(
            (f"%{body.name} as the entry", lambda body=body: kept(list(body))) for body in bodies
        )

    def _bodies_in_place(self) -> None:
        names = [
            body.name
            for body in sorted(self.smallest.module.computations, key=len, reverse=True)
            if body is not self.smallest.module.entry
        ]
        for name in names:
            module = self.smallest.module
            body = next(
                (computation for computation in module.computations if computation.name == name),
                None,
            )
            units = droppable(body) if body is not None else []
            if not units:
                continue

            def build(
                chosen: Sequence[Instruction], module: Module = module, name: str = name
            ) -> Module | None:
                return stubbed(module, name, {view.name for view in chosen})

            if not self._try(f"no instructions of %{name}", lambda build=build: build([])):
                self._narrow(units, f"%{name}", build)


def _built(names: dict[str, list[Instruction]], build: Build) -> Iterator[Candidate]:
    for name, units in names.items():
        yield name, partial(build, units)


def _near(module: Module, location: str) -> Candidate:
    """The instruction of a place alone."""
    body, _, name = location.removeprefix("%").rpartition("/")
    return f"%{name} alone", lambda: kept([module.computation(body).find(name)])


def _merging(module: Module) -> Candidate:
    return "one parameter for each type", lambda: merged_parameters(module)
