"""Reads of memory that certainly nothing wrote before, found before a program runs.

A read counts when it is certain to happen, and when every byte of what it takes is certain to
be unwritten then. A tile that was filled in part and read whole is no fault as long as the rest
goes nowhere, so it does not count; nor does a tile at an address that the user gave (others may
write the same bytes), or HBM that cores share. Whatever may write counts as a write: predicated
instructions, loops that may have no iteration, and places that a register or an index tensor selects.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from nki_lang.execute.fresh import PRODUCTS, inside, turns
from nki_lang.execute.liveness import accesses_in, written_by
from nki_lang.ir.coverage import Coverage, piece_of
from nki_lang.ir.fresh import SCALES, is_fresh_fill
from nki_lang.ir.types import (
    Access,
    Block,
    ForLoop,
    Instruction,
    NoReorder,
    Tensor,
    WhileLoop,
    walk,
)
from nki_lang.memory import MemoryRegion
from nki_lang.semantics import TRAITS
from nki_lang.source import SourceLocation

__all__ = ["REMEDY", "UnwrittenRead", "unwritten_reads"]

REMEDY = "write the tile before it is read (nisa.memset), or read the part that was written"


@dataclass(frozen=True, slots=True)
class UnwrittenRead:
    """One operand that reads only what nothing wrote.

    Attributes:
        tensor: what is read.
        op, operand: the instruction and which of its operands.
        location: its line.
    """

    tensor: Tensor
    op: str
    operand: str
    location: SourceLocation | None

    @property
    def message(self) -> str:
        """What reads which tensor."""
        return (
            f"{self.op} reads its {self.operand}, tensor {self.tensor.name!r}, before anything "
            "was written there; what a device finds there is undefined, here it is NaN (integers: "
            "all bits set)"
        )


def unwritten_reads(bodies: Sequence[Block], doubtful: Container[str]) -> list[UnwrittenRead]:
    """Reads that certainly find nothing, the first of each tensor.

    Args:
        bodies: the statements of each core, with accumulation made explicit.
        doubtful: names of the tensors that may be read before they are written.
    """
    found: dict[str, UnwrittenRead] = {}
    for body in bodies:
        core = _Core(doubtful, alone=len(bodies) == 1)
        core.follow(body)
        for name, read in core.found.items():
            found.setdefault(name, read)
    return list(found.values())


class _Core:
    """What one core may have written of the doubtful tensors, in program order."""

    def __init__(self, doubtful: Container[str], *, alone: bool) -> None:
        self._doubtful, self._alone = doubtful, alone
        self._written: dict[str, Coverage] = {}
        self.found: dict[str, UnwrittenRead] = {}

    def follow(self, body: Block) -> None:
        """Enter what the statements read and write; of a loop, what its first iteration does."""
        for statement in body:
            if isinstance(statement, Instruction):
                if not is_fresh_fill(statement):
                    self._reads(statement)
                    self._writes(statement)
            elif isinstance(statement, NoReorder) or _certain(statement):
                self.follow(statement.body)
            else:
                for instruction in walk(statement.body):
                    if not is_fresh_fill(instruction):
                        self._writes(instruction)

    def _reads(self, instruction: Instruction) -> None:
        traits = TRAITS.get(instruction.op)
        if traits is None or instruction.op == "core_barrier":  # orders accesses, reads nothing
            return
        for name, value in instruction.operands.items():
            if name in SCALES:
                continue
            if name in traits.writes:
                product = instruction.op in PRODUCTS and instruction.operands.get("accumulate")
                reads = [value] if product and type(value) is Access else []
            else:
                reads = accesses_in(value)
            for access in reads:
                if self._is_unwritten(access):
                    tensor = access.tensor
                    read = UnwrittenRead(tensor, instruction.op, name, instruction.location)
                    self.found.setdefault(tensor.name, read)

    def _is_unwritten(self, access: Access) -> bool:
        tensor = access.tensor
        if not self._follows(tensor) or 0 in access.shape:
            return False
        coverage = self._written.get(tensor.name)
        if coverage is None:
            return True
        if coverage.complete or access.is_dynamic or not inside(access):
            return False
        return bool(coverage.unwritten(piece_of(access)).all())

    def _follows(self, tensor: Tensor) -> bool:
        if tensor.name not in self._doubtful or tensor.fixed:
            return False
        return self._alone or tensor.buffer is not MemoryRegion.shared_hbm

    def _writes(self, instruction: Instruction) -> None:
        for access in written_by(instruction):
            tensor = access.tensor
            if not self._follows(tensor):
                continue
            coverage = self._written.get(tensor.name)
            if coverage is None:
                coverage = self._written[tensor.name] = Coverage(tensor.nbytes)
            if access.is_dynamic or not inside(access):
                coverage.finish()
            else:
                coverage.add(piece_of(access))


def _certain(loop: ForLoop | WhileLoop) -> bool:
    return isinstance(loop, ForLoop) and turns(loop) > 0
