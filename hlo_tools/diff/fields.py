"""Fields of a module's messages that a comparison ignores, and the reasons.

Every other field of the schema is compared. A test changes each field of each message once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["LEFT_OUT", "METADATA", "STRUCTURE", "compared_fields"]

LEFT_OUT: Final[dict[str, dict[str, str]]] = {
    "HloModuleProto": {
        "id": "a number that each process gives",
        "pjrt_id": "a number that each process gives",
        "name": "names make no difference; compared with names=True",
        "entry_computation_name": "names make no difference; compared with names=True",
        "entry_computation_id": "ids are renumbered; the entries themselves are compared",
    },
    "HloComputationProto": {
        "id": "ids are renumbered; computations are paired along calls",
        "name": "names make no difference; compared with names=True",
    },
    "HloInstructionProto": {
        "id": "ids are renumbered; instructions are paired by structure",
        "name": "names make no difference; compared with names=True",
    },
    "ProgramShapeProto": {"parameter_names": "names make no difference"},
    "HloProto": {"buffer_assignment": "a plan of memory for the module's ids; not the program"},
}
"""Message -> field that makes no difference -> reason."""

METADATA: Final[dict[str, frozenset[str]]] = {
    "HloModuleProto": frozenset(
        {"stack_frame_index", "original_value_recovery_table", "debug_attributes"}
    ),
    "HloInstructionProto": frozenset({"metadata", "original_value", "statistics_viz"}),
}
"""Message -> fields about the source and about how it is shown, which ``"metadata"`` leaves out."""

STRUCTURE: Final[dict[str, frozenset[str]]] = {
    "HloModuleProto": frozenset({"computations", "schedule", "host_program_shape"}),
    "HloComputationProto": frozenset({"instructions", "root_id", "program_shape"}),
    "HloInstructionProto": frozenset(
        {"operand_ids", "called_computation_ids", "control_predecessor_ids"}
    ),
    "HloProto": frozenset({"hlo_module"}),
    "HloSnapshot": frozenset({"hlo"}),
    "HloUnoptimizedSnapshot": frozenset({"hlo_module"}),
}
"""Message -> fields that are compared by what they refer to."""


def compared_fields(message: Message, ignored: frozenset[str]) -> frozenset[str]:
    """The fields of a message that are compared as they are.

    Args:
        message: one of the messages that are compared.
        ignored: what the comparison leaves out.
    """
    name = message.DESCRIPTOR.name
    left_out = {*LEFT_OUT.get(name, {}), *STRUCTURE.get(name, ()), *ignored}
    if "metadata" in ignored:
        left_out.update(METADATA.get(name, ()))
    return frozenset(message.DESCRIPTOR.fields_by_name) - left_out
