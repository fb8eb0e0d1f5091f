"""Sums, products, extremes, means, and what else makes one element of many."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, as_node
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import axes_of, deliver, traced, unsupported, xp
from hlo_tools.trace.graph import Node
from hlo_tools.trace.promotion import narrow

__all__: list[str] = []

BOOL = np.dtype(bool)
F32 = np.dtype(np.float32)


def _keep(node: Node, axes: tuple[int, ...], shape: tuple[int, ...], keepdims: Any) -> Node:
    """The reduced dimensions again, as ones, when ``keepdims`` is asked for."""
    if not keepdims or keepdims is np._NoValue:
        return node
    return hlo.reshape(node, tuple(1 if i in axes else size for i, size in enumerate(shape)))


def _masked(node: Node, where: Any, neutral: Any) -> Node:
    """Elements where ``where`` is false replaced by one that changes nothing."""
    if where is True or where is np._NoValue:
        return node
    mask = hlo.broadcast(as_node(where, node.graph, BOOL), node.shape)
    return hlo.select(mask, node, hlo.full(node.graph, node.shape, neutral, node.dtype))


def _is_narrow_float(dtype: np.dtype[Any]) -> bool:
    return dtype.itemsize < 4 and dtype.kind not in "biu"


def _accumulated(node: Node, neutral: Any, axes: tuple[int, ...], opcode: str) -> Node:
    """Reduce; 8 and 16-bit floats are added up in float32 and rounded once."""
    dtype = node.dtype
    if not _is_narrow_float(dtype):
        return hlo.reduce(node, neutral, axes, opcode)
    return hlo.convert(hlo.reduce(hlo.convert(node, F32), neutral, axes, opcode), dtype)


def _sum_dtype(array: TracedArray, dtype: Any) -> np.dtype[Any]:
    """NumPy adds small integers and booleans up as platform integers; these are narrowed."""
    if dtype is not None:
        return narrow(dtype)
    kind = array.dtype.kind
    return np.dtype(np.int32) if kind in "bi" else np.dtype(np.uint32) if kind == "u" else array.dtype  # fmt: skip


def _adding(opcode: str, neutral: int) -> Callable[..., TracedArray]:
    def function(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = np._NoValue, where: Any = True,
    ) -> TracedArray:  # fmt: skip
        array = traced(a, where)
        node = _masked(hlo.convert(array.node, _sum_dtype(array, dtype)), where, neutral)
        axes = axes_of(axis, array.ndim)
        result = TracedArray(
            _keep(_accumulated(node, neutral, axes, opcode), axes, array.shape, keepdims)
        )
        if initial is not np._NoValue:
            result = (result + initial) if opcode == "add" else (result * initial)
            result = result.astype(node.dtype)
        return deliver(result, out)

    return function


implements(np.sum)(_adding("add", 0))
implements(np.prod)(_adding("multiply", 1))


def lowest(dtype: np.dtype[Any]) -> Any:
    """The value below all others: what a maximum starts from."""
    if dtype == BOOL:
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -math.inf


def highest(dtype: np.dtype[Any]) -> Any:
    """The value above all others."""
    if dtype == BOOL:
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else math.inf


def _extreme(opcode: str, start: Callable[[Any], Any]) -> Callable[..., TracedArray]:
    combine: Any = np.maximum if opcode == "maximum" else np.minimum
    boolean = "or" if opcode == "maximum" else "and"

    def function(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = np._NoValue, where: Any = True,
    ) -> TracedArray:  # fmt: skip
        array = traced(a, where)
        axes = axes_of(axis, array.ndim)
        if initial is np._NoValue and math.prod(array.shape[i] for i in axes) == 0:
            raise ValueError(
                f"zero-size array to reduction operation {opcode} which has no identity"
            )
        neutral = start(array.dtype)
        node = _masked(array.node, where, neutral)
        used = boolean if array.dtype == BOOL else opcode
        result = TracedArray(
            _keep(hlo.reduce(node, neutral, axes, used), axes, array.shape, keepdims)
        )
        if initial is not np._NoValue:
            result = combine(result, initial)
        return deliver(result, out)

    return function


implements(np.max, np.amax)(_extreme("maximum", lowest))
implements(np.min, np.amin)(_extreme("minimum", highest))


def _truth(opcode: str, neutral: bool) -> Callable[..., TracedArray]:
    def function(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
    ) -> TracedArray:
        array = traced(a, where)
        axes = axes_of(axis, array.ndim)
        node = _masked(hlo.convert(array.node, BOOL), where, neutral)
        reduced = hlo.reduce(node, neutral, axes, opcode)
        return deliver(TracedArray(_keep(reduced, axes, array.shape, keepdims)), out)

    return function


implements(np.any)(_truth("or", False))
implements(np.all)(_truth("and", True))


def _mean_dtype(array: TracedArray, dtype: Any) -> np.dtype[Any]:
    if dtype is not None:
        return narrow(dtype)
    return F32 if array.dtype.kind in "biu" else array.dtype


def _count(array: TracedArray, axes: tuple[int, ...], where: Any) -> Any:
    if where is True or where is np._NoValue:
        return math.prod(array.shape[i] for i in axes)
    return xp.sum(xp.broadcast_to(traced(where, array), array.shape), axis=axes, keepdims=True)


@implements(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
    where: Any = True,
) -> TracedArray:  # fmt: skip
    """Sum over count; 8 and 16-bit floats in float32."""
    array = traced(a, where)
    target = _mean_dtype(array, dtype)
    wide = F32 if _is_narrow_float(target) else target
    axes = axes_of(axis, array.ndim)
    total = xp.sum(array.astype(wide), axis=axes, keepdims=True, where=where)
    result = (total / _count(array, axes, where)).astype(target)
    return deliver(_drop(result, axes, keepdims), out)


def _drop(array: TracedArray, axes: tuple[int, ...], keepdims: Any) -> TracedArray:
    """Without the dimensions that were kept as ones, unless they are wanted."""
    if keepdims and keepdims is not np._NoValue:
        return array
    shape = tuple(size for i, size in enumerate(array.shape) if i not in axes)
    return TracedArray(hlo.reshape(array.node, shape))


@implements(np.var)
def var(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = False, *, where: Any = True, mean: Any = np._NoValue, correction: Any = None,
) -> TracedArray:  # fmt: skip
    """Mean of squared distances from the mean; 8 and 16-bit floats in float32."""
    array = traced(a, where)
    target = _mean_dtype(array, dtype)
    wide = F32 if _is_narrow_float(target) else target
    axes = axes_of(axis, array.ndim)
    values = array.astype(wide)
    count = _count(array, axes, where)
    if mean is np._NoValue:
        mean = xp.sum(values, axis=axes, keepdims=True, where=where) / count
    distance = values - mean
    total = xp.sum(distance * distance, axis=axes, keepdims=True, where=where)
    freedom = count - (ddof if correction is None or correction is np._NoValue else correction)
    return deliver(_drop((total / freedom).astype(target), axes, keepdims), out)


@implements(np.std)
def std(a: Any, *args: Any, out: Any = None, **kwargs: Any) -> TracedArray:
    """Square root of :func:`var`."""
    return deliver(xp.sqrt(var(a, *args, **kwargs)), out)


@implements(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
    keepdims: Any = False,
) -> Any:  # fmt: skip
    array = traced(a, weights)
    if weights is None:
        result = mean(array, axis, keepdims=keepdims)
        scale: Any = np.full(result.shape, array.size // max(result.size, 1), result.dtype)
    else:
        if np.shape(weights) != array.shape:
            place = axes_of(axis, array.ndim)[0]
            spread = [1] * array.ndim
            spread[place] = np.shape(weights)[0]
            weights = xp.reshape(weights, spread)
        product = array * weights
        scale = xp.sum(xp.broadcast_to(traced(weights, array), array.shape), axis, keepdims=keepdims)  # fmt: skip
        result = xp.sum(product, axis, keepdims=keepdims) / scale
    return (result, scale) if returned else result


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> TracedArray:
    return xp.sum(traced(a) != 0, axis=axis, keepdims=keepdims)


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> TracedArray:
    high = xp.max(a, axis=axis, keepdims=keepdims)
    return deliver(high - xp.min(a, axis=axis, keepdims=keepdims), out)


def _position(extreme: str) -> Callable[..., TracedArray]:
    """argmax and argmin: the first place that equals the extreme, or is NaN."""

    def function(
        a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = False
    ) -> TracedArray:
        array = traced(a)
        flat = axis is None
        rank = array.ndim
        work = xp.ravel(array) if flat else array
        place = axes_of(0 if flat else int(axis), work.ndim)[0]
        if work.shape[place] == 0:
            raise ValueError(f"attempt to get arg{extreme} of an empty sequence")
        best = getattr(np, extreme)(work, axis=place, keepdims=True)
        hit = work == best
        if array.dtype.kind not in "biuc":
            hit = hit | xp.isnan(work)
        where = hlo.iota(work.node.graph, work.shape, place)
        none = hlo.full(work.node.graph, work.shape, work.shape[place], where.dtype)
        places = hlo.select(hit.node, where, none)
        first = hlo.reduce(places, work.shape[place], (place,), "minimum")
        if keepdims and keepdims is not np._NoValue:
            first = hlo.reshape(first, (1,) * rank if flat else best.shape)
        return deliver(TracedArray(first), out)

    return function


implements(np.argmax)(_position("max"))
implements(np.argmin)(_position("min"))


def _without_nan(function: Any, neutral: Any) -> Callable[..., TracedArray]:
    def implementation(a: Any, axis: Any = None, **kwargs: Any) -> TracedArray:
        array = traced(a)
        return function(xp.where(xp.isnan(array), neutral, array), axis=axis, **kwargs)

    return implementation


implements(np.nansum)(_without_nan(np.sum, 0))
implements(np.nanprod)(_without_nan(np.prod, 1))


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> TracedArray:
    """Vector norms, and the Frobenius, 1 and infinity norms of matrices.

    Raises:
        ValueError: as NumPy: an order that the number of axes does not have.
        TraceError: a norm that needs singular values.
    """
    array = traced(x)
    values = xp.abs(array if array.dtype.kind not in "biu" else array.astype(F32))
    if axis is None and ord is None:
        total = xp.sqrt(xp.sum(values * values))
        return total.reshape((1,) * array.ndim) if keepdims else total
    axes = axes_of(axis, array.ndim)
    if len(axes) == 1:
        return _vector_norm(values, ord, axes[0], keepdims)
    if len(axes) == 2:
        return _matrix_norm(values, ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


def _vector_norm(values: Any, ord: Any, axis: int, keepdims: bool) -> TracedArray:
    options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if ord is None or ord == 2:
        return xp.sqrt(xp.sum(values * values, **options))
    if ord == np.inf:
        return xp.max(values, **options)
    if ord == -np.inf:
        return xp.min(values, **options)
    if ord == 0:
        return xp.sum((values != 0).astype(values.dtype), **options)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    return xp.sum(values**ord, **options) ** (1.0 / ord)


def _matrix_norm(values: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> TracedArray:
    if ord is None or ord in ("fro", "f"):
        return xp.sqrt(xp.sum(values * values, axis=axes, keepdims=keepdims))
    sums = {1: (axes[0], np.max), -1: (axes[0], np.min), np.inf: (axes[1], np.max),
            -np.inf: (axes[1], np.min)}  # fmt: skip
    if isinstance(ord, (int, float)) and ord in sums:
        along, choose = sums[ord]
        return choose(xp.sum(values, axis=along, keepdims=True), axis=axes, keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        raise unsupported(f"norm of order {ord!r} needs singular values", "use ord='fro'")
    raise ValueError("Invalid norm order for matrices.")
