"""Several arrays into one, and one into several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, graph_of
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import deliver, nodes_of, one_axis, traced, xp

__all__: list[str] = []


@implements(np.concatenate)
def concatenate(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> TracedArray:
    values = list(arrays)
    nodes = nodes_of(values, dtype)
    if axis is None:
        nodes = [hlo.reshape(node, (int(np.prod(node.shape)),)) for node in nodes]
        axis = 0
    first = nodes[0].shape
    if not first:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    place = one_axis(axis, len(first))
    for number, node in enumerate(nodes):
        if len(node.shape) != len(first) or any(
            a != b for i, (a, b) in enumerate(zip(first, node.shape, strict=True)) if i != place
        ):
            raise ValueError(
                f"all the input array dimensions except for the concatenation axis must match "
                f"exactly, but array 0 has shape {first} and array {number} {node.shape}"
            )
    return deliver(TracedArray(hlo.concatenate(nodes, place)), out)


@implements(np.stack)
def stack(
    arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> TracedArray:
    values = list(arrays)
    if len({np.shape(value) for value in values}) != 1:
        raise ValueError("all input arrays must have the same shape")
    place = one_axis(axis, np.ndim(values[0]) + 1)
    nodes = nodes_of(values, dtype)
    shape = nodes[0].shape
    widened = [hlo.reshape(node, (*shape[:place], 1, *shape[place:])) for node in nodes]
    return deliver(TracedArray(hlo.concatenate(widened, place)), out)


def _stacked(rank: Callable[..., Any], axis: Callable[[int], int]) -> Callable[..., TracedArray]:
    def function(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> TracedArray:
        values = list(tup)
        parts = [rank(traced(value, values)) for value in values]
        return concatenate(parts, axis(parts[0].ndim), dtype=dtype)

    return function


implements(np.vstack)(_stacked(np.atleast_2d, lambda rank: 0))
implements(np.hstack)(_stacked(np.atleast_1d, lambda rank: 0 if rank == 1 else 1))
implements(np.dstack)(_stacked(np.atleast_3d, lambda rank: 2))
implements(np.column_stack)(
    _stacked(lambda array: array[:, None] if array.ndim == 1 else array, lambda rank: 1)
)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> TracedArray:
    if axis is None:
        return concatenate([xp.ravel(arr), xp.ravel(values)])
    return concatenate([arr, values], axis)


@implements(np.split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    array = traced(ary)
    if isinstance(indices_or_sections, (int, np.integer)):
        size = array.shape[one_axis(axis, array.ndim)]
        if size % int(indices_or_sections):
            raise ValueError("array split does not result in an equal division")
    return array_split(array, indices_or_sections, axis)


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[TracedArray]:
    array = traced(ary)
    place = one_axis(axis, array.ndim)
    size = array.shape[place]
    cuts = _cuts(indices_or_sections, size)
    parts = []
    for start, stop in zip([0, *cuts], [*cuts, size], strict=True):
        key = tuple(slice(start, stop) if i == place else slice(None) for i in range(array.ndim))
        parts.append(array[key])
    return parts


def _cuts(sections: Any, size: int) -> list[int]:
    if not isinstance(sections, (int, np.integer)):
        return [int(cut) for cut in sections]
    if sections <= 0:
        raise ValueError("number sections must be larger than 0.")
    small, larger = divmod(size, int(sections))
    sizes = [small + 1] * larger + [small] * (int(sections) - larger)
    return np.cumsum(sizes)[:-1].tolist()


def _split_along(choose: Callable[[int], int]) -> Callable[..., list[TracedArray]]:
    return lambda ary, sections: split(ary, sections, choose(np.ndim(ary)))


implements(np.hsplit)(_split_along(lambda rank: 0 if rank == 1 else 1))
implements(np.vsplit)(_split_along(lambda rank: 0))
implements(np.dsplit)(_split_along(lambda rank: 2))


@implements(np.meshgrid)
def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> Sequence[TracedArray]:
    rank = len(xi)
    graph_of(xi)
    places = list(range(rank))
    if indexing == "xy" and rank > 1:
        places[:2] = [1, 0]
    grids = []
    for value, place in zip(xi, places, strict=True):
        array = traced(value, xi)
        grids.append(array.reshape(tuple(-1 if i == place else 1 for i in range(rank))))
    return tuple(grids) if sparse else xp.broadcast_arrays(*grids)
