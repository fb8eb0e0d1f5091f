"""The number of devices that run a module together, from its device assignment or its groups."""

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

MAX_REPLICAS = 9999
"""Limit on the replicas, and on the partitions, that a module may state; the options have four
digits.
"""


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a program.

    The device of a replica's partition has the number ``replica * partitions + partition``.
    """

    replicas: int = 1
    partitions: int = 1

    @property
    def count(self) -> int:
        """Return the number of devices."""
        return self.replicas * self.partitions

    def __str__(self) -> str:
        return f"{self.replicas} replicas of {self.partitions} partitions"


def devices_of(module: Module, replicas: int = 0, partitions: int = 0) -> Devices | None:
    """Return the devices that a module is for.

    Args:
        module: the module, partitioned.
        replicas, partitions: their numbers; if 0, the module's ``device_assignment`` states
            them, or they follow from the groups.

    Returns:
        The devices; None when nothing states their number.

    Raises:
        NeffCompileError: ``NEFF-COLLECTIVE``; the module states more than the limit.
    """
    if not replicas and not partitions:
        replicas, partitions = _stated(module)
    if replicas and partitions:
        return Devices(replicas, partitions)
    counts = {"replicas": 0, "partitions": 0, "devices": 0}
    rows = [row for computation in module.proto.computations for row in computation.instructions]
    for row in rows:
        mode, count = _named(row)
        if mode:
            counts[mode] = max(counts[mode], count)
    partitions = partitions or counts["partitions"]
    replicas = replicas or counts["replicas"]
    if counts["devices"] and not partitions:
        partitions = max(1, counts["devices"] // max(1, replicas))
    if counts["devices"] and not replicas:
        replicas = max(1, counts["devices"] // partitions)
    if not replicas and not partitions:
        return None
    return Devices(*_possible(module, max(1, replicas), max(1, partitions)))


def _possible(module: Module, replicas: int, partitions: int) -> tuple[int, int]:
    if max(replicas, partitions) > MAX_REPLICAS:
        raise NeffCompileError(
            f"the module states {replicas} replicas of {partitions} partitions",
            code="NEFF-COLLECTIVE",
            place=module.path or module.name,
            remedy=f"at most {MAX_REPLICAS} of each; --replicas and --partitions win over the module",
        )
    return replicas, partitions


def _stated(module: Module) -> tuple[int, int]:
    """Return replicas and partitions of the device assignment; 0 if it names one device only."""
    stated = module.proto.device_assignment
    counts = _possible(module, stated.replica_count, stated.computation_count)
    return counts if min(counts) > 0 and max(counts) > 1 else (0, 0)


def _named(row: HloInstructionProto) -> tuple[str, int]:
    """Return the kind of ids in an instruction's groups, and the smallest number of such
    devices.
    """
    if row.opcode.startswith("collective-permute"):
        ids: Iterable[int] = (
            device for pair in row.source_target_pairs for device in (pair.source, pair.target)
        )
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
