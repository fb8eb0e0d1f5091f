"""Choosing elements: where, clip, take, rounding, comparisons with tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.trace import indexing
from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, as_node, graph_of, kind_of
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import deliver, one_axis, traced, unsupported, xp
from hlo_tools.trace.promotion import promote

__all__: list[str] = []

BOOL = np.dtype(bool)


@implements(np.where)
def where(condition: Any, x: Any = np._NoValue, y: Any = np._NoValue) -> TracedArray:
    if x is np._NoValue or y is np._NoValue:
        raise unsupported(
            "where(condition) gives as many indices as there are true elements",
            "use where(condition, x, y)",
        )
    graph = graph_of((condition, x, y))
    dtype = promote((kind_of(x), kind_of(y)))
    mask = as_node(condition, graph, BOOL)
    yes, no = as_node(x, graph, dtype), as_node(y, graph, dtype)
    shape = np.broadcast_shapes(mask.shape, yes.shape, no.shape)
    return TracedArray(hlo.select(*(hlo.broadcast(node, shape) for node in (mask, yes, no))))


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> TracedArray:
    result = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        result = where(condition, choice, result)
    return result


@implements(np.clip)
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *,
    min: Any = None, max: Any = None, **kwargs: Any,
) -> TracedArray:  # fmt: skip
    low = a_min if a_min is not None and a_min is not np._NoValue else min
    high = a_max if a_max is not None and a_max is not np._NoValue else max
    result: Any = traced(a, (low, high))
    if low is not None and low is not np._NoValue:
        result = xp.maximum(result, low)
    if high is not None and high is not np._NoValue:
        result = xp.minimum(result, high)
    return deliver(TracedArray(result.node), out)


@implements(np.round, np.around)
def round_(a: Any, decimals: int = 0, out: Any = None) -> TracedArray:
    array = traced(a)
    if array.dtype.kind in "biu" and decimals >= 0:
        return deliver(TracedArray(array.node), out)
    if not decimals:
        return deliver(xp.rint(array), out)
    scale = 10.0 ** abs(decimals)
    work = array.astype(np.float32) if array.dtype.kind in "iu" else array
    scaled = work * scale if decimals > 0 else work / scale
    rounded = xp.rint(scaled)
    back = rounded / scale if decimals > 0 else rounded * scale
    return deliver(back.astype(array.dtype), out)


@implements(np.fix)
def fix(x: Any, out: Any = None) -> TracedArray:
    return deliver(xp.trunc(x), out)


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> TracedArray:
    array = traced(x)
    if array.dtype.kind in "biu":
        return array
    limits = np.finfo(array.dtype) if array.dtype.kind == "f" else None
    import ml_dtypes

    largest = float((limits or ml_dtypes.finfo(array.dtype)).max)
    result = where(xp.isnan(array), nan, array)
    result = where(array == np.inf, largest if posinf is None else posinf, result)
    result = where(array == -np.inf, -largest if neginf is None else neginf, result)
    return result.astype(array.dtype)


@implements(np.isclose)
def isclose(
    a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> TracedArray:
    near = xp.abs(xp.subtract(a, b)) <= atol + rtol * xp.abs(b)
    close = xp.where(xp.isfinite(b), near & xp.isfinite(a), xp.equal(a, b))
    return close | (xp.isnan(a) & xp.isnan(b)) if equal_nan else close


@implements(np.allclose)
def allclose(a: Any, b: Any, *args: Any, **kwargs: Any) -> TracedArray:
    return xp.all(isclose(a, b, *args, **kwargs))


@implements(np.real)
def real(val: Any) -> TracedArray:
    array = traced(val)
    if array.dtype.kind != "c":
        return array
    return TracedArray(hlo.elementwise("real", array.node, dtype=np.dtype(np.float32)))


@implements(np.imag)
def imag(val: Any) -> TracedArray:
    array = traced(val)
    if array.dtype.kind != "c":
        return xp.zeros_like(array)
    return TracedArray(hlo.elementwise("imag", array.node, dtype=np.dtype(np.float32)))


@implements(np.take)
def take(
    a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise"
) -> TracedArray:
    """As indexing along one axis; traced indices out of bounds are clipped."""
    array = traced(a, indices)
    if axis is None:
        array, axis = xp.ravel(array), 0
    place = one_axis(axis, array.ndim)
    if mode == "wrap":
        indices = xp.remainder(indices, array.shape[place])
    elif mode == "clip":
        indices = xp.clip(indices, 0, array.shape[place] - 1)
    chosen = indices if isinstance(indices, TracedArray) else np.asarray(indices)
    key = (*(slice(None),) * place, chosen)
    return deliver(indexing.get(array, key), out)


def _along_axis(array: TracedArray, indices: Any, axis: int) -> tuple[Any, ...]:
    """An index for every dimension, that of ``axis`` being ``indices``."""
    graph = array.node.graph
    shape = tuple(
        max(a, b) if i != axis else b
        for i, (a, b) in enumerate(zip(array.shape, np.shape(indices), strict=True))
    )
    return tuple(
        traced(indices, array) if i == axis else TracedArray(hlo.iota(graph, shape, i))
        for i in range(array.ndim)
    )


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> TracedArray:
    array = traced(arr, indices)
    if axis is None:
        array, axis = xp.ravel(array), 0
    if np.ndim(indices) != array.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return indexing.get(array, _along_axis(array, indices, one_axis(axis, array.ndim)))


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    if axis is None:
        put_along_axis(xp.ravel(arr), indices, values, 0)
        return
    array = traced(arr)
    key = _along_axis(array, indices, one_axis(axis, array.ndim))
    indexing.put(array, key, values)
