"""Accumulation that hardware does not define."""

from __future__ import annotations

from typing import Any

from nki_lang.execute.checks.base import Check, writes_of
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.regions import may_overlap
from nki_lang.ir.types import Access, Instruction
from nki_lang.memory import MemoryRegion

__all__ = ["AccumulationCheck"]

_PRODUCTS = frozenset({"nc_matmul", "nc_matmul_mx"})


class AccumulationCheck(Check):
    """Finds products that accumulate onto what another instruction wrote (before trn3).

    "Not supported and undefined behavior on hardware" on NeuronCore-v2 and -v3 (isa stub,
    nc_matmul, Accumulation mode).
    """

    name = "accumulation"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._foreign: dict[str, list[tuple[Access, Instruction]]] = {}
        self._findings: dict[Any, Finding] = {}

    def concerns(self, instruction: Instruction) -> bool:
        """Some tensor lies in PSUM, on a target that has the rule."""
        if self.memory.target.generation >= 4:
            return False
        for value in instruction.operands.values():
            if type(value) is Access:
                if value.tensor.buffer is MemoryRegion.psum:
                    return True
            elif type(value) is tuple:
                return True
        return False

    def before(self, instruction: Instruction) -> None:
        """A product that accumulates: who wrote its destination?"""
        if instruction.op not in _PRODUCTS or not instruction.operands.get("accumulate"):
            return
        dst: Access = instruction.operands["dst"]
        if self.inferred and not self.value(dst).any():
            return  # overwriting and accumulating onto zeros give the same
        for written, writer in self._foreign.get(dst.tensor.name, ()):
            if may_overlap(written, dst):
                self._add(instruction, writer, dst)
                return

    def after(self, instruction: Instruction) -> None:
        """Keep what other instructions wrote to PSUM; a product that overwrites clears it."""
        for _, access in writes_of(instruction):
            if access.tensor.buffer is not MemoryRegion.psum:
                continue
            known = self._foreign.setdefault(access.tensor.name, [])
            known[:] = [entry for entry in known if not may_overlap(entry[0], access)]
            if instruction.op not in _PRODUCTS:
                known.append((access, instruction))

    def _add(self, instruction: Instruction, writer: Instruction, dst: Access) -> None:
        key = (instruction.location, writer.location)
        self._findings.setdefault(
            key,
            Finding(
                self.name,
                "NKI-ACCUMULATION",
                f"{instruction.op} accumulates onto {dst.tensor.name!r}, which {writer.op} wrote "
                f"at {writer.location}; {self.memory.target.name} does not define the result",
                instruction.location,
                "start the accumulation with a product (accumulate=False), or add the value later",
                {"tensor": dst.tensor.name, "written_by": writer.op},
            ),
        )

    def finish(self) -> list[Finding]:
        """In program order."""
        return list(self._findings.values())
