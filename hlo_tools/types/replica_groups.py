"""The devices that take part in a collective together, in any of the forms they are written in."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hlo_tools.errors import HloError

if TYPE_CHECKING:
    from hlo_tools.schema.messages import (
        HloInstructionProto,
        IotaReplicaGroupListProto,
        MeshAxesReplicaGroupListProto,
        MeshProto,
    )

__all__ = [
    "OF_PARTITIONS",
    "device_groups",
    "mesh_devices",
    "permuted_devices",
    "replica_groups_of",
]

_MAX_GROUP_DEVICES = 1 << 24
"""More devices than any system has: larger groups are damage."""

OF_PARTITIONS = frozenset({"all-to-all", "collective-broadcast", "ragged-all-to-all"})
"""With a channel, these have groups of partitions; they lack ``use_global_device_ids``."""


def device_groups(
    instruction: HloInstructionProto, replicas: int, partitions: int
) -> list[list[int]]:
    """The groups as numbers of devices, which are ``replica * partitions + partition``.

    How the ids of a group are meant: XLA, ``CollectiveOpGroupMode``.

    Raises:
        ValueError: a group names something that there is not.
    """
    groups = replica_groups_of(instruction)
    channel = bool(instruction.channel_id)
    across = channel and instruction.opcode in OF_PARTITIONS
    flat = channel and not across and instruction.use_global_device_ids
    count = partitions if across else replicas * partitions if flat else replicas
    groups = groups or [list(range(count))]
    if any(not 0 <= member < count for group in groups for member in group):
        raise ValueError(f"{groups} with {count}")
    if flat:
        return groups
    if across:
        return [[r * partitions + p for p in group] for r in range(replicas) for group in groups]
    if channel:
        return [[r * partitions + p for r in group for p in range(partitions)] for group in groups]
    return [[r * partitions + p for r in group] for p in range(partitions) for group in groups]


def permuted_devices(
    instruction: HloInstructionProto, replicas: int, partitions: int
) -> list[tuple[int, int]]:
    """(source, target) of a collective-permute as numbers of devices.

    They are partitions with a channel, replicas without.

    Raises:
        ValueError: a pair names something that there is not.
    """
    pairs = [(pair.source, pair.target) for pair in instruction.source_target_pairs]
    channel = bool(instruction.channel_id)
    count = partitions if channel else replicas
    if any(not 0 <= device < count for pair in pairs for device in pair):
        raise ValueError(f"{pairs} with {count}")
    if channel:
        return [(r * partitions + a, r * partitions + b) for r in range(replicas) for a, b in pairs]
    return [(a * partitions + p, b * partitions + p) for p in range(partitions) for a, b in pairs]


def replica_groups_of(instruction: HloInstructionProto) -> list[list[int]]:
    """Return the groups of an instruction's message; no groups mean one group of all devices."""
    form = instruction.WhichOneof("replica_group_list")
    if form == "collective_device_list":
        devices = instruction.collective_device_list
        if devices.HasField("iota_replica_group_list"):
            return _iota_groups(devices.iota_replica_group_list)
        groups = devices.replica_groups
    elif form == "iota_collective_device_list":
        return _iota_groups(instruction.iota_collective_device_list)
    elif form == "mesh_axes_replica_group_list":
        return _mesh_groups(instruction.mesh_axes_replica_group_list)
    else:
        groups = instruction.replica_groups
    return [list(group.replica_ids) for group in groups or instruction.replica_groups]


def _iota_groups(iota: IotaReplicaGroupListProto) -> list[list[int]]:
    """Expand the iota form of groups: positions reshaped, transposed, cut into groups."""
    count: int = iota.num_replica_groups * iota.num_devices_per_group
    if count <= 0:
        return []
    extents = list(iota.iota_reshape_dims) or [count]
    order = list(iota.iota_transpose_perm) or list(range(len(extents)))
    if (
        count > _MAX_GROUP_DEVICES
        or math.prod(extents) != count
        or sorted(order) != list(range(len(extents)))
    ):
        raise HloError(
            f"replica groups [{iota.num_replica_groups},{iota.num_devices_per_group}]<={extents}"
            f"T{order} number no devices",
            code="HLO-REPLICA-GROUPS",
            remedy="the extents must have the groups' devices as product, up to 2^24, and the "
            "order name each of them once",
        )
    devices = np.arange(count).reshape(extents).transpose(order)
    return devices.reshape(iota.num_replica_groups, -1).tolist()


def _mesh_groups(groups: MeshAxesReplicaGroupListProto) -> list[list[int]]:
    """The groups along axes of a mesh, or along parts of them (outer size, size)."""
    cuts = [{1, axis.size} for axis in groups.mesh.axes]
    if any(axis.size < 1 for axis in groups.mesh.axes):
        return []
    for axis in groups.axes:
        if not 0 <= axis.mesh_axis_index < len(cuts):
            return []
        if axis.HasField("sub_axis_info"):
            sub_axis = axis.sub_axis_info
            cuts[axis.mesh_axis_index] |= {sub_axis.pre_size, sub_axis.pre_size * sub_axis.size}
    pieces = [
        (axis_index, low, high)
        for axis_index, cut in enumerate(cuts)
        for low, high in pairwise(sorted(cut))
    ]
    count = math.prod(axis.size for axis in groups.mesh.axes)
    devices = mesh_devices(groups.mesh, count)
    if any(low < 1 or high % low for _, low, high in pieces) or len(devices) != count:
        return []
    chosen = [
        number
        for axis in groups.axes
        for number, (axis_index, low, high) in enumerate(pieces)
        if axis_index == axis.mesh_axis_index
        and (
            not axis.HasField("sub_axis_info")
            or (
                axis.sub_axis_info.pre_size <= low
                and high <= axis.sub_axis_info.pre_size * axis.sub_axis_info.size
            )
        )
    ]
    unchosen = [number for number in range(len(pieces)) if number not in chosen]
    grid = np.array(devices).reshape([high // low for _, low, high in pieces])
    size = math.prod(pieces[number][2] // pieces[number][1] for number in chosen)
    return grid.transpose([*unchosen, *chosen]).reshape(-1, size).tolist()


def mesh_devices(mesh: MeshProto, count: int) -> list[int]:
    """Devices in the order of the mesh's places."""
    if count > 1 << 24:
        return []
    if mesh.HasField("iota_transform"):
        transform = mesh.iota_transform
        fits = math.prod(transform.reshape_dims) == count
        order = sorted(transform.transpose_perm) == list(range(len(transform.reshape_dims)))
        if not (fits and order):
            return []
        positions = np.arange(count).reshape(list(transform.reshape_dims))
        return positions.transpose(list(transform.transpose_perm)).reshape(-1).tolist()
    return list(mesh.device_ids) or list(range(count))
