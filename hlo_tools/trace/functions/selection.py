"""Choosing elements: where, clip, take, rounding, comparisons with tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.trace import indexing
from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import (
    TracedArray,
    TracedScalar,
    as_node,
    graph_of,
    kind_of,
    operand,
    result,
    view,
)
from hlo_tools.trace.elementwise import floor_divide
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import (
    NO_VALUE,
    arrays_of,
    deliver,
    one_axis,
    traced,
    unsupported,
    xp,
)
from hlo_tools.trace.graph import DType, Node, Operand
from hlo_tools.trace.narrowing import tell_of_promotion
from hlo_tools.trace.promotion import narrow, promote, promoted, resolved_dtypes

__all__: list[str] = []

BOOL = np.dtype(bool)
builtins_min, builtins_max = min, max


@implements(np.where)
def where(condition: Operand, x: Operand = NO_VALUE, y: Operand = NO_VALUE) -> TracedArray:
    if x is NO_VALUE or y is NO_VALUE:
        raise unsupported(
            "where(condition) returns as many indices as there are true elements",
            "use where(condition, x, y)",
        )
    graph = graph_of((condition, x, y))
    wide = promoted((kind_of(x), kind_of(y)))
    tell_of_promotion(graph, (kind_of(x), kind_of(y)))
    mask = as_node(condition, graph, BOOL)
    yes, no = (operand(value, graph, wide) for value in arrays_of((x, y)))
    shape = np.broadcast_shapes(mask.shape, yes.shape, no.shape)
    chosen = hlo.select(*(hlo.broadcast(node, shape) for node in (mask, yes, no)))
    return TracedArray(chosen)


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> TracedArray:
    """The first choice whose condition holds, in the dtype of all choices and the default."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    every = (*choicelist, default)
    graph = graph_of((*condlist, *every))
    wide = promoted(tuple(kind_of(value) for value in every))
    *choices, default = arrays_of(every)
    selected = operand(default, graph, wide)
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        mask, node = as_node(condition, graph), operand(choice, graph, wide)
        if mask.dtype != BOOL:
            raise TypeError("invalid entry in condlist: should be boolean ndarray")
        shape = np.broadcast_shapes(mask.shape, node.shape, selected.shape)
        selected = hlo.select(
            *(hlo.broadcast(operand_node, shape) for operand_node in (mask, node, selected))
        )
    return TracedArray(selected)


@implements(np.clip)
def clip(
    a: Operand, a_min: Operand = NO_VALUE, a_max: Operand = NO_VALUE, out: Any = None, *,
    min: Operand = NO_VALUE, max: Operand = NO_VALUE, dtype: Any = None, casting: Any = "same_kind",
) -> TracedArray:  # fmt: skip
    """``minimum(maximum(a, low), high)`` in the dtype of all three."""
    low = _bound(min if a_min is NO_VALUE else a_min)
    high = _bound(max if a_max is NO_VALUE else a_max)
    array = traced(a, (low, high, out))
    low, high = _needed(low, array.dtype, "min"), _needed(high, array.dtype, "max")
    bounds = [bound for bound in (low, high) if bound is not None]
    kinds = (array.dtype, *(kind_of(bound) for bound in bounds))
    wide = np.dtype(dtype) if dtype is not None else _clip_dtype(kinds)
    target = narrow(wide)
    if wide == np.int64 and array.dtype == np.uint32:
        _require_no_numbers(bounds)
    for kind in kinds:
        if isinstance(kind, np.dtype) and not np.can_cast(kind, target, casting):
            raise TypeError(f"Cannot cast ufunc 'clip' input from {kind!r} to {target!r}")
    work: Any = array.astype(target)
    for bound, combine in ((low, xp.maximum), (high, xp.minimum)):
        if bound is not None:
            limit = TracedArray(operand(bound, array.node.graph, wide))
            inside = combine(work, limit)
            is_float = target.kind not in "biuc"
            # Of zeros of both signs NumPy keeps the element.
            work = where(xp.equal(work, limit), work, inside) if is_float else inside
    return deliver(result(work.node), out, casting, broadcast=True)


def _clip_dtype(kinds: tuple[Any, ...]) -> DType:
    """That of the ufunc behind numpy.clip; with one bound that is maximum or minimum."""
    if len(kinds) == 1:
        return kinds[0]
    ufunc = np.maximum if len(kinds) == 2 else getattr(np, "_core").umath.clip  # noqa: B009
    return resolved_dtypes(ufunc, kinds)[-1]


def _require_no_numbers(bounds: list[Operand]) -> None:
    if not all(isinstance(bound, TracedArray) or np.ndim(bound) for bound in bounds):
        raise refuse(
            "numpy.clip of uint32 with a signed NumPy number has dtype int64 in NumPy, and int32 does not "
            "hold all elements",
            code="HLO-TRACE-DTYPE",
            remedy="use a Python int or numpy.uint32 instead of the NumPy number",
        )


def _bound(value: Operand) -> Any:
    return None if value is NO_VALUE else value


def _needed(bound: Any, dtype: DType, side: str) -> Any:
    """None for a Python int that bounds nothing, since no element of an integer dtype is beyond it."""
    if type(bound) is not int or dtype.kind not in "iu":
        return bound
    limits = np.iinfo(dtype)
    return None if (bound <= limits.min if side == "min" else bound >= limits.max) else bound


@implements(np.round, np.around)
def round_(a: Operand, decimals: Any = 0, out: Any = None) -> TracedArray:
    array = traced(a, out)
    digits = int(decimals)
    if array.dtype.kind == "c":
        if out is not None and out.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")  # NumPy's
        components = [round_(component(array), digits) for component in (xp.real, xp.imag)]
        node = hlo.elementwise("complex", *(p.node for p in components), dtype=array.dtype)
        return deliver(result(node), out)
    if array.dtype == BOOL and digits:
        if out is not None:
            raise unsupported("rounding booleans to decimals", "convert them before")
        raise TypeError("Cannot cast ufunc 'multiply' output from float64 to bool")
    if array.dtype.kind in "iu" and digits >= 0:
        return deliver(result(array.node), out)
    if not digits:
        return deliver(xp.rint(array), out)
    if array.dtype.kind in "iu" and (out is None or out.dtype.kind in "iu"):
        node = _rounded_integers(array.node, 10**-digits)
        return deliver(result(node), out)
    if out is not None and out.dtype != array.dtype:
        raise unsupported(
            f"rounding {array.dtype} into an array of {out.dtype}", f"round into {array.dtype}"
        )
    scale = 10.0 ** abs(digits)
    scaled = array * scale if digits > 0 else array / scale
    rounded = xp.rint(scaled)
    back = rounded / scale if digits > 0 else rounded * scale
    node = hlo.convert(back.node, array.dtype)
    return deliver(result(node), out)


def _rounded_integers(node: Node, unit: int) -> Node:
    """Integers rounded to multiples of ``unit``, halves to even ones, without leaving integers."""
    if unit > 2 * int(np.iinfo(node.dtype).max) + 2:
        return hlo.full(node.graph, node.shape, 0, node.dtype)
    wide = hlo.convert(node, np.dtype(np.uint32 if node.dtype.kind == "u" else np.int32))
    if unit > int(np.iinfo(wide.dtype).max):
        raise unsupported(f"rounding integers to multiples of {unit}", "divide before rounding")
    step = hlo.full(wide.graph, wide.shape, unit, wide.dtype)
    quotient = floor_divide(wide, step)
    remainders = hlo.elementwise("subtract", wide, hlo.elementwise("multiply", quotient, step))
    room = hlo.elementwise("subtract", step, remainders)
    ones = hlo.full(wide.graph, wide.shape, 1, wide.dtype)
    odd = hlo.compare("EQ", hlo.elementwise("and", quotient, ones), ones)
    half = hlo.elementwise("and", hlo.compare("EQ", remainders, room), odd)
    up = hlo.elementwise("or", hlo.compare("GT", remainders, room), half)
    down = hlo.elementwise("subtract", wide, remainders)
    chosen = hlo.select(up, hlo.elementwise("add", down, step), down)
    return hlo.convert(chosen, node.dtype)


@implements(np.fix)
def fix(x: Operand, out: Any = None) -> TracedArray:
    return deliver(xp.trunc(x), out, broadcast=True)


@implements(np.nan_to_num)
def nan_to_num(
    x: Operand, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> TracedArray:
    array = traced(x)
    if array.dtype.kind == "c":
        raise unsupported("nan_to_num of complex numbers", "treat numpy.real and numpy.imag")
    knows_nan = np.issubdtype(array.dtype, np.inexact)  # ml_dtypes' floats are not, and stay
    clean: TracedArray = _finite(array, nan, posinf, neginf) if knows_nan else array
    if not copy and not isinstance(array, TracedScalar):
        if clean is not array:
            array.write(clean.node)
        return array if array.ndim else result(array.node)
    return result(clean.node)


def _finite(array: TracedArray, nan: Any, posinf: Any, neginf: Any) -> TracedArray:
    limits: Any = np.finfo(array.dtype)
    high = as_node(limits.max if posinf is None else posinf, array.node.graph, array.dtype)
    low = as_node(limits.min if neginf is None else neginf, array.node.graph, array.dtype)
    graph, shape = array.node.graph, array.shape
    replaced: Any = array
    for test, value in ((xp.isnan(array), as_node(nan, graph, array.dtype)),
                        (xp.equal(array, np.inf), high), (xp.equal(array, -np.inf), low)):  # fmt: skip
        replaced = where(test, TracedArray(hlo.broadcast(value, shape)), replaced)
    return replaced


@implements(np.isclose)
def isclose(
    a: Operand, b: Operand, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False
) -> TracedArray:
    graph = graph_of((a, b, rtol, atol))
    x, y = (TracedArray(as_node(value, graph)) for value in (a, b))
    # As NumPy: no unsigned difference and no overflowing abs of integers.
    wide = promote((y.dtype, float))
    y = y if y.dtype.kind in "fc" or y.dtype.kind not in "biu" else y.astype(wide)
    if x.dtype.kind in "biu":
        wide = promote((x.dtype, y.dtype))
        x = TracedArray(hlo.convert(x.node, wide))
    near = xp.less_equal(xp.abs(x - y), atol + rtol * xp.abs(y))
    close = (near & xp.isfinite(y)) | xp.equal(x, y)
    if equal_nan:
        close |= xp.isnan(x) & xp.isnan(y)
    return close


@implements(np.allclose)
def allclose(a: Operand, b: Operand, *args: Any, **kwargs: Any) -> TracedArray:
    return xp.all(isclose(a, b, *args, **kwargs))


@implements(np.real)
def real(val: Operand) -> TracedArray:
    return _component(traced(val), "real")


@implements(np.imag)
def imag(val: Operand) -> TracedArray:
    array = traced(val)
    if array.dtype.kind == "c":
        return _component(array, "imag")
    zeros = xp.zeros_like(array, order="A")  # as NumPy, which makes them read-only
    if isinstance(array, TracedScalar):
        return TracedScalar(zeros.node)
    return view(zeros, zeros.node, lambda node: node, None, is_contiguous=zeros.is_contiguous)


def _component(array: TracedArray, name: str) -> TracedArray:
    """The real or the imaginary part, a view; the real part of real numbers is the array."""
    if array.dtype.kind != "c":
        return array

    def read(node: Node) -> Node:
        return hlo.elementwise(name, node, dtype=np.dtype(np.float32))

    def write(old: Node, new: Node) -> Node:
        second_name = "imag" if name == "real" else "real"
        unchanged = hlo.elementwise(second_name, old, dtype=np.dtype(np.float32))
        pair = (new, unchanged) if name == "real" else (unchanged, new)
        return hlo.elementwise("complex", *pair, dtype=old.dtype)

    if isinstance(array, TracedScalar):
        return TracedScalar(read(array.node))
    return view(array, read(array.node), read, write)


@implements(np.take)
def take(
    a: Operand, indices: Operand, axis: Any = None, out: Any = None, mode: str = "raise"
) -> TracedArray:
    """As indexing along one axis; traced indices out of bounds are clipped."""
    array = traced(a, (indices, out))
    if axis is None or (not array.ndim and axis in (0, -1)):
        array, axis = xp.ravel(array), 0
    axis_index = one_axis(axis, array.ndim)
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if mode == "wrap":
        indices = xp.remainder(indices, array.shape[axis_index])
    elif mode == "clip":
        indices = xp.clip(indices, 0, array.shape[axis_index] - 1)
    chosen = indices if isinstance(indices, TracedArray) else np.asarray(indices)
    if chosen.dtype.kind not in "iu" and not (chosen.dtype == BOOL or not chosen.size):
        raise TypeError("Cannot cast array data to an index according to the rule 'safe'")
    chosen = chosen.astype(np.int32)
    key = (*(slice(None),) * axis_index, chosen)
    if out is not None and not np.can_cast(out.dtype, array.dtype, "safe"):
        raise TypeError(f"Cannot cast array data from {out.dtype!r} to {array.dtype!r}")
    if 0 in array.shape[:axis_index]:  # NumPy looks at no index
        shape = (*array.shape[:axis_index], *chosen.shape, *array.shape[axis_index + 1 :])
        node = hlo.full(array.node.graph, shape, 0, array.dtype)
    else:
        node = indexing.get(array, key).node
    return deliver(result(node), out, "unsafe")  # as NumPy, the other way


def _along_axis(array: TracedArray, indices: Operand, axis: int) -> tuple[Any, ...]:
    """An index for every dimension, that of ``axis`` being ``indices``."""
    graph = array.node.graph
    shape = tuple(
        (a if b == 1 else max(a, b)) if i != axis else b
        for i, (a, b) in enumerate(zip(array.shape, np.shape(indices), strict=True))
    )
    return tuple(
        traced(indices, array) if i == axis else TracedArray(hlo.iota(graph, shape, i))
        for i in range(array.ndim)
    )


@implements(np.take_along_axis)
def take_along_axis(arr: Operand, indices: Operand, axis: Any = -1) -> TracedArray:
    array = traced(arr, indices)
    if axis is None:
        array, axis = xp.ravel(array), 0
    if np.ndim(indices) != array.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return indexing.get(array, _along_axis(array, indices, one_axis(axis, array.ndim)))


@implements(np.put_along_axis)
def put_along_axis(arr: Operand, indices: Operand, values: Operand, axis: Any) -> None:
    if axis is None:
        flat = xp.reshape(arr, -1, copy=False)  # refused where NumPy would write to a copy
        put_along_axis(flat, indices, values, 0)
        return
    array = traced(arr)
    key = _along_axis(array, indices, one_axis(axis, array.ndim))
    indexing.put(array, key, values)
