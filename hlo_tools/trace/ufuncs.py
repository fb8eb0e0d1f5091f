"""NumPy's ufuncs on traced arrays: dtypes from NumPy, instructions from a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import (
    TracedArray,
    as_node,
    graph_of,
    kind_of,
    ordered,
    result,
)
from hlo_tools.trace.elementwise import MEANINGS
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.functions.arguments import write_out
from hlo_tools.trace.functions.linear import matmul
from hlo_tools.trace.graph import DType, Graph, Node, Operand
from hlo_tools.trace.narrowing import tell_of_ufunc
from hlo_tools.trace.promotion import ufunc_dtypes

__all__ = ["call", "dispatch"]


def _has_integers(inputs: tuple[object, ...]) -> bool:
    for value in inputs:
        dtype = getattr(value, "dtype", None)
        if dtype is not None and dtype.kind in "iu":
            return True
    return False


def dispatch(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``__array_ufunc__`` does."""
    run = _METHODS.get(method)
    if run is None:
        raise _unknown(f"{ufunc.__name__}.{method}")
    return run(ufunc, inputs, kwargs)


def call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``ufunc(*inputs)`` with ``out``, ``where``, ``dtype``, ``casting`` and ``order``.

    Raises:
        TypeError: NumPy's own for such dtypes; ValueError: shapes that do not broadcast.
        TraceError: a ufunc or an argument that is not supported.
    """
    outs = None
    if kwargs or len(inputs) > ufunc.nin:
        inputs, outs = _split(ufunc, inputs, kwargs)
    if ufunc is np.matmul:
        product = _matmul(inputs, kwargs)
        _same_core(product.shape, inputs, outs)
        return _deliver(ufunc, (product,), outs, kwargs)
    meaning = MEANINGS.get(ufunc)
    if meaning is None:
        raise _unknown(ufunc.__name__)
    graph = graph_of((*inputs, outs, kwargs.get("where")))
    if kwargs and not kwargs.keys() <= _OPTIONS:
        raise _surplus(ufunc, kwargs)
    certain = _beyond(inputs, ufunc) if ufunc in _COMPARISONS else None
    if certain is not None:
        _dtypes(ufunc, (certain,) * 2, outs, kwargs)  # NumPy's error for a dtype of no loop
        return _deliver(ufunc, (certain,), outs, kwargs)
    dtypes = _dtypes(ufunc, inputs, outs, kwargs)
    mixed = ufunc in _COMPARISONS and _mixes_signs(inputs)
    nodes = _operands(ufunc, inputs, graph, _own_dtypes(inputs) if mixed else dtypes)
    if not graph.is_told and (kwargs or _has_integers(inputs)):
        kinds = tuple([kind_of(value) for value in inputs])
        tell_of_ufunc(graph, ufunc, kinds, *_wanted(ufunc, kwargs))
    if len(nodes) > 1 and nodes[0].shape != nodes[-1].shape:
        nodes = _together(nodes)
    found = _compared_signs(ufunc, nodes) if mixed else meaning(*nodes)
    if not kwargs and outs is None and not isinstance(found, tuple):  # by far the most
        return result(hlo.ordered_like(hlo.convert(found, dtypes[-1]), nodes))
    results = cast("tuple[Node, ...]", found) if isinstance(found, tuple) else (found,)
    wanted = dtypes[ufunc.nin :]
    order = kwargs.get("order", "K")
    arrays = tuple(
        [
            ordered(hlo.ordered_like(hlo.convert(node, d), nodes), order)
            if node.shape
            else result(hlo.convert(node, d))
            for node, d in zip(results, wanted, strict=True)
        ]
    )
    return _deliver(ufunc, arrays, outs, kwargs)


_OPTIONS = frozenset(("out", "where", "dtype", "casting", "order", "subok", "signature", "sig"))
Outs = tuple[Any, ...] | None


def _split(
    ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], Outs]:
    """Inputs, and outputs whether they were given by position or by name."""
    outs = kwargs.get("out")
    if len(inputs) > ufunc.nin:
        inputs, outs = inputs[: ufunc.nin], inputs[ufunc.nin :]
    if outs is None:
        return inputs, None
    given = cast("tuple[Any, ...]", outs) if isinstance(outs, tuple) else (outs,)
    known = (*given, *(None,) * (ufunc.nout - len(given)))
    return inputs, known if any(o is not None and o is not Ellipsis for o in known) else None


def _surplus(ufunc: np.ufunc, kwargs: dict[str, Any]) -> Exception:
    names = ", ".join(sorted(kwargs.keys() - _OPTIONS))
    return refuse(
        f"numpy.{ufunc.__name__} with {names}= is not supported for traced arrays",
        code="HLO-TRACE-ARGUMENT",
        remedy="move axes with numpy.moveaxis before and after",
    )


def _matmul(inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> TracedArray:
    if kwargs and not kwargs.keys() <= {"out", "dtype", "casting", "subok"}:
        raise _surplus(np.matmul, kwargs)
    return matmul(*inputs, dtype=kwargs.get("dtype"), casting=kwargs.get("casting", "same_kind"))


def _same_core(shape: tuple[int, ...], inputs: tuple[Operand, ...], outs: Outs) -> None:
    """NumPy broadcasts a product into ``out`` in all dimensions but those of the matrix."""
    core = 2 - sum(np.ndim(one) == 1 for one in inputs)
    out = outs[0] if outs else None
    if core and out is not None and out.shape[-core:] != shape[-core:]:
        raise ValueError(f"matmul: output operand has shape {out.shape}, the product {shape}")


def _dtypes(
    ufunc: np.ufunc, inputs: tuple[Any, ...], outs: Outs, kwargs: dict[str, Any]
) -> tuple[DType, ...]:
    kinds = tuple([kind_of(value) for value in inputs])
    return ufunc_dtypes(ufunc, kinds, *_wanted(ufunc, kwargs)) if kwargs else ufunc_dtypes(ufunc, kinds)  # fmt: skip


def _wanted(ufunc: np.ufunc, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The signature, which ``dtype`` may give, and the casting."""
    signature = kwargs.get("signature", kwargs.get("sig"))
    dtype = kwargs.get("dtype")
    if dtype is not None:
        signature = (*(None,) * ufunc.nin, *(np.dtype(dtype),) * ufunc.nout)
    return signature, kwargs.get("casting", "same_kind")


_S32, _U32 = np.dtype(np.int32), np.dtype(np.uint32)
_COMPARISONS = frozenset(
    (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
)


def _beyond(inputs: tuple[Any, ...], ufunc: np.ufunc) -> TracedArray | None:
    """A comparison with a Python int that the array's type does not hold: NumPy knows the answer."""
    for place, value in enumerate(inputs):
        other = inputs[1 - place]
        if type(value) is not int or not isinstance(other, TracedArray):
            continue
        if other.dtype.kind not in "iu":
            continue
        limits = np.iinfo(other.dtype)
        if limits.min <= value <= limits.max:
            continue
        sides = (1 if value > 0 else -1, 0) if place == 0 else (0, 1 if value > 0 else -1)
        answer = bool(ufunc(*sides))
        return result(hlo.full(other.node.graph, other.shape, answer, np.dtype(bool)))
    return None


def _mixes_signs(inputs: tuple[Operand, ...]) -> bool:
    """Whether uint32 stands beside a signed type; NumPy compares both as int64."""
    kinds = [kind_of(value) for value in inputs]
    dtypes = [kind for kind in kinds if isinstance(kind, np.dtype)]
    return (
        len(dtypes) == 2
        and {dtype.kind for dtype in dtypes} == {"i", "u"}
        and any(dtype.kind == "u" and dtype.itemsize >= 4 for dtype in dtypes)
    )


def _own_dtypes(inputs: tuple[Operand, ...]) -> tuple[DType, ...]:
    """Each operand's sign, in 32 bits."""
    return tuple(_U32 if np.dtype(kind_of(one)).kind == "u" else _S32 for one in inputs)


def _compared_signs(ufunc: np.ufunc, nodes: list[Node]) -> Node:
    """A comparison of uint32 with int32: what is negative is below all, the rest is unsigned."""
    signed = 0 if nodes[0].dtype.kind == "i" else 1
    zero = hlo.full(nodes[signed].graph, nodes[signed].shape, 0, nodes[signed].dtype)
    negative = hlo.compare("LT", nodes[signed], zero)
    answer = bool(ufunc(-1, 0) if signed == 0 else ufunc(0, -1))
    certain = hlo.full(zero.graph, zero.shape, answer, np.dtype(bool))
    unsigned = [hlo.convert(node, _U32) for node in nodes]
    return hlo.select(negative, certain, cast("Node", MEANINGS[ufunc](*unsigned)))


def _operands(
    ufunc: np.ufunc, inputs: tuple[Any, ...], graph: Graph, dtypes: tuple[DType, ...]
) -> list[Node]:
    return [as_node(v, graph, d) for v, d in zip(inputs, dtypes, strict=False)]


def _together(nodes: list[Node]) -> list[Node]:
    """Operands of one shape."""
    shape = np.broadcast_shapes(*(node.shape for node in nodes))
    return [hlo.broadcast(node, shape) for node in nodes]


def _deliver(ufunc: np.ufunc, arrays: tuple[Any, ...], outs: Outs, kwargs: dict[str, Any]) -> Any:
    """Results as they are, or written into ``out`` where ``where`` says so."""
    condition = kwargs.get("where", True)
    if condition is not True and (outs is None or any(out is None for out in outs)):
        raise refuse(
            "where= without out= leaves elements without a value",
            code="HLO-TRACE-FUNCTION",
            remedy="pass out=, or use numpy.where",
        )
    if outs is None:
        return arrays[0] if len(arrays) == 1 else arrays
    casting = kwargs.get("casting", "same_kind")
    found: list[Any] = []
    for out, array in zip(outs, arrays, strict=True):
        if out is not None:
            _write(ufunc, out, array, condition, casting)
        found.append(array if out is None else out)
    return found[0] if len(found) == 1 else tuple(found)


def _write(ufunc: np.ufunc, out: Any, array: TracedArray, condition: Operand, casting: Any) -> None:
    node, mask = array.node, None
    if condition is not True:
        mask = as_node(condition, node.graph)
        if mask.dtype != np.dtype(bool):
            raise TypeError(f"Cannot cast array data from {mask.dtype!r} to dtype('bool')")
        shape = np.broadcast_shapes(node.shape, mask.shape)
        mask, node = hlo.broadcast(mask, shape), hlo.broadcast(node, shape)
    if np.broadcast_shapes(node.shape, np.shape(out)) != np.shape(out):
        raise ValueError(
            f"non-broadcastable output operand with shape {out.shape} doesn't match the "
            f"broadcast shape {node.shape}"
        )
    if mask is not None and isinstance(out, TracedArray):
        if not np.can_cast(node.dtype, out.dtype, casting):
            raise TypeError(f"Cannot cast ufunc '{ufunc.__name__}' output to {out.dtype!r}")
        node = hlo.broadcast(hlo.convert(node, out.dtype), out.shape)
        node = hlo.select(hlo.broadcast(mask, out.shape), node, out.node)
    write_out(out, node, casting, f"ufunc '{ufunc.__name__}' output")


def _reduce(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``ufunc.reduce``: the NumPy function that means the same."""
    function = _REDUCTIONS.get(ufunc)
    if function is None:
        raise _unknown(f"{ufunc.__name__}.reduce")
    options = _by_name(_REDUCE_ARGUMENTS, inputs[1:], kwargs)
    if function in (np.max, np.min, np.any, np.all) and options.pop("dtype", None) is not None:
        raise _surplus(ufunc, {"dtype": None})
    if function in (np.any, np.all) and options.pop("initial", np._NoValue) is not np._NoValue:  # pyright: ignore
        raise _surplus(ufunc, {"initial": None})
    options = {k: v for k, v in options.items() if v is not None or k == "axis"}
    return function(inputs[0], **{"axis": 0, **options})


_REDUCE_ARGUMENTS = ("axis", "dtype", "out", "keepdims", "initial", "where")
_ACCUMULATE_ARGUMENTS = ("axis", "dtype", "out")


def _by_name(
    names: tuple[str, ...], values: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Arguments by position and by name, all by name."""
    return {**dict(zip(names, values, strict=False)), **kwargs}


def _accumulate(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    function = _ACCUMULATIONS.get(ufunc)
    if function is None:
        raise _unknown(f"{ufunc.__name__}.accumulate")
    if not np.ndim(inputs[0]):
        raise TypeError("cannot accumulate on a scalar")
    options = _by_name(_ACCUMULATE_ARGUMENTS, inputs[1:], kwargs)
    return function(inputs[0], **{"axis": 0, **options})


def _outer(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    left, right = inputs
    if not isinstance(left, TracedArray):
        left = np.asarray(left)
    if not isinstance(right, TracedArray):
        right = np.asarray(right)
    spread = np.reshape(left, left.shape + (1,) * right.ndim)
    return call(ufunc, (spread, right), kwargs)


_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": call,
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
}
_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
}
_ACCUMULATIONS: dict[np.ufunc, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}


def _unknown(name: str) -> Exception:
    return refuse(
        f"numpy.{name} is not supported for traced arrays",
        code="HLO-TRACE-FUNCTION",
        remedy="use supported functions; the list is hlo_tools.trace.supported()",
    )
