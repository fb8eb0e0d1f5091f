"""Sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import one_axis, real_only, traced, xp
from hlo_tools.trace.graph import Node, Operand
from hlo_tools.trace.layout import copied

__all__ = ["sorted_with_places"]

S32 = np.dtype(np.int32)


def _sort(nodes: tuple[Node, ...], axis: int, direction: str = "LT") -> tuple[Node, ...]:
    """Operands sorted together by the first one, stably."""
    graph, shape = nodes[0].graph, nodes[0].shape
    dtypes = tuple(node.dtype for node in nodes)
    apply = (direction, *dtypes)
    options: dict[str, Any] = {"dimensions": (axis,), "is_stable": True, "apply": apply}
    if len(nodes) == 1:
        return (graph.emit("sort", shape, dtypes[0], nodes, **options),)
    both = graph.emit("sort", (shape,) * len(nodes), dtypes, nodes, **options)
    return tuple(
        graph.emit("get-tuple-element", shape, dtype, (both,), tuple_index=i)
        for i, dtype in enumerate(dtypes)
    )


def sorted_with_places(node: Node, axis: int, *, descending: bool = False) -> tuple[Node, Node]:
    """The elements in order along ``axis``, and where each came from."""
    places = hlo.iota(node.graph, node.shape, axis)
    values, order = _sort((node, places), axis, "GT" if descending else "LT")
    return values, order


@implements(np.sort)
def sort(
    a: Operand, axis: Any = -1, kind: Any = None, order: Any = None, **kwargs: Any
) -> TracedArray:
    array = traced(a)
    array = real_only(array, "sort")
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if axis is None:
        array, axis = xp.ravel(array), -1
    place = one_axis(axis, array.ndim)
    layout = copied(array.shape, array.layout, "K")
    return TracedArray(_sort((array.node,), place)[0] if array.size else array.node, layout)


@implements(np.argsort)
def argsort(
    a: Operand, axis: Any = -1, kind: Any = None, order: Any = None, **kwargs: Any
) -> TracedArray:
    array = real_only(traced(a), "argsort")
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if axis is None or (not array.ndim and axis in (0, -1)):
        array, axis = xp.ravel(array), -1
    if not array.size:
        one_axis(axis, array.ndim)
        return TracedArray(hlo.full(array.node.graph, array.shape, 0, S32))
    return TracedArray(sorted_with_places(array.node, one_axis(axis, array.ndim))[1])
