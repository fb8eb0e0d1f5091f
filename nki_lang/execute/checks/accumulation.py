"""Check for accumulation that the hardware does not define."""

from __future__ import annotations

from typing import Any

from nki_lang.analysis.regions import may_overlap
from nki_lang.base.memory import MemoryRegion
from nki_lang.execute.checks.base import Check, Step
from nki_lang.execute.checks.report import Finding
from nki_lang.ir.types import Access, Instruction

__all__ = ["AccumulationCheck"]

_MATMUL_OPS = frozenset({"nc_matmul", "nc_matmul_mx"})


_SCALAR_ENGINE_OPS = frozenset({"activation", "activate2"})


class AccumulationCheck(Check):
    """Finds accumulations that continue from a value that no accumulation started.

    * A product that accumulates onto what another instruction wrote is "not supported and
      undefined behavior on hardware" before trn3 (isa stub, nc_matmul, Accumulation mode).
    * ``reduce_cmd=reduce`` continues from an engine's reduction registers. Until an instruction
      resets them they hold the values of an earlier kernel (isa stub, reduce_cmd).
    """

    name = "accumulation"
    is_static = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._foreign: dict[str, list[tuple[Access, Instruction]]] = {}
        self._findings: dict[Any, Finding] = {}

    def concerns(self, instruction: Instruction) -> bool:
        """Return True for ``reduce_cmd=reduce``, and for PSUM operands before trn3."""
        if instruction.operands.get("reduce_cmd") == "reduce":
            return True
        if self.memory.target.generation >= 4:
            return False
        for value in instruction.operands.values():
            if type(value) is Access:
                if value.tensor.buffer is MemoryRegion.psum:
                    return True
            elif type(value) is tuple:
                return True
        return False

    def before(self, step: Step) -> None:
        """Report a product that accumulates onto what another instruction wrote."""
        instruction = step.instruction
        if instruction.operands.get("reduce_cmd") == "reduce":
            self._look_at_registers(instruction)
        if instruction.op not in _MATMUL_OPS or not instruction.operands.get("accumulate"):
            return
        dst: Access = instruction.operands["dst"]
        for written, writer in self._foreign.get(dst.tensor.name, ()):
            if may_overlap(written, dst):
                # overwriting and accumulating onto zeros give the same
                if not self.inferred or self.value(dst).any():
                    self._add(instruction, writer, dst)
                return

    def after(self, step: Step) -> None:
        """Record writes of other instructions to PSUM; a product that overwrites clears them."""
        for _, access in step.writes:
            if access.tensor.buffer is not MemoryRegion.psum:
                continue
            foreign_writes = self._foreign.setdefault(access.tensor.name, [])
            foreign_writes[:] = [
                entry for entry in foreign_writes if not may_overlap(entry[0], access)
            ]
            if step.instruction.op not in _MATMUL_OPS:
                foreign_writes.append((access, step.instruction))

    def _look_at_registers(self, instruction: Instruction) -> None:
        state = self.memory.state
        scalar = instruction.op in _SCALAR_ENGINE_OPS
        if (state.scalar_accumulator if scalar else state.vector_accumulator) is not None:
            return
        engine = "Scalar" if scalar else "Vector"
        self._findings.setdefault(
            (instruction.location, instruction.op),
            Finding(
                self.name,
                "NKI-ACCUMULATION",
                f"{instruction.op} with reduce_cmd=reduce continues from the reduction registers of "
                f"the {engine} Engine, which nothing in this kernel has started",
                instruction.location,
                "start with reduce_cmd=nisa.reduce_cmd.reset_reduce",
                {"op": instruction.op, "engine": engine.lower()},
            ),
        )

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
        """Return the findings in program order."""
        return list(self._findings.values())
