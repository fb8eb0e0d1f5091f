"""A sub-graph replaced by a kernel call wherever a pattern finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_tools import schema
from hlo_tools._messages import counted
from hlo_tools.errors import HloError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls.match import Match, find_matches, is_alive, pattern_roots
from hlo_tools.kernel_calls.operands import (
    add_constants,
    call_fields,
    check_fits,
    config_of,
    misfit,
    read_kernel,
    shape_of,
)
from hlo_tools.kernel_calls.references import Given, as_pattern
from hlo_tools.kernels.backend_config import BackendConfig
from hlo_tools.rewrite.dead_code import UnusedRemover, remove_unreachable
from hlo_tools.rewrite.inlining import inline_calls
from hlo_tools.rewrite.patterns import Pattern
from hlo_tools.types.shape import tuple_shape
from nki_lang.ir import KernelIR

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloModuleProto

__all__ = ["replace_matches"]

_RETURNS_TYPED = 2
"""``API_VERSION_STATUS_RETURNING``, as the vendor's frameworks write it."""

Finder = Callable[[Computation], Iterator[Match]]


def replace_matches(
    module: Module, pattern: Given, file: str | Path, *, binary: str | None = None
) -> list[Instruction]:
    """Call a kernel wherever a pattern is found; the calls.

    The kernel's inputs are the pattern's parameters, its outputs the pattern's results (the parts
    of a tuple), in order. A function is turned into a pattern for the shapes of the kernel's
    inputs. In a pattern of :mod:`hlo_tools.rewrite.patterns`, names are those of the kernel's
    inputs, and places where the shapes are others than the kernel's are left alone. Instructions
    of the pattern that others use too stay.

    Args:
        pattern: a module, HLO text, a path, ``FILE.py:NAME``, a NumPy function, a function that
            ``jax.jit`` made, or a pattern; see :mod:`hlo_tools.kernel_calls.match`.
        file: the kernel's ``.klir``.
        binary: how the module names the file; by default its absolute path.

    Raises:
        HloVerifyError: the kernel does not fit the pattern (HLO-KERNEL-OPERAND,
            HLO-KERNEL-RESULT).
        HloError: the pattern is not an operation, or lacks an input (HLO-PATTERN), or a file cannot be
            read.
    """
    module.require_known_fields()
    kernel = read_kernel(file)
    matched_pattern = as_pattern(pattern, [shape_of(tensor) for tensor in kernel.inputs])
    config = config_of(kernel, binary or str(Path(file).resolve()))
    if isinstance(matched_pattern, Pattern):
        _check_names(matched_pattern, kernel)
        return _replace(module, _finder_of(matched_pattern, kernel), kernel, config)
    _check_graph(matched_pattern, kernel)
    calls = _replace(module, lambda here: find_matches(matched_pattern, here), kernel, config)
    if not calls and inline_calls(flat := Module(_copy(matched_pattern))):
        calls = _replace(module, lambda here: find_matches(flat, here), kernel, config)
    return calls


def _copy(module: Module) -> HloModuleProto:
    proto = schema.HloModuleProto()
    proto.CopyFrom(module.proto)
    return proto


def _replace(
    module: Module, find: Finder, kernel: KernelIR, config: BackendConfig
) -> list[Instruction]:
    calls: list[Instruction] = []
    for computation in module.computations:
        unused = UnusedRemover(computation)
        for match in find(computation):
            calls.append(_call(match, kernel, config))
            unused.drop(match.results)
    if calls:
        remove_unreachable(module)
    return calls


# Patterns that are modules


def _check_graph(pattern: Module, kernel: KernelIR) -> None:
    roots = pattern_roots(pattern)
    if not roots or any(root.opcode == "parameter" for root in roots):
        raise HloError(
            "a result of the pattern is one of its parameters, so it matches everything",
            code="HLO-PATTERN",
            place=pattern.path,
            remedy="write at least one operation for each result",
        )
    operands = [parameter.shape for parameter in pattern.entry.parameters]
    check_fits(kernel, operands, [root.shape for root in roots], pattern.path or "pattern")
    _check_used(pattern)


def _check_used(pattern: Module) -> None:
    """Refuse unused parameters: a match cannot find their operands."""
    needed: set[Instruction] = set()
    stack = [pattern.entry.root]
    while stack:
        view = stack.pop()
        if view not in needed:
            needed.add(view)
            stack += view.operands
    unused = next(
        (parameter for parameter in pattern.entry.parameters if parameter not in needed), None
    )
    if unused is not None:
        raise HloError(
            f"the pattern does not use its parameter %{unused.name}",
            code="HLO-PATTERN",
            place=pattern.path,
            remedy="remove it from the pattern, and use a kernel without that input",
        )


# Patterns that are built


def _check_names(pattern: Pattern, kernel: KernelIR) -> None:
    inputs = [tensor.name for tensor in kernel.inputs]
    missing = [name for name in inputs if name not in pattern.names]
    if missing:
        raise HloError(
            f"the pattern has no {missing[0]!r}, which kernel {kernel.name} takes",
            code="HLO-PATTERN",
            remedy=f"name the kernel's inputs in the pattern: {', '.join(inputs)}",
        )
    if not pattern.opcodes:
        raise HloError(
            "the pattern has no opcode, so it matches everything",
            code="HLO-PATTERN",
            remedy="begin with op(...)",
        )
    if len(kernel.outputs) != 1:
        raise misfit(
            "result", f"has {counted(len(kernel.outputs), 'result')}, the pattern one", kernel, ""
        )


def _finder_of(pattern: Pattern, kernel: KernelIR) -> Finder:
    def find(computation: Computation) -> Iterator[Match]:
        for view in reversed(computation.post_order()):
            if not is_alive(view) or view.proto.control_predecessor_ids:
                continue
            captures = pattern.match(view, {})
            if captures is None:
                continue
            inputs = tuple(captures[tensor.name] for tensor in kernel.inputs)
            if _fits(kernel, inputs, view):
                yield Match(inputs, (view,))

    return find


def _fits(kernel: KernelIR, inputs: tuple[Instruction, ...], result: Instruction) -> bool:
    pairs = zip((*kernel.inputs, *kernel.outputs), (*inputs, result), strict=True)
    return all(shape_of(tensor).same_array(view.shape) for tensor, view in pairs)


def _call(match: Match, kernel: KernelIR, config: BackendConfig) -> Instruction:
    first = match.results[0]
    here = first.computation
    single = len(match.results) == 1
    shape = first.shape if single else tuple_shape([view.shape for view in match.results])
    operands = [*match.inputs, *add_constants(kernel, here)]
    fields = call_fields(kernel, config, single)
    fields["custom_call_api_version"] = _RETURNS_TYPED
    call = here.add("custom-call", shape, operands, name=kernel.name, like=first, **fields)
    for number, view in enumerate(match.results):
        value = call
        if not single:
            value = here.add("get-tuple-element", view.shape, [call], tuple_index=number)
        view.replace_uses(value)
    return call
