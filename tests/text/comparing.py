"""Two modules compared by the names of computations and instructions, never by ids."""

from __future__ import annotations

from typing import Any

from hlo_tools import schema
from hlo_tools.types.source_frames import frames_of

__all__ = ["by_name", "differences"]

_REFERENCES = ("id", "operand_ids", "control_predecessor_ids", "called_computation_ids")
_LOW = 0xFFFFFFFF


def by_name(data: bytes) -> dict[str, Any]:
    """Everything of a module that does not depend on ids."""
    module = schema.HloModuleProto.FromString(data)
    names = {row.id: row.name for row in module.computations}
    found: dict[str, Any] = {}
    for row in module.computations:
        local = {one.id & _LOW: one.name for one in row.instructions}
        for one in row.instructions:
            copy = schema.HloInstructionProto()
            copy.CopyFrom(one)
            for field in _REFERENCES:
                copy.ClearField(field)
            frames = _frames(copy, module.stack_frame_index)
            found[f"{row.name}/{one.name}"] = (
                [local[number & _LOW] for number in one.operand_ids],
                sorted(local[number & _LOW] for number in one.control_predecessor_ids),
                [names[number] for number in one.called_computation_ids],
                str(copy),
                *frames,
            )
        found[row.name] = (
            local[row.root_id & _LOW],
            str(row.program_shape),
            row.is_fusion_computation,
            row.execution_thread,
        )
        if row.id in module.schedule.sequences:
            order = module.schedule.sequences[row.id].instruction_ids
            found[f"{row.name} schedule"] = [local[number & _LOW] for number in order]
    for field in ("computations", "schedule", "id", "entry_computation_id", "stack_frame_index"):
        module.ClearField(field)
    found["recovery table"] = _recovery_table(module.original_value_recovery_table)
    module.ClearField("original_value_recovery_table")
    found[""] = str(module)
    return found


def _frames(row: Any, index: Any) -> list[str]:
    """The source frames of an instruction; the order of the tables says nothing."""
    if not row.metadata.stack_frame_id:
        return []
    found = [repr(frame) for frame in frames_of(row.metadata, index)]
    row.metadata.ClearField("stack_frame_id")
    return found


def _recovery_table(data: bytes) -> str:
    """A table whose modules have no numbers of the process that made them."""
    table = schema.message("OriginalValueRecoveryTableProto").FromString(data)
    for entry in table.entries:
        if entry.HasField("recovery_module"):
            entry.recovery_module.ClearField("id")
    return "".join(sorted(str(entry) for entry in table.entries))


def differences(first: bytes, second: bytes) -> list[str]:
    """The places where two modules differ, with both sides."""
    one, other = by_name(first), by_name(second)
    return [
        f"{place}:\n  {one.get(place)}\n  {other.get(place)}"
        for place in sorted(one.keys() | other.keys())
        if one.get(place) != other.get(place)
    ]
