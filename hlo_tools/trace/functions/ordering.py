"""Sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import one_axis, real_only, traced, xp
from hlo_tools.trace.graph import Node, Operand

__all__: list[str] = []

S32 = np.dtype(np.int32)


def _sort_together(nodes: tuple[Node, ...], axis: int) -> tuple[Node, ...]:
    """Operands sorted by the first one, stably, in total order."""
    graph, shape = nodes[0].graph, nodes[0].shape
    dtypes = tuple(node.dtype for node in nodes)
    options: dict[str, Any] = {"dimensions": (axis,), "is_stable": True, "apply": ("LT", *dtypes)}
    if len(nodes) == 1:
        return (graph.emit("sort", shape, dtypes[0], nodes, **options),)
    sorted_tuple = graph.emit("sort", (shape,) * len(nodes), dtypes, nodes, **options)
    return tuple(
        graph.emit("get-tuple-element", shape, dtype, (sorted_tuple,), tuple_index=i)
        for i, dtype in enumerate(dtypes)
    )


def _key(node: Node) -> Node:
    """Return keys whose total order is NumPy's: zeros of both signs are equal, every NaN is
    last.
    """
    if node.dtype.kind in "biu":
        return node
    zero = hlo.full(node.graph, node.shape, 0, node.dtype)
    nan = hlo.full(node.graph, node.shape, np.nan, node.dtype)
    one_zero = hlo.select(hlo.compare("EQ", node, zero), zero, node)
    return hlo.select(hlo.compare("NE", node, node), nan, one_zero)


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
    axis_index = one_axis(axis, array.ndim)
    if not array.size:
        return TracedArray(array.node)
    key = _key(array.node)
    nodes = (key,) if key is array.node else (key, array.node)
    return TracedArray(_sort_together(nodes, axis_index)[-1])


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
    axis_index = one_axis(axis, array.ndim)
    positions = hlo.iota(array.node.graph, array.shape, axis_index)
    return TracedArray(_sort_together((_key(array.node), positions), axis_index)[1])
