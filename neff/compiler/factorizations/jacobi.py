"""Eigenvectors of symmetric matrices, and singular vectors, by Jacobi's rotations.

A step rotates row i and row i + n/2 of a matrix for all i at once, so that a product of the two
vanishes: an element beside the diagonal for eigenvectors (Jacobi), the inner product of two columns for
singular vectors (Hestenes). Then all rows but the first move on by one place, like players of a
round-robin tournament, so that n - 1 steps, a sweep, rotate each pair of rows once and end with the
rows in their first order. Sweeps converge quadratically: after the first one that begins with small
products another one is enough.

    first half:   0  1  2  3        0  4  1  2
                  |  |  |  |   ->   |  |  |  |
    second half:  4  5  6  7        5  6  7  3
"""

from __future__ import annotations

from collections.abc import Callable

from hlo_tools.rewrite.emitting import constant
from hlo_tools.types.shape import array_shape
from neff.compiler.complex_pairs.arrays import RealArray
from neff.compiler.complex_pairs.shaping import joined, reduced, sliced, spread
from neff.compiler.factorizations.loops import State, repeat, repeat_while
from neff.compiler.factorizations.matrices import diagonal, flipped, identity, product

__all__ = ["diagonalized", "orthogonalized"]

MAX_SWEEPS = 15
"""Sweeps after which even matrices with equal eigenvalues have converged."""

CONVERGED_RATIO = 1e-4
"""Ratio of the products that vanish to the size of the matrix, in front of the last sweep."""


def diagonalized(matrix: RealArray) -> tuple[RealArray, RealArray]:
    """Return eigenvalues, and eigenvectors as rows, of symmetric matrices of even extents."""
    rows = matrix.shape.dimensions[1]

    def step(state: State) -> State:
        values, vectors = state
        half = rows // 2
        top, bottom = sliced(values, 1, 0, half), sliced(values, 1, half, rows)
        cosine, sine = _rotation(
            diagonal(sliced(top, 2, 0, half)),
            diagonal(sliced(bottom, 2, half, rows)),
            diagonal(sliced(top, 2, half, rows)),
        )
        values = _moved(_rotated(values, cosine, sine, 1), 1)
        values = _moved(_rotated(values, cosine, sine, 2), 2)
        return [values, _moved(_rotated(vectors, cosine, sine, 1), 1)]

    def off_diagonal(state: State) -> RealArray:
        values = state[0]
        return _largest(abs(identity(values).select(0.0, values)))

    ones = identity(matrix).add("convert", element=matrix.shape.element.name)
    values, vectors = _swept([matrix, ones], rows, step, off_diagonal)
    return diagonal(values), vectors


def orthogonalized(rows_of_matrix: RealArray) -> tuple[RealArray, RealArray]:
    """Rotate rows until they are orthogonal; return them, and the rotations as a matrix.

    Args:
        rows_of_matrix: of an even number, scaled so that the largest element is about 1.
    """
    matrices, rows, _ = rows_of_matrix.shape.dimensions

    def step(state: State) -> State:
        array, rotations = state
        top, bottom = sliced(array, 1, 0, rows // 2), sliced(array, 1, rows // 2, rows)
        cosine, sine = _rotation(
            reduced(top * top, "add", [2]),
            reduced(bottom * bottom, "add", [2]),
            reduced(top * bottom, "add", [2]),
        )
        return [_moved(_rotated(value, cosine, sine, 1), 1) for value in (array, rotations)]

    def inner_products(state: State) -> RealArray:
        products = product(state[0], flipped(state[0]))
        return _largest(abs(identity(products).select(0.0, products)))

    source = rows_of_matrix.source
    zeros = RealArray(
        constant(source, 0, array_shape(rows_of_matrix.shape.element, [matrices, rows, rows])),
        source,
    )
    ones = identity(zeros).add("convert", element=zeros.shape.element.name)
    array, rotations = _swept([rows_of_matrix, ones], rows, step, inner_products)
    return array, rotations


def _swept(
    state: State, rows: int, step: Callable[[State], State], remainder: Callable[[State], RealArray]
) -> State:
    """Sweep until the products that vanish were small in front of a sweep.

    Args:
        state: what the steps rotate.
        rows: of the matrices; a sweep has a step fewer.
        step: rotates each row with another one.
        remainder: the largest of the products that vanish.
    """
    source = state[0].source
    largest_product = RealArray(constant(source, 1.0, array_shape("f32")), source)
    counter = RealArray(constant(source, 0, array_shape("s32")), source)

    def sweep(arrays: State) -> State:
        count, _, *matrices = arrays
        return [count + 1, remainder(matrices), *repeat(count.source, matrices, rows - 1, step)]

    def is_unfinished(arrays: State) -> RealArray:
        return arrays[0].compare("LT", MAX_SWEEPS) & arrays[1].compare("GT", CONVERGED_RATIO)

    return repeat_while(source, [counter, largest_product, *state], is_unfinished, sweep)[2:]


def _largest(array: RealArray) -> RealArray:
    return reduced(array, "maximum", [0, 1, 2])


def _rotation(
    first: RealArray, second: RealArray, beside: RealArray
) -> tuple[RealArray, RealArray]:
    """Return cosine and sine of the rotation that makes ``beside`` zero (Rutishauser)."""
    tau = (second - first) / (beside + beside)
    root = (tau * tau + 1.0).add("sqrt")
    tangent = tau.compare("LT", 0.0).select(
        tau.filled(-1.0) / (root - tau), tau.filled(1.0) / (root + tau)
    )
    tangent = beside.compare("EQ", 0.0).select(0.0, tangent)
    cosine = tangent.filled(1.0) / (tangent * tangent + 1.0).add("sqrt")
    return cosine, tangent * cosine


def _rotated(array: RealArray, cosine: RealArray, sine: RealArray, axis: int) -> RealArray:
    """Rotate the first half of an axis with the second half."""
    length = array.shape.dimensions[axis]
    top, bottom = sliced(array, axis, 0, length // 2), sliced(array, axis, length // 2, length)
    c, s = (spread(vector, top.shape.dimensions, [0, axis]) for vector in (cosine, sine))
    return joined([c * top - s * bottom, s * top + c * bottom], axis)


def _moved(array: RealArray, axis: int) -> RealArray:
    """Let all elements of an axis but the first move on by one place."""
    length = array.shape.dimensions[axis]
    half = length // 2
    if half == 1:
        return array
    bounds = [(0, 1), (half, half + 1), (1, half - 1), (half + 1, length), (half - 1, half)]
    return joined([sliced(array, axis, *bound) for bound in bounds if bound[0] < bound[1]], axis)
