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
"""Up to so many elements are reduced in order; more of them in pairs, as XLA may."""


def reduced(name: str, values: Array, init: Array, axes: tuple[int, ...]) -> Array:
    """Elements along axes taken together from ``init`` on, which NumPy would begin with 0."""
    if not axes:
        return np.asarray(UFUNCS[name](values, init))
    found = np.asarray(UFUNCS[name].reduce(values, axis=axes, initial=init[()]))
    found = found.astype(values.dtype)
    if name in ("maximum", "minimum") and values.dtype.kind not in "biu":
        return _ordered_zeros(name, values, init, axes, found)
    return found


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
    name: str, values: Array, init: Array, axes: tuple[int, ...], found: Array
) -> Array:
    """The extremes that are zero, with the sign of IEEE's order: -0 is less than 0."""
    zeros = found == 0
    if not np.any(zeros):
        return found
    least = name == "minimum"
    wanted = ((values == 0) & (np.signbit(values) == least)).any(axis=axes)
    wanted |= (init == 0) & (np.signbit(init) == least)
    signed = np.where(wanted == least, -0.0, 0.0).astype(found.dtype)
    return np.where(zeros, signed, found)


def simple_reducer(call: Call, computation: int = 0) -> str:
    """The opcode of a reducer that is one operation on its two parameters, or ""."""
    body = call.evaluator.body(call.row.called_computation_ids[computation])
    rows = list(body.instructions)
    if len(rows) != 3 or sum(row.opcode == "parameter" for row in rows) != 2:
        return ""
    root = next(row for row in rows if row.opcode != "parameter")
    return root.opcode if root.opcode in UFUNCS and len(set(root.operand_ids)) == 2 else ""


def combine(call: Call, computation: int, first: list[Array], second: list[Array]) -> list[Array]:
    """The computation on arrays of one shape: all parameters, then all results."""
    number = call.row.called_computation_ids[computation]
    extents = first[0].shape
    if call.evaluator.is_elementwise(number):
        value = call.evaluator.computation(number, [*first, *second])
        return [np.broadcast_to(part, extents) for part in array_parts(value)]
    results: list[Array] | None = None
    for place in np.ndindex(*extents):
        value = call.apply(computation, [np.asarray(one[place]) for one in (*first, *second)])
        parts = array_parts(value)
        if results is None:
            results = [np.empty(extents, np.asarray(part).dtype) for part in parts]
        for result, part in zip(results, parts, strict=True):
            result[place] = part
    return results if results is not None else [np.empty(extents, one.dtype) for one in first]


def fold(call: Call, inputs: list[Array], inits: list[Array], axes: tuple[int, ...]) -> Value:
    """Reduce the dimensions ``axes``."""
    kept = [axis for axis in range(inputs[0].ndim) if axis not in axes]
    extents = [inputs[0].shape[axis] for axis in kept]
    count = int(np.prod([inputs[0].shape[axis] for axis in axes], dtype=np.int64))
    flat = [one.transpose([*axes, *kept]).reshape([count, *extents]) for one in inputs]
    totals = [np.broadcast_to(init, extents).astype(init.dtype) for init in inits]
    while flat[0].shape[0] > _ONE_BY_ONE:
        even = flat[0].shape[0] // 2 * 2
        pairs = combine(call, 0, [one[:even:2] for one in flat], [one[1:even:2] for one in flat])
        flat = [np.concatenate([pair, one[even:]]) for pair, one in zip(pairs, flat, strict=True)]
    for at in range(flat[0].shape[0]):
        totals = combine(call, 0, totals, [one[at] for one in flat])
    return totals[0] if len(totals) == 1 else tuple(totals)


def scatter_into(
    call: Call, computation: int, targets: list[Array], places: Array, updates: list[Array]
) -> None:
    """Combine ``updates`` one after the other into flat ``targets`` at ``places``, in place.

    Updates of one place are taken in their order; those of different places at once.
    """
    simple = simple_reducer(call, computation) if len(targets) == 1 else ""
    if simple and targets[0].dtype.kind in "iuf" and simple in ("maximum", "minimum", "add"):
        with np.errstate(over="ignore"):
            UFUNCS[simple].at(targets[0], places, updates[0])
        return
    order = np.argsort(places, kind="stable")
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))
    lengths = np.diff(starts, append=places.size)
    for round_ in range(int(lengths.max(initial=0))):  # the n-th update of every place
        chosen = order[starts[lengths > round_] + round_]
        spots = places[chosen]
        found = combine(
            call, computation, [one[spots] for one in targets], [one[chosen] for one in updates]
        )
        for target, value in zip(targets, found, strict=True):
            target[spots] = value
