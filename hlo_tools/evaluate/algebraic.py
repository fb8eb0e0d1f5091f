"""Operations that combine elements: dot, convolution, reduce, window, sort, FFT, solvers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hlo_tools.evaluate.elementwise import BINARY
from hlo_tools.evaluate.values import Array, Call, Value, operation, wide

__all__: list[str] = []

Message = Any


@operation("dot")
def _dot(call: Call) -> Value:
    numbers = call.row.dot_dimension_numbers
    return _contract(call, call.operands[0], call.operands[1], numbers)


def _contract(call: Call, lhs: Array, rhs: Array, numbers: Message) -> Array:
    """Batch, free and contracted dimensions brought together, then one matrix product."""
    work = _product_type(call)
    left_batch, right_batch = list(numbers.lhs_batch_dimensions), list(numbers.rhs_batch_dimensions)
    left, right = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    left_free = [axis for axis in range(lhs.ndim) if axis not in (*left_batch, *left)]
    right_free = [axis for axis in range(rhs.ndim) if axis not in (*right_batch, *right)]
    batch = [lhs.shape[axis] for axis in left_batch]
    rows = [lhs.shape[axis] for axis in left_free]
    columns = [rhs.shape[axis] for axis in right_free]
    depth = int(np.prod([lhs.shape[axis] for axis in left], dtype=np.int64))
    a = lhs.transpose([*left_batch, *left_free, *left]).reshape(
        [*batch, int(np.prod(rows, dtype=np.int64)), depth]
    )
    b = rhs.transpose([*right_batch, *right, *right_free]).reshape(
        [*batch, depth, int(np.prod(columns, dtype=np.int64))]
    )
    product = np.matmul(a.astype(work), b.astype(work))
    return product.reshape([*batch, *rows, *columns]).astype(call.dtype)


def _product_type(call: Call) -> Any:
    kind = call.element.kind
    if kind == "float":
        return np.float64 if call.element.name == "f64" else np.float32
    if kind == "pred":
        return np.bool_
    return call.dtype if call.dtype.kind in "iuc" else np.int32


@operation("scaled-dot")
def _scaled_dot(call: Call) -> Value:
    lhs, rhs, lhs_scale, rhs_scale = call.operands
    return _contract(
        call, _scaled(lhs, lhs_scale), _scaled(rhs, rhs_scale), call.row.dot_dimension_numbers
    )


def _scaled(value: Array, scale: Array) -> Array:
    """Every scale serves a block of elements."""
    value, scale = value.astype(np.float32), scale.astype(np.float32)
    for axis in range(min(value.ndim, scale.ndim)):
        if scale.shape[axis] not in (0, value.shape[axis]):
            scale = np.repeat(scale, value.shape[axis] // scale.shape[axis], axis)
    return value * scale if scale.ndim == value.ndim else value


# -- reductions ----------------------------------------------------------------------------------

_FAST: dict[str, np.ufunc] = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _simple_reducer(call: Call) -> str:
    """The opcode of a reducer that is one operation on its two parameters, or ""."""
    body = call.evaluator.body(call.row.called_computation_ids[0])
    rows = list(body.instructions)
    if len(rows) != 3 or sum(row.opcode == "parameter" for row in rows) != 2:
        return ""
    root = next(row for row in rows if row.opcode != "parameter")
    return root.opcode if root.opcode in _FAST and len(set(root.operand_ids)) == 2 else ""


@operation("reduce")
def _reduce(call: Call) -> Value:
    count = len(call.operands) // 2
    inputs, inits = call.operands[:count], call.operands[count:]
    axes = tuple(call.row.dimensions)
    simple = _simple_reducer(call) if count == 1 else ""
    if simple and inputs[0].dtype != np.bool_:
        work = wide(inputs[0])
        total = _FAST[simple].reduce(work, axis=axes) if axes else work
        return np.asarray(BINARY[simple](total.astype(work.dtype), wide(inits[0]))).astype(
            call.dtype
        )
    return _fold(call, inputs, inits, axes)


def _fold(call: Call, inputs: list[Array], inits: list[Array], axes: tuple[int, ...]) -> Value:
    """Element after element; all results at once where the reducer is elementwise."""
    kept = [axis for axis in range(inputs[0].ndim) if axis not in axes]
    extents = [inputs[0].shape[axis] for axis in kept]
    flat = [one.transpose([*axes, *kept]).reshape([-1, *extents]) for one in inputs]
    totals = [np.broadcast_to(init, extents).astype(init.dtype) for init in inits]
    for at in range(flat[0].shape[0]):
        totals = _combine(call, 0, totals, [one[at] for one in flat])
    return totals[0] if len(totals) == 1 else tuple(totals)


def _combine(call: Call, computation: int, first: list[Array], second: list[Array]) -> list[Array]:
    """A scalar computation applied to arrays, element by element."""
    number = call.row.called_computation_ids[computation]
    extents = first[0].shape
    if call.evaluator.is_elementwise(number):
        value = call.evaluator.computation(number, [*first, *second])
        parts = list(value) if isinstance(value, tuple) else [value]
        return [np.broadcast_to(part, extents) for part in parts]
    results = [np.empty(extents, one.dtype) for one in first]
    for place in np.ndindex(*extents):
        value = call.apply(computation, [np.asarray(one[place]) for one in (*first, *second)])
        for result, part in zip(
            results, value if isinstance(value, tuple) else (value,), strict=True
        ):
            result[place] = part
    return results


@operation("map")
def _map(call: Call) -> Value:
    number = call.row.called_computation_ids[0]
    if call.evaluator.is_elementwise(number):
        return np.broadcast_to(call.evaluator.computation(number, call.operands), call.extents)
    result = np.empty(call.extents, call.dtype)
    for place in np.ndindex(*call.extents):
        result[place] = call.apply(0, [np.asarray(one[place]) for one in call.operands])
    return result


# -- windows -------------------------------------------------------------------------------------


def _windows(value: Array, fill: Any, rows: Message) -> Array:
    """All windows: result extents first, then the window's own dimensions."""
    padded = _dilate_and_pad(value, fill, rows)
    shape, strides, inner = [], [], []
    for axis, row in enumerate(rows):
        reach = (row.size - 1) * (row.window_dilation or 1) + 1
        shape.append(max((padded.shape[axis] - reach) // (row.stride or 1) + 1, 0))
        strides.append(padded.strides[axis] * (row.stride or 1))
        inner.append(padded.strides[axis] * (row.window_dilation or 1))
    view = np.lib.stride_tricks.as_strided(
        padded, [*shape, *(row.size for row in rows)], [*strides, *inner], writeable=False
    )
    flips = [slice(None)] * len(rows) + [
        slice(None, None, -1 if row.window_reversal else 1) for row in rows
    ]
    return view[tuple(flips)]


def _dilate_and_pad(value: Array, fill: Any, rows: Message) -> Array:
    dilated = [
        (n - 1) * (r.base_dilation or 1) + 1 if n else 0
        for n, r in zip(value.shape, rows, strict=True)
    ]
    extents = [n + r.padding_low + r.padding_high for n, r in zip(dilated, rows, strict=True)]
    result = np.full([max(n, 0) for n in extents], fill, dtype=value.dtype)
    spread = np.full(dilated, fill, dtype=value.dtype)
    if value.size:
        spread[tuple(slice(None, None, row.base_dilation or 1) for row in rows)] = value
    into, out = [], []
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
    views = [_windows(one, init, rows) for one, init in zip(inputs, inits, strict=True)]
    rank = inputs[0].ndim
    axes = tuple(range(rank, 2 * rank))
    simple = _simple_reducer(call) if count == 1 else ""
    if simple and inputs[0].dtype != np.bool_:
        total = _FAST[simple].reduce(wide(views[0]), axis=axes)
        return np.asarray(BINARY[simple](total, wide(inits[0]))).astype(call.dtype)
    return _fold(call, views, inits, axes)


@operation("select-and-scatter")
def _select_and_scatter(call: Call) -> Value:
    operand, source, init = call.operands
    rows = call.row.window.dimensions
    result = np.full(operand.shape, init, dtype=operand.dtype)
    for place in np.ndindex(*source.shape):
        best: tuple[int, ...] | None = None
        for offset in np.ndindex(*(row.size for row in rows)):
            spot = tuple(
                p * (r.stride or 1) + o - r.padding_low
                for p, o, r in zip(place, offset, rows, strict=True)
            )
            if any(not 0 <= s < n for s, n in zip(spot, operand.shape, strict=True)):
                continue
            if best is None or not bool(
                call.apply(0, [np.asarray(operand[best]), np.asarray(operand[spot])])
            ):
                best = spot
        if best is not None:
            result[best] = call.apply(1, [np.asarray(result[best]), np.asarray(source[place])])
    return result


@operation("convolution")
def _convolution(call: Call) -> Value:
    row = call.row
    numbers = row.convolution_dimension_numbers
    spatial = len(numbers.input_spatial_dimensions)
    work = _product_type(call)
    lhs = (
        call.operands[0]
        .transpose(
            [
                numbers.input_batch_dimension,
                numbers.input_feature_dimension,
                *numbers.input_spatial_dimensions,
            ]
        )
        .astype(work)
    )
    rhs = (
        call.operands[1]
        .transpose(
            [
                numbers.kernel_output_feature_dimension,
                numbers.kernel_input_feature_dimension,
                *numbers.kernel_spatial_dimensions,
            ]
        )
        .astype(work)
    )
    groups, batches = row.feature_group_count or 1, row.batch_group_count or 1
    view = _spatial_windows(lhs, row.window.dimensions, spatial)
    result = _grouped(view, rhs, groups, batches, spatial)
    order = [0] * (spatial + 2)
    order[numbers.output_batch_dimension], order[numbers.output_feature_dimension] = 0, 1
    for at, axis in enumerate(numbers.output_spatial_dimensions):
        order[axis] = at + 2
    return result.transpose(order).astype(call.dtype)


def _spatial_windows(lhs: Array, rows: Message, spatial: int) -> Array:
    """[batch, feature, out spatial..., window spatial...]."""
    if spatial == 0:
        return lhs
    parts = [_windows(plane, 0, rows) for plane in lhs.reshape([-1, *lhs.shape[2:]])]
    shape = parts[0].shape if parts else (0,) * (2 * spatial)
    return np.array(parts).reshape([*lhs.shape[:2], *shape])


def _grouped(view: Array, rhs: Array, groups: int, batches: int, spatial: int) -> Array:
    outputs = rhs.shape[0]
    pieces: list[Array] = []
    for group in range(groups * batches):
        if groups > 1:
            per = view.shape[1] // groups
            data = view[:, group * per : (group + 1) * per]
        else:
            per = view.shape[0] // batches
            data = view[group * per : (group + 1) * per]
        step = outputs // (groups * batches)
        kernel = rhs[group * step : (group + 1) * step]
        inner = list(range(2 + spatial, 2 + 2 * spatial))
        product = np.tensordot(data, kernel, axes=([1, *inner], [1, *range(2, 2 + spatial)]))
        pieces.append(np.moveaxis(product, -1, 1))
    return np.concatenate(pieces, axis=1)


# -- sort, FFT, solvers --------------------------------------------------------------------------


@operation("sort")
def _sort(call: Call) -> Value:
    axis = call.row.dimensions[0]
    lanes = [np.moveaxis(one, axis, -1) for one in call.operands]
    extents = lanes[0].shape
    order = np.empty(extents, dtype=np.int64)
    for place in np.ndindex(*extents[:-1]):
        order[place] = _sorted_order(call, [lane[place] for lane in lanes])
    results = [np.moveaxis(np.take_along_axis(lane, order, -1), -1, axis) for lane in lanes]
    return results[0] if len(results) == 1 else tuple(results)


def _sorted_order(call: Call, lanes: list[Array]) -> list[int]:
    def before(first: int, second: int) -> int:
        pairs = [np.asarray(lane[at]) for lane in lanes for at in (first, second)]
        if bool(call.apply(0, pairs)):
            return -1
        swapped = [np.asarray(lane[at]) for lane in lanes for at in (second, first)]
        return 1 if bool(call.apply(0, swapped)) else 0

    return sorted(range(len(lanes[0])), key=functools.cmp_to_key(before))


_FFT: dict[int, Callable[..., Any]] = {
    0: np.fft.fftn,
    1: np.fft.ifftn,
    2: np.fft.rfftn,
    3: np.fft.irfftn,
}


@operation("fft")
def _fft(call: Call) -> Value:
    lengths = list(call.row.fft_length)
    axes = list(range(-len(lengths), 0))
    return _FFT[call.row.fft_type](call.operands[0], s=lengths, axes=axes).astype(call.dtype)


@operation("cholesky")
def _cholesky(call: Call) -> Value:
    a = call.operands[0]
    lower = call.row.cholesky_options.lower
    full = np.tril(a) if lower else np.swapaxes(np.triu(a).conj(), -1, -2)
    symmetric = full + np.swapaxes(np.tril(full, -1).conj(), -1, -2)
    factor = np.linalg.cholesky(symmetric)
    return (factor if lower else np.swapaxes(factor.conj(), -1, -2)).astype(call.dtype)


@operation("triangular-solve")
def _triangular(call: Call) -> Value:
    a, b = call.operands
    options = call.row.triangular_solve_options
    matrix = np.tril(a) if options.lower else np.triu(a)
    if options.unit_diagonal:
        size = a.shape[-1]
        matrix = matrix * (1 - np.eye(size, dtype=a.dtype)) + np.eye(size, dtype=a.dtype)
    if options.transpose_a in (2, 3):
        matrix = np.swapaxes(matrix, -1, -2)
        matrix = matrix.conj() if options.transpose_a == 3 else matrix
    if options.left_side:
        return np.linalg.solve(matrix, b).astype(call.dtype)
    transposed = np.linalg.solve(np.swapaxes(matrix, -1, -2), np.swapaxes(b, -1, -2))
    return np.swapaxes(transposed, -1, -2).astype(call.dtype)


@operation("batch-norm-training")
def _batch_norm_training(call: Call) -> Value:
    operand, scale, offset = (wide(one) for one in call.operands)
    axes, shape = _feature(call, operand)
    mean, variance = operand.mean(axes), operand.var(axes)
    normal = (operand - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + call.row.epsilon)
    out = normal * scale.reshape(shape) + offset.reshape(shape)
    kind = call.operands[0].dtype
    return out.astype(kind), mean.astype(kind), variance.astype(kind)


@operation("batch-norm-inference")
def _batch_norm_inference(call: Call) -> Value:
    operand, scale, offset, mean, variance = (wide(one) for one in call.operands)
    _, shape = _feature(call, operand)
    normal = (operand - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + call.row.epsilon)
    return (normal * scale.reshape(shape) + offset.reshape(shape)).astype(call.dtype)


@operation("batch-norm-grad")
def _batch_norm_grad(call: Call) -> Value:
    operand, scale, mean, variance, gradient = (wide(one) for one in call.operands)
    axes, shape = _feature(call, operand)
    count = operand.size / scale.size
    inverse = 1 / np.sqrt(variance + call.row.epsilon)
    centred = operand - mean.reshape(shape)
    offset_gradient = gradient.sum(axes)
    scale_gradient = (gradient * centred * inverse.reshape(shape)).sum(axes)
    inner = (
        gradient
        - (offset_gradient / count).reshape(shape)
        - centred * ((gradient * centred).sum(axes) / count * inverse**2).reshape(shape)
    )
    out = inner * (scale * inverse).reshape(shape)
    kind = call.operands[0].dtype
    return out.astype(kind), scale_gradient.astype(kind), offset_gradient.astype(kind)


def _feature(call: Call, operand: Array) -> tuple[tuple[int, ...], list[int]]:
    axis = call.row.feature_index
    shape = [1] * operand.ndim
    shape[axis] = operand.shape[axis]
    return tuple(at for at in range(operand.ndim) if at != axis), shape
