"""Traces a Python function with argument specifications into the kernel IR."""

from __future__ import annotations

import gc
import inspect
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from nki_lang.base.errors import NkiValidationError, note_warning
from nki_lang.base.memory import HBM, MemoryRegion
from nki_lang.base.source import SourceLocation, caller_location
from nki_lang.base.targets import Target, current_target, target_of
from nki_lang.frontend.builder import TraceBuilder, building
from nki_lang.frontend.objects import is_sequence
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Instruction, KernelIR, Tensor, walk
from nki_lang.ir.accumulation import zero_before_loops
from nki_lang.tracing.arguments import TensorSpec, bind_call, replace_tensors, spec_of_array
from nki_lang.tracing.body import run_body
from nki_lang.tracing.capacity import check_capacity
from nki_lang.tracing.carried import begin_in_loops, name_before_loops
from nki_lang.tracing.results import Structure, is_plain, take_apart
from nki_lang.tracing.retarget import retarget
from nki_lang.tracing.version import require_selected_version

__all__ = [
    "Schedule",
    "assemble",
    "bind_inputs",
    "check_cores",
    "check_grid",
    "collect_outputs",
    "trace_kernel",
]

Schedule = tuple[tuple[str, tuple[str, ...]], ...]
"""Extra dependencies: (consumer, producers), by the names of instructions."""

_LNC_GUIDE = "nki/get-started/about/lnc.rst"


def trace_kernel(
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    target: str | Target | None = None,
    grid: Any = (),
    schedule: Schedule = (),
) -> KernelIR:
    """Run ``func`` once for each core and collect its instructions.

    Args:
        func: the undecorated kernel function.
        args, kwargs: its arguments; an object with a shape and a dtype is a tensor in HBM, all
            other arguments are constants.
        target: family, or None for NEURON_PLATFORM_TARGET_OVERRIDE or the default.
        grid: launch grid: (), 1, 2 or a tuple of one of them.
        schedule: extra dependencies.

    Raises:
        NkiValidationError: the kernel breaks a rule of the language or a limit of the target.
        TypeError: the arguments do not fit the function's signature.
    """
    with _collector_paused():
        return _trace(func, args, kwargs or {}, _family(target), grid, schedule)


class _Pause:
    """The garbage collector, off while any thread traces.

    A trace allocates only objects that live until its end; every full collection would walk all of
    them, so the time per instruction would grow with the number of instructions.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._was_on = False

    def begin(self) -> None:
        """Count a trace that starts."""
        with self._lock:
            if self._depth == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._depth += 1

    def end(self) -> None:
        """Count a trace that ends."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._was_on:
                gc.enable()


_COLLECTOR_PAUSE = _Pause()


@contextmanager
def _collector_paused() -> Generator[None]:
    _COLLECTOR_PAUSE.begin()
    try:
        yield
    finally:
        _COLLECTOR_PAUSE.end()


def _trace(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    family: Target,
    grid: Any,
    schedule: Schedule,
) -> KernelIR:
    launch = check_grid(grid, family)
    lnc = launch[0] if launch else 1
    shared: list[Tensor] = []
    constants: dict[str, Any] = {}
    builders: list[TraceBuilder] = []
    inputs: tuple[Tensor, ...] = ()
    results: list[tuple[tuple[Tensor, ...], Structure]] = []
    for core in range(lnc):
        builder = TraceBuilder(
            family, core=core, lnc=lnc, grid=launch, shared=shared, constants=constants
        )
        builder.entry = run_body.__code__
        with building(builder):
            call, inputs = bind_inputs(func, args, kwargs, builder)
            value = run_body(func, call)
            builder.require_closed()
            results.append(collect_outputs(value, func, builder))
        check_capacity(builder)
        builders.append(builder)
    return assemble(func, family, launch, inputs, results, builders, schedule)


def _family(target: str | Target | None) -> Target:
    if target is None:
        return current_target()
    return target if isinstance(target, Target) else target_of(target)


def check_grid(grid: Any, target: Target) -> tuple[int, ...]:
    """Return the launch grid as a tuple, checked against the target.

    Raises:
        NkiValidationError: code ``NKI-GRID``.
    """
    launch = tuple(grid) if is_sequence(grid) else (grid,)
    ok = not launch or (
        len(launch) == 1 and type(launch[0]) is int and 1 <= launch[0] <= target.max_lnc
    )
    if not ok:
        raise NkiValidationError(
            f"launch grid {grid!r} on {target.name}",
            code="NKI-GRID",
            location=caller_location(),
            remedy=f"a grid is one integer, 1 to {target.max_lnc} on {target.name}: the physical"
            " cores of the logical core",
            source=_LNC_GUIDE,
        )
    return launch


def bind_inputs(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], builder: TraceBuilder
) -> tuple[inspect.BoundArguments, tuple[Tensor, ...]]:
    """Return the arguments with an HBM tensor for each tensor, and these tensors in order.

    Raises:
        NkiValidationError: the version of NKI that the environment selects refuses the kernel.
    """
    require_selected_version(func)
    signature = inspect.signature(func)
    bound = bind_call(func, args, kwargs)
    bound.apply_defaults()
    inputs: list[Tensor] = []

    def make(value: Any, name: str) -> Any:
        if isinstance(value, NkiTensor):
            return value
        spec = spec_of_array(value, name, func)
        tensor = Tensor(
            _unique_name(spec, name, inputs), spec.dtype, spec.shape, MemoryRegion.shared_hbm
        )
        inputs.append(tensor)
        builder.add_input(tensor)
        # Kernels of the documentation compare an argument's buffer with nl.hbm
        # (deep-dives/src/mxfp-matmul/mx_kernels.py), although all cores see its memory.
        return NkiTensor(tensor.shape, tensor.dtype, tensor, MemoryRegion.private_hbm)

    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            bound.arguments[name] = {key: replace_tensors(v, key, make) for key, v in value.items()}
        else:
            bound.arguments[name] = replace_tensors(value, name, make)
    return bound, tuple(inputs)


def _unique_name(spec: TensorSpec, name: str, inputs: list[Tensor]) -> str:
    base = spec.name or name
    used = {tensor.name for tensor in inputs}
    unique, copy = base, 1
    while unique in used:
        unique = f"{base}_{copy}"
        copy += 1
    return unique


def collect_outputs(
    value: Any, func: Callable[..., Any], builder: TraceBuilder
) -> tuple[tuple[Tensor, ...], Structure]:
    """Return (tensors that the kernel returned, their nesting)."""
    leaves, structure = take_apart(value)
    location = _definition(func)
    return tuple(_output(leaf, location, builder) for leaf in leaves), structure


def _definition(func: Callable[..., Any]) -> SourceLocation | None:
    code = getattr(func, "__code__", None)
    if code is None:
        return None
    return SourceLocation(code.co_filename, code.co_firstlineno, code.co_name)


def _output(value: Any, location: SourceLocation | None, builder: TraceBuilder) -> Tensor:
    if not isinstance(value, NkiTensor) or value.buffer not in HBM:
        raise NkiValidationError(
            f"the kernel returned {value!r}",
            code="NKI-RETURN",
            location=location,
            remedy="return tensors in nl.shared_hbm, arguments, or tuples of them (no dict, no"
            " object); copy a tile to HBM with nisa.dma_copy or nl.store first",
            source="nki/get-started/about/memory-hierarchy-overview.rst",
        )
    storage = value.storage
    is_complete = value.offset == 0 and value.size == storage.elements and value.is_contiguous()
    if not is_complete or value.is_indirect() or value.dtype != storage.dtype:
        raise NkiValidationError(
            f"the kernel returned a part of {value.name!r}: {value!r}",
            code="NKI-RETURN",
            location=location,
            remedy="return the whole tensor, or copy the part into a tensor of its own",
        )
    if storage.buffer is MemoryRegion.private_hbm:
        note_warning()
        warnings.warn(
            f"{location}: the kernel returns {value.name!r}, which is in private HBM (nl.hbm);"
            " results belong in nl.shared_hbm since NKI 0.3",
            stacklevel=2,
        )
    if value.shape == storage.shape:
        return storage
    return Tensor(storage.name, storage.dtype, value.shape, storage.buffer)


def check_cores(
    results: list[tuple[tuple[Tensor, ...], Structure]],
    builders: Sequence[TraceBuilder],
    func: Callable[..., Any],
) -> None:
    """Check that all cores of a kernel allocate the same shared HBM and return the same tensors.

    Raises:
        NkiValidationError: code ``NKI-CORES-DIVERGE``.
    """
    for builder in builders:
        if builder.shared_count == len(builder.shared):
            continue
        tensor = builder.shared[builder.shared_count]
        ahead = next(b for b in builders if b.shared_count > builder.shared_count)
        raise NkiValidationError(
            f"core {builder.core} never allocates {tensor.name!r} in shared HBM as core"
            f" {ahead.core} does",
            code="NKI-CORES-DIVERGE",
            location=ahead.tensor_locations.get(tensor.name),
            remedy="allocate shared HBM tensors on every core, outside of `if nl.program_id(0)`",
            source=_LNC_GUIDE,
        )
    returned = [[tensor.name for tensor in outputs] for outputs, _ in results]
    for core, names in enumerate(returned):
        if names != returned[0]:
            raise NkiValidationError(
                f"core {core} returns {names}, core 0 {returned[0]}",
                code="NKI-CORES-DIVERGE",
                location=_definition(func),
                remedy="return the same tensors on every core",
                source=_LNC_GUIDE,
            )


def assemble(
    func: Callable[..., Any],
    family: Target,
    launch: tuple[int, ...],
    inputs: tuple[Tensor, ...],
    results: list[tuple[tuple[Tensor, ...], Structure]],
    builders: list[TraceBuilder],
    schedule: Schedule,
) -> KernelIR:
    check_cores(results, builders, func)
    outputs, structure = results[0]
    _settle_shapes(outputs, inputs, builders, func)
    written = set[str]().union(*(builder.written for builder in builders))
    returned = {tensor.name for tensor in outputs}
    in_place = tuple(t for t in inputs if t.name in written and t.name not in returned)
    for builder in builders:
        zero_before_loops(builder.body, builder.homes)
        name_before_loops(builder.body, builder.homes)
        begin_in_loops(builder.body, builder.homes, returned, builder.fresh_row)
        _apply_schedule(builder, schedule, func)
    return KernelIR(
        name=getattr(func, "__name__", "kernel"),
        target=family.name,
        lnc=len(builders),
        inputs=inputs,
        outputs=outputs + in_place,
        bodies=tuple(builder.body for builder in builders),
        constants=tuple(builders[0].constants.values()),
        grid=launch,
        returns_tuple=isinstance(structure, tuple),
        has_collectives=any(builder.has_collectives for builder in builders),
        metadata={"returned": len(outputs)}
        | ({} if is_plain(structure) else {"structure": structure})
        | _language(func),
    )


def _language(func: Callable[..., Any]) -> dict[str, str]:
    """Return the metadata of a kernel in another language than the current one."""
    language = getattr(func, "language", "")
    return {"language": language} if isinstance(language, str) and language else {}


def _settle_shapes(
    outputs: tuple[Tensor, ...],
    inputs: tuple[Tensor, ...],
    builders: list[TraceBuilder],
    func: Callable[..., Any],
) -> None:
    """Give the memory of reshaped results the returned shape."""
    shapes: dict[str, Tensor] = {tensor.name: tensor for tensor in inputs}
    changed: dict[str, Tensor] = {}
    for tensor in outputs:
        if shapes.setdefault(tensor.name, tensor).shape != tensor.shape:
            raise NkiValidationError(
                f"{tensor.name!r} is returned as {tensor.shape}, but it is an argument or another"
                f" result of shape {shapes[tensor.name].shape}",
                code="NKI-RETURN",
                location=_definition(func),
                remedy="return it in its own shape, or copy it into a tensor of the new shape",
            )
        allocated = builders[0].tensors.get(tensor.name)
        if allocated is not None and allocated.shape != tensor.shape:
            changed[tensor.name] = tensor
    for builder in builders if changed else ():
        retarget(builder.body, changed)


def _apply_schedule(builder: TraceBuilder, schedule: Schedule, func: Callable[..., Any]) -> None:
    if not schedule:
        return
    for consumer, producers in schedule:
        for name in (consumer, *producers):
            if name not in builder.named:
                raise NkiValidationError(
                    f"with_schedule names the instruction {name!r}, which the kernel does not have",
                    code="NKI-SCHEDULE",
                    location=_definition(func),
                    remedy=f"its names are {', '.join(sorted(builder.named)) or 'none'}",
                    source="nki/guides/how-to-scheduling-apis.rst",
                )
        later = builder.named[consumer]
        later.depends_on = tuple(dict.fromkeys((*later.depends_on, *producers)))
    _refuse_cycles(builder.body, func)


def _refuse_cycles(body: Any, func: Callable[..., Any]) -> None:
    """Refuse dependencies against the program order: the kernel could never run."""
    earlier: set[str] = set()
    names = {instruction.name for instruction in walk(body) if instruction.name}
    for instruction in walk(body):
        late = [n for n in instruction.depends_on if n in names and n not in earlier]
        if late:
            raise _backward(instruction, late[0], func)
        if instruction.name:
            earlier.add(instruction.name)


def _backward(instruction: Instruction, producer: str, func: Callable[..., Any]) -> Exception:
    return NkiValidationError(
        f"instruction {instruction.name!r} depends on {producer!r}, which comes after it",
        code="NKI-SCHEDULE",
        location=instruction.location or _definition(func),
        remedy="a dependency points to an earlier instruction",
        source="nki/guides/how-to-scheduling-apis.rst",
    )
