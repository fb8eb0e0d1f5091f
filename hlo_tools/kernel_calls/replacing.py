"""A sub-graph replaced by a kernel call wherever a pattern finds it."""

from __future__ import annotations

from pathlib import Path

from hlo_tools.backend_config import BackendConfig
from hlo_tools.errors import HloError
from hlo_tools.instruction import Instruction
from hlo_tools.kernel_calls.expansion import Reference, as_module
from hlo_tools.kernel_calls.match import Match, find_matches, pattern_roots
from hlo_tools.kernel_calls.operands import (
    add_constants,
    call_fields,
    check_fits,
    config_of,
    read_kernel,
)
from hlo_tools.module import Module
from hlo_tools.restructuring import remove_dead, remove_unreachable
from hlo_tools.shape import tuple_shape
from nki_lang.ir import KernelIR

__all__ = ["replace_matches"]

_RETURNS_TYPED = 2
"""``API_VERSION_STATUS_RETURNING``, as the vendor's frameworks write it."""


def replace_matches(
    module: Module, pattern: Reference, file: str | Path, *, binary: str | None = None
) -> list[Instruction]:
    """Call a kernel wherever a pattern is found; the calls.

    The kernel's inputs are the pattern's parameters, its outputs the pattern's results (the parts
    of a tuple), in order. Instructions of the pattern that others use too stay.

    Args:
        pattern: a module, HLO text or a path; see :mod:`hlo_tools.kernel_calls.match`.
        file: the kernel's ``.klir``.
        binary: how the module names the file; by default its absolute path.

    Raises:
        HloVerifyError: the kernel does not fit the pattern (HLO-KERNEL-OPERAND,
            HLO-KERNEL-RESULT).
        HloError: the pattern is no operation (HLO-PATTERN), or a file cannot be read.
    """
    wanted = as_module(pattern)
    kernel = read_kernel(file)
    roots = pattern_roots(wanted)
    if not roots or any(root.opcode == "parameter" for root in roots):
        raise HloError(
            "a result of the pattern is one of its parameters, so it fits everything",
            code="HLO-PATTERN",
            place=wanted.path,
            remedy="write at least one operation for each result",
        )
    operands = [parameter.shape for parameter in wanted.entry.parameters]
    check_fits(kernel, operands, [root.shape for root in roots], wanted.path or "pattern")
    _check_used(wanted)
    config = config_of(kernel, binary or str(Path(file).resolve()))
    made: list[Instruction] = []
    for computation in module.computations:
        for match in find_matches(wanted, computation):
            made.append(_call(match, kernel, config))
            remove_dead(computation)
    if made:
        remove_unreachable(module)
    return made


def _check_used(pattern: Module) -> None:
    """Every parameter must be found by the match, so the results must need it."""
    needed: set[Instruction] = set()
    stack = [pattern.entry.root]
    while stack:
        view = stack.pop()
        if view not in needed:
            needed.add(view)
            stack += view.operands
    unused = next((one for one in pattern.entry.parameters if one not in needed), None)
    if unused is not None:
        raise HloError(
            f"the pattern does not use its parameter %{unused.name}",
            code="HLO-PATTERN",
            place=pattern.path,
            remedy="take it out of the pattern, and use a kernel without that input",
        )


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
