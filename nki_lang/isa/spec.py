"""The row type of the instruction table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nki_lang.base.memory import HBM, ON_CHIP, MemoryRegion
from nki_lang.ir import Engine

__all__ = ["Constraint", "InstructionSpec", "OperandSpec"]

ANYWHERE = ON_CHIP | HBM
SBUF = frozenset({MemoryRegion.sbuf})
PSUM = frozenset({MemoryRegion.psum})
SBUF_OR_HBM = SBUF | HBM


_OF_COLLECTIVES = frozenset({"replica_group", "source_target_pairs"})


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """One parameter of an instruction.

    Attributes:
        name: as in the public signature.
        role: ``read``, ``write``, ``read_write`` (tensors), ``register``, ``operator``,
            ``immediate`` (a number that no check reads) or ``attribute``.
        buffers: memories that a tensor may be in.
        dtypes: names of the dtypes allowed; empty for all.
        optional: None is allowed.
        scalar: a number may stand in the place of the tensor.
        several: a sequence of tensors.
        any_start: it may start at any partition (MX scales, packed four rows to a quadrant).
        keyed: a check reads the number in the tensor's place.
    """

    name: str
    role: str
    buffers: frozenset[MemoryRegion] = ON_CHIP
    dtypes: frozenset[str] = frozenset()
    optional: bool = False
    scalar: bool = False
    several: bool = False
    keyed: bool = False
    any_start: bool = False

    @property
    def is_tensor(self) -> bool:
        """True when the operand is memory."""
        return self.role in ("read", "write", "read_write")


@dataclass(frozen=True, slots=True)
class Constraint:
    """One documented rule.

    Attributes:
        code: the error code.
        rule: the rule in one sentence.
        source: where it is documented.
        check: called with the call being checked; returns what is wrong, or "".
    """

    code: str
    rule: str
    source: str
    check: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class InstructionSpec:
    """One instruction of ``nki.isa``.

    Attributes:
        op: name of the public function.
        operands: its parameters in order, without ``engine`` and ``name``.
        engines: engines that can run it, by generation.
        minimum: oldest generation that has it.
        constraints: its rules.
        tile_rules: the rules that hold for every tile that a compute engine touches apply.
        source: where it is documented.
        slots: (name, whether checks ignore the number passed) of each operand.
        hbm_writes: operands that may write into HBM.
    """

    op: str
    operands: tuple[OperandSpec, ...]
    engines: dict[int, frozenset[Engine]]
    minimum: int = 2
    constraints: tuple[Constraint, ...] = ()
    tile_rules: bool = True
    source: str = ""
    slots: tuple[tuple[str, bool], ...] = field(init=False)
    hbm_writes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        slots = tuple(
            (o.name, o.role == "immediate" or (o.scalar and not o.keyed)) for o in self.operands
        )
        object.__setattr__(self, "slots", slots)
        writes = tuple(
            operand.name
            for operand in self.operands
            if operand.role in ("write", "read_write") and operand.buffers & HBM
        )
        object.__setattr__(self, "hbm_writes", writes)

    @property
    def namespace(self) -> str:
        """Name of its module in kernels: ``nisa``, or ``ncc`` for collectives."""
        collective = any(o.name in _OF_COLLECTIVES for o in self.operands)
        return "ncc" if collective or self.op == "rank_id" else "nisa"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the operands in order."""
        return tuple(operand.name for operand in self.operands)

    @property
    def reads(self) -> tuple[str, ...]:
        """Operands whose memory is read."""
        return tuple(o.name for o in self.operands if o.role in ("read", "read_write"))

    @property
    def writes(self) -> tuple[str, ...]:
        """Operands whose memory is written."""
        return tuple(o.name for o in self.operands if o.role in ("write", "read_write"))
