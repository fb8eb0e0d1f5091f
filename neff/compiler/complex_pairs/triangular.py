"""Cholesky factors and triangular systems of complex matrices, from those of real matrices.

A complex matrix of n rows is a real one of 2 n rows, in which each element a + b i is the block

    a  -b
    b   a

Products, adjoints and inverses of such matrices are such matrices again, and so are Cholesky factors,
whose diagonal is real. A triangular matrix stays triangular if the blocks on its diagonal are multiples of
the identity; so its columns are divided by the diagonal first: A = U D.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.emitting import plain
from hlo_tools.types.shape import array_shape
from neff.compiler.complex_pairs.arrays import Pair, RealArray
from neff.compiler.complex_pairs.functions import BINARY
from neff.compiler.complex_pairs.shaping import reduced, sliced

__all__ = ["cholesky", "triangular_solve"]

_TRANSPOSE, _ADJOINT = 2, 3
"""Values of ``transpose_a``."""


def cholesky(inst: Instruction, z: Pair) -> Pair:
    """Return the factors of Hermitian matrices."""
    blocks = _blocks(z)
    view = plain(inst, "cholesky", blocks.shape, [blocks.view])
    view.proto.cholesky_options.CopyFrom(inst.proto.cholesky_options)
    factor = RealArray(view, inst)
    if inst.proto.cholesky_options.lower:
        columns = _strided(factor, -1, 0)
        return Pair(_strided(columns, -2, 0), _strided(columns, -2, 1))
    rows = _strided(factor, -2, 0)
    return Pair(_strided(rows, -1, 0), -_strided(rows, -1, 1))


def triangular_solve(inst: Instruction, a: Pair, b: Pair) -> Pair:
    """Return X of op(A) X = B, or of X op(A) = B.

    With A = U D, op(A) is U D or its transpose, so D divides B before the system of U is solved, or
    the solution after it.
    """
    options = inst.proto.triangular_solve_options
    is_left, is_transposed = options.left_side, options.transpose_a in (_TRANSPOSE, _ADJOINT)
    if options.transpose_a == _TRANSPOSE:
        a = _conjugate(a)  # a transposed block is that of the adjoint
    axis = -2 if is_left else -1
    diagonal = None if options.unit_diagonal else _diagonal(a)
    if diagonal is not None:
        a = _divided(a, diagonal, -1)
        if is_transposed:
            diagonal = _conjugate(diagonal)
        if is_left == is_transposed:
            b = _divided(b, diagonal, axis)
    # the diagonal is 1 now, or is not read: its blocks are the identity
    a = Pair(a.real, _on_diagonal(a).select(0.0, a.imag))
    if not is_left:
        a = _conjugate(a)  # a row of B multiplies blocks from the left
    blocks, rows = _blocks(a), _interleaved(b, axis)
    view = plain(inst, "triangular-solve", rows.shape, [blocks.view, rows.view])
    view.proto.triangular_solve_options.CopyFrom(options)
    view.proto.triangular_solve_options.unit_diagonal = True
    solution = RealArray(view, inst)
    x = Pair(_strided(solution, axis, 0), _strided(solution, axis, 1))
    if diagonal is not None and is_left != is_transposed:
        x = _divided(x, diagonal, axis)
    return x


def _conjugate(z: Pair) -> Pair:
    return Pair(z.real, -z.imag)


def _divided(z: Pair, diagonal: Pair, axis: int) -> Pair:
    """Divide each row (axis -2) or column (axis -1) by an element of the diagonal."""
    sizes = z.real.shape.dimensions
    rank = len(sizes)
    axes = [*range(rank - 2), rank + axis]
    divisor = [
        RealArray(plain(z.source, "broadcast", z.real.shape, [view], dimensions=axes), z.source)
        for view in diagonal.views
    ]
    return BINARY["divide"](z, Pair(*divisor))


def _diagonal(z: Pair) -> Pair:
    is_diagonal = _on_diagonal(z)
    axis = len(z.real.shape.dimensions) - 1
    return Pair(
        *(reduced(is_diagonal.select(array, 0.0), "add", [axis]) for array in (z.real, z.imag))
    )


def _on_diagonal(z: Pair) -> RealArray:
    sizes = z.real.shape.dimensions
    rank, source = len(sizes), z.source
    shape = array_shape("s32", sizes)
    row, column = (
        RealArray(plain(source, "iota", shape, [], dimensions=[axis]), source)
        for axis in (rank - 2, rank - 1)
    )
    return row.compare("EQ", column)


def _blocks(z: Pair) -> RealArray:
    """Return the real matrices of twice the extent."""
    upper = _interleaved(Pair(z.real, -z.imag), -1)
    lower = _interleaved(Pair(z.imag, z.real), -1)
    return _interleaved(Pair(upper, lower), -2)


def _interleaved(z: Pair, axis: int) -> RealArray:
    """Return the elements of both arrays in turn along an axis (-1 or -2)."""
    source, element = z.source, z.real.shape.element
    sizes = list(z.real.shape.dimensions)
    position = len(sizes) + axis + 1  # of the axis that counts the two
    views = [
        plain(source, "reshape", array_shape(element, _inserted(sizes, position, 1)), [view])
        for view in z.views
    ]
    shape = array_shape(element, _inserted(sizes, position, 2))
    pairs = plain(source, "concatenate", shape, views, dimensions=[position])
    sizes[axis] *= 2
    return RealArray(plain(source, "reshape", array_shape(element, sizes), [pairs]), source)


def _inserted(sizes: Sequence[int], position: int, size: int) -> list[int]:
    return [*sizes[:position], size, *sizes[position:]]


def _strided(array: RealArray, axis: int, start: int) -> RealArray:
    """Return every second element of an axis (-1 or -2)."""
    return sliced(array, axis, start, array.shape.dimensions[axis], 2)
