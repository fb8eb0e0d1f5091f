"""The eager interpreter behind ``nki.simulate``: each instruction executes when it is called.

The kernel runs as ordinary Python, so breakpoints and prints see values. The rules of the
language are checked exactly as while tracing, because the same functions build the same
instructions; each built instruction then executes with its semantics.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiError, NkiExecutionError, warn_at
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.source import definition_of, name_of
from nki_lang.base.targets import Target, current_target
from nki_lang.base.tracebacks import without_package_frames
from nki_lang.execute.argument_arrays import ArgumentArray, argument_arrays
from nki_lang.execute.checks import DEFAULT_CHECKS, Check, Finding, Report, checks_of, watch
from nki_lang.execute.checks.base import SimulatedCall, Step
from nki_lang.execute.checks.unused import UnusedCheck
from nki_lang.execute.exchange import Meeting, run_together
from nki_lang.execute.hosts import (
    framework_of,
    kind_of,
    require_writable,
    to_kind,
    to_numpy,
)
from nki_lang.execute.memory import Memory, twin
from nki_lang.execute.prepare import OPERAND_ERRORS, failure, prepare
from nki_lang.execute.ranks import meeting_of
from nki_lang.execute.recording import RecordedStep, Recorder
from nki_lang.execute.replay import RECORDS, call_key_of
from nki_lang.execute.tracking import Tracker
from nki_lang.frontend.builder import TraceBuilder, building
from nki_lang.ir.types import (
    Access,
    Constant,
    ForLoop,
    Instruction,
    NoReorder,
    Register,
    Tensor,
    WhileLoop,
)
from nki_lang.semantics.floats import engine_floats
from nki_lang.semantics.numbers import convert
from nki_lang.semantics.state import EngineState
from nki_lang.tracing.body import run_body
from nki_lang.tracing.results import Structure, rebuild
from nki_lang.tracing.tracer import Schedule, bind_inputs, check_cores, collect_outputs

__all__ = ["EagerBuilder", "Simulation", "simulate", "simulate_ranks"]

_KernelResult = tuple[tuple[Tensor, ...], Structure]
"""Tensors that a core returned, and the structure that contains them."""

_Program = Callable[[], _KernelResult]
"""Function that runs the kernel on one core."""


class EagerBuilder(TraceBuilder):
    """Executes instructions as they are built, and stores none of them.

    Attributes:
        memory: memory of the core.
        tracker: follows uninitialised elements.
        checks: the checks that examine every instruction.
        straight: True while a trace would issue the same instructions.
    """

    eager = True
    straight = True

    def __init__(self, target: Target, memory: Memory, **options: Any) -> None:
        super().__init__(target, **options)
        self.memory = memory
        self.tracker = Tracker(memory)
        self.checks: list[Check] = []

    def execute(self, instruction: Instruction) -> None:
        """Execute the instruction now."""
        self.block.pop()
        try:
            checks = [check for check in self.checks if check.concerns(instruction)]
            if not checks and self.tracker.quick(instruction):
                return
            resolved = self.tracker.resolved(instruction)
            skipped = self.tracker.skips(resolved)
            if not checks:
                self._run(resolved, skipped=skipped)
                return
            step = Step(resolved, skipped=skipped)
            for check in checks:
                check.inferred = resolved is not instruction
                check.before(step)
            self._run(resolved, skipped=skipped)
            recorder = self.tracker.recorder
            for check in checks:
                check.after(step)
                if recorder is not None and not check.is_static:
                    recorder.refuse()
        except (NkiExecutionError, *OPERAND_ERRORS) as error:
            fault = failure(error, instruction)
            raise fault from (None if isinstance(error, NkiExecutionError) else error)

    def _run(self, instruction: Instruction, *, skipped: bool) -> None:
        if not (skipped or self.tracker.quick(instruction)):
            self.tracker.run(instruction, prepare(instruction, self.memory))

    def allocate(self, tensor: Tensor) -> None:
        """Allocate memory that lives as long as the kernel can reach the tensor."""
        if tensor.on_chip:
            self.tensors[tensor.name] = twin(tensor)
            if tensor.address is None:
                self.memory.recycle(tensor)
            elif tensor.buffer is MemoryRegion.psum:
                self.tracker.forget_with(tensor)

    def allocate_constant(self, constant: Constant) -> None:
        """Allocate the constant's memory with its value."""
        self.memory.bind(constant.tensor.name, np.array(constant.value, order="C"))

    def enter_loop(self, loop: ForLoop | WhileLoop | NoReorder) -> None:
        """Open a region; the loop executes its body once per iteration."""
        self.straight = False
        super().enter_loop(loop)

    def register_value(self, register: Register) -> int:
        """Return the current value of the register."""
        self.straight = False
        return self.memory.state.registers[register.name]

    def tensor_value(self, access: Access) -> Array:
        """Return a copy of the elements of an access."""
        self.straight = False
        self.memory.storage(access.tensor).settle()
        return np.array(self.memory.read(access))


class Simulation:
    """A kernel as a function that interprets it on NumPy, torch or JAX arrays.

    It takes the kernel's arguments and returns the kernel's results, as arrays of the kind that
    was passed. Arguments that the kernel writes in place are changed in place (JAX arrays cannot
    be). ``kernel[2]`` runs as two cores that alternate at barriers.

    Attributes:
        report: findings of the checks in the last call.
        checks: the requested checks; None for the default checks, which warn.
    """

    def __init__(
        self,
        kernel: Any,
        target: Target | None = None,
        checks: str | Iterable[str] | None = None,
    ) -> None:
        self.kernel = kernel
        self.func = getattr(kernel, "func", kernel)
        self.grid = tuple(getattr(kernel, "grid", ()) or ())
        self.target = target
        self.checks = None if checks is None else checks_of(checks)
        self.report = Report()
        self.__name__ = f"simulate_{getattr(self.func, '__name__', 'kernel')}"

    @without_package_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel.

        Raises:
            NkiValidationError: the kernel breaks a rule of the language.
            NkiExecutionError: the kernel fails while it runs; ``NKI-UNINITIALISED`` when an
                uninitialised value reaches a result.
        """
        target = self.target or getattr(self.kernel, "target", None) or current_target()
        chosen = watch.requested_checks() if self.checks is None else None
        by_default = self.checks is None and chosen is None
        checks = (
            checks_of(DEFAULT_CHECKS if by_default else chosen)
            if self.checks is None
            else self.checks
        )
        run = _SimulatedCallRun(self.func, self.grid, target, checks)
        run.thorough = not by_default
        run.schedule = tuple(getattr(self.kernel, "schedule", ()))
        self.report = run.report
        key = None if self.grid else self._key(args, kwargs, run)
        try:
            result = run.call(args, kwargs) if key is None else run.again(key, args, kwargs)
        except NkiError as error:
            watch.report_to(self.func, run.report, error)
            raise
        watch.report_to(self.func, run.report, None)
        if by_default:
            _warn(run.report)
        return result

    def _key(
        self, args: tuple[object, ...], kwargs: dict[str, object], run: _SimulatedCallRun
    ) -> Hashable | None:
        options = run.target.name, run.checks, run.thorough, run.schedule
        return call_key_of(self.func, args, kwargs, options)


def _warn(report: Report) -> None:
    """Warn at the user's lines of the findings of the default checks."""
    for finding in report:
        if finding.check in DEFAULT_CHECKS:
            text = f"[{finding.code}] {finding.message}; {finding.remedy}"
            warn_at(finding.location, text)


def simulate(
    kernel: Any, *, target: Target | None = None, checks: str | Iterable[str] | None = None
) -> Simulation:
    """Return a function that interprets ``kernel`` eagerly.

    Args:
        kernel: a kernel or a plain function.
        target: the family; None for the kernel's own or the current one.
        checks: names of further checks (``"finite"``, ``"unused"``, ``"overlap"``,
            ``"accumulation"``, ``"races"``, ``"capacity"``, ``"precision"``, or ``"all"``, or
            ``()`` for none); their findings are in ``report`` of the result. With None, the
            checks for overlap, accumulation, and races inside a core run, and warn.

    Raises:
        NkiValidationError: code ``NKI-CHECK``; there is no such check.
    """
    return Simulation(kernel, target, checks)


def simulate_ranks(
    kernel: Any, calls: Sequence[Mapping[str, Any]], *, target: Target | None = None
) -> list[Any]:
    """Interpret ``kernel`` eagerly once for each rank; ranks meet in its collectives.

    Args:
        kernel: a kernel (``kernel[2]`` runs each rank as two cores) or a plain function.
        calls: for each rank its arguments by name.
        target: the family; None for the kernel's own or the current one.

    Returns:
        The kernel's results for each rank.

    Raises:
        NkiExecutionError: ``NKI-COLLECTIVE`` or ``NKI-DEADLOCK`` when ranks do not meet.
    """
    family = target or getattr(kernel, "target", None) or current_target()
    grid = tuple(getattr(kernel, "grid", ()) or ())
    runs = [_SimulatedCallRun(getattr(kernel, "func", kernel), grid, family) for _ in calls]
    begun = [run.begin((), dict(call))[0] for run, call in zip(runs, calls, strict=True)]
    meeting = meeting_of([run.states for run in runs])
    results = run_together([program for programs in begun for program in programs], meeting)
    cores = grid[0] if grid else 1
    return [run.finish(*first) for run, first in zip(runs, results[::cores], strict=True)]


class _SimulatedCallRun:
    """One call of a simulated kernel."""

    def __init__(
        self,
        func: Callable[..., Any],
        grid: tuple[int, ...],
        target: Target,
        checks: tuple[type[Check], ...] = (),
    ) -> None:
        self.checks = checks
        self.schedule: Schedule = ()
        self.thorough = True
        self.report = Report()
        self.func = func
        self.grid = grid
        self.target = target
        self.arguments: list[ArgumentArray] = []
        self.inputs: dict[str, ArgumentArray] = {}
        self.builders: list[EagerBuilder] = []
        self.returned: dict[int, _KernelResult] = {}
        self.recorder: Recorder | None = None

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        programs, meeting = self.begin(args, kwargs)
        call = SimulatedCall(self.func, args, kwargs, self.target, self.grid)
        try:
            returned = self._execute(programs, meeting)
        except Exception:
            self._add_conclusions(call, straight=False)
            raise
        self._add_conclusions(call, straight=all(builder.straight for builder in self.builders))
        return self.finish(*returned)

    def again(self, key: Hashable, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Make a call that may have been recorded, or that a later call may replay."""
        record = RECORDS.find(key)
        if record is not None and record.lock.acquire(blocking=False):
            try:
                return record.call.replay(record.steps, args, kwargs)
            except OPERAND_ERRORS:  # the interpreted call reports the instruction
                RECORDS.remove(key)
            finally:
                record.lock.release()
            return self.call(args, kwargs)
        if record is not None or not RECORDS.is_due(key, self.func):
            return self.call(args, kwargs)
        self.recorder = Recorder()
        result = self.call(args, kwargs)
        steps = self.recorder.finish()
        builder = self.builders[0]
        is_silent = builder.straight and not self.report.findings
        if steps is not None and is_silent and builder.written.isdisjoint(self.inputs):
            self._forget_originals()
            RECORDS.add(key, steps, self)
        return result

    def replay(
        self, steps: list[RecordedStep], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Execute the steps of this recorded call on the arrays of another call."""
        recorded = [argument.array for argument in self.arguments]
        passed = argument_arrays(self.func, args, kwargs)
        for array, argument in zip(recorded, passed, strict=True):
            np.copyto(array, argument.array)
        self.arguments = [
            ArgumentArray(argument.original, array)
            for array, argument in zip(recorded, passed, strict=True)
        ]
        self.inputs = dict(zip(self.inputs, self.arguments, strict=True))
        self.builders[0].memory.state.reset()
        try:
            with engine_floats():
                for step in steps:
                    step()
            return self._deliver(*self.returned[0])
        finally:
            self._forget_originals()

    def _forget_originals(self) -> None:
        """Release the caller's arrays."""
        self.arguments = [ArgumentArray(None, argument.array) for argument in self.arguments]
        self.inputs = dict(zip(self.inputs, self.arguments, strict=True))

    def _execute(self, programs: list[_Program], meeting: Meeting) -> _KernelResult:
        if len(programs) > 1:
            return run_together(programs, meeting)[0]
        with engine_floats():
            return programs[0]()

    def _add_conclusions(self, call: SimulatedCall, *, straight: bool) -> None:
        """Add the findings of each check about the call as a whole."""
        for kind in self.checks:
            checks = [
                check
                for builder in self.builders
                for check in builder.checks
                if type(check) is kind
            ]
            findings = kind.conclude(checks, call, straight=straight)
            self.report.findings += findings or []
            for check in checks:
                check.concluded = findings is not None

    def begin(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[_Program], Meeting]:
        """Return the program of each core, and the meeting that synchronizes them."""
        self.arguments = argument_arrays(self.func, args, kwargs)
        if self.recorder is not None:  # replays write other values into the arrays
            self.arguments = [entry.copied() for entry in self.arguments]
        count = self.grid[0] if self.grid else 1
        meeting = Meeting(count)
        shared: list[Tensor] = []
        for core in range(count):
            self._add_core(core, count, shared, meeting)
        return [self._program(builder, args, kwargs) for builder in self.builders], meeting

    @property
    def states(self) -> list[EngineState]:
        """The engine state of each core."""
        return [builder.memory.state for builder in self.builders]

    def finish(self, outputs: tuple[Tensor, ...], structure: Structure) -> Any:
        """Return the results of the call, from what its first core returned."""
        results = [self.returned[builder.core] for builder in self.builders]
        check_cores(results, self.builders, self.func)
        for builder in self.builders:
            for check in builder.checks:
                self.report.findings += check.finish()
        for builder in self.builders:
            for tensor in outputs:
                builder.tracker.require(tensor, "result")
        for tensor in outputs:
            self._report_unwritten(tensor)
        if not outputs and UnusedCheck in self.checks:
            self._report_no_result()
        return self._deliver(outputs, structure)

    def _report_no_result(self) -> None:
        """Report a kernel that returns nothing and writes no argument."""
        written = set[str]().union(*(builder.written for builder in self.builders))
        if written & set(self.inputs):
            return
        finding = Finding(
            UnusedCheck.name,
            "NKI-NO-RESULT",
            f"kernel {name_of(self.func)!r} returns no tensor and writes no argument, so its caller "
            "gets None",
            definition_of(self.func),
            "return the tensors in nl.shared_hbm that it writes",
        )
        self.report.findings.append(finding)

    def _report_unwritten(self, tensor: Tensor) -> None:
        unwritten = self.builders[0].tracker.unwritten(tensor)
        if unwritten is None:
            return
        count = int(unwritten.sum())
        first = np.unravel_index(int(np.argmax(unwritten)), unwritten.shape)
        position = ", ".join(str(int(coordinate)) for coordinate in first)
        finding = Finding(
            "unwritten",
            "NKI-UNWRITTEN",
            f"{count} of the {unwritten.size} elements of the result {tensor.name!r} were never "
            f"written, the first is [{position}]; what a device returns there is undefined",
            definition_of(self.func),
            "write the whole result, or return the part that is written",
            {"tensor": tensor.name, "unwritten": count, "elements": unwritten.size},
        )
        self.report.findings.append(finding)
        warnings.warn(str(finding), UserWarning, stacklevel=4)

    def _add_core(self, core: int, count: int, shared: list[Tensor], meeting: Meeting) -> None:
        state = EngineState(self.target, core=core, exchange=meeting if count > 1 else None)
        first = self.builders[0] if self.builders else None
        memory = Memory(
            self.target, shared=first.memory if first else None, track=True, state=state
        )
        builder = EagerBuilder(
            self.target,
            memory,
            core=core,
            lnc=count,
            grid=self.grid,
            shared=shared,
            constants=first.constants if first else None,
        )
        builder.tracker.recorder = self.recorder
        for kind in self.checks:
            earlier = tuple(
                check
                for builder_before in self.builders
                for check in builder_before.checks
                if type(check) is kind
            )
            check = kind(memory, earlier)
            check.schedule, check.thorough = self.schedule, self.thorough
            builder.checks.append(check)
        self.builders.append(builder)

    def _program(
        self, builder: EagerBuilder, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Program:
        def run() -> _KernelResult:
            with building(builder):
                call, inputs = bind_inputs(self.func, args, kwargs, builder)
                if builder.core == 0:
                    for tensor, argument in zip(inputs, self.arguments, strict=True):
                        self.inputs[tensor.name] = argument
                        passed = to_numpy(argument.original)
                        builder.memory.bind(tensor.name, argument.array, origin=passed)
                value = run_body(self.func, call)
                builder.require_closed()
                self.returned[builder.core] = collect_outputs(value, self.func, builder)
                return self.returned[builder.core]

        return run

    def _deliver(self, outputs: tuple[Tensor, ...], structure: Structure) -> Any:
        names = set[str]().union(*(builder.written for builder in self.builders))
        written = {name: argument for name, argument in self.inputs.items() if name in names}
        self._check_written(written, {tensor.name for tensor in outputs})
        for argument in written.values():
            argument.give_back()
        originals = [entry.original for entry in self.arguments if kind_of(entry.original)]
        kind = kind_of(originals[0]) if originals else "numpy"
        results = [self._result(tensor, kind) for tensor in outputs]
        if originals:
            same_kind = [array for array in originals if kind_of(array) == kind]
            changed = [
                argument.original
                for argument in written.values()
                if kind_of(argument.original) == kind
            ]
            results = framework_of(originals[0]).results(results, changed, same_kind)
        return rebuild(structure, tuple(results))

    def _check_written(self, written: dict[str, ArgumentArray], returned: set[str]) -> None:
        """Refuse a kernel whose in-place writes the caller could not see."""
        name = name_of(self.func)
        originals = {key: argument.original for key, argument in written.items()}
        unreturned = [
            key for key in originals if kind_of(originals[key]) == "jax" and key not in returned
        ]
        if unreturned and returned:
            raise NkiExecutionError(
                f"kernel {name!r} writes its argument {', '.join(sorted(unreturned))} and does not return"
                " it; JAX's arrays cannot be written in place, so the values would be lost",
                code="NKI-WRITE-LOST",
                location=definition_of(self.func),
                remedy="return the argument too, or let the kernel write a tensor of its own",
            )
        for key, value in originals.items():
            if refusal := framework_of(value).refusal(self.func, key, value):
                raise refusal
        in_place = {
            key: to_numpy(array) for key, array in originals.items() if kind_of(array) != "jax"
        }
        require_writable(name, in_place)

    def _result(self, tensor: Tensor, kind: str) -> Any:
        argument = self.inputs.get(tensor.name)
        if argument is not None and kind_of(argument.original) in ("numpy", "torch"):
            return argument.original
        memory = self.builders[0].memory
        memory.storage(tensor).settle()
        value = memory.array(tensor).reshape(tensor.shape)
        if self.recorder is not None:  # replays write the memory again
            value = value.copy()
        return to_kind(convert(value, tensor.dtype.dtype), kind)
