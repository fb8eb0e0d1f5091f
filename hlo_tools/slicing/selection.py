"""Selects the instructions of a slice: by name, by distance, by line of the user's source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hlo_tools._messages import did_you_mean
from hlo_tools.errors import HloError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.types.scopes import is_in_scope

__all__ = [
    "SourceRange", "find_targets", "grow", "parse_source", "select_scope", "select_source",
]  # fmt: skip

Following = Callable[[Instruction], Iterable[Instruction]]

_SOURCE = re.compile(r"(?P<file>.+?)(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?\Z")


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Lines ``first`` to ``last`` of a file; ``last`` 0 means all of it. ``file`` may be the end of a path."""

    file: str
    first: int = 0
    last: int = 0

    def __str__(self) -> str:
        if not self.last:
            return self.file
        if self.first == self.last:
            return f"{self.file}, line {self.first}"
        return f"{self.file}, lines {self.first} to {self.last}"

    def holds(self, file: str, line: int) -> bool:
        """Return True if a location lies in the range."""
        if file != self.file and not file.endswith("/" + self.file):
            return False
        return not self.last or self.first <= line <= self.last


def parse_source(text: str) -> SourceRange:
    """The range that a text names: ``FILE``, ``FILE:LINE`` or ``FILE:FIRST-LAST``.

    Raises:
        HloError: none of these, or the last line comes before the first (HLO-ARGUMENT).
    """
    match = _SOURCE.match(text)
    first = int(match["first"] or 0) if match else 0
    last = int(match["last"] or first) if match else -1
    if match is None or last < first:
        raise HloError(
            f"{text!r} is not a place in a source file",
            code="HLO-ARGUMENT",
            remedy="pass FILE, FILE:LINE or FILE:FIRST-LAST",
        )
    return SourceRange(match["file"], first, last)


def find_targets(module: Module, names: Iterable[str]) -> list[Instruction]:
    """Instructions of a module by name, all of one computation.

    Args:
        names: ``instruction`` or ``computation/instruction``; a leading % is left out. A name
            without a computation is looked for in the entry first.

    Raises:
        HloError: there is none (HLO-NO-INSTRUCTION), several computations have one
            (HLO-AMBIGUOUS), or the names lie in several computations (HLO-ARGUMENT).
    """
    targets = list(dict.fromkeys(_find(module, name) for name in names))
    _same_computation({view.computation for view in targets}, "instructions")
    return targets


def _find(module: Module, name: str) -> Instruction:
    where, slash, what = name.rpartition("/")
    if slash:
        return module.computation(where).find(what)
    what = what.removeprefix("%")
    candidates = [view for view in module.instructions if view.proto.name == what]
    entry = [view for view in candidates if view.computation.is_entry]
    if len(entry) == 1 or len(candidates) == 1:
        return (entry or candidates)[0]
    if not candidates:
        raise HloError(
            f"module {module.name} has no instruction %{what}",
            code="HLO-NO-INSTRUCTION",
            place=module.path,
            remedy=f"{did_you_mean(what, (view.name for view in module.instructions), '%')}"
            "nki-hlo show FILE lists the names",
        )
    candidate_names = ", ".join(f"{view.computation.name}/{what}" for view in candidates[:5])
    raise HloError(
        f"{len(candidates)} computations have an instruction %{what}",
        code="HLO-AMBIGUOUS",
        place=module.path,
        remedy=f"say which: {candidate_names}",
    )


def select_source(
    module: Module, place: SourceRange, computation: Computation | None = None
) -> list[Instruction]:
    """Return the instructions of a range of source lines, of their own or of a call.

    Args:
        module: the module to search.
        place: the range of source lines.
        computation: the one to search; by default the entry, else the only one that has any.

    Raises:
        HloError: there are none (HLO-NO-INSTRUCTION), or several computations have some and the
            entry has none (HLO-ARGUMENT).
    """

    def comes_from_place(view: Instruction) -> bool:
        return any(place.holds(frame.file, frame.line) for frame in view.stack)

    return _selected(
        module, comes_from_place, computation, f"comes from {place}", "lists source lines"
    )


def select_scope(
    module: Module, scope: str, computation: Computation | None = None
) -> list[Instruction]:
    """Return the instructions of a framework's scope; see :func:`hlo_tools.types.scopes.is_in_scope`.

    Args:
        module: the module to search.
        scope: names of scopes, outer ones first, separated by ``/``.
        computation: as in :func:`select_source`.

    Raises:
        HloError: as in :func:`select_source`, or the scope is empty (HLO-ARGUMENT).
    """
    if not scope.strip("/"):
        raise HloError(
            "the scope is empty", code="HLO-ARGUMENT", remedy="pass a name, such as layer3"
        )

    def lies_in_scope(view: Instruction) -> bool:
        return is_in_scope(view.metadata.op_name, scope)

    return _selected(
        module, lies_in_scope, computation, f"has the scope {scope}", "--json lists op_name"
    )


def _selected(
    module: Module,
    is_chosen: Callable[[Instruction], bool],
    computation: Computation | None,
    what: str,
    where: str,
) -> list[Instruction]:
    """The chosen instructions of a computation, of the entry, or of the only one that has any."""
    searched = [computation] if computation is not None else list(module.computations)
    by_computation: dict[Computation, list[Instruction]] = {}
    for owner in searched:
        views = owner.instructions
        chosen = [view for view in views if view.opcode != "parameter" and is_chosen(view)]
        if chosen:
            by_computation[owner] = chosen
    if not by_computation:
        raise HloError(
            f"no instruction {what}",
            code="HLO-NO-INSTRUCTION",
            place=module.path,
            remedy=f"nki-hlo show FILE {where}; the module may have been stripped",
        )
    if len(by_computation) > 1:
        entry = by_computation.get(module.entry)
        if entry is not None:
            return entry
        _same_computation(set(by_computation), "the chosen instructions")
    return next(iter(by_computation.values()))


def _same_computation(computations: set[Computation], what: str) -> None:
    if len(computations) > 1:
        names = sorted(f"%{computation.name}" for computation in computations)
        raise HloError(
            f"{what} are in several computations: {', '.join(names[:5])}",
            code="HLO-ARGUMENT",
            remedy="slice one computation at a time",
        )


def grow(
    start: Sequence[Instruction], *, operands: int | None = None, users: int = 0
) -> set[Instruction]:
    """``start`` with what it needs and what needs it, up to a distance.

    Args:
        operands: how many steps towards operands; None takes all.
        users: how many steps towards users.
    """
    down = _steps(start, lambda view: view.users, users)
    return down | _steps(start, lambda view: view.operands, operands)


def _steps(
    start: Sequence[Instruction], following: Following, limit: int | None
) -> set[Instruction]:
    reached = set(start)
    front = list(start)
    done = 0
    while front and (limit is None or done < limit):
        front = list(
            dict.fromkeys(
                neighbour
                for view in front
                for neighbour in following(view)
                if neighbour not in reached
            )
        )
        reached.update(front)
        done += 1
    return reached
