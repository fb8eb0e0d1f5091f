"""Two modules as one: beside each other, or the second on the results of the first."""

from __future__ import annotations

from typing import Final

from hlo_tools._messages import counted
from hlo_tools.errors import HloError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.loading import load
from hlo_tools.ir.module import Module
from hlo_tools.rewrite.cloning import clone_into
from hlo_tools.rewrite.dead_code import remove_unreachable
from hlo_tools.rewrite.emitting import get_part, make_tuple
from hlo_tools.rewrite.inlining import inline_call

__all__ = ["chain_modules", "merge_modules"]

_LEFT_OUT: Final = (
    "schedule", "input_output_alias", "buffer_donor", "cross_program_prefetches", "profile_info",
    "spmd_output_sharding", "spmd_parameters_shardings", "original_value_recovery_table",
)  # fmt: skip
"""Fields of a module that describe its parameters and results, or their memory."""
_NAMES: Final = ("neff_input_names", "neff_output_names")
"""Frontend attributes that name inputs and results: of two modules, they may be equal."""


def merge_modules(first: Module, second: Module) -> Module:
    """A module that computes both.

    Its parameters are those of the first and then those of the second; its result is a tuple of
    the first one's results and then the second one's. Neither argument is changed. Schedules,
    aliases and names of inputs and results are left out.

    Raises:
        HloError: the modules cannot be one (HLO-MERGE).
        HloUnsupportedError: a module has a field that this version does not know
            (HLO-UNKNOWN-FIELD).
    """
    merged = _copied(first, second)
    entry = merged.entry
    results = _results(entry.root)
    offset = len(entry.parameters)
    operands = [
        entry.add(
            "parameter", parameter.shape, name=parameter.name, parameter_number=offset + number
        )
        for number, parameter in enumerate(second.entry.parameters)
    ]
    for operand, parameter in zip(operands, second.entry.parameters, strict=True):
        if parameter.sharding is not None:
            operand.proto.sharding.CopyFrom(parameter.sharding)
    results += _results(_inlined(merged, second, operands))
    entry.set_root(make_tuple(entry.root, results))
    return _cleaned(merged)


def chain_modules(first: Module, second: Module) -> Module:
    """A module that computes the second one on the results of the first.

    Results and parameters are taken in order. Neither argument is changed. Schedules, aliases and
    names of inputs and results are left out.

    Raises:
        HloError: number or types of results and parameters differ, or the modules cannot be one
            (HLO-MERGE).
        HloUnsupportedError: a module has a field that this version does not know
            (HLO-UNKNOWN-FIELD).
    """
    merged = _copied(first, second)
    entry = merged.entry
    results, parameters = _results(entry.root), second.entry.parameters
    if len(results) != len(parameters):
        raise _refused(
            f"{first.name} has {counted(len(results), 'result')}, "
            f"{second.name} takes {counted(len(parameters), 'parameter')}",
            "nki-hlo slice cuts out a part with other results",
        )
    operands: list[Instruction] = []
    for number, (result, parameter) in enumerate(zip(results, parameters, strict=True)):
        if not result.shape.same_array(parameter.shape):
            raise _refused(
                f"result {number} of {first.name} is {result.shape}, "
                f"parameter {number} of {second.name}, %{parameter.name}, is {parameter.shape}",
                "the results of the first have the types of the second one's parameters, in order",
            )
        is_other_layout = result.shape.is_array and result.shape != parameter.shape
        if is_other_layout:  # bitcasts of the second one read memory by its parameter's layout
            result = entry.add("copy", parameter.shape, [result], like=result)
        operands.append(result)
    entry.set_root(_inlined(merged, second, operands))
    return _cleaned(merged)


def _copied(first: Module, second: Module) -> Module:
    """A copy of the first module.

    Raises:
        HloError: see :func:`merge_modules`.
    """
    for module in (first, second):
        module.require_known_fields()
        if module.callers_of(module.entry):
            raise _refused(f"the entry of {module.name} is called too", "outline what it shares")
    devices = [module.proto.device_assignment for module in (first, second)]
    if all(assignment.ByteSize() for assignment in devices) and devices[0] != devices[1]:
        raise _refused("the modules are assigned to different devices", "compile both for the same")
    if first.folder != second.folder and second.find_custom_calls():
        raise _refused(
            f"{second.name} calls kernels, whose files are found from its folder",
            "put both modules into one folder",
        )
    merged = load(first.module_bytes())
    merged.path = first.path
    return merged


def _results(root: Instruction) -> list[Instruction]:
    if not root.shape.is_tuple:
        return [root]
    return [get_part(root, number) for number in range(len(root.shape.tuple_shapes))]


def _inlined(merged: Module, second: Module, operands: list[Instruction]) -> Instruction:
    """The second module's result, computed from ``operands`` in the merged module's entry."""
    last_channel = max((view.proto.channel_id for view in merged.instructions), default=0)
    old_count = len(merged.computations)
    body = clone_into(second, merged)
    for computation in merged.computations[old_count:]:
        for view in computation:
            if view.proto.channel_id:
                view.proto.channel_id += last_channel
    entry = merged.entry
    call = entry.add("call", body.root.shape, operands, called_computation_ids=[body.id])
    return inline_call(call)


def _cleaned(merged: Module) -> Module:
    for field in _LEFT_OUT:
        merged.proto.ClearField(field)
    for view in merged.entry:
        for name in _NAMES:
            view.proto.frontend_attributes.map.pop(name, None)
    remove_unreachable(merged)
    merged.touch()
    return merged


def _refused(reason: str, remedy: str) -> HloError:
    return HloError(reason, code="HLO-MERGE", remedy=remedy)
