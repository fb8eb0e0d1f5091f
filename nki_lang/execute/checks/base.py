"""What every check of the simulator is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nki_lang.dtypes import Array
from nki_lang.execute.checks.report import Finding
from nki_lang.execute.memory import Memory
from nki_lang.ir.types import Access, Instruction
from nki_lang.semantics import TRAITS
from nki_lang.targets import Target

__all__ = ["Check", "reads_of", "writes_of"]


class Check:
    """Looks at every instruction of one core before and after it is executed.

    Attributes:
        name: its name in ``checks=``.
        memory: memory of the core.
        others: the same check of the cores that were made before this one.
        schedule: extra dependencies of the launch, (consumer, producers) by name.
        inferred: ``accumulate`` of the instruction at hand was left to the compiler.
        previewed: the check said all it can before the run.
        thorough: False when the check was not requested: it leaves out what takes long.
    """

    name = ""
    schedule: tuple[tuple[str, tuple[str, ...]], ...] = ()
    inferred = False
    previewed = True
    thorough = True

    def __init__(self, memory: Memory, others: tuple[Check, ...] = ()) -> None:
        self.memory = memory
        self.others = others

    @classmethod
    def preview(
        cls,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        target: Target,
        grid: tuple[int, ...],
    ) -> list[Finding] | None:
        """What can be said about the call before it runs; None when nothing can."""
        return []

    def concerns(self, instruction: Instruction) -> bool:
        """False when the check does not concern this instruction."""
        return True

    def before(self, instruction: Instruction) -> None:
        """The instruction is about to be executed."""

    def after(self, instruction: Instruction) -> None:
        """The instruction was executed."""

    def finish(self) -> list[Finding]:
        """The kernel has ended."""
        return []

    def value(self, access: Access) -> Array:
        """The elements of an access as they are now; missing rows of a gather read as zero."""
        self.memory.storage(access.tensor).settle()
        return self.memory.read(access, skip=True)


_HOLDERS = frozenset({Access, tuple, list})
"""Types of operands that may hold accesses."""


def _accesses(name: str, value: Any) -> Iterator[tuple[str, Access]]:
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is Access:
        yield name, value
    elif kind is tuple or kind is list:
        for entry in value:
            yield from _accesses(name, entry)


def writes_of(instruction: Instruction) -> list[tuple[str, Access]]:
    """What the instruction writes, by operand."""
    return [
        pair
        for name in TRAITS[instruction.op].writes
        if type(instruction.operands.get(name)) in _HOLDERS
        for pair in _accesses(name, instruction.operands.get(name))
    ]


def reads_of(instruction: Instruction) -> list[tuple[str, Access]]:
    """What the instruction reads: sources, indices, and destinations that it updates."""
    traits = TRAITS[instruction.op]
    updates = set(traits.updates)
    if instruction.op in ("nc_matmul", "nc_matmul_mx") and not instruction.operands.get(
        "accumulate"
    ):
        updates.discard("dst")
    found: list[tuple[str, Access]] = []
    for name, value in instruction.operands.items():
        if type(value) not in _HOLDERS:
            continue
        for pair in _accesses(name, value):
            access = pair[1]
            if name not in traits.writes or name in updates:
                found.append(pair)
            if type(access.scalar_offset) is Access:
                found.append((f"{name}.scalar_offset", access.scalar_offset))
            if access.vector_offset is not None:
                found.append((f"{name}.vector_offset", access.vector_offset))
    return found
