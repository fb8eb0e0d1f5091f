"""A kernel call of another module, added to a computation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hlo_tools.errors import HloError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_tools.ir.computation import Computation
    from hlo_tools.ir.instruction import Instruction

__all__ = ["add_kernel"]

_COPIED_FIELDS: Final = (
    "custom_call_target",
    "backend_config",
    "custom_call_api_version",
    "custom_call_schedule",
    "custom_call_has_side_effect",
    "constrain_layout",
    "operand_shapes_with_layout",
    "output_operand_aliasing",
    "metadata",
)
"""Fields of HloInstructionProto that describe the call and not its place in a module."""


def add_kernel(
    computation: Computation,
    call: Instruction,
    operands: Sequence[Instruction],
    *,
    name: str | None,
    like: Instruction | None,
) -> Instruction:
    """See :meth:`hlo_tools.ir.computation.Computation.add_kernel`."""
    if getattr(call, "opcode", "") != "custom-call":
        raise HloError(
            f"{call!r} is not a custom call",
            code="HLO-EDIT",
            remedy="pass the instruction that FrameworkKernel.instruction(...) returns",
        )
    _check_operands(call, operands)
    tensors = iter(operands)
    all_operands = [
        _copy_constant(computation, operand) if operand.opcode == "constant" else next(tensors)
        for operand in call.operands
    ]
    added = computation.add(
        "custom-call", call.shape, all_operands, name=name or "kernel", like=like
    )
    described = type(call.proto)()
    described.CopyFrom(call.proto)
    for field, _ in call.proto.ListFields():
        if field.name not in _COPIED_FIELDS or (field.name == "metadata" and like is not None):
            described.ClearField(field.name)
    added.proto.MergeFrom(described)
    return added


def _check_operands(call: Instruction, operands: Sequence[Instruction]) -> None:
    """Require one operand of the kernel's type for each tensor that the kernel takes."""
    expected = [operand for operand in call.operands if operand.opcode != "constant"]
    if len(operands) != len(expected):
        shapes = ", ".join(str(operand.shape) for operand in expected)
        raise HloError(
            f"the kernel takes {len(expected)} operands ({shapes}), not {len(operands)}",
            code="HLO-EDIT",
            remedy="pass one instruction for each tensor that kernel.plan(...).operands names, in "
            "order: a tensor that the kernel only writes is a result",
        )
    for number, (operand, parameter) in enumerate(zip(operands, expected, strict=True)):
        if not operand.shape.same_array(parameter.shape):
            raise HloError(
                f"operand {number}, %{operand.name}, is {operand.shape}, but the kernel was "
                f"specialized for {parameter.shape}",
                code="HLO-EDIT",
                remedy="call FrameworkKernel.instruction with tensors of this shape and dtype",
            )


def _copy_constant(computation: Computation, constant: Instruction) -> Instruction:
    """Copy an array that the kernel needs besides its arguments, such as an identity matrix."""
    copied = computation.add("constant", constant.shape, name="kernel_constant")
    copied.proto.literal.CopyFrom(constant.proto.literal)
    return copied
