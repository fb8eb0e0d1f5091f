"""Operations on stacks of matrices: arrays of shape (matrices, rows, columns)."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_tools.ir.computation import Computation
from hlo_tools.rewrite.emitting import constant, plain
from hlo_tools.types.shape import array_shape
from neff.compiler.complex_pairs.arrays import RealArray

__all__ = [
    "diagonal", "identity", "joined", "padded", "product", "reduced", "reshaped", "sliced",
    "spread", "transposed",
]  # fmt: skip


def _shaped(array: RealArray, opcode: str, sizes: Sequence[int], **fields: object) -> RealArray:
    shape = array_shape(array.shape.element, sizes)
    return RealArray(plain(array.source, opcode, shape, [array.view], **fields), array.source)


def reshaped(array: RealArray, sizes: Sequence[int]) -> RealArray:
    """Return the elements in another shape."""
    return array if array.shape.dimensions == tuple(sizes) else _shaped(array, "reshape", sizes)


def transposed(array: RealArray) -> RealArray:
    """Exchange rows and columns."""
    matrices, rows, columns = array.shape.dimensions
    return _shaped(array, "transpose", [matrices, columns, rows], dimensions=[0, 2, 1])


def sliced(array: RealArray, axis: int, start: int, limit: int) -> RealArray:
    """Return the elements ``start`` to ``limit`` of an axis."""
    sizes = list(array.shape.dimensions)
    bounds = [(0, size) for size in sizes]
    bounds[axis] = start, limit
    sizes[axis] = limit - start
    result = _shaped(array, "slice", sizes)
    for first, last in bounds:
        result.view.proto.slice_dimensions.add(start=first, limit=last, stride=1)
    return result


def joined(arrays: Sequence[RealArray], axis: int) -> RealArray:
    """Concatenate along an axis; empty arrays are left out."""
    arrays = [array for array in arrays if array.shape.dimensions[axis]]
    sizes = list(arrays[0].shape.dimensions)
    sizes[axis] = sum(array.shape.dimensions[axis] for array in arrays)
    shape, views = array_shape(arrays[0].shape.element, sizes), [array.view for array in arrays]
    source = arrays[0].source
    return RealArray(plain(source, "concatenate", shape, views, dimensions=[axis]), source)


def padded(array: RealArray, axis: int, size: int) -> RealArray:
    """Append zeros along an axis."""
    sizes = list(array.shape.dimensions)
    if sizes[axis] == size:
        return array
    sizes[axis] = size - sizes[axis]
    element = array.shape.element
    zeros = constant(array.source, 0, array_shape(element, sizes))
    return joined([array, RealArray(zeros, array.source)], axis)


def spread(array: RealArray, sizes: Sequence[int], axes: Sequence[int]) -> RealArray:
    """Broadcast to ``sizes``, the array's axes at ``axes``."""
    return _shaped(array, "broadcast", sizes, dimensions=list(axes))


def reduced(array: RealArray, opcode: str, axes: Sequence[int]) -> RealArray:
    """Combine the elements along axes: ``add``, or ``maximum`` of numbers that are not negative."""
    element = array.shape.element
    region = _combination(array, opcode)
    sizes = [size for axis, size in enumerate(array.shape.dimensions) if axis not in axes]
    start = constant(array.source, 0, array_shape(element))
    views = [array.view, start]
    result = plain(
        array.source, "reduce", array_shape(element, sizes), views, dimensions=list(axes)
    )
    result.set_called_computations([region])
    return RealArray(result, array.source)


def _combination(array: RealArray, opcode: str) -> Computation:
    region = array.source.module.add_computation(f"{array.source.name}.{opcode}")
    scalar = array_shape(array.shape.element)
    numbers = [region.add("parameter", scalar, [], parameter_number=index) for index in range(2)]
    region.set_root(region.add(opcode, scalar, numbers))
    return region


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
