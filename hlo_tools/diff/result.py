"""The differences between two modules as values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Change", "ComputationDiff", "InstructionDiff", "ModuleDiff"]


@dataclass(frozen=True, slots=True)
class Change:
    """One property, ``field``, that differs: its text ``before`` and ``after``.

    The text of a property that one side does not have is "".
    """

    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class InstructionDiff:
    """Two matching instructions that differ.

    Attributes:
        left, right: their names.
        opcode: of the right one.
        changes: the properties that differ.
        source: ``file:line`` of the user's code, or "".
    """

    left: str
    right: str
    opcode: str
    changes: tuple[Change, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class ComputationDiff:
    """Two matching computations.

    Attributes:
        left, right: their names.
        alike: how many pairs of instructions do not differ.
        changed: the pairs that do.
        removed, added: instructions of one side only, as one line of text each.
        changes: properties of the computations themselves.
    """

    left: str
    right: str
    alike: int
    changed: tuple[InstructionDiff, ...] = ()
    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def is_equal(self) -> bool:
        """True when nothing differs."""
        return not (self.changed or self.removed or self.added or self.changes)


@dataclass(frozen=True, slots=True)
class ModuleDiff:
    """All differences between two modules.

    Attributes:
        left, right: their names.
        changes: of the modules themselves.
        computations: pairs, the entry first, the equal ones too.
        removed, added: names of computations of one side only.
    """

    left: str
    right: str
    changes: tuple[Change, ...]
    computations: tuple[ComputationDiff, ...]
    removed: tuple[str, ...]
    added: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """True when nothing differs, in the modules and in all their computations."""
        alike = all(computation.is_equal for computation in self.computations)
        return alike and not (self.changes or self.removed or self.added)

    @property
    def counts(self) -> dict[str, int]:
        """Instructions by what became of them."""
        return {
            "alike": sum(computation.alike for computation in self.computations),
            "changed": sum(len(computation.changed) for computation in self.computations),
            "removed": sum(len(computation.removed) for computation in self.computations),
            "added": sum(len(computation.added) for computation in self.computations),
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain data; equal computations are only counted."""
        return {
            "equal": self.is_equal,
            "left": self.left,
            "right": self.right,
            "counts": self.counts,
            "changes": [asdict(change) for change in self.changes],
            "computations": [asdict(c) for c in self.computations if not c.is_equal],
            "removed_computations": list(self.removed),
            "added_computations": list(self.added),
        }
