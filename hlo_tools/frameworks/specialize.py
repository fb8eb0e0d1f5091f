"""One kernel, one set of arguments, one target: trace, write the binary, describe its call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hlo_tools.frameworks.arguments import Arguments
from hlo_tools.frameworks.plan import CallPlan, TensorSpec
from hlo_tools.frameworks.written import overwritten_inputs
from hlo_tools.kernels.backend_config import BackendConfig, encode
from hlo_tools.kernels.cache import store
from nki_lang.base.errors import NkiValidationError
from nki_lang.base.source import definition_of
from nki_lang.base.targets import Target
from nki_lang.ir import KernelIR
from nki_lang.tracing.grid_programs import trace_programs
from nki_lang.tracing.tracer import Schedule, trace_kernel

__all__ = ["specialize"]


def specialize(
    func: Callable[..., object],
    func_name: str,
    arguments: Arguments,
    target: Target,
    grid: tuple[int, ...] = (),
    schedule: Schedule = (),
) -> CallPlan:
    """Trace the function for these arguments and store its binary in the kernel cache.

    Raises:
        NkiValidationError: the kernel breaks a rule, at the user's line; ``NKI-FRAMEWORK-MIXED``:
            an array of NumPy stands beside a framework's tensors.
        HloFileError: the cache folder cannot be written.
    """
    traced = _trace(func, arguments, target, grid, schedule)
    if len(traced.inputs) != len(arguments.tensors):
        raise NkiValidationError(
            f"{func_name} is called with a NumPy array beside tensors of a framework, and cannot "
            "tell where to read and write it",
            code="NKI-FRAMEWORK-MIXED",
            location=definition_of(func),
            remedy="pass tensors of one framework: torch.from_numpy(array) shares its memory",
        )
    traced.name = func_name
    kernel, operands = _drop_overwritten(traced)
    binary = store(kernel)
    return _plan(kernel, traced, operands, binary, func_name)


def _trace(
    func: Callable[..., object],
    arguments: Arguments,
    target: Target,
    grid: tuple[int, ...],
    schedule: Schedule,
) -> KernelIR:
    """A grid of one number that the target has cores for is a launch on these cores; any other
    grid is a set of programs that one core runs.
    """
    if len(grid) > 1 or any(extent > target.max_lnc for extent in grid):
        return trace_programs(func, arguments.args, arguments.kwargs, target=target, grid=grid)
    return trace_kernel(
        func, arguments.args, arguments.kwargs, target=target, grid=grid, schedule=schedule
    )


def _drop_overwritten(traced: KernelIR) -> tuple[KernelIR, tuple[int, ...]]:
    """The kernel without the inputs whose old content cannot matter, and the inputs left.

    An HLO custom call returns what a kernel writes, so an argument that is only an output
    (``def kernel(in1, in2, out)``) is not an operand.
    """
    dropped = overwritten_inputs(traced)
    operands = tuple(
        index for index, tensor in enumerate(traced.inputs) if tensor.name not in dropped
    )
    if len(operands) == len(traced.inputs):
        return traced, operands
    inputs = tuple(traced.inputs[index] for index in operands)
    return dataclasses.replace(traced, inputs=inputs), operands


def _plan(
    kernel: KernelIR, traced: KernelIR, operands: tuple[int, ...], binary: Any, func_name: str
) -> CallPlan:
    inputs = tuple(TensorSpec(t.shape, t.dtype, t.name) for t in kernel.inputs)
    results = tuple(TensorSpec(t.shape, t.dtype, t.name) for t in kernel.outputs)
    constant_names = tuple(constant.tensor.name for constant in kernel.constants)
    config = BackendConfig(
        binary=str(binary),
        input_names=[*(spec.name for spec in inputs), *constant_names],
        output_names=[spec.name for spec in results],
        func_name=func_name,
        grid=list(kernel.grid),
        has_collectives=kernel.has_collectives,
    )
    return CallPlan(
        backend_config=encode(config),
        func_name=func_name,
        binary=binary,
        operands=operands,
        inputs=inputs,
        constant_names=constant_names,
        constants=tuple(constant.value for constant in kernel.constants),
        results=results,
        aliases=tuple(sorted((operand, result) for result, operand in kernel.aliases.items())),
        written=tuple(sorted(traced.aliases.items())),
        returned=tuple(range(traced.metadata.get("returned", len(results)))),
        returns_tuple=kernel.returns_tuple,
        has_collectives=kernel.has_collectives,
        structure=traced.metadata.get("structure"),
    )
