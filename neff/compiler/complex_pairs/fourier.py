"""Fourier transforms as products with matrices of roots of unity.

A transform of length n = p q is p-point transforms of the columns of the p x q matrix that holds the
row, a multiplication with roots of unity, and q-point transforms of the rows of the result, read
column by column (Cooley and Tukey). A length whose prime factors are large is a convolution, which
transforms of a power of two compute (Bluestein).
"""

from __future__ import annotations

import numpy as np

from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.emitting import constant, plain
from hlo_tools.types.shape import array_shape
from neff.compiler.complex_pairs.arrays import Pair, RealArray
from neff.compiler.complex_pairs.functions import product
from neff.compiler.complex_pairs.shaping import joined, padded, reshaped, sliced, transposed
from nki_lang.base.dtypes import Array

__all__ = ["transform"]

MAX_MATRIX_LENGTH = 128
"""A longer transform is divided: the tensor engine multiplies with 128 rows at a time."""

MAX_PRIME_LENGTH = 512
"""A longer transform whose length is a prime is a convolution: its matrix would be large."""

_FFT, _IFFT, _RFFT, _IRFFT = range(4)
"""Values of ``fft_type``."""


def transform(inst: Instruction, real: RealArray, imag: RealArray | None) -> Pair | Instruction:
    """Return the result of an ``fft`` instruction of any type.

    Args:
        inst: the instruction.
        real, imag: its operand; ``imag`` is None for a real operand.
    """
    kind, lengths = inst.proto.fft_type, list(inst.proto.fft_length)
    rank = len(real.shape.dimensions)
    axes = list(range(rank - len(lengths), rank))
    if kind == _IRFFT:
        assert imag is not None
        z = Pair(real, imag)
        for axis in axes[:-1]:
            z = _along(z.real, z.imag, axis, inverse=True)
        return _along(*_mirrored(z, lengths[-1]), axes[-1], inverse=True).real.view
    z = _along(real, imag, axes[-1], inverse=kind == _IFFT)
    if kind == _RFFT:
        half = lengths[-1] // 2 + 1
        z = Pair(sliced(z.real, -1, 0, half), sliced(z.imag, -1, 0, half))
    for axis in reversed(axes[:-1]):
        z = _along(z.real, z.imag, axis, inverse=kind == _IFFT)
    return z


def _mirrored(z: Pair, length: int) -> tuple[RealArray, RealArray]:
    """Return a whole spectrum from its first half: the other half has conjugate elements."""
    mirrored = length - z.real.shape.dimensions[-1]
    if not mirrored:
        return z.real, z.imag
    halves = [_reversed(sliced(component, -1, 1, 1 + mirrored)) for component in (z.real, z.imag)]
    return joined([z.real, halves[0]], -1), joined([z.imag, -halves[1]], -1)


def _along(real: RealArray, imag: RealArray | None, axis: int, *, inverse: bool) -> Pair:
    """Transform along an axis; the inverse divides by the length."""
    rank = len(real.shape.dimensions)
    order = [*(number for number in range(rank) if number != axis), axis]
    back = [order.index(number) for number in range(rank)]
    length = real.shape.dimensions[axis]
    moved_imag = None if imag is None else transposed(imag, order)
    rows = _transform_rows(transposed(real, order), moved_imag, 1 if inverse else -1)
    z = Pair(transposed(rows.real, back), transposed(rows.imag, back))
    return Pair(z.real * (1 / length), z.imag * (1 / length)) if inverse else z


def _transform_rows(real: RealArray, imag: RealArray | None, sign: int) -> Pair:
    """Transform the last axis with the roots exp(sign 2 pi i j k / n)."""
    length = real.shape.dimensions[-1]
    if length <= MAX_MATRIX_LENGTH:
        return _multiplied(real, imag, length, sign)
    divisor = _divisor(length)
    if divisor == 1 and length <= MAX_PRIME_LENGTH:
        return _multiplied(real, imag, length, sign)
    if divisor == 1 or (length // divisor > MAX_PRIME_LENGTH and _divisor(length // divisor) == 1):
        return _convolved(real, imag, sign)
    return _divided(real, imag, divisor, sign)


def _divisor(length: int) -> int:
    """Return the greatest divisor up to the longest matrix, 1 for a prime beyond it.

    A divisor near the root of the length is preferred where there is any: both matrices are small.
    """
    divisors = [number for number in range(1, MAX_MATRIX_LENGTH + 1) if length % number == 0]
    balanced = [number for number in divisors if number * number >= length]
    return balanced[0] if balanced else divisors[-1]


def _divided(real: RealArray, imag: RealArray | None, rows: int, sign: int) -> Pair:
    """Transform a row of n = rows * columns elements as columns, then rows, of a matrix."""
    *outer, length = real.shape.dimensions
    columns = length // rows
    # element j1 * columns + j2 is in row j1 and column j2; columns are transformed first
    matrix = [*outer, rows, columns]
    components = [_turned(reshaped(component, matrix)) for component in _present(real, imag)]
    z = _multiplied(
        components[0], None if imag is None else components[1], rows, sign
    )  # (..., j2, k1)
    roots = _roots(np.outer(np.arange(columns), np.arange(rows)), length, sign)
    z = product(z, _constants(z.real, roots))
    z = Pair(_turned(z.real), _turned(z.imag))  # (..., k1, j2)
    z = _transform_rows(z.real, z.imag, sign)  # (..., k1, k2)
    # output k1 + rows * k2 is read column by column
    results = [reshaped(_turned(component), [*outer, length]) for component in (z.real, z.imag)]
    return Pair(*results)


def _convolved(real: RealArray, imag: RealArray | None, sign: int) -> Pair:
    """Bluestein: j k = (j^2 + k^2 - (k - j)^2) / 2 makes the transform a convolution.

    With chirp c(j) = exp(sign pi i j^2 / n) the result is c(k) sum_j x(j) c(j) conj(c(k - j)).
    """
    length = real.shape.dimensions[-1]
    extent = 1 << (2 * length - 2).bit_length()
    numbers = np.arange(length)
    chirp = _roots(numbers * numbers % (2 * length), 2 * length, sign)
    kernel = np.zeros(extent, np.complex128)
    kernel[:length] = np.conj(chirp)
    kernel[extent - length + 1 :] = np.conj(chirp[:0:-1])
    spectrum = np.fft.fft(kernel) / extent
    z = Pair(real, real.filled(0.0) if imag is None else imag)
    z = product(z, _constants(real, chirp))
    z = Pair(padded(z.real, -1, extent), padded(z.imag, -1, extent))
    z = _transform_rows(z.real, z.imag, -1)
    z = product(z, _constants(z.real, spectrum))
    z = _transform_rows(z.real, z.imag, 1)
    z = Pair(sliced(z.real, -1, 0, length), sliced(z.imag, -1, 0, length))
    return product(z, _constants(z.real, chirp))


def _multiplied(real: RealArray, imag: RealArray | None, length: int, sign: int) -> Pair:
    """Multiply rows with the matrix of a transform: (x + i y)(C + i S) as one real product.

    The rows are [x y], the matrix is [[C, S], [-S, C]]; the result is [real imaginary].
    """
    roots = _roots(np.outer(np.arange(length), np.arange(length)), length, sign)
    matrix = np.concatenate([roots.real, roots.imag], axis=1)
    rows = real
    if imag is not None:
        matrix = np.concatenate([matrix, np.concatenate([-roots.imag, roots.real], axis=1)])
        rows = joined([real, imag], -1)
    *outer, _ = real.shape.dimensions
    element = real.shape.element.name
    weights = constant(
        real.source, matrix.astype(real.shape.dtype), array_shape(element, matrix.shape)
    )
    shape = array_shape(element, [*outer, 2 * length])
    result = plain(real.source, "dot", shape, [rows.view, weights])
    numbers = result.proto.dot_dimension_numbers
    numbers.lhs_contracting_dimensions.append(len(outer))
    numbers.rhs_contracting_dimensions.append(0)
    products = RealArray(result, real.source)
    return Pair(sliced(products, -1, 0, length), sliced(products, -1, length, 2 * length))


def _roots(exponents: Array, length: int, sign: int) -> Array:
    """Return exp(sign 2 pi i e / length); exponents are reduced first, so that all digits hold."""
    return np.exp(sign * 2j * np.pi * (exponents % length) / length)


def _constants(like: RealArray, values: Array) -> Pair:
    """Return a complex constant, broadcast over the leading axes of an array."""
    rank, element = len(like.shape.dimensions), like.shape.element.name
    axes = list(range(rank - values.ndim, rank))
    components: list[RealArray] = []
    for component in (values.real, values.imag):
        numbers = np.ascontiguousarray(component).astype(like.shape.dtype)
        weights = constant(like.source, numbers, array_shape(element, values.shape))
        if rank > values.ndim:
            weights = plain(like.source, "broadcast", like.shape, [weights], dimensions=axes)
        components.append(RealArray(weights, like.source))
    return Pair(*components)


def _present(real: RealArray, imag: RealArray | None) -> list[RealArray]:
    return [real] if imag is None else [real, imag]


def _turned(array: RealArray) -> RealArray:
    """Exchange the last two axes."""
    rank = len(array.shape.dimensions)
    return transposed(array, [*range(rank - 2), rank - 1, rank - 2])


def _reversed(array: RealArray) -> RealArray:
    axis = len(array.shape.dimensions) - 1
    view = plain(array.source, "reverse", array.shape, [array.view], dimensions=[axis])
    return RealArray(view, array.source)
