"""Shapes of real arrays: slices, transposes, concatenations, and reductions along axes."""

from __future__ import annotations

from collections.abc import Sequence

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.instruction import Instruction
from hlo_tools.rewrite.emitting import constant, plain
from hlo_tools.types.element_types import ElementType
from hlo_tools.types.shape import array_shape
from neff.compiler.complex_pairs.arrays import RealArray

__all__ = [
    "combination", "joined", "padded", "reduced", "reshaped", "sliced", "spread", "transposed",
]  # fmt: skip


def _shaped(array: RealArray, opcode: str, sizes: Sequence[int], **fields: object) -> RealArray:
    shape = array_shape(array.shape.element, sizes)
    return RealArray(plain(array.source, opcode, shape, [array.view], **fields), array.source)


def reshaped(array: RealArray, sizes: Sequence[int]) -> RealArray:
    """Return the elements in another shape."""
    return array if array.shape.dimensions == tuple(sizes) else _shaped(array, "reshape", sizes)


def transposed(array: RealArray, order: Sequence[int]) -> RealArray:
    """Return the array with its axes in another order."""
    if list(order) == sorted(order):
        return array
    sizes = [array.shape.dimensions[axis] for axis in order]
    return _shaped(array, "transpose", sizes, dimensions=list(order))


def sliced(array: RealArray, axis: int, start: int, limit: int, stride: int = 1) -> RealArray:
    """Return the elements ``start`` to ``limit`` of an axis, which may count from the end."""
    sizes = list(array.shape.dimensions)
    bounds = [(0, size, 1) for size in sizes]
    if (start, limit, stride) == bounds[axis]:
        return array
    bounds[axis] = start, limit, stride
    sizes[axis] = -((start - limit) // stride)
    result = _shaped(array, "slice", sizes)
    for first, last, step in bounds:
        result.view.proto.slice_dimensions.add(start=first, limit=last, stride=step)
    return result


def joined(arrays: Sequence[RealArray], axis: int) -> RealArray:
    """Concatenate along an axis, which may count from the end; empty arrays are left out."""
    arrays = [array for array in arrays if array.shape.dimensions[axis]]
    sizes = list(arrays[0].shape.dimensions)
    sizes[axis] = sum(array.shape.dimensions[axis] for array in arrays)
    shape, views = array_shape(arrays[0].shape.element, sizes), [array.view for array in arrays]
    source, axis = arrays[0].source, axis % len(sizes)
    return RealArray(plain(source, "concatenate", shape, views, dimensions=[axis]), source)


def padded(array: RealArray, axis: int, size: int) -> RealArray:
    """Append zeros along an axis, which may count from the end."""
    sizes = list(array.shape.dimensions)
    if sizes[axis] == size:
        return array
    sizes[axis] = size - sizes[axis]
    zeros = constant(array.source, 0, array_shape(array.shape.element, sizes))
    return joined([array, RealArray(zeros, array.source)], axis)


def spread(array: RealArray, sizes: Sequence[int], axes: Sequence[int]) -> RealArray:
    """Broadcast to ``sizes``, the array's axes at ``axes``."""
    return _shaped(array, "broadcast", sizes, dimensions=list(axes))


def reduced(array: RealArray, opcode: str, axes: Sequence[int]) -> RealArray:
    """Combine the elements along axes: ``add``, or ``maximum`` of numbers that are not negative."""
    source, element = array.source, array.shape.element
    sizes = [size for axis, size in enumerate(array.shape.dimensions) if axis not in axes]
    views = [array.view, constant(source, 0, array_shape(element))]
    result = plain(source, "reduce", array_shape(element, sizes), views, dimensions=list(axes))
    result.set_called_computations([combination(source, element, opcode)])
    return RealArray(result, source)


def combination(source: Instruction, element: ElementType, opcode: str) -> Computation:
    """Add a computation that applies an operation to two numbers."""
    region = source.module.add_computation(f"{source.name}.{opcode}")
    scalar = array_shape(element)
    numbers = [region.add("parameter", scalar, [], parameter_number=index) for index in range(2)]
    region.set_root(region.add(opcode, scalar, numbers))
    return region
