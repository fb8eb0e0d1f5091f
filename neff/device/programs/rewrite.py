"""Kernel calls made executable: from the vendor's form to the typed FFI of XLA:CPU.

Only the copy that is executed is rewritten. What extraction writes and what the framework
prints keeps the vendor's form (API version 2, the configuration as text).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from hlo_tools.ir.module import KERNEL_TARGET
from neff.device.programs import message_bytes

__all__ = ["kernel_configs", "to_typed_calls", "to_vendor_calls"]

_TARGET: Final = KERNEL_TARGET.encode()
_VENDOR: Final = 2
_TYPED_FFI: Final = 4

# Field numbers: HloModuleProto.computations, HloComputationProto.instructions, and three of
# HloInstructionProto.
_COMPUTATIONS, _INSTRUCTIONS = 3, 2
_CUSTOM_CALL_TARGET, _BACKEND_CONFIG, _API_VERSION = 28, 43, 77


def kernel_configs(module: bytes) -> list[str]:
    """The ``backend_config`` of every kernel call of a serialized module, in order."""
    configs: list[str] = []

    def note(instruction: bytes) -> bytes:
        configs.append(_config(instruction))
        return instruction

    _each_kernel_call(module, note)
    return configs


def to_typed_calls(module: bytes, typed_config: Callable[[str], str]) -> bytes:
    """The module with each kernel call as a typed-FFI call.

    Args:
        module: a serialized ``HloModuleProto``.
        typed_config: backend_config of the vendor's form -> that of the typed form.
    """

    def typed(instruction: bytes) -> bytes:
        return _configured(instruction, typed_config(_config(instruction)), _TYPED_FFI)

    return _each_kernel_call(module, typed)


def to_vendor_calls(module: bytes, configs: Mapping[str, str]) -> bytes:
    """The module with each typed-FFI call of a kernel in the vendor's form.

    Args:
        module: a serialized ``HloModuleProto``.
        configs: backend_config of the typed form -> that of the vendor's form.
    """

    def untyped(instruction: bytes) -> bytes:
        return _configured(instruction, configs[_config(instruction)], _VENDOR)

    return _each_kernel_call(module, untyped, typed=True)


def _configured(instruction: bytes, config: str, version: int) -> bytes:
    fields = [
        instruction[field.start : field.end]
        for field in message_bytes.fields(instruction)
        if field.number not in (_BACKEND_CONFIG, _API_VERSION)
    ]
    fields.append(message_bytes.bytes_field(_BACKEND_CONFIG, config.encode()))
    fields.append(message_bytes.varint_field(_API_VERSION, version))
    return b"".join(fields)


def _config(instruction: bytes) -> str:
    for field in message_bytes.fields(instruction):
        if field.number == _BACKEND_CONFIG and isinstance(field.value, bytes):
            return field.value.decode("utf-8", "replace")
    return ""


def _each_kernel_call(
    module: bytes, change: Callable[[bytes], bytes], *, typed: bool = False
) -> bytes:
    if _TARGET not in module:
        return module

    def in_instruction(instruction: bytes) -> bytes:
        if _TARGET not in instruction:
            return instruction
        target = version = None
        for field in message_bytes.fields(instruction):
            if field.number == _CUSTOM_CALL_TARGET:
                target = field.value
            elif field.number == _API_VERSION:
                version = field.value
        chosen = target == _TARGET and (version == _TYPED_FFI) == typed
        return change(instruction) if chosen else instruction

    def in_computation(computation: bytes) -> bytes:
        if _TARGET not in computation:
            return computation
        return message_bytes.rewritten(computation, _INSTRUCTIONS, in_instruction)

    return message_bytes.rewritten(module, _COMPUTATIONS, in_computation)
