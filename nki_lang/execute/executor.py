"""The fast executor: a kernel becomes a list of closures.

Loading a kernel resolves what does not depend on the arrays of a call; running binds the arrays,
resolves the few instructions that touch them, and calls the closures one after the other.
"""

from __future__ import annotations

import copy
import functools
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from nki_lang.errors import NkiError, NkiExecutionError, warn_at
from nki_lang.execute.coalescing import coalesce
from nki_lang.execute.exchange import Meeting, run_together
from nki_lang.execute.forwarding import forward
from nki_lang.execute.gaps import Gap, gaps_of
from nki_lang.execute.liveness import accesses_of, assign_slots
from nki_lang.execute.loops import loop_step
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import Step, failure, prepare
from nki_lang.execute.tracking import Tracker
from nki_lang.ir.accumulation import resolve_accumulation
from nki_lang.ir.types import (
    Block,
    Instruction,
    KernelIR,
    NoReorder,
    Tensor,
)
from nki_lang.memory import MemoryRegion
from nki_lang.semantics.floats import engine_floats
from nki_lang.semantics.state import EngineState
from nki_lang.targets import target_of

__all__ = ["Executable", "Pool", "load"]

Array = np.ndarray[Any, Any]
_TALK = frozenset({"core_barrier", "sendrecv"})


def load(kernel: KernelIR, *, check: bool = False) -> Executable:
    """Make a kernel ready to run.

    Args:
        kernel: the kernel.
        check: report uninitialised memory that reaches a result (slower, takes more memory).

    Raises:
        NkiExecutionError: an instruction has no meaning, or a static access leaves its tensor.
    """
    return Executable(kernel, check=check)


class Executable:
    """A loaded kernel; it can run any number of times, from one thread at a time.

    Attributes:
        kernel: the kernel with accumulation made explicit.
        check: uninitialised reads are looked for.
        gaps: what the results lack, as far as that is known before a run; those elements are
            NaN, in integer types -1.
    """

    def __init__(self, kernel: KernelIR, *, check: bool = False) -> None:
        self.check = check
        self.kernel = resolve_accumulation(kernel)
        self._target = target_of(kernel.target)
        self._constants = {entry.tensor.name: entry.value for entry in kernel.constants}
        self._bound = frozenset(self._constants).union(
            tensor.name for tensor in (*kernel.inputs, *kernel.outputs)
        )
        self.gaps = [] if check else self._find_gaps()
        self._bodies = self._simplified()
        self._cores = self._load_cores()
        self._talking = len(self._cores) > 1 and any(
            instruction.op in _TALK for instruction in self.kernel.instructions()
        )

    def _find_gaps(self) -> list[Gap]:
        """Elements of the results that nothing writes; each result is warned of once."""
        kernel = self.kernel
        known = [*(tensor.name for tensor in kernel.inputs), *self._constants]
        gaps = gaps_of(kernel.bodies, kernel.outputs, known)
        for gap in gaps:
            warn_at(
                gap.location,
                f"[NKI-UNWRITTEN] kernel {kernel.name!r}: {gap.message}; write the whole result, "
                "or return the part that is written",
            )
        return gaps

    def another(self) -> Executable:
        """The same kernel with memory of its own, for another thread."""
        twin = copy.copy(self)
        twin._cores = twin._load_cores()
        return twin

    def _simplified(self) -> tuple[Block, ...]:
        """The statements of each core with fewer, larger steps."""
        bodies = self.kernel.bodies
        if self.check or len(bodies) > 1:
            return bodies
        return (coalesce(forward(bodies[0], self.kernel)),)

    def _load_cores(self) -> list[_Core]:
        cores: list[_Core] = []
        for index, body in enumerate(self._bodies):
            memory = Memory(
                self._target,
                shared=cores[0].memory if cores else None,
                fresh=self.check,
                track=self.check,
                state=EngineState(self._target, core=index),
            )
            cores.append(_Core(body, memory, self._bound))
        return cores

    def run(
        self, inputs: Sequence[Array], outputs: Sequence[Array | None] | None = None
    ) -> list[Array]:
        """Execute the kernel.

        Args:
            inputs: one array for each of ``kernel.inputs``, in order; never written to.
            outputs: arrays to write the results into (C-contiguous, right shape and type), or
                None to have them made.

        Raises:
            NkiExecutionError: wrong number, shape or type of arrays, or a fault while running.
        """
        with engine_floats():
            self._go(self.begin(inputs, outputs))
        return self.finish()

    @property
    def states(self) -> list[EngineState]:
        """The state of each core."""
        return [core.memory.state for core in self._cores]

    def begin(
        self, inputs: Sequence[Array], outputs: Sequence[Array | None] | None = None
    ) -> list[Step]:
        """Bind the arrays of a run; the program of each core, to be called once."""
        arrays, fresh = self._bindings(inputs, outputs)
        for core in self._cores:
            core.memory.clear()
        for core in self._cores:
            for name, array in arrays.items():
                core.memory.bind(name, array, filled=name not in fresh)
        return [core.program(self.check) for core in self._cores]

    def finish(self) -> list[Array]:
        """The outputs, after the programs have run."""
        for core in self._cores:
            core.require(self.kernel.outputs)
        memory = self._cores[0].memory
        for tensor in self.kernel.outputs:
            memory.storage(tensor).settle()
        for gap in self.gaps:
            gap.poison(memory.array(gap.tensor))
        return [memory.array(tensor).reshape(tensor.shape) for tensor in self.kernel.outputs]

    def _go(self, programs: Sequence[Step]) -> None:
        """Run the cores: in turns when they talk to each other, else one after the other."""
        if not self._talking:
            for program in programs:
                program()
            return
        meeting = Meeting(len(programs))
        for state in self.states:
            state.exchange = meeting
        run_together(programs, meeting)

    def _bindings(
        self, inputs: Sequence[Array], outputs: Sequence[Array | None] | None
    ) -> tuple[dict[str, Array], set[str]]:
        """Every HBM array by name, and the names of those without content yet."""
        kernel = self.kernel
        if len(inputs) != len(kernel.inputs):
            raise NkiExecutionError(
                f"kernel {kernel.name!r} takes {len(kernel.inputs)} arrays, but {len(inputs)} "
                f"were passed",
                code="NKI-ARGUMENTS",
                remedy=f"pass {', '.join(tensor.name for tensor in kernel.inputs)}",
            )
        arrays: dict[str, Array] = dict(self._constants)
        for tensor, array in zip(kernel.inputs, inputs, strict=True):
            arrays[tensor.name] = np.ascontiguousarray(_checked(kernel, tensor, array))
        fresh: set[str] = set()
        given = outputs if outputs is not None else [None] * len(kernel.outputs)
        for index, (tensor, array) in enumerate(zip(kernel.outputs, given, strict=True)):
            if array is not None:
                array = _apart(_checked(kernel, tensor, array), inputs)
            start = arrays.get(tensor.name) if index in kernel.aliases else None
            if start is None:
                fresh.add(tensor.name)
            arrays[tensor.name] = _output(tensor, array, start)
        return arrays, fresh


def _checked(kernel: KernelIR, tensor: Tensor, array: Any) -> Array:
    array = np.asarray(array)
    if tuple(array.shape) == tensor.shape and array.dtype == tensor.dtype.dtype:
        return array
    raise NkiExecutionError(
        f"argument {tensor.name!r} of kernel {kernel.name!r} was traced as {tensor.shape} "
        f"{tensor.dtype}, but the array is {tuple(array.shape)} {array.dtype}",
        code="NKI-ARGUMENTS",
        remedy="pass an array of that shape and type, or trace the kernel again",
    )


def _apart(given: Array, inputs: Sequence[Array]) -> Array:
    """The array to write into; it may not lie in an input, which must stay as it is."""
    if not given.flags.c_contiguous or not given.flags.writeable:
        raise NkiExecutionError(
            "an output array must be C-contiguous and writable",
            code="NKI-ARGUMENTS",
            remedy="pass np.empty(shape, dtype), or None to have the array made",
        )
    if any(np.may_share_memory(given, array) for array in inputs):
        raise NkiExecutionError(
            "an output array shares memory with an input",
            code="NKI-ARGUMENTS",
            remedy="pass an array of its own; inputs that are written in place are copied anyway",
        )
    return given


def _output(tensor: Tensor, given: Array | None, start: Array | None) -> Array:
    if given is None:
        # Zeros, not whatever was there: what the kernel leaves unwritten is the same each time.
        return start.copy() if start is not None else np.zeros(tensor.shape, tensor.dtype.dtype)
    if start is not None:
        np.copyto(given, start)
    return given


class _Core:
    """The statements of one core, and its memory."""

    def __init__(self, body: Block, memory: Memory, bound: frozenset[str]) -> None:
        self.body = body
        self.memory = memory
        self.bound = bound
        self.slots = assign_slots(body, bound)
        self.tracker: Tracker | None = None
        self.steps: _Steps | None = None

    def program(self, check: bool) -> Step:
        """The core's closures over its memory, as one callable.

        They are made once; later runs only make those again that see the bound arrays.
        """
        if check:
            self.tracker = Tracker(self.memory)
            return _Steps(self.body, self.memory, self.tracker, self.bound).run
        if self.steps is None:
            self.slots.lend(self.memory)
            self.steps = _Steps(self.body, self.memory, None, self.bound)
        else:
            self.steps.rebind()
        return self.steps.run

    def require(self, outputs: Sequence[Tensor]) -> None:
        """Complain about results that come from uninitialised memory."""
        if self.tracker is not None:
            for tensor in outputs:
                self.tracker.require(tensor, "result")


class _Steps:
    """The closures of one block, with the instruction of each for errors."""

    __slots__ = ("bound", "given", "inner", "memory", "sources", "steps", "tracker")

    def __init__(
        self, block: Block, memory: Memory, tracker: Tracker | None, given: frozenset[str]
    ) -> None:
        self.memory = memory
        self.tracker = tracker
        self.given = given
        self.steps: list[Step] = []
        self.sources: list[Instruction | None] = []
        self.bound: list[int] = []
        self.inner: list[_Steps] = []
        self._add(block)

    def _add(self, block: Block) -> None:
        for statement in block:
            if isinstance(statement, NoReorder):
                self._add(statement.body)
            elif isinstance(statement, Instruction):
                if _sees_bound(statement, self.given):
                    self.bound.append(len(self.steps))
                self.steps.append(self._step(statement))
                self.sources.append(statement)
            else:
                body = _Steps(statement.body, self.memory, self.tracker, self.given)
                self.inner.append(body)
                self.steps.append(loop_step(statement, body.run, self.memory.state.registers))
                self.sources.append(None)

    def _step(self, instruction: Instruction) -> Step:
        step = prepare(instruction, self.memory)
        if self.tracker is None:
            return step
        return functools.partial(self.tracker.run, instruction, step)

    def rebind(self) -> None:
        """Make the closures again that see arrays bound anew."""
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
        except (ValueError, TypeError, IndexError, KeyError, ZeroDivisionError) as error:
            source = self.sources[position]
            if source is None:
                raise
            raise failure(error, source) from error


def _sees_bound(instruction: Instruction, given: frozenset[str]) -> bool:
    return any(
        access.tensor.buffer is MemoryRegion.shared_hbm or access.tensor.name in given
        for access in accesses_of(instruction)
    )


class Pool:
    """Executables of one kernel: each run has one that no other thread uses."""

    def __init__(self, first: Executable) -> None:
        self.kernel = first.kernel
        self._first = first
        self._idle = deque([first])

    def run(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array | None] | None = None,
        *,
        rank: int = 0,
    ) -> list[Array]:
        """Execute the kernel, as :meth:`Executable.run`; from any number of threads at a time.

        ``rank`` is this process's part in collectives.
        """
        try:
            executable = self._idle.pop()
        except IndexError:
            executable = self._first.another()
        for state in executable.states:
            state.rank = rank
        results = executable.run(inputs, outputs)
        self._idle.append(executable)  # not after a failure: its state may be half-way
        return results
