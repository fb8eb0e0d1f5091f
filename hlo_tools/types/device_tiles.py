"""Maps devices to the tiles of an array, by its sharding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hlo_tools.errors import HloError
from hlo_tools.types.element_types import Array
from hlo_tools.types.replica_groups import mesh_devices

if TYPE_CHECKING:
    from hlo_tools.schema.messages import AxisRefProto, NamedShardingProto, OpSharding

__all__ = ["Spread", "Tile", "spread_of"]

_MAX_SHARDING_DEVICES = 1 << 20
"""Larger shardings are refused: the layout takes memory for each device."""

_MAXIMAL, _OTHER = 1, 3
_KIND_NAMES = {0: "replicated", 1: "maximal", 4: "manual", 5: "unknown", 6: "unreduced"}


@dataclass(frozen=True, slots=True)
class Tile:
    """A part of an array and the devices that hold it.

    Attributes:
        place: which part along each dimension.
        ranges: first index and the one behind the last, by dimension; empty parts have both alike.
        devices: numbers of partitions; several hold copies.
    """

    place: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spread:
    """The tiles of an array on devices.

    Attributes:
        kind: ``tiled``, ``replicated`` (every device holds all), ``maximal`` (one does),
            ``manual``, ``unknown`` or ``unreduced``.
        parts: how many parts each dimension has.
        tiles: the parts in row-major order; none where every device holds all or nothing is known.
    """

    kind: str
    parts: tuple[int, ...] = ()
    tiles: tuple[Tile, ...] = ()


def spread_of(sharding: OpSharding, dimensions: Sequence[int], *, of_part: bool = False) -> Spread:
    """Return the tiles of an array on devices.

    Args:
        sharding: of an array, no tuple.
        dimensions: the array's; of one device's part if ``of_part``.

    Raises:
        HloError: the sharding does not fit the array (HLO-SHARDING).
    """
    if sharding.HasField("named_sharding"):
        grid, parts = _of_mesh(sharding.named_sharding, len(dimensions))
    elif sharding.type == _MAXIMAL:
        device = [*sharding.tile_assignment_devices, 0][0]
        everything = tuple((0, size) for size in dimensions)
        origin = (0,) * len(dimensions)
        return Spread("maximal", (1,) * len(dimensions), (Tile(origin, everything, (device,)),))
    elif sharding.type == _OTHER:
        grid, parts = _of_tiles(sharding, len(dimensions))
    else:
        return Spread(_KIND_NAMES.get(sharding.type, "unknown"))
    if math.prod(parts) == 1:
        return Spread("replicated")
    sizes = [-(-size // count) for size, count in zip(dimensions, parts, strict=True)]
    global_dimensions = list(dimensions)
    if of_part:
        sizes = list(dimensions)
        global_dimensions = [size * count for size, count in zip(dimensions, parts, strict=True)]
    tiles: list[Tile] = []
    for location in np.ndindex(*parts):
        ranges = tuple(
            (min(tile * size, limit), min((tile + 1) * size, limit))
            for tile, size, limit in zip(location, sizes, global_dimensions, strict=True)
        )
        tiles.append(Tile(location, ranges, tuple(grid[location].reshape(-1).tolist())))
    return Spread("tiled", tuple(parts), tuple(tiles))


def _of_tiles(sharding: OpSharding, rank: int) -> tuple[Array, list[int]]:
    """The devices by part and copy, and the number of parts of each dimension."""
    shape = list(sharding.tile_assignment_dimensions)
    count = math.prod(shape)
    if not 0 < count <= _MAX_SHARDING_DEVICES or len(shape) < rank:
        raise _unfit(f"{shape} tiles for {rank} dimensions")
    if sharding.iota_reshape_dims:
        extents = list(sharding.iota_reshape_dims)
        order = list(sharding.iota_transpose_perm) or list(range(len(extents)))
        if math.prod(extents) != count or sorted(order) != list(range(len(extents))):
            raise _unfit(f"{extents} T{order} numbers no {count} devices")
        devices = np.arange(count).reshape(extents).transpose(order)
    else:
        devices = np.array(list(sharding.tile_assignment_devices) or list(range(count)))
        if devices.size != count:
            raise _unfit(f"{count} tiles and {devices.size} devices")
    return devices.reshape(shape), shape[:rank]


def _of_mesh(named: NamedShardingProto, rank: int) -> tuple[Array, list[int]]:
    """Like :func:`_of_tiles`, for axes of a mesh or sub-axes."""
    mesh = named.mesh
    if not mesh.axes and mesh.device_ids:
        return np.array(list(mesh.device_ids)), [1] * rank
    sizes = [axis.size for axis in mesh.axes]
    count = math.prod(sizes)
    by_dimension = [list(sharding.axes) for sharding in named.dim_shardings] or [
        [] for _ in range(rank)
    ]
    if not 0 < count <= _MAX_SHARDING_DEVICES or len(by_dimension) != rank:
        raise _unfit(f"{len(by_dimension)} dimensions on {count} devices for {rank} dimensions")
    cuts = [{1, size} for size in sizes]
    for ref in (ref for refs in by_dimension for ref in refs):
        cuts[_axis(ref, sizes)] |= set(_bounds(ref, sizes))
    pieces = [
        (axis, low, high) for axis, cut in enumerate(cuts) for low, high in pairwise(sorted(cut))
    ]
    if any(high % low for _, low, high in pieces):
        raise _unfit("its parts of axes do not divide each other")
    chosen = [
        [number for ref in refs for number, piece in enumerate(pieces) if _has(ref, piece, sizes)]
        for refs in by_dimension
    ]
    devices = mesh_devices(mesh, count)
    used = [number for numbers in chosen for number in numbers]
    if len(devices) != count or len(set(used)) != len(used):
        raise _unfit("it uses an axis twice, or its mesh does not number its devices")
    unused = [number for number in range(len(pieces)) if number not in used]
    grid = np.array(devices).reshape([high // low for _, low, high in pieces])
    parts = [math.prod(pieces[n][2] // pieces[n][1] for n in numbers) for numbers in chosen]
    return grid.transpose([*used, *unused]).reshape([*parts, -1]), parts


def _axis(ref: AxisRefProto, sizes: Sequence[int]) -> int:
    if not 0 <= ref.mesh_axis_index < len(sizes):
        raise _unfit(f"its mesh has no axis {ref.mesh_axis_index}")
    return ref.mesh_axis_index


def _bounds(ref: AxisRefProto, sizes: Sequence[int]) -> tuple[int, int]:
    """Return the outer size of a sub-axis, and the outer size times its size."""
    if not ref.HasField("sub_axis_info"):
        return 1, sizes[ref.mesh_axis_index]
    sub_axis = ref.sub_axis_info
    if sub_axis.pre_size < 1 or sub_axis.size < 1:
        raise _unfit("a part of an axis has no size")
    return sub_axis.pre_size, sub_axis.pre_size * sub_axis.size


def _has(ref: AxisRefProto, piece: tuple[int, int, int], sizes: Sequence[int]) -> bool:
    low, high = _bounds(ref, sizes)
    return piece[0] == ref.mesh_axis_index and low <= piece[1] and piece[2] <= high


def _unfit(why: str) -> HloError:
    return HloError(
        f"the sharding does not fit: {why}",
        code="HLO-SHARDING",
        remedy="nki-hlo verify reports which instructions have such shardings",
    )
