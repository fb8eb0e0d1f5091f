# pyright: basic, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# ruff: noqa: B905 -- generated files are short; the writer made the tuples equally long
"""Functions that a generated NumPy file contains where NumPy has no single call for an operation.

The file is read, not imported: :mod:`hlo_tools.python_source.writer` copies the functions that a
module needs. They use ``math``, ``ml_dtypes`` and ``np`` only.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np


def leaves(value):
    """The arrays in nested tuples, from left to right."""
    if isinstance(value, tuple):
        return [leaf for element in value for leaf in leaves(element)]
    return [] if value is None else [np.asarray(value)]


def wide(x):
    """Floats of fewer than 32 bits as float32, which products and sums are computed in."""
    kind, size = x.dtype.kind, x.dtype.itemsize
    return x if kind in "biuc" or (kind == "f" and size >= 4) else x.astype(np.float32)


def to_integer(x, dtype):
    """Floats as integers: towards zero, NaN is 0, too large ones are the limit."""
    limits = ml_dtypes.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    finite = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0, posinf=high, neginf=low)
    is_limit = finite >= float(high)
    inside = np.where(is_limit, 0, np.maximum(finite, low))
    inside = inside.astype(np.uint64 if low == 0 else np.int64)
    return np.where(is_limit, np.array(high, inside.dtype), inside).astype(dtype)


def narrow_integer(x, bits, dtype):
    """The low bits of integers as a type of fewer than eight bits."""
    return (x.astype(np.int64) & ((1 << bits) - 1)).astype(np.int8).astype(dtype)


def complex_of(real, imaginary, dtype):
    """Complex numbers of two parts, which infinities do not mix."""
    result = np.empty(np.shape(real), dtype)
    result.real, result.imag = real, imaginary
    return result


def total_order(x):
    """Integers in the total order of floats: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    bits = np.asarray(x).view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, bits ^ ((1 << 8 * x.dtype.itemsize - 1) - 1), bits)


def erf(x):
    """The error function, through double precision."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x.astype(np.float64))).astype(x.dtype)


def exp2(x):
    """2 to the power of ``x``, through double precision."""
    return np.exp2(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)).astype(x.dtype)


def log2(x):
    """The logarithm to base 2, through double precision."""
    return np.log2(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)).astype(x.dtype)


def logistic(x):
    """``1 / (1 + exp(-x))`` without overflow."""
    if x.dtype.kind == "c":
        return (1 / (1 + np.exp(-x))).astype(x.dtype)
    small = np.exp(-np.abs(wide(x)))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(x.dtype)


def rsqrt(x):
    """``1 / sqrt(x)``."""
    return (1 / np.sqrt(wide(x))).astype(x.dtype)


def round_away(x):
    """The nearest integer; halves away from zero."""
    size = np.abs(wide(x))
    floor = np.floor(size)
    return np.copysign(np.where(size - floor >= 0.5, floor + 1, floor), wide(x)).astype(x.dtype)


def sign(x):
    """-1, 0 of the same sign, or 1; the unit vector of a complex number."""
    if x.dtype.kind == "c":
        length = np.abs(x)
        return np.where(length == 0, x, x / np.where(length == 0, 1, length)).astype(x.dtype)
    return np.where(x == 0, x, np.sign(wide(x)).astype(x.dtype))


def popcount(x):
    """The number of bits that are set."""
    bits = x.astype(np.int64).astype(np.uint64) & np.uint64((1 << 8 * x.dtype.itemsize) - 1)
    return np.frompyfunc(lambda value: int(value).bit_count(), 1, 1)(bits).astype(x.dtype)


def leading_zeros(x):
    """The number of zero bits above the highest bit that is set."""
    width = 8 * x.dtype.itemsize
    bits = x.astype(np.int64).astype(np.uint64) & np.uint64((1 << width) - 1)
    count = np.frompyfunc(lambda value: width - int(value).bit_length(), 1, 1)
    return np.asarray(count(bits)).astype(x.dtype)


def divide(x, y):
    """Integers towards zero; ``x / 0`` has all bits set, the lowest integer by -1 is itself."""
    safe = np.where((y == 0) | (y == -1), 1, y).astype(x.dtype) if x.dtype.kind == "i" else y
    safe = np.where(safe == 0, 1, safe).astype(x.dtype)
    floor = x // safe
    quotient = np.where((x % safe != 0) & ((x < 0) != (safe < 0)), floor + 1, floor)
    if x.dtype.kind == "i":
        return np.where(y == 0, -1, np.where(y == -1, -x, quotient)).astype(x.dtype)
    return np.where(y == 0, np.iinfo(x.dtype).max, quotient).astype(x.dtype)


def remainder(x, y):
    """The remainder of integers with the sign of ``x``; ``x`` for a divisor of 0."""
    safe = np.where((y == 0) | (y + 1 == 0), 1, y).astype(x.dtype) if x.dtype.kind == "i" else y
    safe = np.where(safe == 0, 1, safe).astype(x.dtype)
    return np.where(y == 0, x, np.fmod(x, safe)).astype(x.dtype)


def integer_power(x, y):
    """Powers that wrap; a negative exponent results in 0 except for a base of 1 or -1."""
    result = np.power(x, np.where(y < 0, 0, y).astype(x.dtype))
    small = np.where(x == 1, 1, np.where(x + 1 == 0, np.where(y % 2 != 0, -1, 1), 0))
    return np.where(y < 0, small, result).astype(x.dtype)


def float_power(x, y):
    """C's ``pow``: NumPy takes the root for an exponent 0.5, which differs for -0.0 and -inf."""
    powers = np.power(wide(x), wide(y))
    is_root = (y == 0.5) & ((x == 0) | (x == -np.inf))
    return np.where(is_root, np.abs(powers), powers).astype(x.dtype)


def complex_power(x, y):
    """Powers in polar form; ``x**0`` and ``1**y`` are 1."""
    base, exponent = x.astype(np.complex128), y.astype(np.complex128)
    radius, angle = np.abs(base), np.angle(base)
    size = np.power(radius, exponent.real) * np.exp(-exponent.imag * angle)
    turn = exponent.real * angle + exponent.imag * np.log(radius)
    result = size * np.cos(turn) + 1j * (size * np.sin(turn))
    is_positive = (exponent.imag == 0) & (exponent.real > 0)
    result = np.where((base == 0) & is_positive, 0, result)
    return np.where((base == 1) | (exponent == 0), 1, result).astype(x.dtype)


def shifted(function, x, y, fill):
    """Shift the bits of ``x``, read as the type of ``fill``; ``fill`` for an amount outside."""
    base, amount = np.asarray(x).view(fill.dtype), y.astype(np.int64)
    is_outside = (amount < 0) | (amount >= 8 * x.dtype.itemsize)
    moved = function(base, np.where(is_outside, 0, amount).astype(base.dtype))
    return np.where(is_outside, fill, moved).astype(base.dtype).view(x.dtype)


def shift_left(x, y):
    """Bits moved up."""
    return shifted(np.left_shift, x, y, np.zeros((), f"u{x.dtype.itemsize}"))


def shift_right_logical(x, y):
    """Bits moved down, zeros above."""
    return shifted(np.right_shift, x, y, np.zeros((), f"u{x.dtype.itemsize}"))


def shift_right_arithmetic(x, y):
    """Bits moved down, copies of the top bit above."""
    signed = np.asarray(x).view(f"i{x.dtype.itemsize}")
    return shifted(np.right_shift, x, y, np.where(signed < 0, -1, 0).astype(signed.dtype))


def high_half(x, y):
    """The upper half of the bits of a product of integers."""
    product = x.astype(object) * y.astype(object)
    return np.asarray(product >> (8 * x.dtype.itemsize)).astype(x.dtype)


def larger(x, y):
    """The larger operand; NaN if one is NaN, 0 of 0 and -0."""
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)).astype(x.dtype)


def smaller(x, y):
    """The smaller operand; NaN if one is NaN, -0 of 0 and -0."""
    return np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y)).astype(x.dtype)


def round_stochastic(x, bits, dtype):
    """Integers, rounded away from zero where the random fraction is below the remainder."""
    value = x.astype(np.float64)
    magnitude = np.trunc(np.abs(value))
    share = np.floor(np.ldexp(np.abs(value) - magnitude, 8 * bits.dtype.itemsize))
    magnitude = magnitude + (bits.astype(np.float64) < share)
    return to_integer(np.copysign(magnitude, value), dtype)


def reduce_precision(x, exponent_bits, mantissa_bits):
    """Floats rounded to fewer bits of exponent and mantissa."""
    value = x.astype(np.float64)
    fraction, power = np.frexp(value)
    digits = np.rint(np.ldexp(fraction, mantissa_bits + 1))
    if not mantissa_bits:
        tie = (np.abs(fraction) == 0.75) & (power % 2 == 0)
        digits = np.where(tie, np.copysign(1.0, value), digits)
    rounded = np.ldexp(digits, power - mantissa_bits - 1)
    bias = (1 << exponent_bits - 1) - 1
    largest = np.ldexp(2.0 - np.ldexp(1.0, -mantissa_bits), bias)
    rounded = np.where(np.abs(rounded) > largest, np.copysign(np.inf, value), rounded)
    is_small = np.abs(rounded) < np.ldexp(1.0, 1 - bias)
    rounded = np.where(is_small, np.copysign(0.0, value), rounded)
    return np.where(np.isfinite(value), rounded, value).astype(x.dtype)


def bitcast(x, dtype, extents):
    """The bytes of the elements as another type."""
    return np.ascontiguousarray(x).reshape(-1).view(dtype).reshape(extents)


def iota(dtype, extents, axis):
    """0, 1, ... along one dimension."""
    shape = [-1 if index == axis else 1 for index in range(len(extents))]
    return np.broadcast_to(np.arange(extents[axis]).astype(dtype).reshape(shape), extents)


def product_type(dtype):
    """The type in which products are summed."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biuc" or dtype in (np.float32, np.float64):
        return dtype
    return np.dtype(np.int32 if "int" in dtype.name else np.float32)


def dot(x, y, contracting, batch, dtype):
    """A product over pairs of dimensions, batch by batch."""
    work = product_type(dtype)
    rows = [axis for axis in range(x.ndim) if axis not in (*contracting[0], *batch[0])]
    columns = [axis for axis in range(y.ndim) if axis not in (*contracting[1], *batch[1])]
    extents = [x.shape[axis] for axis in batch[0]]
    depth = math.prod(x.shape[axis] for axis in contracting[0])
    height = math.prod(x.shape[axis] for axis in rows)
    width = math.prod(y.shape[axis] for axis in columns)
    left = np.transpose(x, [*batch[0], *rows, *contracting[0]]).reshape([*extents, height, depth])
    right = np.transpose(y, [*batch[1], *contracting[1], *columns])
    right = right.reshape([*extents, depth, width])
    outer = [*(x.shape[axis] for axis in rows), *(y.shape[axis] for axis in columns)]
    return (
        np.matmul(left.astype(work), right.astype(work)).reshape([*extents, *outer]).astype(dtype)
    )


def scaled(x, scale):
    """Blocks of a low-precision operand times their scales, in float32."""
    x, scale = x.astype(np.float32), scale.astype(np.float32)
    for axis in range(min(x.ndim, scale.ndim)):
        if scale.shape[axis] not in (0, x.shape[axis]):
            scale = np.repeat(scale, x.shape[axis] // scale.shape[axis], axis)
    return x * scale if scale.ndim == x.ndim else x


def sort_with(function, operands, axis):
    """A stable merge sort by ``function``, all rows at once."""
    lanes = [np.moveaxis(operand, axis, -1) for operand in operands]
    extents = lanes[0].shape
    flat = [np.ascontiguousarray(lane).reshape([-1, extents[-1]]) for lane in lanes]
    order = merged_order(function, flat).reshape(extents)
    return tuple(np.moveaxis(np.take_along_axis(lane, order, -1), -1, axis) for lane in lanes)


def merged_order(function, lanes):
    """The sorted order of each row: elements find their places in the neighboring run."""
    length = lanes[0].shape[1]
    positions = np.arange(length)
    order = np.broadcast_to(positions, lanes[0].shape).copy()
    width = 1
    while width < length:
        start = positions // (2 * width) * (2 * width)
        is_left = positions - start < width
        middle, stop = np.minimum(start + width, length), np.minimum(start + 2 * width, length)
        low = np.broadcast_to(np.where(is_left, middle, start), order.shape).copy()
        high = np.broadcast_to(np.where(is_left, stop, middle), order.shape).copy()
        first = low.copy()
        while (low < high).any():
            probe = (low + high) // 2
            candidate_order = np.take_along_axis(order, np.minimum(probe, length - 1), -1)
            pairs = []
            for lane in lanes:
                elements, candidates = (
                    np.take_along_axis(lane, order, -1),
                    np.take_along_axis(lane, candidate_order, -1),
                )
                pairs += [
                    np.where(is_left, candidates, elements),
                    np.where(is_left, elements, candidates),
                ]
            less = np.broadcast_to(np.asarray(function(*pairs), bool), order.shape)
            goes_on = np.where(is_left, less, ~less) & (low < high)
            is_done = low >= high
            low = np.where(goes_on, probe + 1, low)
            high = np.where(goes_on | is_done, high, probe)
        into = np.where(is_left, positions, start + positions - middle) + low - first
        merged = np.empty_like(order)
        np.put_along_axis(merged, into, order, -1)
        order, width = merged, 2 * width
    return order


def top_k(x, count, smallest=False):
    """The largest or smallest elements of each row and their places; the first of equal ones."""
    key = x if x.dtype.kind in "biu" else total_order(x)
    order = np.argsort(key if smallest else ~key, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def while_loop(condition, body, state):
    """Repeat ``body`` while ``condition`` holds."""
    while condition(state):
        state = body(state)
    return state


def scan_with(function, inputs, carries, *, axis, reverse):
    """Stacked results of ``function(*slices, *carries)``, then the last carries."""
    count, length = len(carries), inputs[0].shape[axis]
    stacked = []
    for index in reversed(range(length)) if reverse else range(length):
        results = function(*(np.take(x, index, axis) for x in inputs), *carries)
        results = results if isinstance(results, tuple) else (results,)
        carries = results[len(results) - count :]
        stacked.append(results[: len(results) - count])
    stacked = stacked[::-1] if reverse else stacked
    return (*(np.stack(values, axis) for values in zip(*stacked)), *carries)


def branch_of(index, count):
    """The branch that a conditional takes: the last one for an index outside."""
    return int(index) if 0 <= index < count else count - 1


def cholesky(a, lower):
    """The factor of matrices of which one triangle is read; NaN where there is none."""
    work = wide(a)
    full = np.tril(work) if lower else np.swapaxes(np.triu(work).conj(), -1, -2)
    matrices = full + np.swapaxes(np.tril(full, -1).conj(), -1, -2)
    factors = np.full(a.shape, np.nan, work.dtype)
    for place in np.ndindex(a.shape[:-2]):
        try:
            factors[place] = np.linalg.cholesky(matrices[place])
        except np.linalg.LinAlgError:
            continue
    return (factors if lower else np.swapaxes(factors.conj(), -1, -2)).astype(a.dtype)


def triangular_solve(a, b, *, left_side, lower, transpose, conjugate, unit_diagonal):
    """``x`` of ``op(a) x = b``, or of ``x op(a) = b``."""
    matrix = np.tril(wide(a)) if lower else np.triu(wide(a))
    if unit_diagonal:
        eye = np.eye(a.shape[-1], dtype=matrix.dtype)
        matrix = matrix * (1 - eye) + eye
    matrix = np.swapaxes(matrix, -1, -2) if transpose else matrix
    matrix = matrix.conj() if conjugate else matrix
    right = wide(b)
    if not left_side:
        matrix, right = np.swapaxes(matrix, -1, -2), np.swapaxes(right, -1, -2)
    size = matrix.shape[-1]
    forward = bool(lower) != bool(transpose) if left_side else bool(lower) == bool(transpose)
    x = np.zeros(right.shape, right.dtype)
    for row in range(size) if forward else reversed(range(size)):
        done = np.matmul(matrix[..., row : row + 1, :], x)[..., 0, :]
        x[..., row, :] = (right[..., row, :] - done) / matrix[..., row, row, None]
    return (x if left_side else np.swapaxes(x, -1, -2)).astype(b.dtype)


def per_feature(x, rank, axis):
    """A vector along one of ``rank`` dimensions, in float32 at least."""
    return wide(x).reshape([-1 if index == axis else 1 for index in range(rank)])


def batch_norm_inference(x, scale, offset, mean, variance, *, epsilon, axis):
    """``(x - mean) / sqrt(variance + epsilon) * scale + offset``."""
    scale, offset, mean, variance = (
        per_feature(value, x.ndim, axis) for value in (scale, offset, mean, variance)
    )
    normal = (wide(x) - mean) / np.sqrt(variance + np.float32(epsilon).astype(mean.dtype))
    return (normal * scale + offset).astype(x.dtype)


def batch_norm_training(x, scale, offset, *, epsilon, axis):
    """The normalized operand, its mean and its variance by feature."""
    axes = tuple(index for index in range(x.ndim) if index != axis)
    mean, variance = wide(x).mean(axes), wide(x).var(axes)
    out = batch_norm_inference(wide(x), scale, offset, mean, variance, epsilon=epsilon, axis=axis)
    return out.astype(x.dtype), mean.astype(x.dtype), variance.astype(x.dtype)


def batch_norm_grad(x, scale, mean, variance, gradient, *, epsilon, axis):
    """The gradients of the operand, the scale and the offset."""
    axes = tuple(index for index in range(x.ndim) if index != axis)
    count, gradient = x.size / scale.size, wide(gradient)
    inverse = (1 / np.sqrt(per_feature(variance, x.ndim, axis) + epsilon)).astype(gradient.dtype)
    centered = wide(x) - per_feature(mean, x.ndim, axis)
    of_offset, products = gradient.sum(axes), (gradient * centered).sum(axes)
    of_scale = (gradient * centered * inverse).sum(axes)
    inner = gradient - per_feature(of_offset, x.ndim, axis) / count
    inner = inner - centered * (per_feature(products, x.ndim, axis) / count * inverse**2)
    out = inner * (per_feature(scale, x.ndim, axis) * inverse)
    return out.astype(x.dtype), of_scale.astype(x.dtype), of_offset.astype(x.dtype)
