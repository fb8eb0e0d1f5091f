"""Modules rewritten for older readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hlo_tools.ir.formats import entry_of
from hlo_tools.ir.module import Module
from hlo_tools.ir.renumbering import set_ids
from hlo_tools.types.comparison import spell_as_type
from hlo_tools.types.replica_groups import replica_groups_of
from hlo_tools.types.source_frames import frames_of

if TYPE_CHECKING:
    from hlo_tools.ir.instruction import Instruction
    from hlo_tools.schema.messages import HloInstructionProto, StackFrameIndexProto

__all__ = ["DIALECTS", "to_dialect"]


def _dialect_2024(module: Module) -> None:
    """Small ids, sources and payloads in each instruction, groups as lists, orders as types."""
    proto = module.proto
    for view in list(module.instructions):
        instruction = view.proto
        if instruction.HasField("metadata"):
            _inline_source(view, proto.stack_frame_index)
        if instruction.HasField("backend_config_payload"):
            config = view.backend_config
            instruction.ClearField("backend_config_payload")
            instruction.backend_config = config
        _list_replica_groups(instruction)
        instruction.ClearField("empty_options")
    spell_as_type(proto, clear=True)
    proto.ClearField("stack_frame_index")
    del proto.payloads[:]
    set_ids(module, "legacy")


def _inline_source(view: Instruction, index: StackFrameIndexProto) -> None:
    metadata = view.metadata
    frames = frames_of(metadata, index)
    if metadata is not view.proto.metadata:
        view.proto.metadata.CopyFrom(metadata)
    target = view.proto.metadata
    target.ClearField("stack_frame_id")
    if frames:
        target.source_file, target.source_line = frames[0].file, frames[0].line


def _list_replica_groups(instruction: HloInstructionProto) -> None:
    """Explicit groups under their old number, besides whatever form they have."""
    if not instruction.replica_groups:
        for group in replica_groups_of(instruction):
            instruction.replica_groups.add(replica_ids=group)


DIALECTS: dict[str, Callable[[Module], None]] = {"2024": _dialect_2024}
"""Rewrites for older XLA versions, by release year."""


def to_dialect(module: Module, dialect: str) -> None:
    """Rewrite a module for older readers.

    Raises:
        HloError: no such dialect (HLO-ARGUMENT).
    """
    module.require_known_fields()
    entry_of(DIALECTS, dialect, "dialect")(module)
