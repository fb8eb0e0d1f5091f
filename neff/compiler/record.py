"""The record of what the compiler did and why, which ``build --explain`` shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_tools.kernel_calls import Replacement

__all__ = ["Member", "Record", "Rewrite", "Stored", "UnitRecord"]


@dataclass(frozen=True, slots=True)
class Member:
    """An HLO instruction that a unit computes.

    Attributes:
        opcode: of the graph's node, which may be one that a rewrite put in.
        name: of the HLO instruction that it comes from.
        place: the user's line, else the framework's name, else "".
    """

    opcode: str
    name: str
    place: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rule of :mod:`neff.compiler.rewrites.rules` that was applied.

    Attributes:
        rule: its name.
        name, place: of the HLO instruction that it was applied to.
    """

    rule: str
    name: str
    place: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A value that a unit leaves in HBM.

    Attributes:
        name: of the HLO instruction.
        nbytes: of it.
        why: the reason.
    """

    name: str
    nbytes: int
    why: str


@dataclass(slots=True)
class UnitRecord:
    """A unit: what the compiler lowered together.

    Attributes:
        kind: ``rows`` and ``elementwise`` units were fused; ``operation`` is one node with a kernel
            of the compiler's library, ``call`` the module's own kernel, ``loop`` what a loop or
            branch does besides its body, ``results`` copies to the outputs.
        members: what it computes.
        labels: of its kernel calls in the program.
        kernels: their names, each once.
        idioms: steps that became one instruction (``neff.compiler.lowering.rows.expressions``).
        stored: what it leaves in HBM.
        choice: what a search chose for it, "" without one.
    """

    kind: str
    members: list[Member] = field(default_factory=list[Member])
    labels: list[str] = field(default_factory=list[str])
    kernels: list[str] = field(default_factory=list[str])
    idioms: set[str] = field(default_factory=set[str])
    stored: list[Stored] = field(default_factory=list[Stored])
    choice: str = ""


@dataclass(slots=True)
class Record:
    """The record of one compilation.

    Attributes:
        units: in program order.
        rewrites: in the order in which they were done.
        replaced: operations in whose place registered kernels were put.
        level: ``optlevel``.
        owners: ``id`` of an instruction of the program -> label of its kernel call.
        searched: plans that were compared, and the estimate of each program in nanoseconds.
    """

    units: list[UnitRecord] = field(default_factory=list[UnitRecord])
    rewrites: list[Rewrite] = field(default_factory=list[Rewrite])
    replaced: list[Replacement] = field(default_factory=list["Replacement"])
    level: int = 2
    owners: dict[int, str] = field(default_factory=dict[int, str])
    searched: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])

    def take(self, record: Record, searched: list[tuple[str, float]]) -> None:
        """Become the record of the plan that was taken.

        Args:
            record: the record of that plan.
            searched: all plans.
        """
        self.units, self.rewrites, self.owners = record.units, record.rewrites, record.owners
        self.searched = searched
