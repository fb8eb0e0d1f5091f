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
    operand,
    ordered,
    result,
)
from hlo_tools.trace.comparing import COMPARISONS, compare_number, compare_signs, mixes_signs
from hlo_tools.trace.elementwise import LOWERINGS
from hlo_tools.trace.errors import refuse
from hlo_tools.trace.functions.arguments import write_out
from hlo_tools.trace.functions.linear import matmul
from hlo_tools.trace.graph import DType, Graph, Node, Operand
from hlo_tools.trace.narrowing import tell_of_ufunc
from hlo_tools.trace.promotion import narrow, resolved_dtypes, ufunc_dtypes

__all__ = ["call", "dispatch"]


def _has_integers(inputs: tuple[object, ...]) -> bool:
    for value in inputs:
        dtype = getattr(value, "dtype", None)
        if dtype is not None and dtype.kind in "iu":
            return True
    return False


def dispatch(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Implement ``__array_ufunc__``."""
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
    meaning = LOWERINGS.get(ufunc)
    if meaning is None:
        raise _unknown(ufunc.__name__)
    for value in inputs:
        if isinstance(value, np.generic):
            narrow(kind_of(value))  # refuses dates, texts and records
    graph = graph_of((*inputs, outs, kwargs.get("where")))
    if kwargs and not kwargs.keys() <= _OPTIONS:
        raise _surplus(ufunc, kwargs)
    dtypes = _dtypes(ufunc, inputs, outs, kwargs)
    certain = None
    if ufunc in COMPARISONS and not kwargs.keys() & {"dtype", "signature", "sig"}:
        certain = compare_number(ufunc, inputs)
    if certain is not None:
        arrays = [value.node for value in inputs if isinstance(value, TracedArray)]
        return _finished(ufunc, certain, arrays, dtypes, outs, kwargs)
    if ufunc in COMPARISONS and mixes_signs(inputs):
        nodes = _together([as_node(value, graph) for value in inputs])
        return _finished(ufunc, compare_signs(ufunc, nodes), nodes, dtypes, outs, kwargs)
    nodes = _operands(ufunc, inputs, graph, kwargs)
    if not graph.is_told and (kwargs or _has_integers(inputs)):
        kinds = tuple([kind_of(value) for value in inputs])
        tell_of_ufunc(graph, ufunc, kinds, *_wanted(ufunc, kwargs))
    nodes = _together(nodes)
    return _finished(ufunc, meaning(*nodes), nodes, dtypes, outs, kwargs)


def _finished(
    ufunc: np.ufunc, computed: Node | tuple[Node, ...], operands: list[Node],
    dtypes: tuple[DType, ...], outs: Outs, kwargs: dict[str, Operand],
) -> Operand:  # fmt: skip
    """The results in the dtypes and the order that are asked for, written into ``out``."""
    order = kwargs.get("order", "K")
    results = computed if isinstance(computed, tuple) else (computed,)
    arrays: list[TracedArray] = []
    for node, dtype in zip(results, dtypes[ufunc.nin :], strict=True):
        converted = hlo.ordered_like(hlo.convert(node, dtype), operands)
        arrays.append(ordered(converted, order) if node.shape else result(converted))
    return _deliver(ufunc, tuple(arrays), outs, kwargs)


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
    outputs = cast("tuple[Any, ...]", outs) if isinstance(outs, tuple) else (outs,)
    padded = (*outputs, *(None,) * (ufunc.nout - len(outputs)))
    return inputs, padded if any(o is not None and o is not Ellipsis for o in padded) else None


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
    core = 2 - sum(np.ndim(operand) == 1 for operand in inputs)
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


def _operands(
    ufunc: np.ufunc, inputs: tuple[Operand, ...], graph: Graph, kwargs: dict[str, Operand]
) -> list[Node]:
    """Inputs in the dtypes of NumPy's loop, narrowed.

    Raises:
        TraceError: a number that they do not hold, or that makes uint32 a signed type
            (HLO-TRACE-DTYPE).
    """
    kinds = tuple([kind_of(value) for value in inputs])
    wide = resolved_dtypes(ufunc, kinds, *_wanted(ufunc, kwargs))
    nodes: list[Node] = []
    for value, dtype in zip(inputs, wide, strict=False):
        if isinstance(value, TracedArray):
            nodes.append(as_node(value, graph, narrow(dtype)))
            if value.dtype == _U32 and dtype == np.int64 and ufunc not in _WRAPPING:
                _require_arrays(ufunc, inputs)
        else:
            nodes.append(operand(value, graph, dtype))
    if ufunc in _POWERS and not isinstance(inputs[1], TracedArray):
        _require_exponent(inputs[1], wide[1], nodes[1].dtype)
    if ufunc in _LOGIC:
        for value in inputs:
            if type(value) is int:
                np.asarray(value, np.int64)  # NumPy's error for one that is beyond
    return nodes


_U32 = np.dtype(np.uint32)
_WRAPPING = frozenset((
    np.add, np.subtract, np.multiply, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift,
    np.logical_and, np.logical_or, np.logical_xor, np.equal, np.not_equal,
))  # fmt: skip
"""Ufuncs of which 32 bits of the operands give 32 bits of the result, whatever their sign."""
_POWERS = frozenset((np.power, np.float_power))
_LOGIC = frozenset((np.logical_and, np.logical_or, np.logical_xor))


def _require_arrays(ufunc: np.ufunc, inputs: tuple[Operand, ...]) -> None:
    """Refuse a signed number that makes NumPy compute with uint32 in 64 bits."""
    if all(isinstance(value, TracedArray) or np.ndim(value) for value in inputs):
        return
    raise refuse(
        f"numpy.{ufunc.__name__} of uint32 and a signed NumPy number has dtype int64 in NumPy, and int32 "
        "does not hold all elements",
        code="HLO-TRACE-DTYPE",
        remedy="use a Python int or numpy.uint32 instead of the NumPy number",
    )


def _require_exponent(exponent: Operand, wide: DType, used: DType) -> None:
    """Raise NumPy's error for integers to a negative power, and refuse an integer that 32 bits round.

    Whether an exponent is odd decides on the sign.
    """
    if wide.kind == "i" and np.any(np.less(exponent, 0)):
        raise ValueError("Integers to negative integer powers are not allowed.")
    if wide == used or wide.kind != "f":
        return
    values = np.asarray(exponent).astype(wide)
    rounded = values.astype(used).astype(wide)
    if np.any((values != rounded) & (values == np.floor(values))):
        raise refuse(
            f"an exponent is an integer that {used} rounds, and NumPy computes in {wide}",
            code="HLO-TRACE-DTYPE",
            remedy=f"use an exponent that {used} holds",
        )


def _together(nodes: list[Node]) -> list[Node]:
    """Operands of one shape."""
    if len({node.shape for node in nodes}) == 1:
        return nodes
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
    delivered: list[Any] = []
    for out, array in zip(outs, arrays, strict=True):
        if out is not None:
            _write(ufunc, out, array, condition, casting)
        delivered.append(array if out is None else out)
    return delivered[0] if len(delivered) == 1 else tuple(delivered)


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
