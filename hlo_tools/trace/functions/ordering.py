"""Sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import one_axis, traced, xp
from hlo_tools.trace.graph import Node

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
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, **kwargs: Any) -> TracedArray:
    array = traced(a)
    if axis is None:
        array, axis = xp.ravel(array), -1
    return TracedArray(_sort((array.node,), one_axis(axis, array.ndim))[0])


@implements(np.argsort)
def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, **kwargs: Any
) -> TracedArray:
    array = traced(a)
    if axis is None:
        array, axis = xp.ravel(array), -1
    return TracedArray(sorted_with_places(array.node, one_axis(axis, array.ndim))[1])
