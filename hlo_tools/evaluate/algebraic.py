"""Operations that combine elements: dot, reduce, map, FFT, solvers, normalisation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hlo_tools.evaluate.applying import combine, fold, in_order, reduced, simple_reducer
from hlo_tools.evaluate.factorizations import triangular_solution
from hlo_tools.evaluate.operation import Call, operation, product_type
from hlo_tools.evaluate.values import Array, Value, wide

if TYPE_CHECKING:
    from hlo_tools.schema.messages import DotDimensionNumbers

__all__: list[str] = []


@operation("dot")
def _dot(call: Call) -> Value:
    numbers = call.row.dot_dimension_numbers
    return _contract(call, call.operands[0], call.operands[1], numbers)


def _contract(call: Call, lhs: Array, rhs: Array, numbers: DotDimensionNumbers) -> Array:
    """Batch, free and contracted dimensions brought together, then one matrix product."""
    work = product_type(call)
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


@operation("ragged-dot")
def _ragged_dot(call: Call) -> Value:
    """Compute a product per group; rows beyond the groups are zero.

    The ragged dimension of the left side is one of its rows (the right side has one matrix a
    group), contracted (the result has one matrix a group) or a batch dimension.
    """
    lhs, rhs, sizes = call.operands
    ragged = call.row.ragged_dot_dimension_numbers
    numbers = ragged.dot_dimension_numbers
    axis = ragged.lhs_ragged_dimensions[0]
    left_batch, left = list(numbers.lhs_batch_dimensions), list(numbers.lhs_contracting_dimensions)
    if axis in left_batch:
        return _contract(call, lhs, rhs, numbers)
    if sizes.ndim not in (1, 1 + len(left_batch)):
        raise call.fail("has groups of its own for rows, which is not covered")
    sizes = sizes.astype(np.int64)
    ends = np.cumsum(sizes, -1)
    extents = [-1 if dimension == axis else 1 for dimension in range(lhs.ndim)]
    positions: Array = np.arange(lhs.shape[axis]).reshape(extents)

    def by_batch(numbers: Array) -> Array:
        """A number for each batch, or one for all, to compare with places."""
        shape = [
            lhs.shape[dimension] if dimension in left_batch else 1 for dimension in range(lhs.ndim)
        ]
        return numbers.transpose(np.argsort(left_batch)).reshape(shape) if numbers.ndim else numbers

    masked = [
        np.where(
            (positions >= by_batch(ends[..., index] - sizes[..., index]))
            & (positions < by_batch(ends[..., index])), lhs, 0,
        ).astype(lhs.dtype)
        for index in range(sizes.shape[-1])
    ]  # fmt: skip
    if axis in left:
        return np.stack([_contract(call, masked_lhs, rhs, numbers) for masked_lhs in masked])
    group = ragged.rhs_group_dimensions[0]
    inner = type(numbers)(
        lhs_batch_dimensions=left_batch, lhs_contracting_dimensions=left,
        rhs_batch_dimensions=[index - (index > group) for index in numbers.rhs_batch_dimensions],
        rhs_contracting_dimensions=[index - (index > group) for index in numbers.rhs_contracting_dimensions],
    )  # fmt: skip
    matrices = np.moveaxis(rhs, group, 0)
    parts = [
        _contract(call, masked_lhs, matrix, inner)
        for masked_lhs, matrix in zip(masked, matrices, strict=True)
    ]
    return functools.reduce(np.add, parts).astype(call.dtype)


@operation("scaled-dot")
def _scaled_dot(call: Call) -> Value:
    lhs, rhs, lhs_scale, rhs_scale = call.operands
    return _contract(
        call, _scaled(lhs, lhs_scale), _scaled(rhs, rhs_scale), call.row.dot_dimension_numbers
    )


def _scaled(value: Array, scale: Array) -> Array:
    """Repeat every scale over its block of elements."""
    value, scale = value.astype(np.float32), scale.astype(np.float32)
    for axis in range(min(value.ndim, scale.ndim)):
        if scale.shape[axis] not in (0, value.shape[axis]):
            scale = np.repeat(scale, value.shape[axis] // scale.shape[axis], axis)
    return value * scale if scale.ndim == value.ndim else value


# -- reductions ----------------------------------------------------------------------------------


@operation("reduce")
def _reduce(call: Call) -> Value:
    count = len(call.operands) // 2
    inputs, inits = call.operands[:count], call.operands[count:]
    axes = tuple(call.row.dimensions)
    simple = simple_reducer(call) if count == 1 else ""
    if simple and inputs[0].dtype != np.bool_:
        work = in_order(simple, wide(inputs[0]))
        return reduced(simple, work, wide(inits[0]), axes).astype(call.dtype)
    return fold(call, inputs, inits, axes)


@operation("map")
def _map(call: Call) -> Value:
    return combine(call, 0, call.operands, [])[0].astype(call.dtype)


# -- FFT, solvers --------------------------------------------------------------------------------


_FFT: dict[int, Callable[..., Array]] = {
    0: np.fft.fftn,
    1: np.fft.ifftn,
    2: np.fft.rfftn,
    3: np.fft.irfftn,
}


@operation("fft")
def _fft(call: Call) -> Value:
    lengths = list(call.row.fft_length)
    axes = list(range(-len(lengths), 0))
    shape = call.operands[0].shape
    if call.row.fft_type in (0, 1) and list(shape[-len(lengths) :]) != lengths:
        raise call.fail(
            f"has the lengths {lengths} for {list(shape)}"
        )  # XLA's verifier lets it pass
    return _FFT[call.row.fft_type](call.operands[0], s=lengths, axes=axes).astype(call.dtype)


@operation("cholesky")
def _cholesky(call: Call) -> Value:
    a = wide(call.operands[0])
    lower = call.row.cholesky_options.lower
    full = np.tril(a) if lower else np.swapaxes(np.triu(a).conj(), -1, -2)
    symmetric = full + np.swapaxes(np.tril(full, -1).conj(), -1, -2)
    factor = _factored(symmetric)
    return (factor if lower else np.swapaxes(factor.conj(), -1, -2)).astype(call.dtype)


def _factored(matrices: Array) -> Array:
    """Lower factors; NaN for a matrix that is not positive definite, as in XLA."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        if matrices.ndim == 2:
            return np.full_like(matrices, np.nan)
        return np.stack([_factored(matrix) for matrix in matrices])


@operation("triangular-solve")
def _triangular(call: Call) -> Value:
    options = call.row.triangular_solve_options
    return triangular_solution(
        *map(wide, call.operands),
        lower=options.lower,
        unit_diagonal=options.unit_diagonal,
        transpose={2: "T", 3: "C"}.get(options.transpose_a, "N"),
        left_side=options.left_side,
    ).astype(call.dtype)


@operation("batch-norm-training")
def _batch_norm_training(call: Call) -> Value:
    operand, scale, offset = (wide(operand_value) for operand_value in call.operands)
    axes, shape = _feature(call, operand)
    mean, variance = operand.mean(axes), operand.var(axes)
    normal = (operand - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + call.row.epsilon)
    out = normal * scale.reshape(shape) + offset.reshape(shape)
    kind = call.operands[0].dtype
    return out.astype(kind), mean.astype(kind), variance.astype(kind)


@operation("batch-norm-inference")
def _batch_norm_inference(call: Call) -> Value:
    operand, scale, offset, mean, variance = (
        wide(operand_value) for operand_value in call.operands
    )
    _, shape = _feature(call, operand)
    normal = (operand - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + call.row.epsilon)
    return (normal * scale.reshape(shape) + offset.reshape(shape)).astype(call.dtype)


@operation("batch-norm-grad")
def _batch_norm_grad(call: Call) -> Value:
    operand, scale, mean, variance, gradient = (
        wide(operand_value) for operand_value in call.operands
    )
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
    return tuple(index for index in range(operand.ndim) if index != axis), shape
