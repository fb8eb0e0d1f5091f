"""How many devices run a module together: its device assignment or its groups say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hlo_tools.errors import HloError
from hlo_tools.types.replica_groups import OF_PARTITIONS, replica_groups_of
from neff.errors import NeffCompileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hlo_tools.ir.module import Module
    from hlo_tools.schema.messages import HloInstructionProto

__all__ = ["Devices", "devices_of"]

MOST = 9999
"""Replicas, and partitions, that a module may state; as many as the flags take."""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a program; that of a replica's partition is
    ``replica * partitions + partition``.
    """

    replicas: int = 1
    partitions: int = 1

    @property
    def count(self) -> int:
        """How many there are."""
        return self.replicas * self.partitions

    def __str__(self) -> str:
        return f"{self.replicas} replicas of {self.partitions} partitions"


def devices_of(module: Module, replicas: int = 0, partitions: int = 0) -> Devices | None:
    """The devices that a module is for.

    Args:
        module: the module, partitioned.
        replicas, partitions: how many of them there are; when 0, what the module's
            ``device_assignment`` says, else found from the groups.

    Returns:
        None when nothing states how many there are.

    Raises:
        NeffCompileError: ``NEFF-COLLECTIVE``; the module states more than there can be.
    """
    if not replicas and not partitions:
        replicas, partitions = _stated(module)
    if replicas and partitions:
        return Devices(replicas, partitions)
    found = {"replicas": 0, "partitions": 0, "devices": 0}
    rows = [row for one in module.proto.computations for row in one.instructions]
    for row in rows:
        mode, count = _named(row)
        if mode:
            found[mode] = max(found[mode], count)
    partitions = partitions or found["partitions"]
    replicas = replicas or found["replicas"]
    if found["devices"] and not partitions:
        partitions = max(1, found["devices"] // max(1, replicas))
    if found["devices"] and not replicas:
        replicas = max(1, found["devices"] // partitions)
    if not replicas and not partitions:
        return None
    return Devices(*_possible(module, max(1, replicas), max(1, partitions)))


def _possible(module: Module, replicas: int, partitions: int) -> tuple[int, int]:
    if max(replicas, partitions) > MOST:
        raise NeffCompileError(
            f"the module states {replicas} replicas of {partitions} partitions",
            code="NEFF-COLLECTIVE",
            place=module.path or module.name,
            remedy=f"at most {MOST} of each; --replicas and --partitions win over the module",
        )
    return replicas, partitions


def _stated(module: Module) -> tuple[int, int]:
    """Replicas and partitions of the device assignment; 0 for one device, which says nothing."""
    stated = module.proto.device_assignment
    counts = _possible(module, stated.replica_count, stated.computation_count)
    return counts if min(counts) > 0 and max(counts) > 1 else (0, 0)


def _named(row: HloInstructionProto) -> tuple[str, int]:
    """What an instruction's ids number, and how many there are at least."""
    if row.opcode.startswith("collective-permute"):
        ids: Iterable[int] = (one for p in row.source_target_pairs for one in (p.source, p.target))
        return "partitions" if row.channel_id else "replicas", 1 + max(ids, default=-1)
    try:
        groups = replica_groups_of(row)
    except HloError:
        return "", 0
    count = 1 + max((member for group in groups for member in group), default=-1)
    if not count:
        return "", 0
    if row.channel_id and row.opcode in OF_PARTITIONS:
        return "partitions", count
    return "devices" if row.channel_id and row.use_global_device_ids else "replicas", count
