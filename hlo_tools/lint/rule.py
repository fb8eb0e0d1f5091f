"""Lint rules, and the graph that their check functions read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.plugins import BUILTIN_ORIGIN
from hlo_tools.rewrite.patterns import Captures, Pattern
from hlo_tools.verify import Finding, Severity
from nki_lang.base.targets import Target

__all__ = ["NOTHING_LATER", "Check", "Graph", "Hit", "LintRule"]

NOTHING_LATER = 99
"""A generation beyond every one there is."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that breaks a rule.

    Attributes:
        message: what is wrong there.
        at: the instruction, or None for the module as a whole.
        severity: when it is another than the rule's.
    """

    message: str
    at: Instruction | None = None
    severity: Severity | None = None


@dataclass(slots=True)
class Graph:
    """A module as rules see it.

    Attributes:
        module: the module; its references hold.
        target: what it is compiled for.
        root: folder that relative paths of kernel files start from, or None.
        problems: what the verifier said about it.
    """

    module: Module
    target: Target
    root: Path | None = None
    problems: tuple[Finding, ...] = ()
    _by_opcode: dict[str, list[Instruction]] = field(default_factory=dict[str, list[Instruction]])

    def __post_init__(self) -> None:
        for view in self.module.instructions:
            self._by_opcode.setdefault(view.proto.opcode, []).append(view)

    def of(self, *opcodes: str) -> Iterator[Instruction]:
        """Yield every instruction of some opcodes; of all opcodes without arguments."""
        for opcode in opcodes or self._by_opcode:
            yield from self._by_opcode.get(opcode, ())

    def custom(self, target: str) -> Iterator[Instruction]:
        """Yield every custom call of a target."""
        for view in self._by_opcode.get("custom-call", ()):
            if view.proto.custom_call_target == target:
                yield view

    def matching(self, pattern: Pattern) -> Iterator[tuple[Instruction, Captures]]:
        """Yield every instruction that fits a pattern, and its captures by name."""
        for view in self.of(*sorted(pattern.opcodes)):
            captures = pattern.match(view, {})
            if captures is not None:
                yield view, captures


Check = Callable[[Graph], Iterator[Hit]]


@dataclass(frozen=True, slots=True)
class LintRule:
    """One row of the table.

    Attributes:
        code: the vendor's error code, or one of ours (``HLO-L...``).
        title: what must hold, in a few words.
        why: the reason.
        remedy: what to do.
        check: finds the places, or None for a code that no graph shows.
        since, until: first and last generation (``Target.generation``) that it holds for.
        severity: how bad a finding is.
        origin: who brings the rule; set when it is registered.
    """

    code: str
    title: str
    why: str
    remedy: str
    check: Check | None = None
    since: int = 0
    until: int = NOTHING_LATER
    severity: Severity = Severity.error
    origin: str = BUILTIN_ORIGIN

    def applies_to(self, target: Target) -> bool:
        """Return True if the rule applies to a target."""
        return self.since <= target.generation <= self.until

    @property
    def targets(self) -> str:
        """The targets in words."""
        from nki_lang.base.targets import TARGETS

        names = [name for name, target in TARGETS.items() if self.applies_to(target)]
        if len(names) == len(TARGETS):
            return "all"
        return ", ".join(names) or "later than trn3"
