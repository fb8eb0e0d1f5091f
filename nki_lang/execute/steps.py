"""Executes a block as a list of closures."""

from __future__ import annotations

import functools
from typing import Protocol

from nki_lang.analysis.liveness import accesses_of
from nki_lang.base.errors import NkiError, NkiExecutionError
from nki_lang.base.memory import MemoryRegion
from nki_lang.execute.loops import loop_step
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import OPERAND_ERRORS, Step, failure, prepare
from nki_lang.ir.types import Block, Instruction, NoReorder

__all__ = ["Observer", "Steps"]


class Observer(Protocol):
    """Executes each instruction, and checks what it touches."""

    def run(self, instruction: Instruction, step: Step) -> None:
        """Execute the instruction by calling ``step``."""
        ...


class Steps:
    """The closures of one block, with the instruction of each closure for errors."""

    __slots__ = ("bound", "bound_names", "inner", "memory", "sources", "steps", "tracker")

    def __init__(
        self, block: Block, memory: Memory, tracker: Observer | None, bound_names: frozenset[str]
    ) -> None:
        self.memory = memory
        self.tracker = tracker
        self.bound_names = bound_names
        self.steps: list[Step] = []
        self.sources: list[Instruction | None] = []
        self.bound: list[int] = []
        self.inner: list[Steps] = []
        self._add(block)

    def _add(self, block: Block) -> None:
        for statement in block:
            if isinstance(statement, NoReorder):
                self._add(statement.body)
            elif isinstance(statement, Instruction):
                if _sees_bound(statement, self.bound_names):
                    self.bound.append(len(self.steps))
                self.steps.append(self._step(statement))
                self.sources.append(statement)
            else:
                body = Steps(statement.body, self.memory, self.tracker, self.bound_names)
                self.inner.append(body)
                self.steps.append(loop_step(statement, body.run, self.memory.state.registers))
                self.sources.append(None)

    def _step(self, instruction: Instruction) -> Step:
        step = prepare(instruction, self.memory)
        if self.tracker is None:
            return step
        return functools.partial(self.tracker.run, instruction, step)

    def rebind(self) -> None:
        """Recreate the closures that use arrays bound for this run."""
        for position in self.bound:
            source = self.sources[position]
            assert source is not None
            self.steps[position] = self._step(source)
        for steps in self.inner:
            steps.rebind()

    def run(self) -> None:
        """Call the closures in order."""
        position = 0
        try:
            for step in self.steps:
                step()
                position += 1
        except NkiError as error:
            source = self.sources[position]
            if source is None or not isinstance(error, NkiExecutionError):
                raise
            raise failure(error, source) from None
        except OPERAND_ERRORS as error:
            source = self.sources[position]
            if source is None:
                raise
            raise failure(error, source) from error


def _sees_bound(instruction: Instruction, bound_names: frozenset[str]) -> bool:
    return any(
        access.tensor.buffer is MemoryRegion.shared_hbm or access.tensor.name in bound_names
        for access in accesses_of(instruction)
    )
