# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# ruff: noqa: B905 -- generated files are short; the writer made the tuples equally long
"""Functions of generated NumPy files that move windows over arrays; see ``numpy_support.py``."""

from __future__ import annotations

import math

import numpy as np

from hlo_tools.python_source.numpy_support import product_type, wide


def pad(x, value, config):
    """Elements with padding before, behind and between them; a negative one removes elements."""
    sizes = [n + max(n - 1, 0) * between for n, (_, _, between) in zip(x.shape, config)]
    spread = np.full(sizes, value, x.dtype)
    if x.size:
        spread[tuple(slice(None, None, between + 1) for _, _, between in config)] = x
    extents = [n + low + high for n, (low, high, _) in zip(sizes, config)]
    result = np.full([max(n, 0) for n in extents], value, x.dtype)
    into, out = [], []
    for size, extent, (low, _, _) in zip(sizes, extents, config):
        start = max(low, 0)
        stop = max(start, min(low + size, extent))
        into.append(slice(start, stop))
        out.append(slice(start - low, stop - low))
    result[tuple(into)] = spread[tuple(out)]
    return result


def window_at(x, starts, sizes):
    """The index of a slice whose start is moved so that it stays inside."""
    return tuple(
        slice(first, first + size)
        for first, size in (
            (min(max(int(start), 0), extent - size), size)
            for start, extent, size in zip(starts, x.shape, sizes)
        )
    )


def dynamic_slice(x, starts, sizes):
    """A slice that begins at ``starts``."""
    return x[window_at(x, starts, sizes)]


def dynamic_update_slice(x, update, starts):
    """A copy with ``update`` at ``starts``."""
    result = np.array(x)
    result[window_at(x, starts, update.shape)] = update
    return result


def along(size, axis, rank):
    """0, 1, ... along one of ``rank`` dimensions."""
    return np.arange(size).reshape([-1 if index == axis else 1 for index in range(rank)])


def signed(indices):
    """Indices as 64-bit integers; those that are too large stay large."""
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64((1 << 63) - 1))
    return indices.astype(np.int64)


def gather(x, table, sizes, offset_dims, dropped, start_index_map, batching):
    """Slices of ``x`` at the indices in ``table``, whose last dimension is the index vector.

    ``batching`` pairs dimensions of ``x`` with those of the table.
    """
    batch = table.shape[:-1]
    window = [axis for axis in range(x.ndim) if axis not in dropped]
    starts = {}
    for component, axis in enumerate(start_index_map):
        starts[axis] = np.clip(signed(table[..., component]), 0, x.shape[axis] - sizes[axis])
    for axis, source in batching:
        starts[axis] = along(batch[source], source, len(batch))
    positions = []
    for axis in range(x.ndim):
        start = np.asarray(starts.get(axis, 0), np.int64)
        position = start.reshape([*start.shape, *[1] * len(window)] if start.ndim else [])
        if axis in window:
            rank = len(batch) + len(window)
            position = position + along(sizes[axis], len(batch) + window.index(axis), rank)
        positions.append(position)
    rows = x[tuple(positions)] if positions else np.broadcast_to(x, batch)
    rows = np.broadcast_to(rows, [*batch, *(sizes[axis] for axis in window)])
    return np.moveaxis(rows, range(len(batch), rows.ndim), sorted(offset_dims))


def scatter(function, operands, table, updates, windows, dropped, index_map, batching):
    """Combine updates with their targets; windows that are not wholly inside are left out."""
    extents, shape = operands[0].shape, updates[0].shape
    outer = [axis for axis in range(len(shape)) if axis not in windows]
    window_axes = [axis for axis in range(len(extents)) if axis not in dropped]
    window_of = dict(zip(window_axes, windows))
    inside, flat = np.ones(shape, bool), np.zeros(shape, np.int64)
    for axis, extent in enumerate(extents):
        target = np.zeros(shape, np.int64)
        if axis in window_of:
            target = along(shape[window_of[axis]], window_of[axis], len(shape)) + target
        if axis in batching:
            source = outer[batching[axis]]
            target = along(shape[source], source, len(shape)) + target
        if axis in index_map:
            start = np.minimum(signed(table[..., index_map.index(axis)]), extent + 1)
            start = start.reshape([n if i in outer else 1 for i, n in enumerate(shape)])
            size = shape[window_of[axis]] if axis in window_of else 1
            inside &= (start >= 0) & (start + size <= extent)
            target = target + start
        flat = flat * extent + target
    keep = np.flatnonzero(inside)
    values = [np.ascontiguousarray(update).reshape(-1)[keep] for update in updates]
    results = [np.array(operand, order="C") for operand in operands]
    scatter_into(
        function, [result.reshape(-1) for result in results], flat.reshape(-1)[keep], values
    )
    return tuple(results)


def scatter_into(function, targets, positions, updates):
    """Apply ``function`` in place: updates of one location in order, different ones at once."""
    order = np.argsort(positions, kind="stable")
    starts = np.flatnonzero(np.diff(positions[order], prepend=-1))
    lengths = np.diff(starts, append=positions.size)
    for turn in range(int(lengths.max(initial=0))):
        chosen = order[starts[lengths > turn] + turn]
        spots = positions[chosen]
        results = function(*(t[spots] for t in targets), *(u[chosen] for u in updates))
        for target, result in zip(targets, results if isinstance(results, tuple) else (results,)):
            target[spots] = result


def each(function):
    """A function of scalars that takes arrays, element by element."""

    def apply(*arrays):
        arrays = np.broadcast_arrays(*arrays)
        results = []
        for place in np.ndindex(arrays[0].shape):
            result = function(*(array[place] for array in arrays))
            results.append(result if isinstance(result, tuple) else (result,))
        stacked = tuple(
            np.stack([np.asarray(value) for value in values]).reshape(arrays[0].shape)
            for values in zip(*results)
        )
        return stacked if len(stacked) > 1 else stacked[0]

    return apply


def reduce(ufunc, x, init, axes):
    """Elements along ``axes`` taken together from ``init`` on."""
    work = np.ascontiguousarray(wide(x)).reshape(x.shape)
    if not axes:
        return ufunc(work, wide(init)).astype(x.dtype)
    return np.asarray(ufunc.reduce(work, axis=axes, initial=wide(init)[()])).astype(x.dtype)


def reduce_with(function, operands, inits, axes):
    """Elements along ``axes`` taken together in order by ``function``, from ``inits`` on."""
    result_axes = [axis for axis in range(operands[0].ndim) if axis not in axes]
    extents = [operands[0].shape[axis] for axis in result_axes]
    count = math.prod(operands[0].shape[axis] for axis in axes)
    flat = [np.transpose(x, [*axes, *result_axes]).reshape([count, *extents]) for x in operands]
    totals = tuple(np.broadcast_to(init, extents) for init in inits)
    for index in range(count):
        result = function(*totals, *(x[index] for x in flat))
        result = result if isinstance(result, tuple) else (result,)
        totals = tuple(np.broadcast_to(value, extents) for value in result)
    return totals


def windows_of(x, fill, sizes, strides, padding, base_dilation, window_dilation):
    """All windows: the result's dimensions first, then those of the window."""
    padded = pad(x, fill, [(lo, hi, gap - 1) for (lo, hi), gap in zip(padding, base_dilation)])
    reach = [(size - 1) * gap + 1 for size, gap in zip(sizes, window_dilation)]
    counts = [max((n - r) // s + 1, 0) for n, r, s in zip(padded.shape, reach, strides)]
    grid = [
        along(count, axis, 2 * len(counts)) * stride
        + along(size, len(counts) + axis, 2 * len(counts)) * gap
        for axis, (count, stride, size, gap) in enumerate(
            zip(counts, strides, sizes, window_dilation)
        )
    ]
    return padded[tuple(grid)]


def select_and_scatter(select, function, operand, source, init, *, window, strides, padding):
    """Scatter ``source`` to the element of each window that ``select`` prefers."""
    grid = np.indices(source.shape)
    best = np.full(source.shape, -1)
    value = np.zeros(source.shape, operand.dtype)
    for offset in np.ndindex(*window):
        inside, flat = np.ones(source.shape, bool), np.zeros(source.shape, np.int64)
        for axis, extent in enumerate(operand.shape):
            position = grid[axis] * strides[axis] + offset[axis] - padding[axis]
            inside &= (position >= 0) & (position < extent)
            flat = flat * extent + np.clip(position, 0, extent - 1)
        candidate = np.ascontiguousarray(operand).reshape(-1)[flat]
        take = inside & ((best < 0) | ~np.asarray(select(value, candidate), bool))
        best, value = np.where(take, flat, best), np.where(take, candidate, value)
    result = np.full(operand.shape, init, operand.dtype)
    chosen = np.flatnonzero(best >= 0)
    updates = np.ascontiguousarray(source).reshape(-1)[chosen]
    scatter_into(function, [result.reshape(-1)], best.reshape(-1)[chosen], [updates])
    return result


def convolution(
    x,
    kernel,
    *,
    strides,
    padding,
    base_dilation,
    window_dilation,
    reversed_axes,
    specs,
    groups,
    dtype,
):
    """A product for each element of the kernel's window, added up.

    ``specs`` are the dimensions (batch, feature, spatial ...) of the operand, those (out, in,
    spatial ...) of the kernel, and those of the result; ``groups`` counts those of features and
    those of the batch.
    """
    work = product_type(dtype)
    x = np.transpose(x.astype(work), specs[0])
    kernel = np.transpose(kernel.astype(work), [*specs[1][2:], specs[1][1], specs[1][0]])
    kernel = np.flip(kernel, reversed_axes)
    feature_groups, batch_groups = groups
    parts = feature_groups * batch_groups
    spatial = [(lo, hi, gap - 1) for (lo, hi), gap in zip(padding, base_dilation)]
    padded = pad(x, np.zeros((), work), [(0, 0, 0), (0, 0, 0), *spatial])
    sizes = kernel.shape[:-2]
    reach = [(size - 1) * gap + 1 for size, gap in zip(sizes, window_dilation)]
    out = [max((n - r) // s + 1, 0) for n, r, s in zip(padded.shape[2:], reach, strides)]
    batch, features = x.shape[0] // batch_groups, x.shape[1] // feature_groups
    outputs = kernel.shape[-1] // parts
    total = np.zeros([parts, batch * math.prod(out), outputs], work)
    kernel = kernel.reshape([*kernel.shape[:-1], parts, outputs])
    for offset in np.ndindex(*sizes):
        cut = [
            slice(step * gap, step * gap + (count - 1) * stride + 1, stride) if count else slice(0)
            for step, gap, count, stride in zip(offset, window_dilation, out, strides)
        ]
        piece = padded[(slice(None), slice(None), *cut)]
        piece = piece.reshape([batch_groups, batch, feature_groups, features, math.prod(out)])
        piece = piece.transpose(0, 2, 1, 4, 3).reshape([parts, batch * math.prod(out), features])
        total += np.matmul(piece, kernel[offset].transpose(1, 0, 2))
    joined = np.moveaxis(total.reshape([parts, batch, *out, outputs]), 0, -2)
    joined = np.moveaxis(joined.reshape([batch, *out, parts * outputs]), -1, 1)
    return np.transpose(joined, np.argsort(specs[2])).astype(dtype)
