"""Computations that do nothing but call a kernel, as torch_xla writes kernels.

The kernel of such a computation is shown where the computation is called: what a person wrote is
one call.
"""

from __future__ import annotations

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import KERNEL_TARGET, Module

__all__ = ["kernel_at", "operands_at", "wrapped_kernels"]

_CALLS = frozenset({"call", "fusion"})
_PASSED_ON = frozenset({"bitcast", "get-tuple-element", "parameter", "reshape", "tuple"})
"""Opcodes that only pass on what a kernel reads and writes."""


def wrapped_kernels(module: Module) -> dict[int, Instruction]:
    """Kernel calls by the id of the computation that does nothing else.

    A wrapper of a wrapper counts as well.
    """
    kernels: dict[int, Instruction] = {}
    for computation in module.computations:
        if not computation.is_entry and computation.id not in kernels:
            _look(computation, kernels, set())
    return kernels


def _look(
    computation: Computation, kernels: dict[int, Instruction], visiting: set[int]
) -> Instruction | None:
    if computation.id in kernels or computation.id in visiting:
        return kernels.get(computation.id)
    visiting.add(computation.id)
    only = _only_call(computation)
    if only is not None and only.custom_call_target != KERNEL_TARGET:
        called = only.called_computations
        only = _look(called[0], kernels, visiting) if len(called) == 1 else None
    if only is not None:
        kernels[computation.id] = only
    return only


def _only_call(computation: Computation) -> Instruction | None:
    """The one instruction that does something, if it is a kernel or a call."""
    only = None
    for view in computation.instructions:
        if view.opcode in _PASSED_ON:
            continue
        if only is not None or not (
            view.custom_call_target == KERNEL_TARGET or view.opcode in _CALLS
        ):
            return None
        only = view
    return only


def kernel_at(view: Instruction, wrapped: dict[int, Instruction]) -> Instruction | None:
    """The kernel's custom call that an instruction is, or whose wrapper it calls."""
    row = view.proto
    if row.custom_call_target == KERNEL_TARGET:
        return view
    if row.opcode in _CALLS and len(row.called_computation_ids) == 1:
        return wrapped.get(row.called_computation_ids[0])
    return None


def operands_at(kernel: Instruction, call: Instruction) -> list[Instruction]:
    """The kernel's operands as the calling instruction names them.

    Of a wrapper of a wrapper, or where reshapes stand between, they are the kernel's own.
    """
    if kernel is call or all(kernel.computation is not c for c in call.called_computations):
        return list(kernel.operands)
    call_operands = call.operands
    return [
        call_operands[operand.proto.parameter_number]
        if operand.opcode == "parameter" and operand.proto.parameter_number < len(call_operands)
        else operand
        for operand in kernel.operands
    ]
