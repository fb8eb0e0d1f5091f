# pyright: basic, reportArgumentType=false
"""Functions that a generated file contains where ``jax.lax`` has no single call for an operation.

The file is read, not imported: :mod:`hlo_tools.python_source.writer` copies the functions that a
module needs. They use ``jax``, ``jnp``, ``lax`` and ``np`` only.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def total_order(x):
    """Integers in the total order of floats: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    bits = lax.bitcast_convert_type(x, f"int{8 * x.dtype.itemsize}").astype(jnp.int64)
    return jnp.where(bits < 0, bits ^ ((1 << 8 * x.dtype.itemsize - 1) - 1), bits)


def integer_power(x, y):
    """Powers that wrap; a negative exponent results in 0 except for a base of 1 or -1."""
    sign = jnp.where(y % 2 != 0, x, x * x)
    result = jnp.where((x == 1) | (x + 1 == 0), sign, jnp.zeros_like(x))
    power, exponent, base = jnp.ones_like(x), jnp.maximum(y, 0), x
    for _ in range(8 * x.dtype.itemsize):
        power = jnp.where(exponent & 1 != 0, power * base, power)
        exponent, base = exponent >> 1, base * base
    return jnp.where(y < 0, result, power)


def high_half(x, y):
    """The upper half of the bits of a product of integers."""
    bits = 8 * x.dtype.itemsize
    if bits < 64:
        wide = jnp.promote_types(f"{x.dtype.name[: -len(str(bits))]}64", x.dtype)
        return ((x.astype(wide) * y.astype(wide)) >> bits).astype(x.dtype)
    mask = 0xFFFFFFFF
    x0, x1, y0, y1 = x & mask, x >> 32, y & mask, y >> 32
    low = lax.shift_right_logical(x0 * y0, jnp.full_like(x, 32))
    middle = x1 * y0 + low
    return x1 * y1 + (middle >> 32) + ((x0 * y1 + (middle & mask)) >> 32)


def round_stochastic(x, bits, dtype):
    """Integers, rounded away from zero where the random fraction is below the remainder."""
    magnitude = jnp.trunc(jnp.abs(x.astype(jnp.float64)))
    fraction = jnp.abs(x.astype(jnp.float64)) - magnitude
    share = jnp.floor(fraction * 2.0 ** (8 * bits.dtype.itemsize))
    magnitude = magnitude + (bits.astype(jnp.float64) < share)
    return lax.convert_element_type(jnp.copysign(magnitude, x.astype(jnp.float64)), dtype)


def float_remainder(x):
    """The difference between a float64 and its nearest float32."""
    return (x - x.astype(jnp.float32)).astype(jnp.float32)


def branch_of(index, count):
    """The branch that a conditional takes: the last one for an index outside."""
    return jnp.where((index >= 0) & (index < count), index, count - 1)


def scan_with(function, inputs, carries, *, axis, reverse):
    """Stacked results of ``function(*slices, *carries)``, then the last carries."""
    count = len(carries)

    def step(state, slices):
        results = function(*slices, *state)
        results = results if isinstance(results, tuple) else (results,)
        return results[len(results) - count :], results[: len(results) - count]

    slices = tuple(jnp.moveaxis(value, axis, 0) for value in inputs)
    state, stacked = lax.scan(step, carries, slices, reverse=reverse)
    return (*(jnp.moveaxis(value, 0, axis) for value in stacked), *state)


def scatter_with(function, operands, indices, updates, numbers):
    """Apply ``function`` to each update and its target in turn; windows outside are left out."""
    extents, shape = operands[0].shape, updates[0].shape
    dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    window_axes = [axis for axis in range(len(extents)) if axis not in dropped]
    windows = dict(zip(window_axes, numbers.update_window_dims, strict=True))
    outer = [axis for axis in range(len(shape)) if axis not in numbers.update_window_dims]
    lies = [shape[axis] if axis in outer else 1 for axis in range(len(shape))]
    inside, flat_index = jnp.ones(shape, bool), jnp.zeros(shape, jnp.int64)
    batching = dict(
        zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)
    )
    for axis, extent in enumerate(extents):
        target = jnp.zeros(shape, jnp.int64)
        if axis in windows:
            target = lax.broadcasted_iota(jnp.int64, shape, windows[axis])
        if axis in batching:
            target = lax.broadcasted_iota(jnp.int64, shape, outer[batching[axis]])
        if axis in numbers.scatter_dims_to_operand_dims:
            column = numbers.scatter_dims_to_operand_dims.index(axis)
            start = jnp.reshape(indices[..., column], lies)
            size = shape[windows[axis]] if axis in windows else 1
            inside = inside & (start >= 0) & (start <= extent - size)
            target = target + start.astype(jnp.int64)
        flat_index = flat_index * extent + target
    flat = [jnp.ravel(update) for update in updates]

    def step(i, targets):
        old = [target[jnp.ravel(flat_index)[i]] for target in targets]
        new = function(*old, *(update[i] for update in flat))
        new = new if isinstance(new, tuple) else (new,)
        return tuple(
            target.at[jnp.ravel(flat_index)[i]].set(jnp.where(jnp.ravel(inside)[i], value, before))
            for target, value, before in zip(targets, new, old, strict=True)
        )

    targets = tuple(jnp.ravel(operand) for operand in operands)
    if flat_index.size and targets[0].size:
        targets = lax.fori_loop(0, flat_index.size, step, targets)
    return tuple(jnp.reshape(target, extents) for target in targets)


def select_and_scatter(select, scatter, operand, source, init, *, window, strides, padding):
    """Scatter ``source`` to the element of each window that ``select`` prefers."""
    best = jnp.full(source.shape, -1)
    value = jnp.zeros(source.shape, operand.dtype)
    for offset in np.ndindex(*window):
        inside, flat_index = jnp.ones(source.shape, bool), jnp.zeros(source.shape, jnp.int64)
        for axis, extent in enumerate(operand.shape):
            position = lax.broadcasted_iota(jnp.int64, source.shape, axis) * strides[axis]
            position = position + (offset[axis] - padding[axis])
            inside = inside & (position >= 0) & (position < extent)
            flat_index = flat_index * extent + jnp.clip(position, 0, extent - 1)
        candidate = jnp.ravel(operand)[flat_index]
        take = inside & ((best < 0) | ~jnp.vectorize(select)(value, candidate))
        best, value = jnp.where(take, flat_index, best), jnp.where(take, candidate, value)
    best_indices, updates = jnp.ravel(best), jnp.ravel(source)

    def step(i, target):
        old = target[best_indices[i]]
        return target.at[best_indices[i]].set(
            jnp.where(best_indices[i] >= 0, scatter(old, updates[i]), old)
        )

    target = jnp.full(operand.size, init, operand.dtype)
    if best_indices.size:
        target = lax.fori_loop(0, best_indices.size, step, target)
    return jnp.reshape(target, operand.shape)


def sort_with(less, operands, *, axis):
    """A stable merge sort of all rows at once, by a comparison of scalars.

    Each element of two neighboring runs finds its position in the other run by binary search.
    """
    lanes = [jnp.moveaxis(operand, axis, -1) for operand in operands]
    lanes = [jnp.reshape(lane, (-1, lane.shape[-1])) for lane in lanes]
    rows, length = lanes[0].shape
    order = jnp.broadcast_to(jnp.arange(length), (rows, length))
    positions = jnp.arange(length)

    def merge(level, order):
        width = 1 << level
        start = positions // (2 * width) * (2 * width)
        is_left = positions - start < width
        middle, stop = jnp.minimum(start + width, length), jnp.minimum(start + 2 * width, length)
        first = jnp.broadcast_to(jnp.where(is_left, middle, start), order.shape)
        high = jnp.broadcast_to(jnp.where(is_left, stop, middle), order.shape)

        def halve(_, bounds):
            low, high = bounds
            probe = (low + high) // 2
            candidates = jnp.take_along_axis(order, jnp.minimum(probe, length - 1), -1)
            pairs = []
            for lane in lanes:
                here = jnp.take_along_axis(lane, order, -1)
                there = jnp.take_along_axis(lane, candidates, -1)
                pairs += [jnp.where(is_left, there, here), jnp.where(is_left, here, there)]
            is_less = jnp.vectorize(less)(*pairs)
            goes_on = jnp.where(is_left, is_less, ~is_less) & (low < high)
            is_done = goes_on | (low >= high)
            return jnp.where(goes_on, probe + 1, low), jnp.where(is_done, high, probe)

        low, high = lax.fori_loop(0, length.bit_length(), halve, (first, high))
        into = jnp.where(is_left, positions, start + positions - middle) + low - first
        return jnp.zeros_like(order).at[jnp.arange(rows)[:, None], into].set(order)

    order = lax.fori_loop(0, (length - 1).bit_length(), merge, order)
    moved = [jnp.moveaxis(operand, axis, -1) for operand in operands]
    order = jnp.reshape(order, moved[0].shape)
    return tuple(
        jnp.moveaxis(jnp.take_along_axis(operand, order, -1), -1, axis) for operand in moved
    )


def smallest_k(x, count):
    """The smallest elements of each row and their positions."""
    key = total_order(x) if jnp.issubdtype(x.dtype, jnp.floating) else x
    order = jnp.argsort(key, axis=-1, stable=True)[..., :count]
    return jnp.take_along_axis(x, order, -1), order.astype(jnp.int32)


def scaled(x, scale):
    """``x`` in float32, each block of elements times its scale."""
    x, scale = x.astype(jnp.float32), scale.astype(jnp.float32)
    if x.ndim != scale.ndim:
        return x
    for axis in range(x.ndim):
        scale = jnp.repeat(scale, x.shape[axis] // max(scale.shape[axis], 1), axis)
    return x * scale


def upper_cholesky(a, *, symmetrize_input):
    """The upper factor of matrices of which the upper triangle is read."""
    lower = lax.linalg.cholesky(
        jnp.conj(jnp.swapaxes(a, -1, -2)), symmetrize_input=symmetrize_input
    )
    return jnp.conj(jnp.swapaxes(lower, -1, -2))


def along(x, rank, axis):
    """A vector along one of ``rank`` dimensions, in float32 at least."""
    wide = jnp.promote_types(x.dtype, jnp.float32)
    return jnp.reshape(x.astype(wide), [-1 if index == axis else 1 for index in range(rank)])


def batch_norm_inference(x, scale, offset, mean, variance, *, epsilon, axis):
    """``(x - mean) / sqrt(variance + epsilon) * scale + offset``."""
    scale, offset, mean, variance = (
        along(value, x.ndim, axis) for value in (scale, offset, mean, variance)
    )
    normal = (x.astype(mean.dtype) - mean) / jnp.sqrt(variance + epsilon)
    return (normal * scale + offset).astype(x.dtype)


def batch_norm_training(x, scale, offset, *, epsilon, axis):
    """The normalized operand, its mean and its variance by feature."""
    axes = tuple(index for index in range(x.ndim) if index != axis)
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean, variance = jnp.mean(wide, axes), jnp.var(wide, axes)
    out = batch_norm_inference(wide, scale, offset, mean, variance, epsilon=epsilon, axis=axis)
    return out.astype(x.dtype), mean.astype(x.dtype), variance.astype(x.dtype)


def batch_norm_grad(x, scale, mean, variance, gradient, *, epsilon, axis):
    """The gradients of the operand, the scale and the offset."""
    axes = tuple(index for index in range(x.ndim) if index != axis)
    wide = jnp.promote_types(x.dtype, jnp.float32)
    count = x.size / scale.size
    inverse = lax.rsqrt(along(variance, x.ndim, axis) + epsilon)
    centered = x.astype(wide) - along(mean, x.ndim, axis)
    gradient = gradient.astype(wide)
    of_offset = jnp.sum(gradient, axes)
    of_scale = jnp.sum(gradient * centered * inverse, axes)
    products = along(jnp.sum(gradient * centered, axes), x.ndim, axis)
    inner = gradient - along(of_offset, x.ndim, axis) / count
    inner = inner - centered * (products / count * inverse**2)
    out = inner * (along(scale, x.ndim, axis) * inverse)
    return out.astype(x.dtype), of_scale.astype(x.dtype), of_offset.astype(x.dtype)


def bits_as(generated, dtype):
    """A state, and random bits as another type of the same size."""
    state, bits = generated
    return state, lax.bitcast_convert_type(bits, dtype)


def leaves(value):
    """The arrays in nested tuples, from left to right."""
    return jax.tree.leaves(value)
