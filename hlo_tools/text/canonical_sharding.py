"""Shardings in the one form that XLA keeps them in: what its reader does, so that prints agree.

Facts: ``HloSharding`` and ``IotaTileAssignment`` of XLA (xla/hlo/ir), as jaxlib 0.10.2 shows them:
iota dimensions of size one vanish and neighbours that stay together are merged; subgroups of one
kind are merged, manual before unreduced before replicated; a sharding whose data dimensions are all
one tile is its kind alone; a sharding of a tuple has one entry for each leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from hlo_tools import schema

__all__ = ["canonical_iota", "canonical_sharding", "for_shape"]

Message = Any

_KIND: Callable[[str], int] = schema.OpSharding.Type.Value
_OTHER, _TUPLE, _REPLICATED = _KIND("OTHER"), _KIND("TUPLE"), _KIND("REPLICATED")
_ORDER: tuple[int, ...] = tuple(
    map(_KIND, ("MAXIMAL", "TUPLE", "OTHER", "MANUAL", "UNKNOWN", "UNREDUCED", "REPLICATED"))
)
_MANUAL = _KIND("MANUAL")
_ALONE = (_MANUAL, _REPLICATED, _KIND("UNREDUCED"))
_MOST_DEVICES = 1 << 22
_TUPLE_TYPE = 13


def canonical_iota(reshape: Sequence[int], transpose: Sequence[int]) -> tuple[list[int], list[int]]:
    """Reshape and transpose of an iota device list without sizes of one, neighbours merged."""
    sizes: list[int] = list(reshape)
    order: list[int] = list(transpose)
    while len(sizes) > 1:
        axes = [axis for axis, size in enumerate(sizes) if size != 1]
        order = [axes.index(axis) for axis in order if sizes[axis] != 1]
        sizes = [sizes[axis] for axis in axes]
        before = list(sizes)
        base = 0
        for position in range(1, len(order)):
            if order[base] + position - base == order[position]:
                sizes[order[base]] *= sizes[order[position]]
                sizes[order[position]] = 1
            else:
                base = position
        if sizes == before:
            break
    return (sizes, order) if sizes else ([1], [0])


def for_shape(sharding: Message, shape: Message) -> Message:
    """The sharding, or one for each leaf when the shape is a tuple and the sharding is not."""
    if shape.element_type != _TUPLE_TYPE or sharding.type == _TUPLE:
        return sharding
    tuple_sharding = schema.OpSharding(type=_TUPLE)
    for _ in range(max(_leaves(shape), 1)):
        tuple_sharding.tuple_shardings.append(sharding)
    return tuple_sharding


def _leaves(shape: Message) -> int:
    return (
        sum(_leaves(element) for element in shape.tuple_shapes)
        if shape.element_type == _TUPLE_TYPE
        else 1
    )


class _Tiles(NamedTuple):
    """Devices in tiles: an iota (reshaped and transposed), or a list."""

    dimensions: list[int]
    reshape: list[int]
    transpose: list[int]
    devices: list[int]

    def shaped(self, dimensions: list[int]) -> _Tiles:
        return self._replace(dimensions=dimensions)


def canonical_sharding(sharding: Message) -> Message:
    """The canonical form; what XLA would refuse, and what is canonical already, is given back."""
    if sharding.type == _TUPLE:
        canonical = schema.OpSharding()
        canonical.CopyFrom(sharding)
        for element in canonical.tuple_shardings:
            element.CopyFrom(canonical_sharding(element))
        return canonical
    if sharding.type != _OTHER or not sharding.tile_assignment_dimensions:
        return sharding
    tiles = _tiles_of(sharding)
    kinds = list(sharding.last_tile_dims)
    if tiles is None or len(kinds) > len(tiles.dimensions):
        return sharding
    if kinds and not sharding.replicate_on_last_tile_dim:
        return _subgroup(sharding, tiles, kinds)
    if sharding.replicate_on_last_tile_dim:
        return _partial(sharding, tiles)
    return _sharding_like(sharding, tiles)


def _tiles_of(sharding: Message) -> _Tiles | None:
    dimensions = list(sharding.tile_assignment_dimensions)
    reshape, transpose = list(sharding.iota_reshape_dims), list(sharding.iota_transpose_perm)
    if min(dimensions) < 1:
        return None
    if not reshape:
        devices = list(sharding.tile_assignment_devices)
        return _Tiles(dimensions, [], [], devices) if len(devices) == prod(dimensions) else None
    transpose = transpose or [0]
    fits = sorted(transpose) == list(range(len(reshape))) and min(reshape) > 0
    if not fits or prod(reshape) != prod(dimensions):
        return None
    return _Tiles(dimensions, *canonical_iota(reshape, transpose), [])


def _sharding_like(
    source: Message, tiles: _Tiles | None, kind: int = _OTHER, **more: Any
) -> Message:
    """A sharding with the metadata and the group of ``source``."""
    copy = schema.OpSharding(type=kind, metadata=source.metadata, **more)
    if tiles is not None:
        copy.tile_assignment_dimensions.extend(tiles.dimensions)
        copy.tile_assignment_devices.extend(tiles.devices)
        copy.iota_reshape_dims.extend(tiles.reshape)
        copy.iota_transpose_perm.extend(tiles.transpose)
    if source.is_shard_group:
        copy.is_shard_group = True
        copy.shard_group_id, copy.shard_group_type = source.shard_group_id, source.shard_group_type
    return copy


def _partial(sharding: Message, tiles: _Tiles) -> Message:
    """The last dimension replicates."""
    *data, last = tiles.dimensions
    if not data or last == prod(tiles.dimensions):
        return _sharding_like(sharding, None, _REPLICATED)
    if last == 1:
        return _sharding_like(sharding, tiles.shaped(data))
    return _sharding_like(sharding, _sorted_replicas(tiles), replicate_on_last_tile_dim=True)


def _subgroup(sharding: Message, tiles: _Tiles, kinds: list[int]) -> Message:
    """The last dimensions are subgroups of the given kinds."""
    rank = len(tiles.dimensions) - len(kinds)
    if len(set(kinds)) == 1 and prod(tiles.dimensions[:rank]) == 1 and kinds[0] in _ALONE:
        return _sharding_like(sharding, None, kinds[0])
    groups = {
        kind: [
            rank + position for position, subgroup_kind in enumerate(kinds) if subgroup_kind == kind
        ]
        for kind in _ORDER
    }
    order = [*range(rank), *(axis for kind in _ORDER for axis in groups[kind])]
    sizes = {kind: prod(tiles.dimensions[axis] for axis in groups[kind]) for kind in _ORDER}
    merged = [kind for kind in _ORDER if sizes[kind] > 1]
    moved = _transposed(tiles, order)
    if moved is None:
        return sharding
    moved = moved.shaped([*tiles.dimensions[:rank], *(sizes[kind] for kind in merged)])
    if merged == [_MANUAL] and prod(tiles.dimensions[:rank]) == 1:
        return _sharding_like(sharding, None, _MANUAL)
    if merged == [_REPLICATED]:
        return _partial(sharding, moved)
    if merged and merged[-1] == _REPLICATED:
        moved = _sorted_replicas(moved)
    return _sharding_like(sharding, moved, last_tile_dims=merged)


def _sorted_replicas(tiles: _Tiles) -> _Tiles:
    """Devices that hold the same (those along the last dimension) are in ascending order."""
    last = tiles.dimensions[-1]
    flat_tiles = tiles._replace(dimensions=[prod(tiles.dimensions) // last, last])
    parts = None if tiles.devices else _parts(flat_tiles)
    if parts is not None:
        sizes, (tile_axes, replica_axes) = parts
        return _Tiles(
            tiles.dimensions, *canonical_iota(sizes, [*tile_axes, *sorted(replica_axes)]), []
        )
    if prod(tiles.dimensions) > _MOST_DEVICES:
        return tiles
    devices = np.sort(_devices(tiles), axis=-1)
    return _Tiles(tiles.dimensions, [], [], devices.reshape(-1).tolist())


def _transposed(tiles: _Tiles, order: list[int]) -> _Tiles | None:
    """The tiles with their dimensions in another order; None when there are too many devices."""
    dimensions = [tiles.dimensions[axis] for axis in order]
    big = [axis for axis in order if tiles.dimensions[axis] > 1]
    if big == sorted(big):
        return tiles.shaped(dimensions)
    if tiles.reshape:
        iota = _iota_transposed(tiles, order)
        if iota is not None:
            return _Tiles(dimensions, *canonical_iota(*iota), [])
    if prod(dimensions) > _MOST_DEVICES:
        return None
    return _Tiles(dimensions, [], [], _devices(tiles).transpose(order).reshape(-1).tolist())


def _devices(tiles: _Tiles) -> np.ndarray[Any, Any]:
    if tiles.devices:
        return np.array(tiles.devices, np.int64).reshape(tiles.dimensions)
    iota = np.arange(prod(tiles.reshape)).reshape(tiles.reshape).transpose(tiles.transpose)
    return iota.reshape(tiles.dimensions)


def _iota_transposed(tiles: _Tiles, order: list[int]) -> tuple[list[int], list[int]] | None:
    """Reshape and transpose of the tiles with their dimensions in another order."""
    parts = _parts(tiles)
    if parts is None:
        return None
    sizes, owners = parts
    return sizes, [iota_axis for axis in order for iota_axis in owners[axis]]


def _parts(tiles: _Tiles) -> tuple[list[int], list[list[int]]] | None:
    """Finer iota dimensions, and which of them make up each dimension of the tiles.

    None when a dimension of the tiles would have to cut one of the iota in no whole parts.
    """
    pieces: list[list[int]] = [[] for _ in tiles.reshape]
    owners: list[list[tuple[int, int]]] = []
    flow = [(axis, tiles.reshape[axis]) for axis in reversed(tiles.transpose)]
    for size in tiles.dimensions:
        axis_pieces: list[tuple[int, int]] = []
        while size > 1:
            axis, remaining = flow.pop()
            piece = min(size, remaining)
            if size % piece or remaining % piece:
                return None
            size //= piece
            axis_pieces.append((axis, len(pieces[axis])))
            pieces[axis].append(piece)
            if remaining > piece:
                flow.append((axis, remaining // piece))
        owners.append(axis_pieces)
    starts = np.cumsum([0, *map(len, pieces)]).tolist()
    return (
        [piece_size for row in pieces for piece_size in row],
        [[starts[axis] + offset for axis, offset in axis_pieces] for axis_pieces in owners],
    )
