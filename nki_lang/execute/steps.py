"""Executes a block as a list of closures."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NoReturn, Protocol

from nki_lang.analysis.liveness import accesses_of
from nki_lang.base.errors import NkiError, NkiExecutionError
from nki_lang.base.memory import MemoryRegion
from nki_lang.execute.bodies import MAX_STATEMENTS, LoopFunction
from nki_lang.execute.direct import direct_step
from nki_lang.execute.loops import loop_step
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import OPERAND_ERRORS, Step, failure, prepare
from nki_lang.ir.types import Block, ForLoop, Instruction, NoReorder, WhileLoop

__all__ = ["Observer", "Steps"]


class Observer(Protocol):
    """Executes each instruction, and checks what it touches."""

    def run(self, instruction: Instruction, step: Step) -> None:
        """Execute the instruction by calling ``step``."""
        ...


class Steps:
    """The closures of one block, with the instruction of each closure for errors."""

    __slots__ = (
        "bound", "bound_names", "inner", "loop_function", "memory", "runs", "sources", "steps",
        "tracker",
    )  # fmt: skip

    def __init__(
        self, block: Block, memory: Memory, tracker: Observer | None, bound_names: frozenset[str]
    ) -> None:
        self.memory = memory
        self.tracker = tracker
        self.bound_names = bound_names
        self.steps: list[Callable[[], object]] = []
        self.sources: list[Instruction | None] = []
        self.bound: list[int] = []
        self.inner: list[Steps] = []
        self.runs = 0
        self.loop_function: LoopFunction | None = None
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
                self.steps.append(body.loop_step(statement))
                self.sources.append(None)

    def _step(self, instruction: Instruction) -> Callable[[], object]:
        step = prepare(instruction, self.memory)
        if self.tracker is not None:
            return functools.partial(self.tracker.run, instruction, step)
        if self.runs < 2:
            return step
        return direct_step(instruction, self.memory) or step

    def loop_step(self, loop: ForLoop | WhileLoop) -> Step:
        """Return a closure that executes the loop of which this is the body."""
        if self.tracker is not None or len(self.steps) > MAX_STATEMENTS:
            return loop_step(loop, self.run, self.memory.state.registers)
        self.loop_function = LoopFunction(loop, self.sources, self.steps, self.memory)
        return self._run_loop

    def rebind(self) -> None:
        """Recreate the closures that use arrays bound for this run."""
        for position in self.bound:
            source = self.sources[position]
            assert source is not None
            self.steps[position] = self._step(source)
        if self.loop_function is not None and self.bound:
            self.loop_function.renew(self.bound)
        for steps in self.inner:
            steps.rebind()

    def run(self) -> None:
        """Call the closures in order."""
        self.runs += 1
        if self.runs == 2 and self.tracker is None:
            self._shorten()
        position = 0
        try:
            for step in self.steps:
                step()
                position += 1
        except (NkiError, *OPERAND_ERRORS) as error:
            self._report(error, position)

    def _shorten(self) -> None:
        """Replace closures by calls of NumPy: a kernel that runs again will run often."""
        for position, source in enumerate(self.sources):
            if source is not None:
                step = direct_step(source, self.memory)
                self.steps[position] = step or self.steps[position]

    def _run_loop(self) -> None:
        assert self.loop_function is not None
        try:
            self.loop_function.run()
        except (NkiError, *OPERAND_ERRORS) as error:
            position = self.loop_function.position(error)
            if position is None:
                raise
            self._report(error, position)

    def _report(self, error: BaseException, position: int) -> NoReturn:
        """Raise the error of a statement with its location."""
        source = self.sources[position]
        if source is None or (
            isinstance(error, NkiError) and not isinstance(error, NkiExecutionError)
        ):
            raise error
        raise failure(error, source) from (None if isinstance(error, NkiError) else error)


def _sees_bound(instruction: Instruction, bound_names: frozenset[str]) -> bool:
    return any(
        access.tensor.buffer is MemoryRegion.shared_hbm or access.tensor.name in bound_names
        for access in accesses_of(instruction)
    )
