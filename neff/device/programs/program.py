"""Programs as frameworks hand them over, and what has to be known about them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hlo_tools.ir.loading import load
from hlo_tools.rewrite.inlining import inline_calls
from hlo_tools.types.opcodes import opcodes_of_kind
from neff.device.pjrt.status import Status, StatusError
from neff.device.programs import message_bytes
from neff.device.programs.jaxlib_api import private, xla_computation
from neff.device.programs.rewrite import kernel_configs

__all__ = [
    "CompileOptions",
    "Program",
    "TensorSpec",
    "as_hlo",
    "opcode_counts",
    "signature",
    "with_assignment",
]

# Field numbers of HloModuleProto.
_COMPUTATIONS, _PROGRAM_SHAPE, _INPUT_OUTPUT_ALIAS, _BUFFER_DONOR = 3, 4, 8, 18
_DEVICE_ASSIGNMENT = 15
_INSTRUCTIONS, _OPCODE = 2, 2
# Field numbers inside those.
_ENTRIES, _ALIAS_PARAMETER, _DONOR_PARAMETER = 1, 2, 1
# HloModuleProtoWithConfig and its HloModuleConfigProto.
_MODULE, _CONFIG = 1, 2
_ENTRY_LAYOUT, _REPLICAS, _PARTITIONS = 1, 4, 5

_COMMUNICATION = opcodes_of_kind("collective") | {
    "partition-id", "recv", "recv-done", "replica-id", "send", "send-done",
}  # fmt: skip

TensorSpec = tuple[tuple[int, ...], np.dtype[Any]]
"""(shape, dtype) of one parameter or result."""

_TOKEN: TensorSpec = ((), np.dtype(np.bool_))


def as_hlo(text_format: str, code: bytes) -> bytes:
    """The serialized HLO module of a program in one of PJRT's formats.

    Raises:
        StatusError: the format is unknown or the program does not convert.
    """
    if text_format == "hlo":
        return code
    if text_format == "hlo_with_config":
        return next(
            bytes(field.value)  # type: ignore[arg-type]
            for field in message_bytes.fields(code)
            if field.number == _MODULE
        )
    if text_format != "mlir":
        raise StatusError(
            Status.UNIMPLEMENTED,
            f"[NEFF-DEVICE-FORMAT] program format {text_format!r} is not one of mlir, hlo, "
            "hlo_with_config",
        )
    try:
        computation = private("_jax").mlir.mlir_module_to_xla_computation(code, False, False)
    except Exception as error:
        raise StatusError(
            Status.INVALID_ARGUMENT,
            f"[NEFF-DEVICE-CONVERT] the program does not convert to HLO: {error}",
        ) from error
    return computation.as_serialized_hlo_module_proto()


def signature(module: bytes) -> tuple[str, list[TensorSpec], list[TensorSpec]]:
    """(module name, parameters, results) of a serialized module."""
    computation = xla_computation(module)
    shape = computation.program_shape()
    parameters = [spec for parameter in shape.parameter_shapes() for spec in _leaves(parameter)]
    return computation.name(), parameters, _leaves(shape.result_shape())


def _leaves(shape: Any) -> list[TensorSpec]:
    if shape.is_tuple():
        return [leaf for element in shape.tuple_shapes() for leaf in _leaves(element)]
    if not shape.is_array():  # a token: frameworks pass an empty array of bool for it
        return [_TOKEN]
    return [(tuple(shape.dimensions()), np.dtype(shape.numpy_dtype()))]


class Program:
    """One compiled module.

    Attributes:
        module: serialized HLO, kernel calls in the vendor's form.
        name: its name.
        parameters, results: their shapes before partitioning.
    """

    def __init__(self, module: bytes) -> None:
        self.module = module
        self.name, self.parameters, self.results = signature(module)

    @cached_property
    def digest(self) -> str:
        """A name for exactly these bytes."""
        return hashlib.sha256(self.module).hexdigest()

    @cached_property
    def kernels(self) -> list[str]:
        """backend_config of every kernel call."""
        return kernel_configs(self.module)

    @cached_property
    def communicates(self) -> bool:
        """Return whether its devices run together: it has collectives, or reads its own number."""
        return any(name in _COMMUNICATION for name in opcode_counts(self.module))

    @cached_property
    def reads_only_its_number(self) -> bool:
        """Return whether a device reads its number, and exchanges nothing with others."""
        names = _COMMUNICATION & opcode_counts(self.module).keys()
        return bool(names) and names <= {"partition-id", "replica-id"}

    @cached_property
    def donated(self) -> frozenset[int]:
        """Parameters whose memory the program may take over."""
        parameters: set[int] = set()
        for field in message_bytes.fields(self.module):
            if field.number == _INPUT_OUTPUT_ALIAS and isinstance(field.value, bytes):
                parameters |= _parameter_numbers(field.value, _ALIAS_PARAMETER)
            elif field.number == _BUFFER_DONOR and isinstance(field.value, bytes):
                parameters |= _parameter_numbers(field.value, _DONOR_PARAMETER)
        return frozenset(parameters)

    def with_config(self, options: CompileOptions, extra: bytes = b"") -> bytes:
        """The module with its configuration, the form in which frameworks read it back.

        Args:
            options: what it was compiled with.
            extra: fields to add to the module (shardings that partitioning found).
        """
        shape = next(
            bytes(field.value)  # type: ignore[arg-type]
            for field in message_bytes.fields(self.module)
            if field.number == _PROGRAM_SHAPE
        )
        config = message_bytes.bytes_field(_ENTRY_LAYOUT, shape)
        config += message_bytes.varint_field(_REPLICAS, options.num_replicas)
        config += message_bytes.varint_field(_PARTITIONS, options.num_partitions)
        module = self._with_kernels_in_entry() + extra
        return message_bytes.bytes_field(_MODULE, module) + message_bytes.bytes_field(
            _CONFIG, config
        )

    def _with_kernels_in_entry(self) -> bytes:
        """Return the module with calls inlined if it has kernels.

        JAX puts nested functions in computations of their own, and XLA's optimized modules, which
        users print, have none of them: there a kernel call is an instruction of ENTRY.
        """
        if not self.kernels or "call" not in opcode_counts(self.module):
            return self.module
        loaded = load(self.module)
        inline_calls(loaded)
        return loaded.module_bytes()


def opcode_counts(module: bytes) -> Counter[str]:
    """How often each opcode occurs in a serialized module."""
    return Counter(
        opcode.value.decode()
        for computation in message_bytes.fields(module)
        if computation.number == _COMPUTATIONS and isinstance(computation.value, bytes)
        for instruction in message_bytes.fields(computation.value)
        if instruction.number == _INSTRUCTIONS and isinstance(instruction.value, bytes)
        for opcode in message_bytes.fields(instruction.value)
        if opcode.number == _OPCODE and isinstance(opcode.value, bytes)
    )


def with_assignment(module: bytes, assignment: bytes) -> bytes:
    """A serialized module for the devices of a ``DeviceAssignmentProto``."""
    fields = [
        module[field.start : field.end]
        for field in message_bytes.fields(module)
        if field.number != _DEVICE_ASSIGNMENT
    ]
    return b"".join([*fields, message_bytes.bytes_field(_DEVICE_ASSIGNMENT, assignment)])


def _parameter_numbers(message: bytes, number: int) -> set[int]:
    """Parameter numbers of alias or donor entries (an absent number is zero)."""
    return {
        next(iter(message_bytes.integers(entry.value, number)), 0)
        for entry in message_bytes.fields(message)
        if entry.number == _ENTRIES and isinstance(entry.value, bytes)
    }


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """A framework's options for a compilation.

    Attributes:
        num_replicas, num_partitions: how many devices run the program together.
        device_ids: device of each (replica, partition), replica-major.
        portable: may run on any one device.
        serialized: the whole ``CompileOptionsProto``.
    """

    num_replicas: int
    num_partitions: int
    device_ids: tuple[int, ...]
    portable: bool
    serialized: bytes

    @classmethod
    def parse(cls, serialized: bytes) -> CompileOptions:
        """Read a ``CompileOptionsProto``.

        Field numbers: executable_build_options 3 {num_replicas 4, num_partitions 5,
        device_assignment 9 {computation_devices 3 {replica_device_ids 1}}},
        compile_portable_executable 4.
        """
        build, portable = b"", False
        for field in message_bytes.fields(serialized):
            if field.number == 3 and isinstance(field.value, bytes):
                build = field.value
            elif field.number == 4:
                portable = bool(field.value)
        replicas, partitions, assignment = 1, 1, b""
        for field in message_bytes.fields(build):
            if field.number == 4 and isinstance(field.value, int):
                replicas = max(1, field.value)
            elif field.number == 5 and isinstance(field.value, int):
                partitions = max(1, field.value)
            elif field.number == 9 and isinstance(field.value, bytes):
                assignment = field.value
        ids = _assigned(assignment) or tuple(range(replicas * partitions))
        return cls(replicas, partitions, ids, portable, serialized)

    @property
    def assignment(self) -> bytes:
        """The devices as a ``DeviceAssignmentProto``.

        Field numbers: replica_count 1, computation_count 2, computation_devices 3
        {replica_device_ids 1}.
        """
        message = message_bytes.varint_field(1, self.num_replicas)
        message += message_bytes.varint_field(2, self.num_partitions)
        for partition in range(self.num_partitions):
            ids = self.device_ids[partition :: self.num_partitions]
            packed = b"".join(message_bytes.varint(ident) for ident in ids)
            message += message_bytes.bytes_field(3, message_bytes.bytes_field(1, packed))
        return message

    def numbered(self) -> CompileOptions:
        """The same options, the devices numbered from 0 in their order."""
        ids = tuple(range(len(self.device_ids)))
        return replace(self, device_ids=ids)

    def alone(self) -> CompileOptions:
        """The same options for one device by itself."""
        return CompileOptions(1, 1, (0,), True, self.serialized)


def _assigned(assignment: bytes) -> tuple[int, ...]:
    """Device ids in replica-major order from a ``DeviceAssignmentProto``."""
    partitions: Sequence[list[int]] = [
        message_bytes.integers(field.value, 1)
        for field in message_bytes.fields(assignment)
        if field.number == 3 and isinstance(field.value, bytes)
    ]
    return tuple(ident for replica in zip(*partitions, strict=True) for ident in replica)
