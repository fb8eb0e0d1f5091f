"""Two modules compared by the names of computations and instructions, never by ids."""

from __future__ import annotations

from typing import Any

from hlo_tools import schema
from hlo_tools.types.comparison import TOTAL, default_comparison_order, is_total_order
from hlo_tools.types.source_frames import frames_of

__all__ = ["by_name", "differences", "in_older_words", "states_orders"]

_REFERENCES = ("id", "operand_ids", "control_predecessor_ids", "called_computation_ids")
_LOW = 0xFFFFFFFF


_ORDER_KEY = b"\xb2\x06"
"""The key of ``comparison_order``, which jaxlib 0.12 writes."""


_SUM_TYPE = "sdy::reduction_op"
_SUM_TEXT = f' metadata={{op_type="{_SUM_TYPE}" op_name="SUM"}}'
"""Metadata that jaxlib 0.12 adds to an unreduced sharding."""


def in_older_words(text: str) -> str:
    """Text of jaxlib 0.12 in the words of 0.10, which the printer writes."""
    return text.replace("{single_device[", "{maximal_mesh[").replace(_SUM_TEXT, "")


def states_orders(data: bytes) -> bool:
    """Return True if a module's comparisons state their orders as jaxlib 0.12 does."""
    return _ORDER_KEY in data


def _state_orders(module: Any) -> None:
    """State every comparison's order as jaxlib 0.12 does, which drops types that do not fit."""
    for computation in module.computations:
        kinds = {inst.id & _LOW: inst.shape.element_type for inst in computation.instructions}
        for inst in computation.instructions:
            if inst.opcode == "compare":
                default = default_comparison_order(kinds[inst.operand_ids[0] & _LOW])
                is_total = inst.comparison_type in ("SIGNED", "UNSIGNED") or is_total_order(inst)
                inst.comparison_order = TOTAL if is_total else default
                inst.ClearField("comparison_type")


def by_name(data: bytes, *, orders: bool = False) -> dict[str, Any]:
    """Everything of a module that does not depend on ids.

    Args:
        orders: of comparisons, the order alone, however a version of jaxlib states it.
    """
    module = schema.HloModuleProto.FromString(data)
    if orders:
        _state_orders(module)
    names = {row.id: row.name for row in module.computations}
    by_key: dict[str, Any] = {}
    for row in module.computations:
        local = {inst.id & _LOW: inst.name for inst in row.instructions}
        for instruction in row.instructions:
            copy = schema.HloInstructionProto()
            copy.CopyFrom(instruction)
            for field in (*_REFERENCES, "empty_options"):
                copy.ClearField(field)
            if not copy.sparsity_config.ByteSize():
                copy.ClearField("sparsity_config")
            if [row.op_type for row in copy.sharding.metadata] == [_SUM_TYPE]:
                copy.sharding.ClearField("metadata")
            frames = _frames(copy, module.stack_frame_index)
            by_key[f"{row.name}/{instruction.name}"] = (
                [local[number & _LOW] for number in instruction.operand_ids],
                sorted(local[number & _LOW] for number in instruction.control_predecessor_ids),
                [names[number] for number in instruction.called_computation_ids],
                str(copy),
                *frames,
            )
        by_key[row.name] = (
            local[row.root_id & _LOW],
            str(row.program_shape),
            row.is_fusion_computation,
            row.execution_thread,
        )
        if row.id in module.schedule.sequences:
            order = module.schedule.sequences[row.id].instruction_ids
            by_key[f"{row.name} schedule"] = [local[number & _LOW] for number in order]
    for field in ("computations", "schedule", "id", "entry_computation_id", "stack_frame_index"):
        module.ClearField(field)
    by_key["recovery table"] = _recovery_table(module.original_value_recovery_table)
    module.ClearField("original_value_recovery_table")
    by_key[""] = str(module)
    return by_key


def _frames(row: Any, index: Any) -> list[str]:
    """The source frames of an instruction; the order of the tables says nothing."""
    if not row.metadata.stack_frame_id:
        return []
    frames = [repr(frame) for frame in frames_of(row.metadata, index)]
    row.metadata.ClearField("stack_frame_id")
    return frames


def _recovery_table(data: bytes) -> str:
    """A table whose modules have no numbers of the process that made them."""
    table = schema.message("OriginalValueRecoveryTableProto").FromString(data)
    for entry in table.entries:
        if entry.HasField("recovery_module"):
            entry.recovery_module.ClearField("id")
    return "".join(sorted(str(entry) for entry in table.entries))


def differences(first: bytes, second: bytes, *, orders: bool = False) -> list[str]:
    """The places where two modules differ, with both sides.

    Args:
        orders: as in :func:`by_name`; always where one of the modules is of jaxlib 0.12.
    """
    orders = orders or states_orders(first) or states_orders(second)
    left, right = by_name(first, orders=orders), by_name(second, orders=orders)
    return [
        f"{location}:\n  {left.get(location)}\n  {right.get(location)}"
        for location in sorted(left.keys() | right.keys())
        if left.get(location) != right.get(location)
    ]
