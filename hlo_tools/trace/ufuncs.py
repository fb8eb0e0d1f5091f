"""NumPy's ufuncs on traced arrays: dtypes from NumPy, instructions from a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, as_node, graph_of, kind_of
from hlo_tools.trace.elementwise import MEANINGS
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.graph import Node
from hlo_tools.trace.promotion import ufunc_dtypes

__all__ = ["call", "dispatch"]


def dispatch(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``__array_ufunc__`` does."""
    run = _METHODS.get(method)
    if run is None:
        raise _unknown(f"{ufunc.__name__}.{method}")
    return run(ufunc, inputs, kwargs)


def call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``ufunc(*inputs)`` with ``out``, ``where`` and ``dtype``.

    Raises:
        TypeError: NumPy's own for such dtypes; ValueError: shapes that do not broadcast.
        TraceError: a ufunc that has no meaning here (HLO-TRACE-FUNCTION).
    """
    if ufunc is np.matmul:
        from hlo_tools.trace.functions.linear import matmul

        return _deliver(ufunc, (matmul(*inputs),), kwargs)
    meaning = MEANINGS.get(ufunc)
    if meaning is None:
        raise _unknown(ufunc.__name__)
    graph = graph_of((*inputs, kwargs.get("out"), kwargs.get("where")))
    dtypes = _dtypes(ufunc, inputs, kwargs)
    nodes = [as_node(v, graph, d) for v, d in zip(inputs, dtypes, strict=False)]
    if len(nodes) > 1:
        nodes = _together(nodes)
    result = meaning(*nodes)
    results = result if isinstance(result, tuple) else (result,)
    wanted = dtypes[ufunc.nin :]
    arrays = tuple(
        TracedArray(hlo.convert(node, dtype)) for node, dtype in zip(results, wanted, strict=True)
    )
    return _deliver(ufunc, arrays, kwargs)


def _dtypes(
    ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[np.dtype[Any], ...]:
    dtype = kwargs.get("dtype")
    if dtype is None:
        return ufunc_dtypes(ufunc, tuple([kind_of(value) for value in inputs]))
    return ufunc_dtypes(ufunc, (np.dtype(dtype),) * ufunc.nin)


def _together(nodes: list[Node]) -> list[Node]:
    """Operands of one shape."""
    first = nodes[0].shape
    if all(node.shape == first for node in nodes):
        return nodes
    shape = np.broadcast_shapes(*(node.shape for node in nodes))
    return [hlo.broadcast(node, shape) for node in nodes]


def _deliver(ufunc: np.ufunc, arrays: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Results as they are, or written into ``out`` where ``where`` says so."""
    outs = kwargs.get("out")
    condition = kwargs.get("where", True)
    if outs is None:
        if condition is not True:
            raise refuse(
                "where= without out= leaves elements without a value",
                code="HLO-TRACE-FUNCTION",
                remedy="give out=, or use numpy.where",
            )
        return _one_or_all(arrays)
    targets: tuple[Any, ...] = outs if isinstance(outs, tuple) else (outs,)
    for out, array in zip(targets, arrays, strict=True):
        if out is not None:
            _write(ufunc, out, array, condition)
    return _one_or_all(targets)


def _one_or_all(values: tuple[Any, ...]) -> Any:
    first, *more = values
    return values if more else first


def _write(ufunc: np.ufunc, out: Any, array: TracedArray, condition: Any) -> None:
    if not isinstance(out, TracedArray):
        raise refuse(
            "a traced value cannot be written into a NumPy array",
            code="HLO-TRACE-VALUE",
            remedy="make the output inside the function, or pass it as an argument",
        )
    if not np.can_cast(array.dtype, out.dtype, "same_kind"):
        raise TypeError(
            f"Cannot cast ufunc '{ufunc.__name__}' output from {array.dtype!r} to {out.dtype!r} "
            "with casting rule 'same_kind'"
        )
    if np.broadcast_shapes(array.shape, out.shape) != out.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {out.shape} doesn't match the "
            f"broadcast shape {array.shape}"
        )
    node = hlo.broadcast(hlo.convert(array.node, out.dtype), out.shape)
    if condition is not True:
        mask = hlo.broadcast(as_node(condition, node.graph, np.dtype(bool)), out.shape)
        node = hlo.select(mask, node, out.node)
    out.write(node)


def _reduce(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``ufunc.reduce``: the NumPy function that means the same."""
    function = _REDUCTIONS.get(ufunc)
    if function is None:
        raise _unknown(f"{ufunc.__name__}.reduce")
    options = {k: v for k, v in kwargs.items() if v is not None or k == "axis"}
    options.setdefault("axis", 0)
    out = options.pop("out", None)
    result = function(inputs[0], *inputs[1:], **options)
    return _deliver(ufunc, (result,), {"out": out}) if out else result


def _accumulate(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    function = _ACCUMULATIONS.get(ufunc)
    if function is None:
        raise _unknown(f"{ufunc.__name__}.accumulate")
    return function(inputs[0], **{"axis": 0, **kwargs})


def _outer(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    left, right = inputs
    if not isinstance(left, TracedArray):
        left = np.asarray(left)
    spread = np.reshape(left, left.shape + (1,) * np.ndim(right))
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
        f"numpy.{name} is not known for traced arrays",
        code="HLO-TRACE-FUNCTION",
        remedy="write it with functions that are; the list is hlo_tools.trace.supported()",
    )
