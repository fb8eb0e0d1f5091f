"""Matrix decompositions in LAPACK's conventions, over stacks of matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hlo_tools.evaluate.values import Array

__all__ = [
    "cholesky",
    "compact_product",
    "householder",
    "lu",
    "orthogonal",
    "triangular_solution",
]


def _by_matrix(function: Callable[[Array], tuple[Array, ...]], a: Array) -> tuple[Array, ...]:
    """Apply a function of one matrix to a stack of them."""
    if a.ndim == 2:
        return function(a)
    results = [function(matrix) for matrix in a.reshape(-1, *a.shape[-2:])]
    if not results:
        empty = function(np.eye(*a.shape[-2:], dtype=a.dtype))
        return tuple(np.zeros((*a.shape[:-2], *result.shape), result.dtype) for result in empty)
    stacked = [np.stack(parts) for parts in zip(*results, strict=True)]
    return tuple(result.reshape(*a.shape[:-2], *result.shape[1:]) for result in stacked)


def cholesky(a: Array, *, lower: bool) -> list[Array]:
    """``[factor, info]`` (LAPACK's ``potrf``): the other triangle keeps the elements of ``a``.

    ``info`` is 0, or the order of the first leading minor that is not positive; the factor is then
    NaN.
    """

    def one_factor(matrix: Array) -> tuple[Array, ...]:
        half = np.tril(matrix) if lower else np.triu(matrix).conj().T
        info = 0
        try:
            factor = np.linalg.cholesky(half)
        except np.linalg.LinAlgError:
            factor = np.full_like(matrix, np.nan)
            info = _first_bad_minor(half)
        factor = factor if lower else factor.conj().T
        rows, columns = np.indices(matrix.shape)
        written = rows >= columns if lower else rows <= columns
        return np.where(written, factor, matrix).astype(matrix.dtype), np.array(info, np.int32)

    return list(_by_matrix(one_factor, a))


def _first_bad_minor(half: Array) -> int:
    for order in range(1, half.shape[0] + 1):
        try:
            np.linalg.cholesky(half[:order, :order])
        except np.linalg.LinAlgError:
            return order
    return half.shape[0]


def householder(a: Array) -> list[Array]:
    """``[packed, taus]`` (LAPACK's ``geqrf``): R above, the reflectors below the diagonal."""
    packed, taus = np.linalg.qr(a, "raw")
    return [np.swapaxes(packed, -1, -2).astype(a.dtype), taus.astype(a.dtype)]


def orthogonal(packed: Array, taus: Array) -> Array:
    """The first columns of the product of reflectors (LAPACK's ``orgqr`` and ``ungqr``)."""
    rows, columns = packed.shape[-2:]
    q = np.broadcast_to(np.eye(rows, columns, dtype=packed.dtype), packed.shape).copy()
    for index in reversed(range(taus.shape[-1])):
        v = np.where(np.arange(rows) > index, packed[..., index], 0).astype(packed.dtype)
        v[..., index] = 1
        projected = np.matmul(v.conj()[..., None, :], q)
        q -= taus[..., index, None, None] * v[..., :, None] * projected
    return q


def compact_product(m: Array) -> Array:
    """T of ``I + V T V^H``, from ``(I + triu(V^H V, 1)) * -taus`` (XLA's QR expander)."""
    size = m.shape[-1]
    t = m * np.eye(size, dtype=m.dtype)
    for column in range(1, size):
        before = np.matmul(t[..., :column, :column], m[..., :column, column, None])
        t[..., :column, column] = before[..., 0]
    return t


def lu(a: Array) -> tuple[Array, Array, Array, Array]:
    """LU with partial pivoting (LAPACK's ``getrf``).

    Returns:
        L and U packed; the row with which each row was exchanged, from 0; the permutation of rows;
        0, or the first column (from 1) without a pivot.
    """
    packed, pivots, permutation, info = _by_matrix(_one_lu, a)
    return packed, pivots, permutation, info


def _one_lu(matrix: Array) -> tuple[Array, ...]:
    rows, columns = matrix.shape
    packed = matrix.copy()
    permutation = np.arange(rows, dtype=np.int32)
    pivots = np.arange(min(rows, columns), dtype=np.int32)
    info = 0
    for step in range(len(pivots)):
        below = packed[step:, step]
        row = step + int(np.argmax(np.abs(below.real) + np.abs(below.imag)))
        pivots[step] = row
        if packed[row, step] == 0:
            info = info or step + 1
            continue
        packed[[step, row]] = packed[[row, step]]
        permutation[[step, row]] = permutation[[row, step]]
        packed[step + 1 :, step] /= packed[step, step]
        packed[step + 1 :, step + 1 :] -= np.outer(
            packed[step + 1 :, step], packed[step, step + 1 :]
        )
    return packed, pivots, permutation, np.array(info, np.int32)


def _solved(matrix: Array, b: Array) -> Array:
    """x of ``matrix x = b``, row after row, so that a zero on the diagonal results in infinities."""
    try:
        return np.linalg.solve(matrix, b)
    except np.linalg.LinAlgError:
        rows = range(matrix.shape[-1])
        lower = not np.triu(matrix, 1).any()
        x = np.zeros(np.broadcast_shapes(b.shape, (*matrix.shape[:-1], b.shape[-1])), b.dtype)
        for row in rows if lower else reversed(rows):
            partial_sum = np.matmul(matrix[..., row : row + 1, :], x)[..., 0, :]
            x[..., row, :] = (b[..., row, :] - partial_sum) / matrix[..., row, row, None]
        return x


def triangular_solution(
    a: Array, b: Array, *, lower: bool, unit_diagonal: bool, transpose: str, left_side: bool
) -> Array:
    """x of ``op(a) x = b``, or of ``x op(a) = b`` if ``a`` is not on the left side.

    Args:
        transpose: ``op``: N (as it is), T (transposed) or C (transposed and conjugated).
    """
    matrix = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        size = a.shape[-1]
        matrix = matrix * (1 - np.eye(size, dtype=a.dtype)) + np.eye(size, dtype=a.dtype)
    if transpose in "TC":
        matrix = np.swapaxes(matrix, -1, -2)
        matrix = matrix.conj() if transpose == "C" else matrix
    if left_side:
        return _solved(matrix, b)
    return np.swapaxes(_solved(np.swapaxes(matrix, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
