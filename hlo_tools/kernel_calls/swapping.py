"""One kernel exchanged for another version of it."""

from __future__ import annotations

from pathlib import Path

from hlo_tools.errors import HloError
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.kernel_calls.operands import (
    add_constants,
    call_fields,
    check_fits,
    config_of,
    read_kernel,
)
from hlo_tools.kernels.backend_config import decode
from hlo_tools.kernels.calls import resolve
from hlo_tools.rewrite.cloning import hand_on_control_edges
from hlo_tools.rewrite.dead_code import UnusedRemover

__all__ = ["swap"]


def swap(
    module: Module,
    name: str,
    file: str | Path,
    *,
    root: Path | None = None,
    binary: str | None = None,
) -> list[Instruction]:
    """Let every call of kernel ``name`` (or one instruction, ``%call``) run another kernel.

    The new kernel takes the same operands in the same order and returns the same results; its own
    constants may be others.

    Args:
        file: the new kernel's ``.klir``.
        root: folder that relative paths of the module's kernel files start from; that of its file
            where it is not given.
        binary: how the module names the file; by default its absolute path.

    Returns:
        the new calls.

    Raises:
        HloVerifyError: the new kernel does not fit (HLO-KERNEL-OPERAND, HLO-KERNEL-RESULT); the
            module is as before.
        HloError: no such call (HLO-NO-KERNEL), or a file cannot be read.
    """
    kernel = read_kernel(file)
    calls = _calls(module, name)
    for call in calls:
        shape = call.shape
        results = list(shape.tuple_shapes) if shape.is_tuple else [shape]
        operands = [operand.shape for operand in _inputs(call, root)]
        check_fits(kernel, operands, results, f"%{call.name}")
    config = config_of(kernel, binary or str(Path(file).resolve()))
    unused = {here: UnusedRemover(here) for here in {call.computation for call in calls}}
    new_calls: list[Instruction] = []
    for call in calls:
        inputs = _inputs(call, root)  # now: one may be the result of a call swapped before
        here = call.computation
        fields = call_fields(kernel, config, not call.shape.is_tuple)
        fields["custom_call_api_version"] = call.proto.custom_call_api_version
        operands = [*inputs, *add_constants(kernel, here)]
        new = here.add("custom-call", call.shape, operands, name=call.name, like=call, **fields)
        before = call.operands
        hand_on_control_edges(call, new)
        call.replace_uses(new)
        call.remove()
        unused[here].drop(before)
        new_calls.append(new)
    return new_calls


def _calls(module: Module, name: str) -> list[Instruction]:
    calls = module.find_custom_calls()
    bare_name = name.removeprefix("%")
    matching = [
        call
        for call in calls
        if (name.startswith("%") and call.name == bare_name)
        or (not name.startswith("%") and decode(call.backend_config).func_name == name)
    ]
    if not matching:
        by_call = name.startswith("%")
        names = sorted(
            {
                f"%{call.name}" if by_call else decode(call.backend_config).func_name
                for call in calls
            }
        )
        raise HloError(
            f"the module has no kernel call {name}"
            if by_call
            else f"the module calls no kernel {name}",
            code="HLO-NO-KERNEL",
            place=module.path,
            remedy=f"it {'has' if by_call else 'calls'} {', '.join(names)}"
            if names
            else "it calls no kernels; nki-hlo kernels shows a module's calls",
        )
    return matching


def _inputs(call: Instruction, root: Path | None) -> list[Instruction]:
    """The operands of a call in the order of the kernel's inputs, its constants left out."""
    resolved = resolve(call.backend_config, root or call.module.folder)
    operands_by_name = dict(zip(resolved.config.input_names, call.operands, strict=False))
    try:
        return [operands_by_name[tensor.name] for tensor in resolved.kernel.inputs]
    except KeyError as error:
        raise HloError(
            f"%{call.name} has fewer operands than its kernel",
            code="HLO-KERNEL-OPERAND",
            remedy="nki-hlo lint shows what does not match",
        ) from error
