"""Several arrays into one, and one into several."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import NUMBERS, TracedArray, graph_of, kind_of
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import deliver, nodes_of, one_axis, traced, xp
from hlo_tools.trace.graph import Operand
from hlo_tools.trace.narrowing import tell_of_promotion
from hlo_tools.trace.promotion import promoted

__all__: list[str] = []


@implements(np.concatenate)
def concatenate(
    arrays: Operand,
    axis: Any = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> TracedArray:
    values = list(arrays)
    if dtype is not None and out is not None:
        raise TypeError("concatenate() only takes `out` or `dtype` as an argument, not both.")
    target = _checked(values, dtype, casting, is_flat=axis is None)
    if axis is None and target is None:
        kinds = tuple(kind_of(value) for value in values)
        target = promoted(kinds)
        tell_of_promotion(graph_of(values), kinds)
    nodes = nodes_of(values, target)
    if axis is None:
        nodes = [hlo.reshape(node, (math.prod(node.shape),)) for node in nodes]
        axis = 0
    first = nodes[0].shape
    if not first:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    joined_axis = one_axis(axis, len(first))
    for number, node in enumerate(nodes):
        if len(node.shape) != len(first) or any(
            a != b
            for i, (a, b) in enumerate(zip(first, node.shape, strict=True))
            if i != joined_axis
        ):
            raise ValueError(
                f"all the input array dimensions except for the concatenation axis must match "
                f"exactly, but array 0 has shape {first} and array {number} {node.shape}"
            )
    node = hlo.concatenate(nodes, joined_axis)
    return deliver(TracedArray(node), out, casting)


def _checked(values: list[Any], dtype: Any, casting: Any, *, is_flat: bool = False) -> Any:
    """The dtype that is asked for, after NumPy's check that all values may be cast to it.

    Where all is flattened (``axis=None``), a Python number fits any dtype of its kind.
    """
    target: Any = dtype
    for value in values if dtype is not None else ():
        if is_flat and isinstance(value, NUMBERS):
            np.concatenate((value,), None, dtype=target, casting=casting)  # or NumPy's error
            continue
        source = np.asarray(value).dtype if not isinstance(value, TracedArray) else value.dtype
        if not np.can_cast(source, target, casting):
            raise TypeError(f"Cannot cast array data from {source!r} to {np.dtype(dtype)!r}")
    return None if dtype is None else np.dtype(dtype)


@implements(np.stack)
def stack(
    arrays: Operand,
    axis: int = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> TracedArray:
    values = list(arrays)
    if len({np.shape(value) for value in values}) != 1:
        raise ValueError("all input arrays must have the same shape")
    axis_index = one_axis(axis, np.ndim(values[0]) + 1)
    widened = [xp.expand_dims(traced(value, values), axis_index) for value in values]
    return concatenate(widened, axis_index, out, dtype=dtype, casting=casting)


def _stacked(rank: Callable[..., Any], axis: Callable[[int], int]) -> Callable[..., TracedArray]:
    def function(tup: Operand, *, dtype: Any = None, casting: str = "same_kind") -> TracedArray:
        values = list(tup)
        parts = [rank(traced(value, values)) for value in values]
        return concatenate(parts, axis(parts[0].ndim), dtype=dtype, casting=casting)

    return function


def _as_column(array: TracedArray) -> TracedArray:
    return xp.atleast_2d(array).T if array.ndim < 2 else array


implements(np.vstack)(_stacked(np.atleast_2d, lambda rank: 0))
implements(np.hstack)(_stacked(np.atleast_1d, lambda rank: 0 if rank == 1 else 1))
implements(np.dstack)(_stacked(np.atleast_3d, lambda rank: 2))
implements(np.column_stack)(_stacked(_as_column, lambda rank: 1))


@implements(np.append)
def append(arr: Operand, values: Operand, axis: Any = None) -> TracedArray:
    if axis is None:
        return concatenate([xp.ravel(arr), xp.ravel(values)])
    return concatenate([arr, values], axis)


@implements(np.split)
def split(ary: Operand, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    array = traced(ary)
    if isinstance(indices_or_sections, (int, np.integer)):
        size = array.shape[one_axis(axis, array.ndim)]
        if size % operator.index(cast("int", indices_or_sections)):
            raise ValueError("array split does not result in an equal division")
    return array_split(array, indices_or_sections, axis)


@implements(np.array_split)
def array_split(ary: Operand, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    array = traced(ary)
    axis_index = one_axis(axis, array.ndim)
    size = array.shape[axis_index]
    cuts = _cuts(indices_or_sections, size)
    parts: list[TracedArray] = []
    for start, stop in zip([0, *cuts], [*cuts, size], strict=True):
        key = tuple(
            slice(start, stop) if i == axis_index else slice(None) for i in range(array.ndim)
        )
        parts.append(array[key])
    return parts


def _cuts(sections: Any, size: int) -> list[int]:
    if not isinstance(sections, (int, np.integer)):
        return [int(cut) for cut in sections]
    if sections <= 0:
        raise ValueError("number sections must be larger than 0.")
    count = operator.index(cast("int", sections))
    small, larger = divmod(size, count)
    sizes = [small + 1] * larger + [small] * (count - larger)
    return np.cumsum(sizes)[:-1].tolist()


def _split_along(
    name: str, least: int, choose: Callable[[int], int]
) -> Callable[..., list[TracedArray]]:
    def function(ary: Operand, indices_or_sections: Any) -> list[TracedArray]:
        if np.ndim(ary) < least:
            raise ValueError(f"{name} only works on arrays of {least} or more dimensions")
        return split(ary, indices_or_sections, choose(np.ndim(ary)))

    return function


implements(np.hsplit)(_split_along("hsplit", 1, lambda rank: 0 if rank == 1 else 1))
implements(np.vsplit)(_split_along("vsplit", 2, lambda rank: 0))
implements(np.dsplit)(_split_along("dsplit", 3, lambda rank: 2))


@implements(np.meshgrid)
def meshgrid(
    *xi: Operand, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> Sequence[TracedArray]:
    rank = len(xi)
    graph_of(xi)
    positions = list(range(rank))
    if indexing == "xy" and rank > 1:
        positions[:2] = [1, 0]
    grids: list[TracedArray] = []
    for value, position in zip(xi, positions, strict=True):
        array = traced(value, xi)
        grids.append(array.reshape(tuple(-1 if i == position else 1 for i in range(rank))))
    views: Sequence[TracedArray] = grids if sparse else xp.broadcast_arrays(*grids)
    return tuple(xp.copy(grid, order="C") for grid in views) if copy else tuple(views)
