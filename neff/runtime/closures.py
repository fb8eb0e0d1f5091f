"""The ordered instructions of a core as closures over its memory.

Almost all closures are made once, when the model is loaded. Those that touch an input or an
output are made again when other arrays are bound, and only then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection

from hlo_tools.errors import reports_bugs
from neff.errors import NeffRuntimeError
from nki_lang import ir
from nki_lang.analysis.liveness import accesses_of
from nki_lang.base.errors import NkiError
from nki_lang.execute import (
    MAX_STATEMENTS,
    LoopFunction,
    Memory,
    Tracker,
    direct_step,
    loop_step,
    prepare,
)
from nki_lang.execute import OPERAND_ERRORS as UNFIT
from nki_lang.ir import ForLoop, Instruction, WhileLoop

__all__ = ["FAULTS", "REMEDY", "Block"]

Step = Callable[[], object]

FAULTS = (*UNFIT, AttributeError, AssertionError)
"""Exceptions of an instruction's semantics for an operand of an unsupported kind.

The compiler makes no such program: one of its own that fails so has met a bug of ours, which tests
and fuzzers see as it is.
"""
REMEDY = (
    "the program is damaged: build it again; if that does not help it is a bug, please report it "
    "with the NEFF"
)


class Block:
    """One loop body, or the outermost program.

    Args:
        ordered: its instructions in order.
        memory: what they work on.
        external: names of the variables whose arrays change from run to run.
        place: file and subgraph, for errors.
        tracker: follows uninitialised memory, or None.

    Raises:
        NeffRuntimeError: an instruction cannot be executed or leaves its tensor.
    """

    __slots__ = (
        "_loose", "_memory", "_place", "_runs", "_sources", "_steps", "_tracker", "inner",
        "loop_function",
    )  # fmt: skip

    def __init__(
        self,
        ordered: ir.Block,
        memory: Memory,
        external: frozenset[str],
        place: str,
        tracker: Tracker | None = None,
    ) -> None:
        self._memory, self._place, self._tracker = memory, place, tracker
        self._steps: list[Step] = []
        self._sources: ir.Block = ordered
        self._loose: list[tuple[int, frozenset[str]]] = []
        self._runs = 0
        self.loop_function: LoopFunction | None = None
        self.inner: list[Block] = []
        for index, entry in enumerate(ordered):
            if isinstance(entry, ForLoop | WhileLoop):
                body = Block(entry.body, memory, external, place, tracker)
                self.inner.append(body)
                self._steps.append(body.loop_step(entry))
            elif not isinstance(entry, Instruction):
                raise TypeError(f"{type(entry).__name__} has no place in an ordered program")
            elif external_names := external & {access.tensor.name for access in accesses_of(entry)}:
                self._loose.append((index, external_names))
                self._steps.append(_unbound)
            else:
                self._steps.append(self._prepared(entry))

    def loop_step(self, loop: ForLoop | WhileLoop) -> Step:
        """Return a closure that executes the loop of which this is the body."""
        registers = self._memory.state.registers
        if self._tracker is not None or len(self._steps) > MAX_STATEMENTS:
            return loop_step(loop, self.run, registers)
        self.loop_function = LoopFunction(loop, self._sources, self._steps, self._memory)
        return self._run_loop

    def bind(self, names: Collection[str]) -> None:
        """Make the closures that see one of some inputs and outputs anew."""
        renewed: list[int] = []
        for index, external_names in self._loose:
            if not external_names.isdisjoint(names):
                self._steps[index] = self._closure(self._sources[index])
                renewed.append(index)
        if self.loop_function is not None and renewed:
            self.loop_function.renew(renewed)
        for body in self.inner:
            body.bind(names)

    def release(self) -> None:
        """Let go of the arrays that were bound."""
        for index, _ in self._loose:
            self._steps[index] = _unbound
        if self.loop_function is not None:
            self.loop_function.renew(index for index, _ in self._loose)
        for body in self.inner:
            body.release()

    def run(self) -> None:
        """Execute everything in order."""
        self._runs += 1
        if self._runs == 2 and self._tracker is None:
            self._shorten()
        position = 0
        try:
            for step in self._steps:
                step()
                position += 1
        except NkiError as error:
            if error.code == "NKI-DEADLOCK":  # of cores; who fell out first is sorted out above
                raise
            raise self._failure(error, position) from None
        except FAULTS as error:
            raise self._failure(error, position) from error

    def _run_loop(self) -> None:
        """Execute the loop of which this is the body."""
        assert self.loop_function is not None
        try:
            self.loop_function.run()
        except (NkiError, *FAULTS) as error:
            position = self.loop_function.position(error)
            if position is None or getattr(error, "code", "") == "NKI-DEADLOCK":
                raise
            cause = None if isinstance(error, NkiError) else error
            raise self._failure(error, position) from cause

    def _shorten(self) -> None:
        """Replace closures by calls of NumPy: a program that runs again will run often."""
        for index, entry in enumerate(self._sources):
            if isinstance(entry, Instruction) and self._steps[index] is not _unbound:
                self._steps[index] = direct_step(entry, self._memory) or self._steps[index]

    def _closure(self, instruction: ir.Statement) -> Step:
        """Return the closure of an instruction over the arrays that are bound now."""
        step = self._prepared(instruction)
        if self._runs < 2 or self._tracker is not None or not isinstance(instruction, Instruction):
            return step
        return direct_step(instruction, self._memory) or step

    def _prepared(self, instruction: ir.Statement) -> Step:
        assert isinstance(instruction, Instruction)
        try:
            step = prepare(instruction, self._memory)
            if self._tracker is None:
                return step
            return functools.partial(self._tracker.run, instruction, step)
        except NkiError as error:
            raise _fault(error, instruction, self._place) from None
        except FAULTS as error:
            raise _fault(error, instruction, self._place) from error

    def _failure(self, error: Exception, position: int) -> NeffRuntimeError:
        source = self._sources[position]
        return _fault(error, source, self._place)


def _fault(error: Exception, source: ir.Statement, where: str) -> NeffRuntimeError:
    what = source.op if isinstance(source, Instruction) else "loop"
    location = getattr(error, "location", None) or source.location
    if isinstance(error, NkiError):
        return NeffRuntimeError(
            f"{what}: {error.message}",
            code="NEFF-EXEC-" + error.code.removeprefix("NKI-"),
            place=str(location or where),
            remedy=error.remedy,
        )
    if not reports_bugs():
        raise error
    return NeffRuntimeError(
        f"{what} cannot be executed: {type(error).__name__}: {error}",
        code="NEFF-EXEC",
        place=str(location or where),
        remedy=f"the shapes, types or values of its operands do not fit; {REMEDY}",
    )


def _unbound() -> None:
    raise NeffRuntimeError(
        "no arrays are bound to the program's inputs and outputs",
        code="NEFF-UNBOUND",
        remedy="run it with LoadedModel.run, which binds them",
    )
