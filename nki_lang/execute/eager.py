"""The eager interpreter behind ``nki.simulate``: each instruction is executed as it is written.

The kernel runs as ordinary Python, so breakpoints and prints see values. The rules of the
language are checked exactly as while tracing, because the same functions build the same
instructions; afterwards each of them runs through its meaning.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lang.dtypes import Array
from nki_lang.errors import NkiError, NkiExecutionError, warn_at
from nki_lang.execute.checks import DEFAULT_CHECKS, Check, Finding, Report, checks_of, watch
from nki_lang.execute.checks.base import SimulatedCall, Step
from nki_lang.execute.exchange import Meeting, run_together
from nki_lang.execute.hosts import (
    framework_of,
    kind_of,
    overlaps_itself,
    require_writable,
    to_kind,
    to_numpy,
)
from nki_lang.execute.memory import Memory, twin
from nki_lang.execute.prepare import FAULTS, failure, prepare
from nki_lang.execute.ranks import meeting_of
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
from nki_lang.memory import MemoryRegion
from nki_lang.semantics.floats import engine_floats
from nki_lang.semantics.numbers import convert
from nki_lang.semantics.state import EngineState
from nki_lang.source import definition_of, name_of
from nki_lang.targets import Target, current_target
from nki_lang.tracebacks import without_own_frames
from nki_lang.tracing.arguments import bind_call, replace_tensors
from nki_lang.tracing.body import run_body
from nki_lang.tracing.results import Structure, rebuild
from nki_lang.tracing.tracer import Schedule, bind_inputs, check_cores, collect_outputs

__all__ = ["EagerBuilder", "Simulation", "simulate", "simulate_ranks"]

_Returned = tuple[tuple[Tensor, ...], Structure]
"""What a core returned, and how it is nested."""

_Program = Callable[[], _Returned]
"""What a core runs."""


class EagerBuilder(TraceBuilder):
    """Executes instructions as they are built, and keeps none of them.

    Attributes:
        memory: memory of the core.
        tracker: follows uninitialised elements.
        checks: what is called at every instruction.
        straight: a trace would issue the same instructions so far.
    """

    eager = True
    straight = True

    def __init__(self, target: Target, memory: Memory, **options: Any) -> None:
        super().__init__(target, **options)
        self.memory = memory
        self.tracker = Tracker(memory)
        self.checks: list[Check] = []

    def execute(self, instruction: Instruction) -> None:
        """Run the instruction now."""
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
            for check in checks:
                check.after(step)
        except (NkiExecutionError, *FAULTS) as error:
            fault = failure(error, instruction)
            raise fault from (None if isinstance(error, NkiExecutionError) else error)

    def _run(self, instruction: Instruction, *, skipped: bool) -> None:
        if not (skipped or self.tracker.quick(instruction)):
            self.tracker.run(instruction, prepare(instruction, self.memory))

    def allocate(self, tensor: Tensor) -> None:
        """The tensor's memory lives as long as the kernel can reach the tensor."""
        if tensor.on_chip:
            self.tensors[tensor.name] = twin(tensor)
            if tensor.address is None:
                self.memory.recycle(tensor)
            elif tensor.buffer is MemoryRegion.psum:
                self.tracker.forget_with(tensor)

    def allocate_constant(self, constant: Constant) -> None:
        """The constant's memory with its value."""
        self.memory.bind(constant.tensor.name, np.array(constant.value, order="C"))

    def enter_loop(self, loop: ForLoop | WhileLoop | NoReorder) -> None:
        """Open a region; its body runs as often as the loop says."""
        self.straight = False
        super().enter_loop(loop)

    def register_value(self, register: Register) -> int:
        """The value that the register has now."""
        self.straight = False
        return self.memory.state.registers[register.name]

    def tensor_value(self, access: Access) -> Array:
        """A copy of the elements of an access."""
        self.straight = False
        self.memory.storage(access.tensor).settle()
        return np.array(self.memory.read(access))


@dataclass(frozen=True, slots=True)
class _Argument:
    """One array among the arguments: as it was passed, and as the kernel sees it."""

    given: Any
    array: Array

    def give_back(self) -> None:
        """Let the caller's array see what the kernel wrote into a copy."""
        kind = kind_of(self.given)
        if kind == "numpy" and not np.shares_memory(self.given, self.array):
            np.copyto(self.given, self.array)
        elif kind == "torch":
            if not np.may_share_memory(to_numpy(self.given), self.array):
                self.given.copy_(to_kind(self.array, "torch"))
            framework_of(self.given).wrote(self.given)


class Simulation:
    """A kernel as a function that interprets it on NumPy, torch or JAX arrays.

    It takes the kernel's arguments and gives what the kernel returns, in arrays of the kind that
    was passed. Arguments that the kernel writes in place are changed in place (JAX arrays cannot
    be). ``kernel[2]`` runs as two cores that alternate at barriers.

    Attributes:
        report: what the checks found in the last call.
        checks: the requested checks; None for the cheap ones, which warn.
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

    @without_own_frames
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel.

        Raises:
            NkiValidationError: the kernel breaks a rule of the language.
            NkiExecutionError: it does something wrong while it runs; ``NKI-UNINITIALISED`` when
                a value that nobody wrote reaches a result.
        """
        target = self.target or getattr(self.kernel, "target", None) or current_target()
        chosen = watch.requested_checks() if self.checks is None else None
        by_default = self.checks is None and chosen is None
        checks = (
            checks_of(DEFAULT_CHECKS if by_default else chosen)
            if self.checks is None
            else self.checks
        )
        run = _Run(self.func, self.grid, target, checks)
        run.thorough = not by_default
        run.schedule = tuple(getattr(self.kernel, "schedule", ()))
        self.report = run.report
        try:
            result = run.call(args, kwargs)
        except NkiError as error:
            watch.report_to(self.func, run.report, error)
            raise
        watch.report_to(self.func, run.report, None)
        if by_default:
            _warn(run.report)
        return result


def _warn(report: Report) -> None:
    """Say at the user's lines what the cheap checks found."""
    for finding in report:
        if finding.check in DEFAULT_CHECKS:
            text = f"[{finding.code}] {finding.message}; {finding.remedy}"
            warn_at(finding.location, text)


def simulate(
    kernel: Any, *, target: Target | None = None, checks: str | Iterable[str] | None = None
) -> Simulation:
    """A function that interprets ``kernel`` eagerly.

    Args:
        kernel: a kernel or a plain function.
        target: the family; None for the kernel's own or the current one.
        checks: names of further checks (``"finite"``, ``"unused"``, ``"overlap"``,
            ``"accumulation"``, ``"races"``, ``"capacity"``, ``"precision"``, or ``"all"``, or
            ``()`` for none); what they find is in ``report`` of the result. With None, overlap,
            accumulation, and races but those between cores are looked for, and warn.

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
        What the kernel returns for each rank.

    Raises:
        NkiExecutionError: ``NKI-COLLECTIVE`` or ``NKI-DEADLOCK`` when ranks do not meet.
    """
    family = target or getattr(kernel, "target", None) or current_target()
    grid = tuple(getattr(kernel, "grid", ()) or ())
    runs = [_Run(getattr(kernel, "func", kernel), grid, family) for _ in calls]
    begun = [run.begin((), dict(call))[0] for run, call in zip(runs, calls, strict=True)]
    meeting = meeting_of([run.states for run in runs])
    results = run_together([program for programs in begun for program in programs], meeting)
    cores = grid[0] if grid else 1
    return [run.finish(*first) for run, first in zip(runs, results[::cores], strict=True)]


class _Run:
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
        self.arguments: list[_Argument] = []
        self.inputs: dict[str, _Argument] = {}
        self.builders: list[EagerBuilder] = []
        self.returned: dict[int, _Returned] = {}

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        programs, meeting = self.begin(args, kwargs)
        call = SimulatedCall(self.func, args, kwargs, self.target, self.grid)
        try:
            returned = self._execute(programs, meeting)
        except Exception:
            self._conclude(call, straight=False)
            raise
        self._conclude(call, straight=all(builder.straight for builder in self.builders))
        return self.finish(*returned)

    def _execute(self, programs: list[_Program], meeting: Meeting) -> _Returned:
        if len(programs) > 1:
            return run_together(programs, meeting)[0]
        with engine_floats():
            return programs[0]()

    def _conclude(self, call: SimulatedCall, *, straight: bool) -> None:
        """Ask each kind of check what it says about the call as a whole."""
        for kind in self.checks:
            checks = [one for each in self.builders for one in each.checks if type(one) is kind]
            found = kind.conclude(checks, call, straight=straight)
            self.report.findings += found or []
            for check in checks:
                check.concluded = found is not None

    def begin(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[_Program], Meeting]:
        """What each core runs, and where they meet."""
        self.arguments = _arguments(self.func, args, kwargs)
        count = self.grid[0] if self.grid else 1
        meeting = Meeting(count)
        shared: list[Tensor] = []
        for core in range(count):
            self._add_core(core, count, shared, meeting)
        return [self._program(builder, args, kwargs) for builder in self.builders], meeting

    @property
    def states(self) -> list[EngineState]:
        """The state of each core."""
        return [builder.memory.state for builder in self.builders]

    def finish(self, outputs: tuple[Tensor, ...], structure: Structure) -> Any:
        """The results of the call from what its first core returned."""
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
        return self._deliver(outputs, structure)

    def _report_unwritten(self, tensor: Tensor) -> None:
        unwritten = self.builders[0].tracker.unwritten(tensor)
        if unwritten is None:
            return
        count = int(unwritten.sum())
        first = np.unravel_index(int(np.argmax(unwritten)), unwritten.shape)
        place = ", ".join(str(int(part)) for part in first)
        finding = Finding(
            "unwritten",
            "NKI-UNWRITTEN",
            f"{count} of the {unwritten.size} elements of the result {tensor.name!r} were never "
            f"written, the first is [{place}]; what a device returns there is undefined",
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
        for kind in self.checks:
            others = tuple(
                check for other in self.builders for check in other.checks if type(check) is kind
            )
            check = kind(memory, others)
            check.schedule, check.thorough = self.schedule, self.thorough
            builder.checks.append(check)
        self.builders.append(builder)

    def _program(
        self, builder: EagerBuilder, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Program:
        def run() -> _Returned:
            with building(builder):
                call, inputs = bind_inputs(self.func, args, kwargs, builder)
                if builder.core == 0:
                    for tensor, argument in zip(inputs, self.arguments, strict=True):
                        self.inputs[tensor.name] = argument
                        origin = to_numpy(argument.given)
                        builder.memory.bind(tensor.name, argument.array, origin=origin)
                value = run_body(self.func, call)
                builder.require_closed()
                self.returned[builder.core] = collect_outputs(value, self.func, builder)
                return self.returned[builder.core]

        return run

    def _deliver(self, outputs: tuple[Tensor, ...], structure: Structure) -> Any:
        names = set[str]().union(*(builder.written for builder in self.builders))
        written = {name: each for name, each in self.inputs.items() if name in names}
        self._check_written(written, {tensor.name for tensor in outputs})
        for argument in written.values():
            argument.give_back()
        given = [entry.given for entry in self.arguments if kind_of(entry.given)]
        kind = kind_of(given[0]) if given else "numpy"
        results = [self._result(tensor, kind) for tensor in outputs]
        if given:
            same = [one for one in given if kind_of(one) == kind]
            changed = [each.given for each in written.values() if kind_of(each.given) == kind]
            results = framework_of(given[0]).results(results, changed, same)
        return rebuild(structure, tuple(results))

    def _check_written(self, written: dict[str, _Argument], returned: set[str]) -> None:
        """Refuse results that the caller could not see."""
        name = name_of(self.func)
        given = {key: argument.given for key, argument in written.items()}
        lost = [key for key in given if kind_of(given[key]) == "jax" and key not in returned]
        if lost and returned:
            raise NkiExecutionError(
                f"kernel {name!r} writes its argument {', '.join(sorted(lost))} and does not return"
                " it; JAX's arrays cannot be written in place, so the values would be lost",
                code="NKI-WRITE-LOST",
                location=definition_of(self.func),
                remedy="return the argument too, or let the kernel write a tensor of its own",
            )
        for key, value in given.items():
            if refusal := framework_of(value).refusal(self.func, key, value):
                raise refusal
        in_place = {key: to_numpy(one) for key, one in given.items() if kind_of(one) != "jax"}
        require_writable(name, in_place)

    def _result(self, tensor: Tensor, kind: str) -> Any:
        argument = self.inputs.get(tensor.name)
        if argument is not None and kind_of(argument.given) in ("numpy", "torch"):
            return argument.given
        memory = self.builders[0].memory
        memory.storage(tensor).settle()
        value = memory.array(tensor).reshape(tensor.shape)
        return to_kind(convert(value, tensor.dtype.dtype), kind)


def _arguments(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[_Argument]:
    """The arrays among the arguments, in the order of the kernel's inputs.

    Each is an array of its own: all are copied if one shares memory with another one, or if the
    kernel may not write one of them, since a refused call leaves them as they were.
    """
    values: list[Any] = []

    def take(value: Any, _name: str) -> Any:
        values.append(value)
        return value

    bound = bind_call(func, args, kwargs)
    bound.apply_defaults()
    for value in bound.arguments.values():
        replace_tensors(value, "", take)
    for kind in {kind_of(value) for value in values}:
        tensors = [value for value in values if kind_of(value) == kind]
        framework_of(tensors[0]).check(func, tensors)
    given = [to_numpy(value) for value in values]
    arrays = [np.ascontiguousarray(one).reshape(one.shape) for one in given]
    is_apart = _share_memory(given) or any(
        framework_of(value).refusal(func, "", value) is not None for value in values
    )
    return [
        _Argument(value, array.copy() if is_apart else array)
        for value, array in zip(values, arrays, strict=True)
    ]


def _share_memory(arrays: list[Array]) -> bool:
    """Whether a write into one may change another one, or another element, or is not allowed."""
    if any(not array.flags.writeable or overlaps_itself(array) for array in arrays):
        return True
    pairs = itertools.combinations(arrays, 2)
    return any(np.may_share_memory(one, other) for one, other in pairs)
