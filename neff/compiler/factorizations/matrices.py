"""Operations on stacks of matrices: arrays of shape (matrices, rows, columns)."""

from __future__ import annotations

from hlo_tools.rewrite.emitting import plain
from hlo_tools.types.shape import array_shape
from neff.compiler.complex_pairs.arrays import RealArray
from neff.compiler.complex_pairs.shaping import reduced, transposed

__all__ = ["diagonal", "flipped", "identity", "product"]


def flipped(matrices: RealArray) -> RealArray:
    """Exchange rows and columns."""
    return transposed(matrices, [0, 2, 1])


def identity(array: RealArray) -> RealArray:
    """Return truth values: true on the diagonals of arrays of this shape."""
    sizes = array.shape.dimensions
    shape = array_shape("s32", sizes)
    rows, columns = (
        RealArray(plain(array.source, "iota", shape, [], dimensions=[axis]), array.source)
        for axis in (1, 2)
    )
    return rows.compare("EQ", columns)


def diagonal(array: RealArray) -> RealArray:
    """Return the diagonal of each square matrix: (matrices, rows)."""
    return reduced(identity(array).select(array, 0.0), "add", [2])


def product(left: RealArray, right: RealArray) -> RealArray:
    """Multiply the matrices of two stacks."""
    matrices, rows, _ = left.shape.dimensions
    shape = array_shape(left.shape.element, [matrices, rows, right.shape.dimensions[2]])
    result = plain(left.source, "dot", shape, [left.view, right.view])
    numbers = result.proto.dot_dimension_numbers
    numbers.lhs_batch_dimensions.append(0)
    numbers.rhs_batch_dimensions.append(0)
    numbers.lhs_contracting_dimensions.append(2)
    numbers.rhs_contracting_dimensions.append(1)
    return RealArray(result, left.source)
