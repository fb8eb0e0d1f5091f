"""Finds reads of memory that certainly no instruction wrote before, without running the program.

A read counts when it certainly happens, and when every byte that it reads is certainly unwritten.
A tile that was filled partially and read whole is no fault as long as its unwritten elements reach
no result, so it does not count. Nor does a tile at an address that the user chose (other tensors
may write the same bytes), or HBM that cores share. Any possible write counts as a write: predicated
instructions, loops that may have no iteration, and locations that a register or an index tensor
selects.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from nki_lang.analysis.fresh import MATMUL_OPS, inside
from nki_lang.analysis.liveness import accesses_in, written_by
from nki_lang.analysis.program_order import program_order
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import SourceLocation
from nki_lang.ir.coverage import Coverage, piece_of
from nki_lang.ir.fresh import SCALE_OPERANDS, is_fresh_fill
from nki_lang.ir.types import (
    Access,
    Block,
    Instruction,
    Tensor,
)
from nki_lang.semantics import TRAITS

__all__ = ["REMEDY", "UnwrittenRead", "unwritten_reads"]

REMEDY = "write the tile before it is read (nisa.memset), or read only the written elements"


@dataclass(frozen=True, slots=True)
class UnwrittenRead:
    """An operand that reads only unwritten memory.

    Attributes:
        tensor: the tensor that is read.
        op, operand: the instruction and its operand.
        location: source line of the instruction.
    """

    tensor: Tensor
    op: str
    operand: str
    location: SourceLocation | None

    @property
    def message(self) -> str:
        """The fault in one sentence: instruction, operand and tensor."""
        return (
            f"{self.op} reads its {self.operand}, tensor {self.tensor.name!r}, before anything "
            "was written there; what a device finds there is undefined, here it is NaN (integers: "
            "all bits set)"
        )


def unwritten_reads(bodies: Sequence[Block], doubtful: Container[str]) -> list[UnwrittenRead]:
    """Return reads that certainly read unwritten memory, the first one of each tensor.

    Args:
        bodies: the statements of each core, with accumulation made explicit.
        doubtful: names of the tensors that may be read before they are written.
    """
    first_reads: dict[str, UnwrittenRead] = {}
    for body in bodies:
        core = _ReadFollower(doubtful, single_core=len(bodies) == 1)
        core.follow(body)
        for name, read in core.reads_by_tensor.items():
            first_reads.setdefault(name, read)
    return list(first_reads.values())


class _ReadFollower:
    """Follows the possible writes of one core to the doubtful tensors, in program order."""

    def __init__(self, doubtful: Container[str], *, single_core: bool) -> None:
        self._doubtful, self._single_core = doubtful, single_core
        self._written: dict[str, Coverage] = {}
        self.reads_by_tensor: dict[str, UnwrittenRead] = {}

    def follow(self, body: Block) -> None:
        """Record the reads and writes of the statements; of a loop, those of its first
        iteration.
        """
        for instruction, certain in program_order(body, enters_loops=True):
            if is_fresh_fill(instruction):
                continue
            if certain:
                self._reads(instruction)
            self._writes(instruction)

    def _reads(self, instruction: Instruction) -> None:
        traits = TRAITS.get(instruction.op)
        if traits is None or instruction.op == "core_barrier":  # orders accesses, reads nothing
            return
        for name, value in instruction.operands.items():
            if name in SCALE_OPERANDS:
                continue
            if name in traits.writes:
                product = instruction.op in MATMUL_OPS and instruction.operands.get("accumulate")
                reads = [value] if product and type(value) is Access else []
            else:
                reads = accesses_in(value)
            for access in reads:
                if self._is_unwritten(access):
                    tensor = access.tensor
                    read = UnwrittenRead(tensor, instruction.op, name, instruction.location)
                    self.reads_by_tensor.setdefault(tensor.name, read)

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
        return self._single_core or tensor.buffer is not MemoryRegion.shared_hbm

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
