"""The cores that a program runs on: their memories and the closures over them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

import numpy as np

from hlo_tools.errors import reports_bugs
from neff.errors import NeffRuntimeError
from neff.program import Program, Variable
from neff.runtime.closures import FAULTS, REMEDY, Block
from neff.runtime.placement import shares_bytes
from neff.runtime.simplify import free_names, simplify
from neff.runtime.tensors import in_memory
from nki_lang import ir
from nki_lang.analysis.fresh import filled_in, with_fresh_memory
from nki_lang.analysis.liveness import Slots
from nki_lang.analysis.unwritten import UnwrittenRead
from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiError
from nki_lang.base.targets import target_of
from nki_lang.execute import Meeting, Memory, ReachingRead, Tracker, certain_reads, run_together
from nki_lang.ir import Tensor, walk
from nki_lang.semantics import EngineState

__all__ = ["Machine"]


_MEETING = frozenset({"core_barrier", "sendrecv"})


class Machine:
    """All cores of one program.

    Args:
        program: what runs.
        orders: instructions of each core in order.
        place: the file, for errors.
        by_address: keep every tensor at its address and every instruction by itself.
        check: follow uninitialised memory; such a machine runs once.

    Attributes:
        unwritten_reads: reads that certainly find nothing; none are looked for with ``check``.
    """

    def __init__(
        self,
        program: Program,
        orders: list[ir.Block],
        place: str,
        *,
        by_address: bool = False,
        check: bool = False,
    ) -> None:
        self._program, self._place, self._check = program, place, check
        self._external = frozenset(program.inputs) | frozenset(program.outputs)
        self._bound: dict[str, Array] = {}
        self._talking = len(orders) > 1 and any(
            inst.op in _MEETING for order in orders for inst in walk(order)
        )
        alone = len(orders) == 1 and not by_address
        loose = free_names(orders[0], program) if alone else None
        self._memories = self._make_memories(len(orders), loose=loose is not None)
        bodies = orders if loose is None else [loose]
        self.unwritten_reads: list[UnwrittenRead | ReachingRead] = []
        if not check:
            shared = loose is None and any(shares_bytes(body, program) for body in bodies)
            filled = self._with_fresh_memory(bodies, shared=shared)
            doubtful = filled_in(filled)
            if doubtful:
                results, target = [] if shared else self._results(), target_of(program.target)
                self.unwritten_reads = certain_reads(bodies, results, doubtful, target)
            bodies = filled
        if loose is not None and not check:
            short, slots = self._simplified(bodies[0])
            slots.lend(self._memories[0])
            bodies = [short]
        self._trackers = [Tracker(memory) if check else None for memory in self._memories]
        self._blocks = [
            Block(body, memory, self._external, f"{place}: sg{core:02d}", tracker)
            for core, (body, memory, tracker) in enumerate(
                zip(bodies, self._memories, self._trackers, strict=True)
            )
        ]

    def _with_fresh_memory(self, bodies: list[ir.Block], *, shared: bool) -> list[ir.Block]:
        variables = self._program.variables
        initialized = {n for n, v in variables.items() if v.kind == "constant" or v.alias}
        initialized |= set(self._program.inputs)
        results = self._results()
        with self._operand_faults():
            return list(with_fresh_memory(bodies, initialized, results, shared_bytes=shared))

    def _results(self) -> list[Tensor]:
        variables = self._program.variables
        return [variables[name].tensor for name in self._program.outputs]

    @contextmanager
    def _operand_faults(self) -> Generator[None]:
        try:
            yield
        except FAULTS as error:
            if not reports_bugs():
                raise
            raise NeffRuntimeError(
                f"an operand is of a kind that its instruction does not take: {error}",
                code="NEFF-OPERAND",
                place=self._place,
                remedy=REMEDY,
            ) from error

    def _simplified(self, body: ir.Block) -> tuple[ir.Block, Slots]:
        with self._operand_faults():
            return simplify(body, self._program)

    def bind(self, arrays: dict[str, Array], fresh: set[str]) -> None:
        """Show arrays to the closures, unless they are those of the last run.

        Args:
            arrays: one for each input and output.
            fresh: those without content yet.
        """
        bound = self._bound
        changed = {
            name
            for name, array in arrays.items()
            if name not in bound or not _same(array, bound[name])
        }
        if not changed:
            return
        self._bound = {}
        for name in changed:
            for memory in self._memories:
                memory.bind(name, in_memory(arrays[name]), filled=name not in fresh)
        for block in self._blocks:
            block.bind(changed)
        self._bound = arrays

    def execute(self) -> None:
        """Run every core once.

        Raises:
            NeffRuntimeError: a fault, with the line of the user's kernel.
        """
        programs = self.begin()
        with self.faults():
            if self._talking:
                meeting = Meeting(len(programs))
                for state in self.states:
                    state.exchange = meeting
                run_together(programs, meeting)
            else:
                for program in programs:
                    program()
            self.require_outputs()

    @property
    def states(self) -> list[EngineState]:
        """The state of each core."""
        return [memory.state for memory in self._memories]

    def begin(self) -> list[Callable[[], object]]:
        """Return the steps of each core for one run, from the state before the first
        instruction.
        """
        for state in self.states:
            state.reset()
        return [block.run for block in self._blocks]

    @contextmanager
    def faults(self) -> Generator[None]:
        """Tell a fault of the kernel as one of the runtime.

        Raises:
            NeffRuntimeError: in the place of the kernel's error.
        """
        try:
            yield
        except NkiError as error:
            raise NeffRuntimeError(
                error.message,
                code="NEFF-EXEC-" + error.code.removeprefix("NKI-"),
                place=str(error.location or self._place),
                remedy=error.remedy,
            ) from None

    def release(self) -> None:
        """Let go of the arrays of the last run."""
        self._bound = {}
        for block, memory in zip(self._blocks, self._memories, strict=True):
            block.release()
            for name in self._external:
                memory.bind(name, np.zeros(0, np.uint8))

    def require_outputs(self) -> None:
        """Refuse outputs with uninitialised elements, when those are followed."""
        for name in self._program.outputs:
            tensor = self._program.variables[name].tensor
            for tracker in self._trackers:
                if tracker is not None:
                    tracker.require(tensor, f"output {name!r}")

    def unwritten_outputs(self) -> dict[str, int]:
        """Elements of each output that the last run left unwritten, when those are followed."""
        counts: dict[str, int] = {}
        for tensor in self._results():
            for tracker in self._trackers[:1]:  # cores share the memory of outputs
                mask = tracker.unwritten(tensor) if tracker is not None else None
                if mask is not None:
                    counts[tensor.name] = int(mask.sum())
        return counts

    def _make_memories(self, cores: int, *, loose: bool) -> list[Memory]:
        """A memory for each core with constants and, unless ``loose``, scratch in its place."""
        target = target_of(self._program.target)
        memories: list[Memory] = []
        for core in range(cores):
            memories.append(
                Memory(
                    target,
                    shared=memories[0] if memories else None,
                    track=self._check,
                    fresh=self._check,
                    precise=True,
                    state=EngineState(target, core=core),
                )
            )
        variables = self._program.variables.values()
        owners = {
            variable.core for variable in variables if variable.kind == "scratch" and not loose
        }
        areas = {core: np.zeros(self._program.scratch_bytes, np.uint8) for core in owners}
        for variable in variables:
            memory = memories[max(0, variable.core)]
            if variable.kind == "constant" and variable.value is not None:
                memory.bind(variable.name, np.ascontiguousarray(variable.value))
            elif variable.kind == "scratch" and not loose:
                memory.bind(variable.name, _part(areas[variable.core], variable), filled=False)
        return memories


def _part(area: Array, variable: Variable) -> Array:
    """The scratch variable's part of its area."""
    raw = area[variable.offset : variable.offset + variable.nbytes]
    return raw.view(variable.dtype.dtype).reshape(variable.shape)


def _same(before: Array, after: Array) -> bool:
    return before is after or (
        before.size > 0
        and before.ctypes.data == after.ctypes.data
        and before.shape == after.shape
        and before.dtype == after.dtype
    )
