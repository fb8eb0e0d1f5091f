"""Running sums and differences along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import NO_VALUE, deliver, one_axis, traced, xp
from hlo_tools.trace.functions.reductions import F32, dtype_with, is_narrow_float, sum_dtype
from hlo_tools.trace.graph import Node, Operand
from hlo_tools.trace.narrowing import tell_of_total

__all__: list[str] = []


def _scan(node: Node, axis: int, opcode: str, neutral: complex) -> Node:
    """Combine each element with all before it: in NumPy's order where that decides on roundings and
    on what overflows, else in log2(size) steps of doubling distance."""
    size = node.shape[axis]
    if node.dtype.kind in "fc" and size > 1 and 0 not in node.shape:
        return hlo.running(node, neutral, axis, opcode)
    distance = 1
    while distance < size:
        node = hlo.elementwise(opcode, node, _shifted(node, axis, distance, neutral))
        distance *= 2
    return node


def _shifted(node: Node, axis: int, distance: int, neutral: complex) -> Node:
    """Each element's neighbour ``distance`` before it; a neutral one at the front."""
    low = [distance if i == axis else 0 for i in range(len(node.shape))]
    high = [-distance if i == axis else 0 for i in range(len(node.shape))]
    return hlo.pad(node, hlo.constant(node.graph, neutral, node.dtype), low, high)


def _running(opcode: str, neutral: int) -> Callable[..., TracedArray]:
    def function(a: Operand, axis: Any = None, dtype: Any = None, out: Any = None) -> TracedArray:
        array = traced(a, out)
        work = xp.ravel(array) if axis is None or not array.ndim else array
        dtype = dtype_with(array, out) if dtype is None else dtype
        target = sum_dtype(array, dtype)
        wide = F32 if is_narrow_float(target) else target
        scanned_axis = one_axis(0 if axis is None else axis, work.ndim)
        name = "cumsum" if opcode == "add" else "cumprod"
        count, product = work.shape[scanned_axis], name == "cumprod"
        tell_of_total(array.node.graph, name, array.dtype, dtype, count, product=product)
        used = opcode if wide.kind != "b" else "or" if opcode == "add" else "and"
        none = neutral or {"f": -0.0, "c": complex(-0.0, -0.0)}.get(wide.kind, 0)  # -0.0 + -0.0
        converted = hlo.convert(hlo.convert(work.node, target), wide)
        node = _scan(converted, scanned_axis, used, none)
        return deliver(TracedArray(hlo.convert(node, target)), out, "unsafe")

    return function


implements(np.cumsum)(_running("add", 0))
implements(np.cumprod)(_running("multiply", 1))


@implements(np.diff)
def diff(
    a: Operand, n: int = 1, axis: int = -1, prepend: Any = NO_VALUE, append: Any = NO_VALUE
) -> TracedArray:
    """Differences of neighbours, ``n`` times; of booleans, whether they differ."""
    array = traced(a, (prepend, append))
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    if not array.ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    axis_index = one_axis(axis, array.ndim)
    for _ in range(n):
        array = _with_boundaries(array, axis_index, prepend, append)
        prepend = append = NO_VALUE
        size = array.shape[axis_index]
        later, earlier = _part(array, axis_index, 1, size), _part(array, axis_index, 0, size - 1)
        array = xp.not_equal(later, earlier) if array.dtype == bool else xp.subtract(later, earlier)
    return array


def _with_boundaries(array: TracedArray, axis: int, prepend: Any, append: Any) -> TracedArray:
    parts: list[Any] = [array]
    for value, location in ((prepend, 0), (append, len(parts) + 1)):
        if value is NO_VALUE:
            continue
        if np.ndim(value) == 0:
            shape = tuple(1 if i == axis else size for i, size in enumerate(array.shape))
            value = xp.broadcast_to(traced(value, array), shape)
        parts.insert(location, value)
    return array if len(parts) == 1 else xp.concatenate(parts, axis=axis)


def _part(array: TracedArray, axis: int, start: int, stop: int) -> TracedArray:
    key = tuple(slice(start, stop) if i == axis else slice(None) for i in range(array.ndim))
    return array[key]
