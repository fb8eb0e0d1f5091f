"""Sums, products, extremes, means, and what else makes one element of many."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, as_node, kind_of, result
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import (
    NO_VALUE,
    axes_of,
    deliver,
    output_of,
    real_only,
    traced,
    unsupported,
    xp,
)
from hlo_tools.trace.graph import DType, Node, Operand
from hlo_tools.trace.narrowing import tell_of_total
from hlo_tools.trace.promotion import narrow, promote

__all__ = ["F32", "is_narrow_float", "sum_dtype"]

BOOL = np.dtype(bool)
F32 = np.dtype(np.float32)


def _finished(node: Node, array: TracedArray, axes: tuple[int, ...], keepdims: Any) -> TracedArray:
    """The reduced elements, the reduced dimensions as ones when ``keepdims`` is asked for."""
    if keepdims and keepdims is not NO_VALUE:
        node = hlo.reshape(node, tuple(1 if i in axes else n for i, n in enumerate(array.shape)))
    return result(node)


def _masked(node: Node, where: Operand, neutral: Any) -> Node:
    """Elements where ``where`` is false replaced by one that changes nothing."""
    if where is True or where is NO_VALUE:
        return node
    chosen = as_node(where, node.graph)
    if chosen.dtype != BOOL:
        raise TypeError(f"Cannot cast array data from {chosen.dtype!r} to dtype('bool')")
    mask = hlo.broadcast(chosen, node.shape)
    return hlo.select(mask, node, hlo.full(node.graph, node.shape, neutral, node.dtype))


def is_narrow_float(dtype: DType) -> bool:
    return dtype.itemsize < 4 and dtype.kind not in "biu"


def _accumulated(node: Node, neutral: Any, axes: tuple[int, ...], opcode: str) -> Node:
    """Reduce; 8 and 16-bit floats are added up in float32 and rounded once."""
    dtype = node.dtype
    if not is_narrow_float(dtype):
        return hlo.reduce(node, neutral, axes, opcode)
    return hlo.convert(hlo.reduce(hlo.convert(node, F32), neutral, axes, opcode), dtype)


def sum_dtype(array: TracedArray, dtype: Any) -> DType:
    """NumPy adds small integers and booleans up as platform integers; these are narrowed."""
    if dtype is not None:
        return narrow(dtype)
    kind = array.dtype.kind
    return np.dtype(np.int32) if kind in "bi" else np.dtype(np.uint32) if kind == "u" else array.dtype  # fmt: skip


def _with_initial(node: Node, initial: Operand, opcode: str, out: Any = None) -> Node:
    """The reduced elements combined with ``initial``, which takes their dtype; before, that of ``out``,
    where NumPy puts it first."""
    if initial is NO_VALUE or initial is None:
        return node
    output = output_of(out)
    dtype = node.dtype if output is None or node.dtype.kind in "iu" else output.dtype
    try:
        start = as_node(initial, node.graph, dtype)
    except OverflowError:
        if dtype == node.dtype:
            raise
        raise unsupported(f"initial={initial} with an output of {dtype}", "add it later") from None
    start = hlo.convert(start, node.dtype)
    if start.shape:
        raise ValueError("initial must be a scalar")
    return hlo.elementwise(opcode, node, hlo.broadcast(start, node.shape))


def _adding(opcode: str, neutral: int) -> Callable[..., TracedArray]:
    boolean = "or" if opcode == "add" else "and"

    def function(
        a: Operand, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Operand = NO_VALUE, where: Operand = True,
    ) -> TracedArray:  # fmt: skip
        array = traced(a, (where, initial, out))
        axes = reduced_axes(axis, array.ndim)
        dtype = dtype_with(array, out) if dtype is None else dtype
        used_dtype = sum_dtype(array, dtype)
        count = math.prod(array.shape[axis] for axis in axes)
        name = "sum" if opcode == "add" else "prod"
        tell_of_total(array.node.graph, name, array.dtype, dtype, count, product=name == "prod")
        node = hlo.convert(array.node, used_dtype)
        used = boolean if node.dtype == BOOL else opcode
        has_start = initial is not NO_VALUE or (where is not True and where is not NO_VALUE)
        start = _neutral(node, neutral, array.size, has_start)
        reduced = _accumulated(_masked(node, where, start), start, axes, used)
        total = _with_initial(reduced, initial, used, out)
        return deliver(_finished(total, array, axes, keepdims), out, "unsafe")

    return function


_SUM_OF_NEGATIVE_ZERO = float(np.add.reduce(np.array([-0.0], np.float32)))
"""0.0 or -0.0, by NumPy's version."""


def _neutral(node: Node, neutral: int, size: int, has_start: bool) -> Any:
    """Return the number from which NumPy starts; a sum of -0.0 is -0.0."""
    is_float = node.dtype.kind not in "biuc"
    return _SUM_OF_NEGATIVE_ZERO if is_float and not neutral and size and not has_start else neutral


implements(np.sum)(_adding("add", 0))
implements(np.prod)(_adding("multiply", 1))


def lowest(dtype: DType) -> Any:
    """The value below all others: what a maximum starts from."""
    if dtype == BOOL:
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -math.inf


def highest(dtype: DType) -> Any:
    """The value above all others."""
    if dtype == BOOL:
        return True
    return np.iinfo(dtype).max if dtype.kind in "iu" else math.inf


def _extreme(opcode: str, start: Callable[[Any], Any]) -> Callable[..., TracedArray]:
    boolean = "or" if opcode == "maximum" else "and"

    def function(
        a: Operand, axis: Any = None, out: Any = None, keepdims: Any = False,
        initial: Operand = NO_VALUE, where: Operand = True,
    ) -> TracedArray:  # fmt: skip
        array = real_only(traced(a, (where, initial, out)), opcode)
        axes = reduced_axes(axis, array.ndim)
        has_initial = initial is not NO_VALUE and initial is not None
        if not has_initial and math.prod(array.shape[i] for i in axes) == 0:
            raise ValueError(
                f"zero-size array to reduction operation {opcode} which has no identity"
            )
        if not has_initial and where is not True and where is not NO_VALUE:
            raise ValueError(
                f"reduction operation '{opcode}' does not have an identity, so to use a where "
                "mask one has to specify 'initial'"
            )
        node = hlo.convert(array.node, dtype_with(array, _holds(out, array)) or array.dtype)
        neutral = start(node.dtype)
        node = _masked(node, where, neutral)
        used = boolean if node.dtype == BOOL else opcode
        reduced = _with_initial(hlo.reduce(node, neutral, axes, used), initial, used)
        return deliver(_finished(reduced, array, axes, keepdims), out, "unsafe")

    return function


implements(np.max, np.amax)(_extreme("maximum", lowest))
implements(np.min, np.amin)(_extreme("minimum", highest))


def _truth(opcode: str, neutral: bool) -> Callable[..., TracedArray]:
    def function(
        a: Operand,
        axis: Any = None,
        out: Any = None,
        keepdims: Any = False,
        *,
        where: Operand = True,
    ) -> TracedArray:
        array = traced(a, (where, out))
        axes = reduced_axes(axis, array.ndim)
        node = _masked(hlo.convert(array.node, BOOL), where, neutral)
        reduced = hlo.reduce(node, neutral, axes, opcode)
        return deliver(_finished(reduced, array, axes, keepdims), out, "unsafe")

    return function


implements(np.any)(_truth("or", False))
implements(np.all)(_truth("and", True))


def dtype_with(array: TracedArray, out: Any) -> DType | None:
    """In which NumPy adds up elements into an output: that of both."""
    output = output_of(out)
    return promote((array.dtype, output.dtype)) if isinstance(output, TracedArray) else None


def _holds(out: Any, array: TracedArray) -> Any:
    """The output, unless it cannot hold some elements: NumPy keeps the extreme so far in it, so that a
    maximum of -1 and 5 in uint16 is 65535.

    Raises:
        TraceError: HLO-TRACE-ARGUMENT.
    """
    output = output_of(out)
    if output is None or output.dtype.kind not in "biu" or np.can_cast(array.dtype, output.dtype):
        return output
    raise unsupported(
        f"an extreme of {array.dtype} in an array of {output.dtype}",
        f"pass an output of {array.dtype}",
    )


def same_dtype(out: Any, array: TracedArray) -> Any:
    """``out``, unless its dtype is another one: NumPy would compute some steps in that.

    Raises:
        TraceError: HLO-TRACE-ARGUMENT.
    """
    if out is not None and out.dtype != array.dtype:
        raise unsupported(
            f"a mean or variance of {array.dtype} into an array of {out.dtype}",
            f"pass an output of {array.dtype}",
        )
    return out


def reduced_axes(axis: Any, rank: int) -> tuple[int, ...]:
    """As :func:`axes_of`; NumPy's reductions let a 0-d array have an axis 0."""
    return () if not rank and axis in (0, -1) else axes_of(axis, rank)


def _mean_dtype(array: TracedArray, dtype: Any) -> DType:
    if dtype is not None:
        tell_of_total(array.node.graph, "mean", array.dtype, dtype, array.size, product=False)
        return narrow(dtype)
    return F32 if array.dtype.kind in "biu" else array.dtype


def _count(array: TracedArray, axes: tuple[int, ...], where: Operand) -> Any:
    if where is True or where is NO_VALUE:
        return math.prod(array.shape[i] for i in axes)
    return xp.sum(xp.broadcast_to(traced(where, array), array.shape), axis=axes, keepdims=True)


@implements(np.mean)
def mean(
    a: Operand, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *,
    where: Operand = True,
) -> TracedArray:  # fmt: skip
    """Sum over count; 8 and 16-bit floats in float32."""
    array = traced(a, (where, out))
    target = _mean_dtype(array, dtype)
    wide = F32 if is_narrow_float(target) or target == BOOL else target
    axes = axes_of(axis, array.ndim) if where is True else reduced_axes(axis, array.ndim)
    total = xp.sum(_cast(array, wide), axis=axes, dtype=wide, keepdims=True, where=where)
    average = _quotient(total, _count(array, axes, where)).astype(target)
    return deliver(_drop(average, axes, keepdims), same_dtype(out, average), "unsafe")


def _cast(array: TracedArray, dtype: DType) -> TracedArray:
    """The array in another dtype, without the warning of a cast."""
    return TracedArray(hlo.convert(array.node, dtype))


def _quotient(total: Any, count: Any) -> Any:
    """``total / count``; a count that is an array does not make a half a float32."""
    divisor = count.astype(total.dtype) if isinstance(count, TracedArray) else count
    return total / divisor


def _drop(array: TracedArray, axes: tuple[int, ...], keepdims: Any) -> TracedArray:
    """Without the dimensions that were kept as ones, unless they are wanted."""
    if keepdims and keepdims is not NO_VALUE:
        return array
    axes_left = [i for i in range(array.ndim) if i not in axes]
    return result(hlo.reshape(array.node, tuple(array.shape[i] for i in axes_left)))


@implements(np.var)
def var(
    a: Operand, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = False, *, where: Operand = True, mean: Operand = NO_VALUE, correction: Any = NO_VALUE,
) -> TracedArray:  # fmt: skip
    """Mean of squared distances from the mean; 8 and 16-bit floats in float32."""
    spread, axes = _variance(a, axis, dtype, ddof, where, mean, correction)
    return deliver(_drop(spread, axes, keepdims), same_dtype(out, spread), "unsafe")


def _variance(
    a: Operand, axis: Any, dtype: Any, ddof: Any, where: Operand, mean: Operand, correction: Any
) -> tuple[TracedArray, tuple[int, ...]]:
    if correction is not NO_VALUE and ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    array = traced(a, where)
    target = _mean_dtype(array, dtype)
    if target.kind in "biu":
        raise unsupported(f"a variance computed in {target}", "compute it in float32 and convert")
    if array.dtype.kind == "c" and target.kind != "c":  # NumPy's mean has no imaginary part then
        raise unsupported(f"a variance of {array.dtype} in {target}", "compute it in complex64")
    wide = F32 if is_narrow_float(target) else target
    axes = axes_of(axis, array.ndim) if where is True else reduced_axes(axis, array.ndim)
    values = _cast(array, wide)
    count = _count(array, axes, where)
    if mean is NO_VALUE:
        mean = _quotient(xp.sum(values, axis=axes, keepdims=True, where=where), count)
    distance = values - mean
    is_complex = wide.kind == "c"
    squares = xp.abs(distance) ** 2 if is_complex else distance * distance
    total = xp.sum(squares, axis=axes, keepdims=True, where=where)
    freedom = count - (ddof if correction is NO_VALUE else correction)
    freedom = xp.maximum(freedom, 0) if isinstance(freedom, TracedArray) else max(freedom, 0)
    return _quotient(total, freedom).astype(F32 if is_complex else target), axes


@implements(np.std)
def std(
    a: Operand, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
    keepdims: Any = False, *, where: Operand = True, mean: Operand = NO_VALUE, correction: Any = NO_VALUE,
) -> TracedArray:  # fmt: skip
    """Square root of :func:`var`."""
    spread, axes = _variance(a, axis, dtype, ddof, where, mean, correction)
    root = xp.sqrt(spread)
    return deliver(_drop(root, axes, keepdims), same_dtype(out, root), "unsafe")


@implements(np.average)
def average(
    a: Operand, axis: Any = None, weights: Operand = None, returned: bool = False, *,
    keepdims: Any = False,
) -> Any:  # fmt: skip
    """Mean with weights. Weights whose sum is zero give inf or NaN, as nobody can raise then."""
    array = traced(a, weights)
    if weights is None:
        averages = mean(array, axis, keepdims=keepdims)
        if not averages.size:
            raise ZeroDivisionError("division by zero")
        scale: Any = xp.full_like(averages, array.size / max(averages.size, 1))
        return (averages, result(scale.node)) if returned else averages
    kinds = (
        array.dtype,
        kind_of(weights) if isinstance(weights, TracedArray) else np.asarray(weights).dtype,
    )
    wide = promote((*kinds, np.dtype(np.float64)) if array.dtype.kind in "biu" else kinds)
    work = _cast(traced(weights, array), wide)
    if work.shape != array.shape:
        work = _spread_weights(work, array, axis)
    axis = axis if axis is None else axes_of(axis, array.ndim)  # a 0-d array has no axis 0 here
    scale = xp.sum(work, axis, dtype=wide, keepdims=keepdims)
    averages = xp.sum(_cast(array, wide) * work, axis, keepdims=keepdims) / scale
    if scale.shape != averages.shape:
        scale = xp.copy(xp.broadcast_to(scale, averages.shape))
    return (averages, scale) if returned else averages


def _spread_weights(weights: TracedArray, array: TracedArray, axis: Any) -> TracedArray:
    """Weights of some axes only, in the order in which these are named."""
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    axes = axes_of(axis, array.ndim)
    if weights.shape != tuple(array.shape[i] for i in axes):
        raise ValueError(
            "Shape of weights must be consistent with shape of a along specified axis."
        )
    turned = xp.transpose(weights, np.argsort(axes))
    return turned.reshape(tuple(n if i in axes else 1 for i, n in enumerate(array.shape)))


@implements(np.count_nonzero)
def count_nonzero(a: Operand, axis: Any = None, *, keepdims: bool = False) -> TracedArray:
    return xp.sum(traced(a).astype(BOOL, copy=False), axis=axis, keepdims=keepdims)


@implements(np.ptp)
def ptp(a: Operand, axis: Any = None, out: Any = None, keepdims: Any = False) -> TracedArray:
    high = xp.max(a, axis=axis, out=out, keepdims=keepdims)  # NumPy subtracts in ``out``'s dtype
    return deliver(high - xp.min(a, axis=axis, keepdims=keepdims), out)


def _position(extreme: str) -> Callable[..., TracedArray]:
    """argmax and argmin: the first place that equals the extreme, or is NaN."""

    def function(
        a: Operand, axis: Any = None, out: Any = None, *, keepdims: Any = False
    ) -> TracedArray:
        array = real_only(traced(a, (out,)), f"arg{extreme}")
        flat = axis is None
        rank = array.ndim
        flat = flat or (not rank and axis in (0, -1))
        work = xp.ravel(array) if flat else array
        axis_index = axes_of(0 if flat else int(axis), work.ndim)[0]
        if work.shape[axis_index] == 0:
            raise ValueError(f"attempt to get arg{extreme} of an empty sequence")
        best = getattr(np, extreme)(work, axis=axis_index, keepdims=True)
        hit = work == best
        if array.dtype.kind not in "biuc":
            hit = hit | xp.isnan(work)
        where = hlo.iota(work.node.graph, work.shape, axis_index)
        none = hlo.full(work.node.graph, work.shape, work.shape[axis_index], where.dtype)
        positions = hlo.select(hit.node, where, none)
        first = hlo.reduce(positions, work.shape[axis_index], (axis_index,), "minimum")
        if keepdims and keepdims is not NO_VALUE:
            first = hlo.reshape(first, (1,) * rank if flat else best.shape)
        if out is not None and not np.can_cast(out.dtype, np.int64, "safe"):
            raise TypeError(f"Cannot cast from {out.dtype!r} to dtype('int64')")
        return deliver(result(first), out, "unsafe")

    return function


implements(np.argmax)(_position("max"))
implements(np.argmin)(_position("min"))


def _without_nan(function: Any, neutral: Any) -> Callable[..., TracedArray]:
    def implementation(
        a: Operand, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Operand = NO_VALUE, where: Operand = True,
    ) -> TracedArray:  # fmt: skip
        array = traced(a, (out, where))
        clean = array
        if np.issubdtype(array.dtype, np.inexact):  # ml_dtypes' floats are not: NaN stays
            changed = xp.where(xp.isnan(array), array.dtype.type(neutral), array)
            clean = TracedArray(changed.node)
        if initial is NO_VALUE and clean is not array:
            initial = neutral  # a sum without NaN starts from 0.0, not from -0.0
        return function(clean, axis, dtype, out, keepdims, initial, where)

    return implementation


implements(np.nansum)(_without_nan(np.sum, 0))
implements(np.nanprod)(_without_nan(np.prod, 1))


@implements(np.linalg.norm)
def norm(x: Operand, ord: Any = None, axis: Any = None, keepdims: bool = False) -> TracedArray:
    """Vector norms, and the Frobenius, 1 and infinity norms of matrices.

    Raises:
        ValueError: as NumPy: an order that the number of axes does not have.
        TraceError: a norm that needs singular values.
    """
    array = traced(x)
    values = xp.abs(array if array.dtype.kind in "fc" else array.astype(F32))
    if axis is None and ord is None:
        total = xp.sqrt(xp.sum(values * values))
        return total.reshape((1,) * array.ndim) if keepdims and array.ndim else total
    axes = axes_of(axis, array.ndim)
    if len(axes) == 1:
        return _vector_norm(values, ord, axes[0], keepdims)
    if len(axes) == 2:
        return _matrix_norm(values, ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


def _vector_norm(values: Operand, ord: Any, axis: int, keepdims: bool) -> TracedArray:
    options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if ord is None or ord == 2:
        return xp.sqrt(xp.sum(values * values, **options))
    if ord == np.inf:
        return xp.max(values, **options, initial=0)
    if ord == -np.inf:
        return xp.min(values, **options)
    if ord == 0:
        return xp.sum((values != 0).astype(values.dtype), **options)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    return xp.sum(values**ord, **options) ** (1.0 / ord)


def _matrix_norm(values: Operand, ord: Any, axes: tuple[int, ...], keepdims: bool) -> TracedArray:
    if ord is None or ord in ("fro", "f"):
        return xp.sqrt(xp.sum(values * values, axis=axes, keepdims=keepdims))
    sums = {1: (axes[0], np.max), -1: (axes[0], np.min), np.inf: (axes[1], np.max),
            -np.inf: (axes[1], np.min)}  # fmt: skip
    if isinstance(ord, (int, float)) and ord in sums:
        along, choose = sums[ord]
        options: dict[str, Any] = {"axis": axes, "keepdims": keepdims}
        if choose is np.max:
            options["initial"] = 0  # that of no sum at all
        return choose(xp.sum(values, axis=along, keepdims=True), **options)
    if ord in (2, -2, "nuc"):
        raise unsupported(f"norm of order {ord!r} needs singular values", "use ord='fro'")
    raise ValueError("Invalid norm order for matrices.")
