"""The checks that every instruction passes, and the call that the special checks examine."""

from __future__ import annotations

from enum import Enum
from typing import Any, SupportsFloat, SupportsIndex

from nki_lang.base.errors import reports_bugs
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import TARGETS
from nki_lang.frontend.builder import TraceBuilder
from nki_lang.frontend.objects import is_sequence
from nki_lang.frontend.operators import Operator
from nki_lang.frontend.registers import VirtualRegister
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.call import CheckedCall
from nki_lang.isa.enums import (
    dge_mode,
    dma_engine,
    matmul_perf_mode,
    oob_mode,
    reduce_cmd,
)
from nki_lang.isa.indirection import check_indirection
from nki_lang.isa.spec import Constraint, InstructionSpec, OperandSpec

__all__ = ["validate"]

_ARCHITECTURE_GUIDE = "nki/guides/architecture/trainium_inferentia2_arch.rst"
_FAMILY_OF_GENERATION = {target.generation: target.name for target in TARGETS.values()}


def validate(
    spec: InstructionSpec, values: tuple[Any, ...], engine: Any, builder: TraceBuilder
) -> None:
    """Run all checks of one call.

    Raises:
        NkiValidationError: the first rule that the call breaks.
    """
    call = CheckedCall(spec, dict(zip(spec.names, values, strict=True)), engine, builder.generation)
    _check_target(call)
    _check_engine(call)
    for operand in spec.operands:
        _check_operand(call, operand)
    check_indirection(call)
    if spec.tile_rules:
        any_start_operands = {operand.name for operand in spec.operands if operand.any_start}
        for name, tensor in call.tensors():
            _check_tile(call, name, tensor, name in any_start_operands)
    for constraint in spec.constraints:
        violation = _violation(constraint, call)
        if violation:
            call.refuse(constraint.code, violation, constraint.rule, constraint.source)


def _violation(constraint: Constraint, call: CheckedCall) -> str:
    """Return what breaks the rule, or ""; a value of a type that the rule does not expect breaks
    it.
    """
    try:
        return constraint.check(call)
    except (TypeError, ValueError, AttributeError, IndexError):
        if not reports_bugs() and _has_plain_values(call):
            raise  # a bug of the rule
        attributes = [call.describe(o.name) for o in call.spec.operands if o.role == "attribute"]
        return ", ".join(attributes)


def _has_plain_values(call: CheckedCall) -> bool:
    """Return True if every attribute has a value of a type that an instruction may take."""
    values = [call.values.get(o.name) for o in call.spec.operands if o.role == "attribute"]
    return all(value is None or isinstance(value, (bool, int, float, Enum)) for value in values)


def _check_target(call: CheckedCall) -> None:
    if call.generation < call.spec.minimum:
        family = _FAMILY_OF_GENERATION[call.spec.minimum]
        call.refuse(
            "NKI-TARGET",
            f"not available on {_FAMILY_OF_GENERATION[call.generation]}",
            f"build for {family} or newer, or choose another instruction",
        )


def _check_engine(call: CheckedCall) -> None:
    if call.engine is Engine.unknown:
        return
    if not isinstance(call.engine, Engine):  # pyright: ignore[reportUnnecessaryIsInstance]
        call.refuse(
            "NKI-ENGINE",
            f"engine={call.engine!r} is not a member of nisa.engine",
            "use nisa.engine.vector, nisa.engine.scalar, ...",
        )
    allowed = call.spec.engines[call.generation]
    if call.engine not in allowed:
        names = ", ".join(sorted(f"nisa.engine.{engine.name}" for engine in allowed))
        call.refuse(
            "NKI-ENGINE",
            f"engine={call.engine.name} cannot run it on {_FAMILY_OF_GENERATION[call.generation]}",
            f"use {names} or leave engine out",
        )


def _check_operand(call: CheckedCall, operand: OperandSpec) -> None:
    value = call.values[operand.name]
    if value is None and operand.optional:
        return
    if operand.role == "attribute":
        _check_member(call, operand.name, value)
    elif operand.role == "operator":
        _check_operator(call, operand, value)
    elif operand.role == "register":
        if not isinstance(value, VirtualRegister):
            call.refuse("NKI-REGISTER", f"{operand.name} is a register, not {value!r}",
                        "create one with nisa.register_alloc")  # fmt: skip
    elif operand.is_tensor:
        if operand.several:
            _check_sequence(call, operand, value)
        elif not (operand.scalar and _is_number(value)):
            _check_tensor(call, operand, value)


_ENUM_OF_PARAMETER = {
    "oob_mode": oob_mode,
    "dge_mode": dge_mode,
    "reduce_cmd": reduce_cmd,
    "perf_mode": matmul_perf_mode,
    "dma_engine": dma_engine,
}


def _check_member(call: CheckedCall, name: str, value: object) -> None:
    enum = _ENUM_OF_PARAMETER.get(name)
    if enum is None or isinstance(value, enum):
        return
    members = ", ".join(f"nisa.{enum.__name__}.{member.name}" for member in enum)
    call.refuse("NKI-ENUM", f"{name}={value!r} is not a member of nisa.{enum.__name__}", members)


def _is_number(value: object) -> bool:
    return not isinstance(
        value, (NkiTensor, str, bytes, list, tuple, VirtualRegister, Operator)
    ) and isinstance(value, (SupportsFloat, SupportsIndex))


def _check_operator(call: CheckedCall, operand: OperandSpec, value: object) -> None:
    if isinstance(value, Operator):
        return
    name = getattr(value, "__name__", None)
    remedy = f"pass {operand.name}=nl.{name}" if name else "pass one of nl.add, nl.multiply, ..."
    call.refuse(
        "NKI-OPERATOR", f"{operand.name}={value!r} is not an operator of nki.language", remedy
    )


def _check_sequence(call: CheckedCall, operand: OperandSpec, value: object) -> None:
    if not is_sequence(value) or not value:
        call.refuse("NKI-OPERAND", f"{operand.name}={value!r:.80}", "pass a list of tensors")
    for entry in value:
        if is_sequence(entry):
            _check_sequence(call, operand, entry)
        else:
            _check_tensor(call, operand, entry)


def _check_tensor(call: CheckedCall, operand: OperandSpec, value: object) -> None:
    name = operand.name
    if not isinstance(value, NkiTensor):
        kinds = "a tensor or a number" if operand.scalar else "a tensor"
        call.refuse(
            "NKI-OPERAND", f"{name}={value!r:.80} ({type(value).__name__})", f"pass {kinds}"
        )
    if 0 in value.shape:
        call.refuse(
            "NKI-EMPTY",
            f"{name} {value.name!r} has no elements: {list(value.shape)}",
            "guard the instruction with a Python if on the size",
        )
    if value.buffer not in operand.buffers:
        allowed = " or ".join(sorted({buffer.value for buffer in operand.buffers}))
        call.refuse(
            "NKI-BUFFER",
            f"{name} {value.name!r} is in {value.buffer}; it must be in {allowed}",
            _move_remedy(operand, value),
        )
    if operand.dtypes and value.dtype.name not in operand.dtypes:
        call.refuse(
            "NKI-DTYPE",
            f"{name} {value.name!r} is {value.dtype}",
            f"allowed: {', '.join(sorted(operand.dtypes))}",
        )


def _move_remedy(operand: OperandSpec, value: NkiTensor) -> str:
    if value.buffer in (MemoryRegion.sbuf, MemoryRegion.psum):
        if operand.is_tensor and value.buffer is MemoryRegion.psum:
            return "copy it to SBUF with nisa.tensor_copy first"
        return "use a tile in the right memory"
    return "bring it on chip with nisa.dma_copy or nl.load first"


def _check_tile(call: CheckedCall, name: str, tensor: NkiTensor, any_start: bool) -> None:
    """Check the rules for every tile that a compute engine uses."""
    if not tensor.on_chip:
        return
    partitions = tensor.shape[0]
    start = tensor.start_partition
    if partitions > 128 or start + partitions > 128:
        call.refuse(
            "NKI-PARTITION",
            f"{name} {tensor.name!r} covers partitions {start} to {start + partitions - 1}",
            "a tile has at most 128 partitions (nl.tile_size.pmax)",
            f"{_ARCHITECTURE_GUIDE} (SBUF and PSUM have 128 partitions)",
        )
    step = 32 if partitions <= 32 else (64 if partitions <= 64 else 128)
    if start % step and not any_start:
        allowed = {32: "0, 32, 64 or 96", 64: "0 or 64", 128: "0"}[step]
        call.refuse(
            "NKI-START-PARTITION",
            f"{name} {tensor.name!r} has {partitions} partitions from partition {start}",
            f"{partitions} partitions start at {allowed}",
            f"{_ARCHITECTURE_GUIDE}:707-713, start partition",
        )
    if len(tensor.shape) > 5 and _hardware_dims(tensor) > 4:
        call.refuse(
            "NKI-RANK",
            f"{name} {tensor.name!r} walks {_hardware_dims(tensor)} free dimensions",
            "an access pattern has the partition dimension and at most four free ones",
            f"{_ARCHITECTURE_GUIDE}:716-775, access patterns",
        )


def _hardware_dims(tensor: NkiTensor) -> int:
    """Return the number of free dimensions after merging contiguous ones."""
    count, expected = 0, 0
    for extent, step in zip(reversed(tensor.shape[1:]), reversed(tensor.strides[1:]), strict=True):
        if extent == 1:
            continue
        if not count or step != expected:
            count += 1
        expected = step * extent
    return count
