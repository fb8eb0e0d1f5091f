"""Instruction ids: two schemes, one way to read both.

Until 2025-09 (jaxlib 0.7.1 and before) an id was a small number, unique in the module: *legacy*.
Since then ``id = computation id << 32 | local id``: *wide*. Operands, control predecessors, roots
and schedules hold whole ids; called computations are plain numbers in both. The low 32 bits are
unique within a computation in either scheme, so readers use these and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloModuleProto

__all__ = ["LOCAL_BITS", "LOCAL_MASK", "NO_ROOT", "scheme_of", "wide"]

LOCAL_BITS = 32
LOCAL_MASK = (1 << LOCAL_BITS) - 1
NO_ROOT = LOCAL_MASK
"""The root id of a computation under construction, before ``set_root``; no instruction has it."""


def wide(computation_id: int, local_id: int) -> int:
    """The id of an instruction in the wide scheme."""
    return computation_id << LOCAL_BITS | local_id


def scheme_of(proto: HloModuleProto) -> str:
    """``"wide"`` or ``"legacy"`` for a HloModuleProto.

    A module whose only computation has the id 0 reads the same in both, and counts as wide when
    its local ids begin at 0 again in every computation.
    """
    ids: set[int] = set()
    for computation in proto.computations:
        if computation.root_id > LOCAL_MASK:
            return "wide"
        for instruction in computation.instructions:
            if instruction.id > LOCAL_MASK or instruction.id in ids:
                return "wide"
            ids.add(instruction.id)
    return "legacy"
