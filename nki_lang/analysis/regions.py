"""Arithmetic on access patterns: boxes, overlap, composition, adjacency."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from nki_lang.ir.types import Access

__all__ = ["adjacent", "compose", "dense_pattern", "may_overlap"]

Box = tuple[tuple[int, int], ...]
Dims = Sequence[tuple[int, int]]


@functools.lru_cache(maxsize=4096)
def dense_pattern(shape: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return (step, extent) of each dimension of a dense tensor."""
    pattern: list[tuple[int, int]] = []
    step = 1
    for extent in reversed(shape):
        pattern.append((step, extent))
        step *= extent
    return tuple(reversed(pattern))


def _split(offset: int, dims: Dims) -> list[int] | None:
    """Return ``offset`` as an index along each dimension (steps positive, falling); None if it is
    outside.
    """
    index: list[int] = []
    for step, extent in dims:
        coordinate, offset = divmod(offset, step) if step else (0, offset)
        if coordinate >= extent:
            return None
        index.append(coordinate)
    return index if offset == 0 else None


def _assign(access: Access, dims: Dims) -> tuple[list[int], list[tuple[int, int]]] | None:
    """Assign each dimension of the access to the dimension of ``dims`` that it moves along.

    Returns:
        The index where it starts along each of ``dims``, and for each dimension of the access
        (which of ``dims``, how many of its steps at a time); None when a walk would leave one
        of ``dims``.
    """
    start = _split(access.offset, dims)
    if start is None:
        return None
    low, high = list(start), list(start)
    walks: list[tuple[int, int]] = []
    for step, count in access.pattern:
        if step == 0 or count == 1:
            walks.append((0, 0))
            continue
        position = _walked(step, dims)
        if position is None:
            return None
        unit, extent = dims[position]
        stride = step // unit
        walks.append((position, stride))
        if stride > 0:
            high[position] += stride * (count - 1)
        else:
            low[position] += stride * (count - 1)
        if low[position] < 0 or high[position] >= extent:
            return None
    return start, walks


def _walked(step: int, dims: Dims) -> int | None:
    """Return the outermost of ``dims`` in whole units of which the step moves."""
    for position, (unit, extent) in enumerate(dims):
        if extent > 1 and unit and step % unit == 0:
            return position
    return None


def _box(access: Access) -> Box | None:
    """Return the range of indices along each dimension of the tensor, or None if it is no box."""
    dims = dense_pattern(access.tensor.shape)
    size = access.element_type.itemsize
    if size != access.tensor.dtype.itemsize or 0 in access.shape:
        return None
    assigned = _assign(access, dims)
    if assigned is None:
        return None
    start, walks = assigned
    low, high = list(start), list(start)
    for (position, stride), (_, count) in zip(walks, access.pattern, strict=True):
        reach = stride * (count - 1)
        if reach:  # a scalar has no dimension to walk along
            low[position] += min(0, reach)
            high[position] += max(0, reach)
    return tuple(zip(low, high, strict=True))


_cached_box = functools.lru_cache(maxsize=65536)(_box)


def may_overlap(first: Access, second: Access) -> bool:
    """Return False when the accesses certainly share no element of a tensor."""
    if first.tensor.name != second.tensor.name:
        return False
    if first.is_dynamic or second.is_dynamic or first == second:
        return True
    first_box, second_box = _cached_box(first), _cached_box(second)
    if first_box is None or second_box is None:
        return True
    return all(a[0] <= b[1] and b[0] <= a[1] for a, b in zip(first_box, second_box, strict=True))


def compose(access: Access, source: Access) -> Access | None:
    """Return ``access`` of a dense tile that contains a copy of ``source``, as an access of the
    source's tensor.

    Return None when one pattern cannot express it.
    """
    if access.dtype is not None or access.is_dynamic or source.is_dynamic:
        return None
    if source.shape != access.tensor.shape:
        return None
    merged_dims: list[tuple[int, int]] = []
    source_steps: list[int] = []
    for (unit, extent), (step, _) in zip(
        dense_pattern(access.tensor.shape), source.pattern, strict=True
    ):
        if merged_dims and source_steps[-1] == step * extent:
            merged_dims[-1] = (unit, merged_dims[-1][1] * extent)
            source_steps[-1] = step
        else:
            merged_dims.append((unit, extent))
            source_steps.append(step)
    assigned = _assign(access, merged_dims)
    if assigned is None:
        return None
    start, walks = assigned
    offset = source.offset + sum(
        index * step for index, step in zip(start, source_steps, strict=True)
    )
    pattern = tuple(
        (stride * source_steps[position] if stride else 0, count)
        for (position, stride), (_, count) in zip(walks, access.pattern, strict=True)
    )
    return source._replace(offset=offset, pattern=pattern)


def adjacent(first: Access, second: Access, dim: int) -> Access | None:
    """Return both as one access when ``second`` continues ``first`` along dimension ``dim``, else
    None.
    """
    if first.tensor.name != second.tensor.name or first.dtype != second.dtype:
        return None
    if first.is_dynamic or second.is_dynamic or len(first.pattern) != len(second.pattern):
        return None
    step, count = first.pattern[dim]
    second_step, second_count = second.pattern[dim]
    if step != second_step or step == 0 or second.offset != first.offset + step * count:
        return None
    outer_pattern = first.pattern[:dim] + first.pattern[dim + 1 :]
    if outer_pattern != second.pattern[:dim] + second.pattern[dim + 1 :]:
        return None
    pattern = (*first.pattern[:dim], (step, count + second_count), *first.pattern[dim + 1 :])
    return first._replace(pattern=pattern)
