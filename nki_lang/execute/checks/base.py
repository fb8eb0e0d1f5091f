"""What every check of the simulator is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nki_lang.dtypes import Array
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Instruction
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
    """An instruction that is executed, with what it reads and writes, looked up once for all checks."""

    __slots__ = ("_reads", "_writes", "instruction")

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self._reads: list[tuple[str, Access]] | None = None
        self._writes: list[tuple[str, Access]] | None = None

    @property
    def reads(self) -> list[tuple[str, Access]]:
        """Sources, indices, and destinations that it updates, by operand."""
        if self._reads is None:
            self._reads = _reads_of(self.instruction)
        return self._reads

    @property
    def writes(self) -> list[tuple[str, Access]]:
        """Destinations, by operand."""
        if self._writes is None:
            self._writes = _writes_of(self.instruction)
        return self._writes


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

_HOLDERS = frozenset({Access, tuple, list})
"""Types of operands that may hold accesses."""


def _accesses(name: str, value: Any) -> Iterator[tuple[str, Access]]:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Access:
        yield name, value
    elif kind is tuple or kind is list:
        for entry in value:
            yield from _accesses(name, entry)


def _writes_of(instruction: Instruction) -> list[tuple[str, Access]]:
    return [
        pair
        for name in TRAITS[instruction.op].writes
        if type(instruction.operands.get(name)) in _HOLDERS
        for pair in _accesses(name, instruction.operands.get(name))
    ]


def _reads_of(instruction: Instruction) -> list[tuple[str, Access]]:
    traits = TRAITS[instruction.op]
    writes, updates = traits.writes, traits.updates
    if instruction.op in _PRODUCTS and not instruction.operands.get("accumulate"):
        updates = tuple(name for name in updates if name != "dst")
    found: list[tuple[str, Access]] = []
    for name, value in instruction.operands.items():
        if type(value) not in _HOLDERS:
            continue
        for pair in _accesses(name, value):
            access = pair[1]
            if name not in writes or name in updates:
                found.append(pair)
            if type(access.scalar_offset) is Access:
                found.append((f"{name}.scalar_offset", access.scalar_offset))
            if access.vector_offset is not None:
                found.append((f"{name}.vector_offset", access.vector_offset))
    return found
