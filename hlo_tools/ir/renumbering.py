"""Instruction ids given anew, in either scheme."""

# pyright: reportPrivateUsage=false
# The views and what edits, writes and numbers them anew share the state behind the views.

from __future__ import annotations

from typing import TYPE_CHECKING

from hlo_tools import schema
from hlo_tools.errors import HloError
from hlo_tools.ir.module import Module
from hlo_tools.types.ids import LOCAL_MASK, wide

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloComputationProto, HloModuleProto

__all__ = ["SCHEMES", "set_ids"]

SCHEMES = ("wide", "legacy")


def set_ids(module: Module, scheme: str) -> None:
    """Number all instructions anew, densely, in the file's order.

    ``"legacy"`` gives small numbers that are unique in the module; jaxlib before 0.6 and compilers
    built from XLA before mid-2025 take no other (they refuse ids over 2^31 - 1). ``"wide"`` gives
    ``computation id << 32 | number``, as XLA writes since 2025-09. References, schedules and the
    buffers of an HloProto follow.

    Raises:
        HloError: another scheme (HLO-ARGUMENT).
        HloFileError: a reference names no instruction (HLO-REFERENCE).
    """
    module.require_known_fields()
    if scheme not in SCHEMES:
        raise HloError(
            f"id scheme {scheme!r} is not known", code="HLO-ARGUMENT", remedy="use wide or legacy"
        )
    proto = module.proto
    numbers = _new_numbers(proto, scheme)
    for computation in proto.computations:
        _renumber(computation, numbers[computation.id], module.name)
    for computation_id, sequence in proto.schedule.sequences.items():
        table = numbers.get(computation_id, {})
        ids = [table[i & LOCAL_MASK] for i in sequence.instruction_ids if i & LOCAL_MASK in table]
        del sequence.instruction_ids[:]
        sequence.instruction_ids.extend(ids)
    _renumber_buffers(module, numbers)
    module._kept = {
        (computation, numbers[computation][local] & LOCAL_MASK): stored
        for (computation, local), stored in module._kept.items()
    }
    module.touch()


def _new_numbers(proto: HloModuleProto, scheme: str) -> dict[int, dict[int, int]]:
    """Return, per computation id, the new ids by old local ids."""
    numbers: dict[int, dict[int, int]] = {}
    following = 1
    for computation in proto.computations:
        table = numbers[computation.id] = {}
        for position, instruction in enumerate(computation.instructions):
            new = wide(computation.id, position) if scheme == "wide" else following + position
            table[instruction.id & LOCAL_MASK] = new
        following += len(computation.instructions)
    return numbers


def _renumber(computation: HloComputationProto, table: dict[int, int], module_name: str) -> None:
    try:
        for instruction in computation.instructions:
            instruction.id = table[instruction.id & LOCAL_MASK]
            for references in (instruction.operand_ids, instruction.control_predecessor_ids):
                if references:
                    references[:] = [table[i & LOCAL_MASK] for i in references]
        computation.root_id = table[computation.root_id & LOCAL_MASK]
    except KeyError as error:
        raise HloError(
            f"computation %{computation.name} of {module_name} refers to an instruction "
            f"{error.args[0]} that it does not have",
            code="HLO-REFERENCE",
            remedy="the module is damaged; nki-hlo verify reports all that is wrong",
        ) from None


def _renumber_buffers(module: Module, numbers: dict[int, dict[int, int]]) -> None:
    """Logical buffers name instructions by wide id; a legacy id names no computation and stays."""
    envelope = module.envelope
    hlo = envelope.hlo if isinstance(envelope, schema.HloSnapshot) else envelope
    if not isinstance(hlo, schema.HloProto):
        return
    for buffer in hlo.buffer_assignment.logical_buffers:
        location = buffer.defined_at
        new = numbers.get(location.instruction_id >> 32, {}).get(
            location.instruction_id & LOCAL_MASK
        )
        if new is not None:
            location.instruction_id = new
