"""Bounded dynamic shapes, such as ``f32[<=8]``: an array has its current size, its shape the bound.

``set-dimension-size`` and ``dynamic-reshape`` create arrays that are smaller than their shapes.
Operations that work on the current size accept them; all others are refused, because they would
read elements that do not exist or compute the size of their result from the bound.
"""

from __future__ import annotations

import numpy as np

from hlo_tools.evaluate.operation import Call
from hlo_tools.evaluate.values import Array, undefined
from hlo_tools.types.opcodes import opcodes_of_kind

__all__ = ["check_current_sizes", "fits_bounds", "resized"]

_ELEMENTWISE = opcodes_of_kind("elementwise") | {"copy"}
"""Operations whose operands all have the size of the result."""

_WORK_ON_CURRENT_SIZE = frozenset(
    {"add-dependency", "after-all", "call", "conditional", "concatenate", "dynamic-reshape",
     "dynamic-update-slice", "fusion", "get-dimension-size", "get-tuple-element",
     "optimization-barrier", "parameter", "reduce", "reverse", "set-dimension-size", "transpose",
     "tuple", "while"}
)  # fmt: skip


def fits_bounds(array: Array, bounds: list[int], is_dynamic: list[bool]) -> bool:
    """Return True if an array has a shape's extents, or fewer elements in dynamic dimensions.

    Marks that are not as many as the bounds, as in a damaged file, count as none.
    """
    marks = is_dynamic if len(is_dynamic) == len(bounds) else [False] * len(bounds)
    return array.ndim == len(bounds) and all(
        size == bound or (dynamic and size < bound)
        for size, bound, dynamic in zip(array.shape, bounds, marks, strict=True)
    )


def check_current_sizes(call: Call) -> None:
    """Refuse an operation that does not support operands smaller than their bounds.

    Raises:
        EvaluationError: the operation is not supported, or elementwise operands differ in size.
    """
    is_smaller = [
        _is_smaller(call, number, operand)
        for number, operand in zip(call.row.operand_ids, call.operands, strict=False)
    ]
    if not any(is_smaller):
        return
    opcode = call.row.opcode
    if opcode in _ELEMENTWISE:
        sizes = {operand.shape for operand in call.operands if operand.shape}
        if len(sizes) > 1:
            text = " and ".join(str(list(size)) for size in sorted(sizes))
            raise call.fail(f"has operands whose current sizes differ: {text}")
    elif opcode == "dynamic-update-slice":
        _check_update(call)
    elif opcode not in _WORK_ON_CURRENT_SIZE:
        operand = call.operands[is_smaller.index(True)]
        raise call.fail(
            f"has an operand of {list(operand.shape)} elements, fewer than its bound; "
            "this operation is evaluated only for full sizes",
            remedy="run the module with static shapes",
        )


def _is_smaller(call: Call, number: int, operand: Array | None) -> bool:
    shape = call.evaluator.shape_of(number)
    return (
        isinstance(operand, np.ndarray)
        and shape is not None
        and any(shape.is_dynamic_dimension)
        and operand.shape != tuple(shape.dimensions)
    )


def _check_update(call: Call) -> None:
    """XLA moves an update that does not fit by the bound; here its place is the current size."""
    operand, update, *starts = call.operands
    for start, size, extent in zip(starts, update.shape, operand.shape, strict=True):
        if int(start) + size > extent:
            raise call.fail(
                f"writes up to element {int(start) + size} of {extent}: beyond the current size"
            )


def resized(call: Call, operand: Array, axis: int, size: int) -> Array:
    """Return the first ``size`` elements along an axis; elements beyond the array are undefined.

    Raises:
        EvaluationError: the size is negative or larger than the bound.
    """
    bound = call.extents[axis]
    if not 0 <= size <= bound:
        raise call.fail(f"sets the size {size}, which is not between 0 and its bound {bound}")
    current = operand.shape[axis]
    if size <= current:
        return operand[(*[slice(None)] * axis, slice(size))]
    extents = [*operand.shape[:axis], size - current, *operand.shape[axis + 1 :]]
    return np.concatenate([operand, undefined(extents, operand.dtype)], axis)
