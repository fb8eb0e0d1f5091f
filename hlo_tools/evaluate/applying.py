"""Computations of scalars applied to arrays: element by element, at once where that is possible."""

from __future__ import annotations

import numpy as np

from hlo_tools.evaluate.operation import Call
from hlo_tools.evaluate.values import Array, Value, array_parts

__all__ = ["UFUNCS", "combine", "fold", "in_order", "reduced", "scatter_into", "simple_reducer"]

UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_ONE_BY_ONE = 4096
"""Up to this many elements are reduced in order; more are reduced in pairs, as XLA may do."""


def reduced(name: str, values: Array, init: Array, axes: tuple[int, ...]) -> Array:
    """Elements along axes taken together from ``init`` on, which NumPy would begin with 0."""
    if not axes:
        return np.asarray(UFUNCS[name](values, init))
    result = np.asarray(UFUNCS[name].reduce(values, axis=axes, initial=init[()]))
    result = result.astype(values.dtype)
    if name in ("maximum", "minimum") and values.dtype.kind not in "biu":
        return _ordered_zeros(name, values, init, axes, result)
    return result


def in_order(name: str, values: Array) -> Array:
    """The same elements in the order of their indices in memory, in which NumPy adds them up.

    Only roundings depend on the order, so other values stay as they are; and what a broadcast
    repeats, which would take the memory of all of its elements.
    """
    if name not in ("add", "multiply") or values.dtype.kind in "biu":
        return values
    repeats = any(
        not stride and size > 1 for stride, size in zip(values.strides, values.shape, strict=True)
    )
    return values if repeats else np.ascontiguousarray(values).reshape(values.shape)


def _ordered_zeros(
    name: str, values: Array, init: Array, axes: tuple[int, ...], extremes: Array
) -> Array:
    """Return the extremes with zeros signed by IEEE's order: -0 is less than 0."""
    zeros = extremes == 0
    if not np.any(zeros):
        return extremes
    least = name == "minimum"
    is_wanted_zero = ((values == 0) & (np.signbit(values) == least)).any(axis=axes)
    is_wanted_zero |= (init == 0) & (np.signbit(init) == least)
    signed = np.where(is_wanted_zero == least, -0.0, 0.0).astype(extremes.dtype)
    return np.where(zeros, signed, extremes)


def simple_reducer(call: Call, computation: int = 0) -> str:
    """The opcode of a reducer that is one operation on its two parameters, or ""."""
    body = call.evaluator.body(call.row.called_computation_ids[computation])
    rows = list(body.instructions)
    if len(rows) != 3 or sum(row.opcode == "parameter" for row in rows) != 2:
        return ""
    root = next(row for row in rows if row.opcode != "parameter")
    return root.opcode if root.opcode in UFUNCS and len(set(root.operand_ids)) == 2 else ""


def combine(call: Call, computation: int, first: list[Array], second: list[Array]) -> list[Array]:
    """Apply the computation to arrays of one shape: all parameters, then all results."""
    number = call.row.called_computation_ids[computation]
    extents = first[0].shape
    if call.evaluator.is_elementwise(number):
        value = call.evaluator.computation(number, [*first, *second])
        return [np.broadcast_to(result_part, extents) for result_part in array_parts(value)]
    results: list[Array] | None = None
    for location in np.ndindex(*extents):
        value = call.apply(
            computation, [np.asarray(operand[location]) for operand in (*first, *second)]
        )
        parts = array_parts(value)
        if results is None:
            results = [np.empty(extents, np.asarray(result_part).dtype) for result_part in parts]
        for result, result_part in zip(results, parts, strict=True):
            result[location] = result_part
    return (
        results if results is not None else [np.empty(extents, operand.dtype) for operand in first]
    )


def fold(call: Call, inputs: list[Array], inits: list[Array], axes: tuple[int, ...]) -> Value:
    """Reduce the dimensions ``axes``."""
    result_axes = [axis for axis in range(inputs[0].ndim) if axis not in axes]
    extents = [inputs[0].shape[axis] for axis in result_axes]
    count = int(np.prod([inputs[0].shape[axis] for axis in axes], dtype=np.int64))
    flat = [
        operand.transpose([*axes, *result_axes]).reshape([count, *extents]) for operand in inputs
    ]
    totals = [np.broadcast_to(init, extents).astype(init.dtype) for init in inits]
    while flat[0].shape[0] > _ONE_BY_ONE:
        even = flat[0].shape[0] // 2 * 2
        pairs = combine(
            call, 0, [operand[:even:2] for operand in flat], [operand[1:even:2] for operand in flat]
        )
        flat = [
            np.concatenate([pair, operand[even:]])
            for pair, operand in zip(pairs, flat, strict=True)
        ]
    for index in range(flat[0].shape[0]):
        totals = combine(call, 0, totals, [operand[index] for operand in flat])
    return totals[0] if len(totals) == 1 else tuple(totals)


def scatter_into(
    call: Call, computation: int, targets: list[Array], positions: Array, updates: list[Array]
) -> None:
    """Combine ``updates`` one after the other into flat ``targets`` at ``positions``, in place.

    Updates of one location are applied in their order; different locations at once.
    """
    simple = simple_reducer(call, computation) if len(targets) == 1 else ""
    if simple and targets[0].dtype.kind in "iuf" and simple in ("maximum", "minimum", "add"):
        with np.errstate(over="ignore"):
            UFUNCS[simple].at(targets[0], positions, updates[0])
        return
    order = np.argsort(positions, kind="stable")
    starts = np.flatnonzero(np.diff(positions[order], prepend=-1))
    lengths = np.diff(starts, append=positions.size)
    for round_ in range(int(lengths.max(initial=0))):  # the n-th update of every place
        chosen = order[starts[lengths > round_] + round_]
        spots = positions[chosen]
        combined = combine(
            call,
            computation,
            [array[spots] for array in targets],
            [array[chosen] for array in updates],
        )
        for target, value in zip(targets, combined, strict=True):
            target[spots] = value
