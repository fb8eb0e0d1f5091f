"""Operations that move a window: reduce-window, select-and-scatter, convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hlo_tools.evaluate.applying import (
    UFUNCS,
    combine,
    fold,
    in_order,
    reduced,
    scatter_into,
    simple_reducer,
)
from hlo_tools.evaluate.operation import Call, operation, product_type
from hlo_tools.evaluate.running import accumulated, running_of
from hlo_tools.evaluate.values import Array, Value, wide
from hlo_tools.types.element_types import element_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from hlo_tools.schema.messages import WindowDimension

__all__: list[str] = []

Windows: TypeAlias = "Sequence[WindowDimension]"

_NEUTRAL = {"add": 0, "multiply": 1}


def _windows(call: Call, value: Array, fill: ArrayLike, rows: Windows) -> Array:
    """All windows, without a copy: result extents first, then the window's own dimensions.

    Raises:
        ValueError: the view would leave the memory of the array.
    """
    if any(row.size < 1 or min(row.stride, row.window_dilation) < 0 for row in rows):
        raise ValueError("a window without elements, or with negative steps")
    padded = _dilate_and_pad(call, value, fill, rows)
    shape: list[int] = []
    strides: list[int] = []
    inner: list[int] = []
    for axis, row in enumerate(rows):
        count = _steps(padded.shape[axis], row)
        shape.append(count)
        strides.append(padded.strides[axis] * (row.stride or 1) if count > 1 else 0)
        spread = count > 0 and row.size > 1
        inner.append(padded.strides[axis] * (row.window_dilation or 1) if spread else 0)
    bits = padded.view(f"u{padded.itemsize}") if element_of(padded.dtype).bits <= 16 else padded
    view = np.lib.stride_tricks.as_strided(  # NumPy does not know every small type by its name
        bits, [*shape, *(row.size for row in rows)], [*strides, *inner], writeable=False
    ).view(padded.dtype)
    flips = [slice(None)] * len(rows) + [
        slice(None, None, -1 if row.window_reversal else 1) for row in rows
    ]
    return view[tuple(flips)]


def _steps(extent: int, row: WindowDimension) -> int:
    """Return the number of windows that fit along a padded dimension."""
    reach = (row.size - 1) * (row.window_dilation or 1) + 1
    return max((extent - reach) // (row.stride or 1) + 1, 0)


def _dilate_and_pad(call: Call, value: Array, fill: ArrayLike, rows: Windows) -> Array:
    """Base dilation and padding of the last dimensions."""
    lead = value.ndim - len(rows)
    sizes = value.shape[lead:]
    dilated = [
        (n - 1) * (r.base_dilation or 1) + 1 if n else 0 for n, r in zip(sizes, rows, strict=True)
    ]
    extents = [n + r.padding_low + r.padding_high for n, r in zip(dilated, rows, strict=True)]
    if extents == dilated == list(sizes) and not any(row.padding_low for row in rows):
        return value
    before, all_of = list(value.shape[:lead]), [slice(None)] * lead
    result = call.full([*before, *(max(n, 0) for n in extents)], fill, value.dtype)
    spread = value
    if dilated != list(sizes):
        spread = call.full([*before, *dilated], fill, value.dtype)
        steps = [slice(None, None, row.base_dilation or 1) for row in rows]
        spread[(*all_of, *steps)] = value
    into, out = list(all_of), list(all_of)
    for size, extent, row in zip(dilated, extents, rows, strict=True):
        start, stop = max(row.padding_low, 0), min(row.padding_low + size, extent)
        into.append(slice(start, max(start, stop)))
        out.append(slice(start - row.padding_low, max(start, stop) - row.padding_low))
    result[tuple(into)] = spread[tuple(out)]
    return result


@operation("reduce-window")
def _reduce_window(call: Call) -> Value:
    count = len(call.operands) // 2
    inputs, inits = call.operands[:count], call.operands[count:]
    rows = call.row.window.dimensions
    rank = inputs[0].ndim
    axes = tuple(range(rank, 2 * rank))
    simple = simple_reducer(call) if count == 1 else ""
    running = running_of(call.row.window, inputs[0].shape)
    # The padding is of ``init`` too.
    neutral = simple in _NEUTRAL and inits[0] == _NEUTRAL[simple]
    if running is not None and neutral and inputs[0].dtype != np.bool_:
        accumulation = accumulated(UFUNCS[simple], wide(inputs[0]), wide(inits[0]), running)
        return accumulation.astype(call.dtype)
    if simple and inputs[0].dtype != np.bool_:
        view = _windows(call, in_order(simple, wide(inputs[0])), wide(inits[0]), rows)
        return reduced(simple, view, wide(inits[0]), axes).astype(call.dtype)
    views = [
        _windows(call, operand, init, rows) for operand, init in zip(inputs, inits, strict=True)
    ]
    return fold(call, views, inits, axes)


@operation("select-and-scatter")
def _select_and_scatter(call: Call) -> Value:
    operand, source, init = call.operands
    rows = call.row.window.dimensions
    grid: Array = np.indices(source.shape)
    best: Array | None = None
    value = np.empty(source.shape, operand.dtype)
    for offset in np.ndindex(*(row.size for row in rows)):
        spot: list[Array] = [
            position * (row.stride or 1) + step - row.padding_low
            for position, step, row in zip(grid, offset, rows, strict=True)
        ]
        limits = zip(spot, operand.shape, strict=True)
        inside = np.logical_and.reduce(
            [(coordinate >= 0) & (coordinate < extent) for coordinate, extent in limits]
        )
        inside = np.broadcast_to(inside, source.shape)
        flat: Array = np.zeros(source.shape, np.int64)
        for coordinate, extent in zip(spot, operand.shape, strict=True):
            flat = flat * extent + np.clip(coordinate, 0, max(extent - 1, 0))
        candidate = np.ascontiguousarray(operand).reshape(-1)[flat]
        if best is None:
            best = np.full(source.shape, -1, np.int64)
        is_selected = combine(call, 0, [value], [candidate])[0].astype(np.bool_)
        take = inside & ((best < 0) | ~is_selected)
        best, value = np.where(take, flat, best), np.where(take, candidate, value)
    result = np.full(operand.shape, init, dtype=operand.dtype)
    if best is not None:
        chosen = np.flatnonzero(best.reshape(-1) >= 0)
        updates = np.ascontiguousarray(source).reshape(-1)[chosen]
        scatter_into(call, 1, [result.reshape(-1)], best.reshape(-1)[chosen], [updates])
    return result


@operation("convolution")
def _convolution(call: Call) -> Value:
    row = call.row
    numbers = row.convolution_dimension_numbers
    work = product_type(call)
    lhs = call.operands[0].astype(work).transpose(
        [numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions]
    )  # fmt: skip
    rhs = call.operands[1].astype(work).transpose(
        [*numbers.kernel_spatial_dimensions, numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension]
    )  # fmt: skip
    result = _convolved(call, lhs, rhs)
    order = [0] * result.ndim
    order[numbers.output_batch_dimension], order[numbers.output_feature_dimension] = 0, 1
    for position, axis in enumerate(numbers.output_spatial_dimensions):
        order[axis] = position + 2
    return result.transpose(order).astype(call.dtype)


def _convolved(call: Call, lhs: Array, rhs: Array) -> Array:
    """[batch, feature, spatial...] with [spatial..., in, out]: compute a product per window location."""
    row = call.row
    rows = row.window.dimensions
    groups, batches = row.feature_group_count or 1, row.batch_group_count or 1
    parts = groups * batches
    padded = _dilate_and_pad(call, lhs, 0, rows)
    out = [
        _steps(extent, dimension) for extent, dimension in zip(padded.shape[2:], rows, strict=True)
    ]
    batch, features = lhs.shape[0] // batches, lhs.shape[1] // groups
    outputs = rhs.shape[-1] // parts
    total = np.zeros([parts, batch * int(np.prod(out)), outputs], rhs.dtype)
    kernel = rhs.reshape([*rhs.shape[:-1], parts, outputs])
    for offset in np.ndindex(*rhs.shape[:-2]):
        cut = [slice(None), slice(None)]
        for step, dimension, count in zip(offset, rows, out, strict=True):
            step = dimension.size - 1 - step if dimension.window_reversal else step
            start = step * (dimension.window_dilation or 1)
            cut.append(
                slice(
                    start, start + (count - 1) * (dimension.stride or 1) + 1, dimension.stride or 1
                )
            )
        piece = padded[tuple(cut)] if all(out) else np.zeros([*lhs.shape[:2], *out], lhs.dtype)
        piece = piece.reshape([batches, batch, groups, features, -1]).transpose(0, 2, 1, 4, 3)
        piece = piece.reshape([parts, batch * int(np.prod(out)), features])
        total += np.matmul(piece, kernel[offset].transpose(1, 0, 2))
    joined = total.reshape([parts, batch, *out, outputs])
    joined = np.moveaxis(joined, 0, -2)
    return np.moveaxis(joined.reshape([batch, *out, parts * outputs]), -1, 1)
