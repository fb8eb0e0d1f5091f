"""The key of a module: the same number for the same program on any machine, in any run.

The key covers what the program computes: opcodes, shapes, attributes, constants, the content of
its kernels. It leaves out what differs from process to process or from folder to folder: names,
ids (replaced by positions), source locations, debug tables, the paths of kernel files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hlo_tools import schema
from hlo_tools.errors import HloFileError
from hlo_tools.ir.module import Module
from hlo_tools.kernels.files import kernel_files, rename_kernels
from hlo_tools.types.ids import LOCAL_MASK

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hlo_tools.schema.messages import HloComputationProto, HloModuleProto

__all__ = ["KeyParts", "cache_key", "explain_key"]

_MODULE_LEFT_OUT: Final = (
    "name", "entry_computation_name", "id", "schedule", "profile_info", "stack_frame_index",
    "original_value_recovery_table", "payloads", "pjrt_id", "debug_attributes",
)  # fmt: skip
_INSTRUCTION_LEFT_OUT: Final = ("name", "metadata", "original_value", "statistics_viz")


@dataclass(frozen=True, slots=True)
class KeyParts:
    """A key and what it is made of, for finding out why two keys differ.

    Attributes:
        key: the decimal number.
        module: digest of what belongs to the module as a whole (its signature, its aliases).
        computations: digest of each computation, in their order.
        instructions: of each computation, (opcode, digest) of each instruction.
        kernels: kernel function -> digest of its file's content.
        left_out: fields that have no part in the key.
    """

    key: str
    module: str
    computations: tuple[str, ...]
    instructions: tuple[tuple[tuple[str, str], ...], ...]
    kernels: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...] = (
        *_MODULE_LEFT_OUT,
        *_INSTRUCTION_LEFT_OUT,
        "device_assignment.computation_devices",
    )

    def difference(self, other_parts: KeyParts) -> str:
        """The first thing in which two modules differ; "" when their keys are equal."""
        if self.key == other_parts.key:
            return ""
        for (name, left), (_, right) in zip(self.kernels, other_parts.kernels, strict=False):
            if left != right:
                return f"the content of kernel {name}"
        if self.module != other_parts.module:
            return "the module's signature or attributes"
        for computation, rows in enumerate(
            zip(self.instructions, other_parts.instructions, strict=False)
        ):
            for index, (left, right) in enumerate(zip(*rows, strict=False)):
                if left != right:
                    return f"instruction {index} ({left[0]}) of computation {computation}"
        return "the number of computations or instructions"


def cache_key(module: bytes, root: Path | None = None) -> str:
    """The decimal key of a serialized ``HloModuleProto``.

    Args:
        module: the bytes.
        root: the folder that relative kernel paths start from.

    Raises:
        HloFileError: the module is damaged, or a kernel file cannot be read.
    """
    return explain_key(module, root).key


def explain_key(module: bytes, root: Path | None = None) -> KeyParts:
    """The key of a module and the parts that it is made of; its kernels are looked for in ``root``."""
    proto = schema.HloModuleProto()
    try:
        proto.ParseFromString(module)
    except Exception as error:
        raise HloFileError("the module is not an HloModuleProto", code="HLO-DAMAGED") from error
    view = Module(proto)
    kernels = kernel_files(view, root)
    rename_kernels(view, lambda kernel: kernel.digest, root)
    order = {computation.id: position for position, computation in enumerate(proto.computations)}
    instructions = tuple(
        tuple(_instruction_digests(computation, order)) for computation in proto.computations
    )
    computations = tuple(
        _digest_of([_computation_text(computation), *(digest for _, digest in rows)])
        for computation, rows in zip(proto.computations, instructions, strict=True)
    )
    module_digest = _module_digest(proto, order)
    number = int.from_bytes(bytes.fromhex(_digest_of([module_digest, *computations]))[:8], "big")
    named = tuple((kernel.function, kernel.digest) for kernel in kernels)
    return KeyParts(str(number), module_digest, computations, instructions, named)


def _digest_of(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _serialized(message: Message) -> str:
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()


def _module_digest(proto: HloModuleProto, order: Mapping[int, int]) -> str:
    """Return the digest of the module without its computations; changes ``proto``."""
    entry = order.get(proto.entry_computation_id, -1)
    proto.ClearField("computations")
    proto.ClearField("entry_computation_id")
    for name in _MODULE_LEFT_OUT:
        proto.ClearField(name)
    proto.device_assignment.ClearField("computation_devices")  # how many, not which
    if not proto.device_assignment.ListFields():
        proto.ClearField("device_assignment")
    proto.host_program_shape.ClearField("parameter_names")
    return _digest_of([_serialized(proto), str(entry)])


def _computation_text(computation: HloComputationProto) -> str:
    """A computation without its instructions: its root's place and its thread."""
    positions = _places(computation)
    return (
        f"root {positions.get(computation.root_id & LOCAL_MASK, -1)} {computation.execution_thread}"
    )


def _places(computation: HloComputationProto) -> dict[int, int]:
    return {
        inst.id & LOCAL_MASK: position for position, inst in enumerate(computation.instructions)
    }


def _instruction_digests(
    computation: HloComputationProto, order: Mapping[int, int]
) -> list[tuple[str, str]]:
    positions = _places(computation)
    digests: list[tuple[str, str]] = []
    for original in computation.instructions:
        instruction = type(original)()
        instruction.CopyFrom(original)
        for name in _INSTRUCTION_LEFT_OUT:
            instruction.ClearField(name)
        instruction.id = positions[original.id & LOCAL_MASK]
        instruction.operand_ids[:] = [
            positions.get(i & LOCAL_MASK, -1) for i in original.operand_ids
        ]
        instruction.control_predecessor_ids[:] = [
            positions.get(i & LOCAL_MASK, -1) for i in original.control_predecessor_ids
        ]
        instruction.called_computation_ids[:] = [
            order.get(i, -1) for i in original.called_computation_ids
        ]
        digests.append((original.opcode, _serialized(instruction)))
    return digests
