"""A kernel call expanded into ordinary HLO that computes the same.

What a kernel means in HLO is registered by the kernel's name: a module, HLO text, the path of a
file, or a function of arrays. It takes the kernel's inputs (with or without its constants) and
returns its results.
"""

from __future__ import annotations

from collections.abc import Mapping

from hlo_tools.errors import HloError, HloVerifyError
from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls.references import Reference, as_module
from hlo_tools.kernels.backend_config import decode
from hlo_tools.kernels.calls import content_of
from hlo_tools.kernels.location import locate
from hlo_tools.rewrite.cloning import clone_into, hand_on_control_edges
from hlo_tools.rewrite.dead_code import UnusedRemover, remove_unreachable
from hlo_tools.rewrite.inlining import inline_call
from hlo_tools.types.shape import Shape, tuple_shape

__all__ = ["expand", "reference_for", "register_reference"]

_references: dict[str, Reference] = {}


def register_reference(kernel: str, reference: Reference | None) -> None:
    """Say what a kernel of this name computes in HLO; None as ``reference`` forgets it."""
    if reference is None:
        _references.pop(kernel, None)
    else:
        _references[kernel] = reference


def reference_for(kernel: str) -> Reference | None:
    """Return the registered reference of a kernel, or None."""
    return _references.get(kernel)


def expand(module: Module, references: Mapping[str, Reference] | None = None) -> list[str]:
    """Expand every kernel call that has a reference; return the kernels' names.

    Args:
        module: is changed.
        references: kernel name, or ``%call`` for one call, -> reference, before the registered
            ones.

    Raises:
        HloVerifyError: a reference has other parameters or results than a call (HLO-REFERENCE-
            SHAPE); calls before that one are expanded. Or several kernels of one name take such
            operands (HLO-REFERENCE-AMBIGUOUS); nothing is expanded.
    """
    module.require_known_fields()
    references_by_name = {**_references, **(references or {})}
    done: list[str] = []
    cloned: dict[tuple[str, str], Computation] = {}
    sources: dict[tuple[str, str], Module] = {}
    calls = module.find_custom_calls()
    _check_names(calls, references_by_name)
    unused = {here: UnusedRemover(here) for here in {call.computation for call in calls}}
    for call in calls:
        name = decode(call.backend_config).func_name
        chosen = f"%{call.name}" if f"%{call.name}" in references_by_name else name
        if chosen not in references_by_name:
            continue
        shapes = [operand.shape for operand in call.operands]
        key = (chosen, " ".join(map(str, shapes)))
        if key not in sources:
            sources[key] = as_module(references_by_name[chosen], shapes)
        operands = _operands(call, sources[key], name)
        if key not in cloned:
            cloned[key] = clone_into(sources[key], module)
        passed = call.operands
        _expand(call, operands, cloned[key])
        unused[call.computation].drop(passed)
        done.append(name)
    if done:
        remove_unreachable(module)
    return done


def _check_names(calls: list[Instruction], references_by_name: Mapping[str, Reference]) -> None:
    """Refuse two kernels of one name: the reference would replace both.

    Kernels of one name for operands of other shapes are taken for one kernel.
    """
    first_calls: dict[tuple[str, ...], tuple[str, Instruction]] = {}
    for call in calls:
        name = decode(call.backend_config).func_name
        if name not in references_by_name or f"%{call.name}" in references_by_name:
            continue
        types = (
            (operand.shape.element.name, operand.shape.dimensions) for operand in call.operands
        )
        key = (name, *map(str, types))  # whatever their layouts
        content = _content(call)
        first_content, first = first_calls.setdefault(key, (content, call))
        if first_content != content:
            raise HloVerifyError(
                f"two kernels named {name} are called, by %{first.name} and %{call.name}, and one "
                "reference was passed for both",
                code="HLO-REFERENCE-AMBIGUOUS",
                place=f"%{call.name}",
                remedy=f"pass a reference for each call: %{first.name}=..., %{call.name}=...",
            )


def _content(call: Instruction) -> str:
    """The identity of a kernel among others of its name: its file's content, or its path."""
    config = decode(call.backend_config)
    try:
        return content_of(locate(config, call.module.folder))
    except HloError:
        return config.binary


def _operands(call: Instruction, reference: Module, name: str) -> list[Instruction]:
    """The call's operands that the reference takes: all, or all but the kernel's constants."""
    parameters = reference.entry.parameters
    operands = list(call.operands[: len(parameters)])
    fits = len(operands) == len(parameters) and all(
        operand.shape.same_array(parameter.shape)
        for operand, parameter in zip(operands, parameters, strict=True)
    )
    if not fits:
        reference_shapes = ", ".join(str(parameter.shape) for parameter in parameters)
        call_shapes = ", ".join(str(operand.shape) for operand in call.operands)
        raise _misfit(
            f"the reference of {name} takes ({reference_shapes}), the call has ({call_shapes})",
            call,
        )
    result = reference.entry.result_shape
    if not _parts_equal(call.shape, result):
        raise _misfit(f"the reference of {name} returns {result}, the call {call.shape}", call)
    return operands


def _parts_equal(left: Shape, right: Shape) -> bool:
    """Return True if the shapes are equal when a tuple of one element counts as the element."""
    left_parts, right_parts = (shape.tuple_shapes or (shape,) for shape in (left, right))
    return len(left_parts) == len(right_parts) and all(
        a.same_array(b) for a, b in zip(left_parts, right_parts, strict=True)
    )


def _expand(call: Instruction, operands: list[Instruction], body: Computation) -> None:
    here = call.computation
    shape = body.root.shape
    inner_call = here.add("call", shape, operands, like=call, called_computation_ids=[body.id])
    hand_on_control_edges(call, inner_call)
    result = inline_call(inner_call)
    if call.shape.is_tuple and not shape.is_tuple:
        result = here.add("tuple", tuple_shape([shape]), [result])
    elif shape.is_tuple and not call.shape.is_tuple:
        element_shape = shape.tuple_shapes[0]
        result = here.add("get-tuple-element", element_shape, [result], tuple_index=0)
    call.replace_uses(result)
    call.remove()


def _misfit(reason: str, call: Instruction) -> HloVerifyError:
    return HloVerifyError(
        reason,
        code="HLO-REFERENCE-SHAPE",
        place=f"%{call.name}",
        remedy="write the reference for the shapes of this call",
    )
