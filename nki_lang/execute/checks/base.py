"""What every check of the simulator is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nki_lang.dtypes import Array
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Instruction, Register
from nki_lang.semantics import TRAITS
from nki_lang.targets import Target

__all__ = ["Call", "Check", "Step"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a kernel that is simulated."""

    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    target: Target
    grid: tuple[int, ...]


class Step:
    """An instruction that is executed, with what it touches, looked up once for all checks.

    Args:
        instruction: the instruction.
        skipped: a dynamic index out of bounds makes ``oob_mode.skip`` leave all of it out: it
            reads the index and does nothing else.

    Attributes:
        reads: sources, indices, and destinations that it updates, by operand.
        writes: destinations, by operand.
        registers: registers among the operands and their indices, by operand.
        touched: every access among its operands, also of an instruction that is skipped.
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
        if op in _PRODUCTS and not operands.get("accumulate"):
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
    """Looks at every instruction of one core before and after it is executed.

    Attributes:
        name: its name in ``checks=``.
        memory: memory of the core.
        others: the same check of the cores that were made before this one.
        schedule: extra dependencies of the launch, (consumer, producers) by name.
        inferred: ``accumulate`` of the instruction at hand was left to the compiler.
        concluded: :meth:`conclude` said all there is to say.
        thorough: False when the check was not requested: it leaves out what takes long.
    """

    name = ""
    schedule: tuple[tuple[str, tuple[str, ...]], ...] = ()
    inferred = False
    concluded = True
    thorough = True

    def __init__(self, memory: Memory, others: tuple[Check, ...] = ()) -> None:
        self.memory = memory
        self.others = others

    @classmethod
    def conclude(
        cls, checks: Sequence[Check], call: Call, *, straight: bool
    ) -> list[Finding] | None:
        """What the checks of all cores say about the call; None when only :meth:`finish` can.

        Args:
            checks: those of this kind, one a core.
            call: the call that was simulated.
            straight: a trace would issue the same instructions: the call did not fail, had no
                region of the device and read no value.
        """
        return []

    def concerns(self, instruction: Instruction) -> bool:
        """False when the check does not concern this instruction."""
        return True

    def before(self, step: Step) -> None:
        """The instruction is about to be executed."""

    def after(self, step: Step) -> None:
        """The instruction was executed."""

    def finish(self) -> list[Finding]:
        """The kernel has ended."""
        return []

    def value(self, access: Access) -> Array:
        """The elements of an access as they are now; missing rows of a gather read as zero."""
        storage = self.memory.storage(access.tensor)
        if storage.pending and not self._is_written(access):
            storage.settle()
        return self.memory.read(access, skip=True)

    def _is_written(self, access: Access) -> bool:
        """Every element of the access was certainly written."""
        coverage = self.memory.storage(access.tensor).coverage
        if coverage is None or coverage.complete:
            return coverage is not None
        if access.vector_offset is not None:
            return False
        return coverage.has(self.memory.layout(access).piece)


_PRODUCTS = frozenset({"nc_matmul", "nc_matmul_mx"})


def _accesses(name: str, value: Any) -> Iterator[tuple[str, Access]]:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Access:
        yield name, value
    elif kind is tuple or kind is list:
        for entry in value:
            yield from _accesses(name, entry)
