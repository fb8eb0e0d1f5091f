"""Base class of the simulator's checks, and the instruction records that checks receive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nki_lang.base.dtypes import Array
from nki_lang.base.targets import Target
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Instruction, Register
from nki_lang.semantics import TRAITS

__all__ = ["Check", "SimulatedCall", "Step"]


@dataclass(frozen=True, slots=True)
class SimulatedCall:
    """One simulated call of a kernel."""

    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    target: Target
    grid: tuple[int, ...]


class Step:
    """An instruction that is executed, with the accesses it makes, collected once for all checks.

    Args:
        instruction: the instruction.
        skipped: True when a dynamic index is out of bounds and ``oob_mode.skip`` therefore skips
            the instruction: it reads the index and does nothing else.

    Attributes:
        reads: sources, indices, and destinations that it updates, by operand.
        writes: destinations, by operand.
        registers: registers among the operands and their indices, by operand.
        touched: every access among its operands, also when the instruction is skipped.
    """

    __slots__ = ("instruction", "reads", "registers", "skipped", "touched", "writes")

    def __init__(self, instruction: Instruction, *, skipped: bool = False) -> None:
        self.instruction = instruction
        self.skipped = skipped
        self.reads: list[tuple[str, Access]] = []
        self.writes: list[tuple[str, Access]] = []
        self.registers: list[tuple[str, Register]] = []
        self._find()
        self.touched = self.reads + self.writes
        if skipped:
            self.reads = [pair for pair in self.reads if pair[0].endswith("_offset")]
            self.writes = []

    def _find(self) -> None:
        op, operands = self.instruction.op, self.instruction.operands
        traits = TRAITS[op]
        writes, updates = traits.writes, traits.updates
        if op in _MATMUL_OPS and not operands.get("accumulate"):
            updates = tuple([name for name in updates if name != "dst"])
        for name, value in operands.items():
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]
            if kind is Access:
                pairs = [(name, value)]
            elif kind is tuple or kind is list:
                pairs = list(_accesses(name, value))
            else:
                if kind is Register:
                    self.registers.append((name, value))
                continue
            is_written = name in writes
            if is_written:
                self.writes += pairs
            for pair in pairs:
                if not is_written or name in updates:
                    self.reads.append(pair)
                if pair[1].is_dynamic:
                    self._add_offsets(*pair)
        if len(writes) > 1:
            self.writes.sort(key=lambda pair: writes.index(pair[0]))

    def _add_offsets(self, name: str, access: Access) -> None:
        if type(access.scalar_offset) is Access:
            self.reads.append((f"{name}.scalar_offset", access.scalar_offset))
        elif type(access.scalar_offset) is Register:
            self.registers.append((f"{name}.scalar_offset", access.scalar_offset))
        if access.vector_offset is not None:
            self.reads.append((f"{name}.vector_offset", access.vector_offset))


class Check:
    """Base class of checks that examine every instruction of one core before and after it executes.

    Attributes:
        name: its name in ``checks=``.
        memory: memory of the core.
        earlier_checks: the same check on the cores that were created before this one.
        schedule: extra dependencies of the launch, (consumer, producers) by name.
        inferred: the user left ``accumulate`` of the current instruction to the compiler.
        concluded: :meth:`conclude` returned all findings.
        thorough: False when the user did not request the check; it then skips slow analyses.
        is_static: its findings so far do not depend on the elements of tensors.
    """

    name = ""
    schedule: tuple[tuple[str, tuple[str, ...]], ...] = ()
    inferred = False
    concluded = True
    thorough = True
    is_static = False

    def __init__(self, memory: Memory, earlier_checks: tuple[Check, ...] = ()) -> None:
        self.memory = memory
        self.earlier_checks = earlier_checks

    @classmethod
    def conclude(
        cls, checks: Sequence[Check], call: SimulatedCall, *, straight: bool
    ) -> list[Finding] | None:
        """Return the findings of all cores about the call; None when only :meth:`finish` can.

        Args:
            checks: the checks of this class, one per core.
            call: the call that was simulated.
            straight: a trace would issue the same instructions: the call did not fail, had no
                region of the device and read no value.
        """
        return []

    def concerns(self, instruction: Instruction) -> bool:
        """Return False when the check can ignore this instruction."""
        return True

    def before(self, step: Step) -> None:
        """Examine an instruction that is about to be executed."""

    def after(self, step: Step) -> None:
        """Examine an instruction that was executed."""

    def finish(self) -> list[Finding]:
        """Return the findings after the kernel has ended."""
        return []

    def value(self, access: Access) -> Array:
        """Return the current elements of an access; missing rows of a gather read as zero."""
        self.is_static = False
        storage = self.memory.storage(access.tensor)
        if storage.pending and not self._is_written(access):
            storage.settle()
        return self.memory.read(access, skip=True)

    def _is_written(self, access: Access) -> bool:
        """Return True if every element of the access was certainly written."""
        coverage = self.memory.storage(access.tensor).coverage
        if coverage is None or coverage.complete:
            return coverage is not None
        if access.vector_offset is not None:
            return False
        return coverage.has(self.memory.layout(access).piece)


_MATMUL_OPS = frozenset({"nc_matmul", "nc_matmul_mx"})


def _accesses(name: str, value: Any) -> Iterator[tuple[str, Access]]:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Access:
        yield name, value
    elif kind is tuple or kind is list:
        for entry in value:
            yield from _accesses(name, entry)
