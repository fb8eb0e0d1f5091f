"""Elements in the order of memory, by a layout with tiles (XLA's ``docs/tiled_layout.md``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hlo_tools.types.element_types import Array

if TYPE_CHECKING:
    from hlo_tools.schema.messages import ShapeProto

__all__ = ["from_memory", "to_memory"]

Fill = Callable[[Sequence[int]], Array]


def to_memory(value: Array, shape: ShapeProto, fill: Fill) -> Array:
    """The elements of an array as memory has them, tiles padded with ``fill(extents)``.

    Raises:
        ValueError: the layout has a tile that is not covered.
    """
    stored = value.transpose(_major_to_minor(shape))
    for tile in _tiles(shape):
        stored = stored.reshape([1] * max(0, len(tile) - stored.ndim) + list(stored.shape))
        stored = _divided(_padded(stored, tile, fill), tile)
    return np.ascontiguousarray(stored).reshape(-1)


def from_memory(stored: Array, shape: ShapeProto) -> Array:
    """The array of a shape from its elements as memory has them.

    Raises:
        ValueError: memory has another number of elements, or a tile is not covered.
    """
    size = math.prod(shape.dimensions)
    positions = to_memory(
        np.arange(size).reshape(list(shape.dimensions)),
        shape,
        lambda pad: np.full(pad, -1, np.int64),
    )
    if positions.size != stored.size:
        raise ValueError(f"{stored.size} elements of memory for {positions.size}")
    is_element = positions >= 0
    result = np.empty(size, stored.dtype)
    result[positions[is_element]] = stored[is_element]
    return result.reshape(list(shape.dimensions))


def _major_to_minor(shape: ShapeProto) -> list[int]:
    order = list(reversed(shape.layout.minor_to_major))
    return order or list(range(len(shape.dimensions)))


def _tiles(shape: ShapeProto) -> list[list[int]]:
    tiles = [list(tile.dimensions) for tile in shape.layout.tiles]
    if any(extent <= 0 for tile in tiles for extent in tile):
        raise ValueError("its layout has a tile that joins dimensions, which is not covered")
    return tiles


def _padded(stored: Array, tile: Sequence[int], fill: Fill) -> Array:
    first = stored.ndim - len(tile)
    extents = list(stored.shape)
    for index, extent in enumerate(tile):
        extents[first + index] = -(-extents[first + index] // extent) * extent
    if extents == list(stored.shape):
        return stored
    padded = fill(extents)
    padded[tuple(slice(0, extent) for extent in stored.shape)] = stored
    return padded


def _divided(stored: Array, tile: Sequence[int]) -> Array:
    """Split the last dimensions into tiles and the places within one."""
    first = stored.ndim - len(tile)
    extents = list(stored.shape[:first])
    for index, extent in enumerate(tile):
        extents += [stored.shape[first + index] // extent, extent]
    divided = stored.reshape(extents)
    outer = [first + 2 * index for index in range(len(tile))]
    inner = [axis + 1 for axis in outer]
    return divided.transpose([*range(first), *outer, *inner])
