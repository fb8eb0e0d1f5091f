"""Where the elements of a view lie: every one of them, listed; no strides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.fuzz.drivers.oracle.program import Access, ByCore, Counter, Number, Step, Tensor

__all__ = ["OutsideError", "Region", "Values", "resolved", "value_of", "width"]

Place = tuple[int, int]
"""Partition and element in it; in HBM the partition is 0."""


class OutsideError(Exception):
    """An access leaves its tensor, or its partition."""


@dataclass(frozen=True, slots=True)
class Region:
    """A view.

    Attributes:
        tensor: behind it.
        shape: extents.
        places: of its elements, the last dimension fastest.
    """

    tensor: Tensor
    shape: tuple[int, ...]
    places: list[Place]


@dataclass(frozen=True, slots=True)
class Values:
    """Values of symbolic numbers at one moment: the core and the counters of the loops.

    ``load`` reads an index tile, an element an index.
    """

    core: int
    counters: Mapping[str, int]
    load: Callable[[Access], list[int]] | None = None


def value_of(number: Number, values: Values) -> int:
    """A number at a moment."""
    if isinstance(number, ByCore):
        return number.values[values.core]
    return values.counters[number.name] + number.plus if isinstance(number, Counter) else number


def width(tensor: Tensor) -> int:
    """Elements of a partition, or of the whole tensor in HBM."""
    return math.prod(tensor.shape[1:] if tensor.on_chip else tensor.shape)


def resolved(access: Access, tensors: Mapping[str, Tensor], values: Values) -> Region:
    """The elements of an access.

    Raises:
        OutsideError: one of them does not exist.
    """
    tensor = tensors[access.tensor]
    rows, row = (tensor.shape[0] if tensor.on_chip else 1), width(tensor)
    positions = [(partition, element) for partition in range(rows) for element in range(row)]
    region = Region(tensor, tensor.shape, positions)
    for step in access.steps:
        region = _STEPS[step.kind](region, step, values)
    return region


def _flat(index: tuple[int, ...], shape: tuple[int, ...]) -> int:
    flat = 0
    for location, extent in zip(index, shape, strict=True):
        flat = flat * extent + location
    return flat


def _chosen(region: Region, axes: list[list[int]], shape: tuple[int, ...]) -> Region:
    """The elements at the product of the positions in each dimension, as another shape."""
    positions = [region.places[_flat(index, region.shape)] for index in itertools.product(*axes)]
    return Region(region.tensor, shape, positions)


def _index(region: Region, step: Step, values: Values) -> Region:
    axes: list[list[int]] = []
    shape: list[int] = []
    for axis, (entry, extent) in enumerate(zip(step.arguments, region.shape, strict=True)):
        kind, *arguments = entry
        numbers = [value_of(argument, values) for argument in arguments]
        if kind == "slice":
            indices = list(range(numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 1))
        else:
            indices = list(range(numbers[0], numbers[0] + (numbers[1] if kind == "ds" else 1)))
        if not indices or indices[0] < 0 or indices[-1] >= extent:
            raise OutsideError(f"{indices} of dimension {axis} of {region.shape}")
        axes.append(indices)
        if kind != "at" or (axis == 0 and region.tensor.on_chip):
            shape.append(len(indices))
    shape += [1] * ((2 if region.tensor.on_chip else 1) - len(shape))
    return _chosen(region, axes, tuple(shape))


def _pattern(region: Region, step: Step, values: Values) -> Region:
    """A pattern starts at the first element of the view and walks over what holds it."""
    pattern, offset, *options = step.arguments
    extra = dict(options)
    row = width(region.tensor)
    partition, element = region.places[0]
    start = element + value_of(offset, values)
    counts = [count for _, count in pattern]
    vector = None
    if "vector_offset" in extra:
        vector = values.load(extra["vector_offset"]) if values.load else [0] * counts[0]
    inner = math.prod(region.tensor.shape[1:])
    positions: list[Place] = []
    for index in itertools.product(*(range(count) for count in counts)):
        walked = [location * stride for location, (stride, _) in zip(index, pattern, strict=True)]
        if region.tensor.on_chip:  # the first pair counts partitions
            position = (partition + start // row + index[0], start % row + sum(walked[1:]))
            if not (0 <= position[0] < region.tensor.shape[0] and 0 <= position[1] < row):
                raise OutsideError(
                    f"{pattern} at {offset} names {position} of {region.tensor.shape}"
                )
        elif vector is not None:
            position = (0, start + vector[index[0]] * inner + sum(walked[1:]))
        else:
            position = (0, start + sum(walked))
        if not 0 <= position[1] < row:
            raise OutsideError(f"{pattern} at {offset} names {position} of {region.tensor.shape}")
        positions.append(position)
    return Region(region.tensor, tuple(counts), positions)


def _reshape_dim(region: Region, step: Step, values: Values) -> Region:
    axis, parts = step.arguments
    shape = (*region.shape[:axis], *parts, *region.shape[axis + 1 :])
    return Region(region.tensor, shape, region.places)


def _flatten_dims(region: Region, step: Step, values: Values) -> Region:
    first, last = step.arguments
    merged = math.prod(region.shape[first : last + 1])
    shape = (*region.shape[:first], merged, *region.shape[last + 1 :])
    return Region(region.tensor, shape, region.places)


def _permute(region: Region, step: Step, values: Values) -> Region:
    (order,) = step.arguments
    shape = tuple(region.shape[axis] for axis in order)
    positions = []
    for index in itertools.product(*(range(extent) for extent in shape)):
        old = [0] * len(order)
        for location, axis in zip(index, order, strict=True):
            old[axis] = location
        positions.append(region.places[_flat(tuple(old), region.shape)])
    return Region(region.tensor, shape, positions)


def _expand_dim(region: Region, step: Step, values: Values) -> Region:
    (axis,) = step.arguments
    return Region(region.tensor, (*region.shape[:axis], 1, *region.shape[axis:]), region.places)


def _squeeze_dim(region: Region, step: Step, values: Values) -> Region:
    (axis,) = step.arguments
    return Region(region.tensor, region.shape[:axis] + region.shape[axis + 1 :], region.places)


def _broadcast(region: Region, step: Step, values: Values) -> Region:
    axis, size = step.arguments
    axes = [list(range(extent)) for extent in region.shape]
    axes[axis] = [0] * size
    return _chosen(region, axes, tuple(len(axis_indices) for axis_indices in axes))


def _vector_select(region: Region, step: Step, values: Values) -> Region:
    axis, index = step.arguments
    axes = [list(range(extent)) for extent in region.shape]
    if values.load is None:
        raise ValueError("an index tile is read while the program runs")
    axes[axis] = values.load(index)
    if any(not 0 <= index < region.shape[axis] for index in axes[axis]):
        raise OutsideError(f"{axes[axis]} of dimension {axis} of {region.shape}")
    return _chosen(region, axes, tuple(len(axis_indices) for axis_indices in axes))


_STEPS: dict[str, Callable[[Region, Step, Values], Region]] = {
    "index": _index, "ap": _pattern, "reshape_dim": _reshape_dim, "flatten_dims": _flatten_dims,
    "permute": _permute, "expand_dim": _expand_dim, "squeeze_dim": _squeeze_dim,
    "broadcast": _broadcast, "vector_select": _vector_select,
}  # fmt: skip
