"""Gather and scatter."""

from __future__ import annotations

import numpy as np

from hlo_tools.evaluate.applying import scatter_into
from hlo_tools.evaluate.operation import Call, operation
from hlo_tools.evaluate.values import Array, Value

__all__: list[str] = []


@operation("gather")
def _gather(call: Call) -> Value:
    operand, indices = call.operands
    numbers = call.row.gather_dimension_numbers
    sizes = list(call.row.gather_slice_sizes)
    table = _index_table(indices, numbers.index_vector_dim)
    batch = table.shape[:-1]
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    window = [axis for axis in range(operand.ndim) if axis not in dropped]
    rank = len(batch) + len(window)
    starts: dict[int, Array] = {}
    for component, axis in enumerate(numbers.start_index_map):
        starts[axis] = _clamped(table[..., component], operand.shape[axis] - sizes[axis])
    sources = _batch_axes(list(numbers.start_indices_batching_dims), numbers.index_vector_dim)
    for axis, source in zip(numbers.operand_batching_dims, sources, strict=True):
        starts[axis] = _along(batch[source], source, len(batch))
    positions: list[Array] = []
    for axis in range(operand.ndim):
        start = np.asarray(starts.get(axis, 0), dtype=np.int64)
        position = start.reshape([*start.shape, *[1] * len(window)] if start.ndim else [])
        if axis in window:
            position = position + _along(sizes[axis], len(batch) + window.index(axis), rank)
        positions.append(position)
    gathered = operand[tuple(positions)] if positions else np.broadcast_to(operand, batch)
    extents = [*batch, *(sizes[axis] for axis in window)]
    return _spread(np.broadcast_to(gathered, extents), len(batch), list(numbers.offset_dims))


def _clamped(start: Array, highest: int) -> Array:
    """Start indices, moved so that the slice stays inside."""
    if start.dtype.kind == "u" and start.dtype.itemsize == 8:
        start = np.minimum(start, np.uint64((1 << 63) - 1))
    return np.clip(start.astype(np.int64), 0, highest)


def _along(size: int, axis: int, rank: int) -> Array:
    """0, 1, ... along one of ``rank`` axes."""
    shape = [1] * rank
    shape[axis] = size
    return np.arange(size).reshape(shape)


def _index_table(indices: Array, vector: int) -> Array:
    """Indices with the index vector last."""
    if vector == indices.ndim:
        return indices[..., None]
    return np.moveaxis(indices, vector, -1)


def _batch_axes(axes: list[int], vector: int) -> list[int]:
    """Dimension numbers of the indices, counted without the index vector."""
    return [axis if axis < vector else axis - 1 for axis in axes]


def _spread(rows: Array, batch: int, offsets: list[int]) -> Array:
    """Move the window dimensions, which are last, to ``offsets``."""
    return np.moveaxis(rows, range(batch, rows.ndim), sorted(offsets))


@operation("scatter")
def _scatter(call: Call) -> Value:
    """Windows that are not wholly inside are left out (XLA's semantics)."""
    count = len(call.operands) // 2
    results = [np.array(operand, order="C") for operand in call.operands[:count]]
    indices, updates = call.operands[count], call.operands[count + 1 :]
    extents = results[0].shape
    positions, inside = _places(call, extents, indices, updates[0].shape)
    keep = np.flatnonzero(inside.reshape(-1))
    flat = positions.reshape(-1)[keep]
    values = [np.ascontiguousarray(update).reshape(-1)[keep] for update in updates]
    scatter_into(call, 0, [result.reshape(-1) for result in results], flat, values)
    return results[0] if count == 1 else tuple(results)


def _places(
    call: Call, extents: tuple[int, ...], indices: Array, shape: tuple[int, ...]
) -> tuple[Array, Array]:
    """Return the flat location of every update element, and a mask of windows that are inside."""
    numbers = call.row.scatter_dimension_numbers
    table = _index_table(indices, numbers.index_vector_dim)
    windows = list(numbers.update_window_dims)
    outer = [axis for axis in range(len(shape)) if axis not in windows]
    inserted = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    window_axes = [axis for axis in range(len(extents)) if axis not in inserted]
    sizes: dict[int, int] = dict.fromkeys(range(len(extents)), 1) | {
        axis: shape[window] for axis, window in zip(window_axes, windows, strict=True)
    }
    lie = [1] * len(shape)
    for axis in outer:
        lie[axis] = shape[axis]
    target: list[Array] = [np.zeros([1] * len(shape), np.int64) for _ in extents]
    for axis, window in zip(window_axes, windows, strict=True):
        target[axis] = _along(shape[window], window, len(shape))
    inside: Array = np.ones([1] * len(shape), np.bool_)
    for component, axis in enumerate(numbers.scatter_dims_to_operand_dims):
        start = table[..., component].reshape(lie)
        start = np.where(start > extents[axis], extents[axis] + 1, start).astype(np.int64)
        inside = inside & (start >= 0) & (start + sizes[axis] <= extents[axis])
        target[axis] = target[axis] + start
    sources = _batch_axes(list(numbers.scatter_indices_batching_dims), numbers.index_vector_dim)
    for axis, source in zip(numbers.input_batching_dims, sources, strict=True):
        target[axis] = _along(shape[outer[source]], outer[source], len(shape))
    flat: Array = np.zeros([1] * len(shape), np.int64)
    for axis, extent in enumerate(extents):
        flat = flat * extent + target[axis]
        inside = inside & (target[axis] >= 0) & (target[axis] < extent)
    return np.broadcast_to(flat, shape), np.broadcast_to(inside, shape)
