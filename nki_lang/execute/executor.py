"""The fast executor: it turns a kernel into a list of closures.

Loading a kernel resolves everything that does not depend on the arrays of a call. A run binds the
arrays, resolves the few instructions that use them, and calls the closures in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from nki_lang.base.dtypes import Array
from nki_lang.execute.bindings import Bindings, bindings_of
from nki_lang.execute.exchange import Meeting, run_together
from nki_lang.execute.memory import Memory
from nki_lang.execute.prepare import Step
from nki_lang.execute.program import Program, program_of
from nki_lang.execute.steps import Steps
from nki_lang.execute.tracking import Tracker
from nki_lang.execute.watching import RaceWatch, cores_may_meet, warn_of_races
from nki_lang.ir.types import KernelIR, Tensor
from nki_lang.semantics.floats import engine_floats
from nki_lang.semantics.state import EngineState

__all__ = ["Executable", "Pool", "load"]


def load(kernel_ir: KernelIR, *, check: bool = False) -> Executable:
    """Prepare a kernel for execution.

    Args:
        kernel_ir: the kernel.
        check: report uninitialised memory that reaches a result (slower, takes more memory).

    Raises:
        NkiExecutionError: an instruction cannot be executed, or a static access leaves its tensor.
    """
    return Executable(program_of(kernel_ir, check=check))


class Executable:
    """A program with its memory; it can run repeatedly, from one thread at a time."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._cores: list[_CoreExecutor] = []
        for index in range(len(program.bodies)):
            shared = self._cores[0].memory if self._cores else None
            self._cores.append(_CoreExecutor(program, index, shared))
        several = len(program.bodies) > 1 and not program.check
        self._watching = several and cores_may_meet(program.bodies)

    @property
    def kernel_ir(self) -> KernelIR:
        """The kernel with accumulation made explicit."""
        return self.program.kernel_ir

    def copy(self) -> Executable:
        """Return the same program with separate memory, for another thread."""
        executable = Executable(self.program)
        executable._watching = False
        return executable

    def run(
        self, inputs: Sequence[Array], outputs: Sequence[Array | None] | None = None
    ) -> list[Array]:
        """Execute the kernel.

        Args:
            inputs: one array for each of ``kernel_ir.inputs``, in order; never written to.
            outputs: arrays to write the results into (C-contiguous, right shape and type), or
                None to allocate them.

        Raises:
            NkiExecutionError: wrong number, shape or type of arrays, or a fault while running.
        """
        watches = self._watches()
        try:
            with engine_floats():
                self._go(self.begin(inputs, outputs))
        finally:
            for core in self._cores if watches else ():
                core.watch = None
        if watches:
            warn_of_races(watches, self.kernel_ir.name)
        return self.finish()

    def _watches(self) -> list[RaceWatch]:
        """Return the race checks of the cores; only the first run has any."""
        if not self._watching:
            return []
        self._watching = False
        watches: list[RaceWatch] = []
        for core in self._cores:
            core.watch = RaceWatch(core.body, core.memory, watches)
            watches.append(core.watch)
        return watches

    @property
    def states(self) -> list[EngineState]:
        """The engine state of each core."""
        return [core.memory.state for core in self._cores]

    def begin(
        self, inputs: Sequence[Array], outputs: Sequence[Array | None] | None = None
    ) -> list[Step]:
        """Bind the arrays of a run; return a closure for each core, to be called once."""
        bindings = bindings_of(self.program, inputs, outputs)
        for core in self._cores:
            core.memory.clear()
        for core in self._cores:
            core.bind(bindings)
        return [core.program(self.program.check) for core in self._cores]

    def finish(self) -> list[Array]:
        """Return the outputs after the closures have run; unwritten elements are NaN, or -1 in
        integers.
        """
        outputs = self.kernel_ir.outputs
        for core in self._cores:
            core.require(outputs)
        memory = self._cores[0].memory
        for tensor in outputs:
            memory.storage(tensor).settle()
        for gap in self.program.gaps:
            gap.poison(memory.array(gap.tensor))
        return [memory.array(tensor).reshape(tensor.shape) for tensor in outputs]

    def _go(self, closures: Sequence[Step]) -> None:
        """Run the cores: alternating when they communicate, else one after the other."""
        if not self.program.communicates:
            for closure in closures:
                closure()
            return
        meeting = Meeting(len(closures))
        for state in self.states:
            state.exchange = meeting
        run_together(closures, meeting)


class _CoreExecutor:
    """The statements of one core, and its memory."""

    def __init__(self, program: Program, index: int, shared: Memory | None) -> None:
        self.body = program.bodies[index]
        self.bound = program.bound
        self.slots = program.slots[index]
        self.memory = Memory(
            program.target,
            shared=shared,
            fresh=program.check,
            track=program.check,
            state=EngineState(program.target, core=index),
        )
        self.tracker: Tracker | None = None
        self.steps: Steps | None = None
        self.watch: RaceWatch | None = None

    def bind(self, bindings: Bindings) -> None:
        """Bind the arrays of a run to the memory."""
        for name, array in bindings.arrays.items():
            self.memory.bind(name, array, filled=name not in bindings.fresh)

    def program(self, check: bool) -> Step:
        """Return the core's closures over its memory, as one callable.

        They are created once; later runs recreate only the closures that use bound arrays.
        """
        if check:
            self.tracker = Tracker(self.memory)
            return Steps(self.body, self.memory, self.tracker, self.bound).run
        if self.watch is not None:
            return Steps(self.body, self.memory, self.watch, self.bound).run
        if self.steps is None:
            self.slots.lend(self.memory)
            self.steps = Steps(self.body, self.memory, None, self.bound)
        else:
            self.steps.rebind()
        return self.steps.run

    def require(self, outputs: Sequence[Tensor]) -> None:
        """Raise an error if a result derives from uninitialised memory."""
        if self.tracker is not None:
            for tensor in outputs:
                self.tracker.require(tensor, "result")


class Pool:
    """Executables of one kernel: each run uses one that no other thread uses."""

    def __init__(self, first: Executable) -> None:
        self.kernel_ir = first.kernel_ir
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

        ``rank`` is the rank of this process in collectives.
        """
        try:
            executable = self._idle.pop()
        except IndexError:
            executable = self._first.copy()
        for state in executable.states:
            state.rank = rank
        results = executable.run(inputs, outputs)
        self._idle.append(executable)  # not after a failure: its state may be incomplete
        return results
