"""Functions of nkipy that NumPy has not: arrays made while tracing, top-k, convolutions.

Names and arguments are those of ``nkipy.core.tensor_apis`` (aws-neuron/nkipy, b91c980). Each also
takes plain NumPy arrays and then computes with NumPy, so that a function can be tried without
tracing it. nkipy names ``softmax`` and ``rms_norm`` too and does not define them; here they are
the usual functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, as_node, operand
from hlo_tools.trace.functions.arguments import one_axis, xp
from hlo_tools.trace.graph import Array, Operand, current_graph

__all__ = ["constant", "full", "rms_norm", "softmax", "topk", "zeros"]

S32, U32 = np.dtype(np.int32), np.dtype(np.uint32)


# --------------------------------------------------------------------------------- creation


def full(shape: int | Sequence[int], fill_value: Operand, dtype: Any) -> Any:
    """An array with one value everywhere; while tracing, one that can be written to."""
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    graph = current_graph()
    if graph is None:
        return np.full(extents, fill_value, dtype)
    return TracedArray(hlo.broadcast(operand(fill_value, graph, np.dtype(dtype)), extents))


def zeros(shape: int | Sequence[int], dtype: Any) -> Any:
    """:func:`full` of zeros."""
    return full(shape, 0, dtype)


def constant(value: Operand, dtype: Any = None) -> Any:
    """``value`` as an array; while tracing, as a constant of the module.

    A Python int becomes int32 and a float float32, as nkipy has it.
    """
    if isinstance(value, TracedArray):
        return value if dtype is None else value.astype(dtype)
    graph = current_graph()
    if graph is None:
        return np.asarray(value, dtype)
    if dtype is None and not hasattr(value, "dtype"):
        dtypes: dict[Any, Any] = {int: np.int32, float: np.float32}
        dtype = dtypes.get(type(value))
    array = np.asarray(value, dtype)
    return TracedArray(as_node(array, graph))


# ---------------------------------------------------------------------------- normalisation


def softmax(x: Operand, axis: int = -1) -> Any:
    """Exponentials along ``axis`` divided by their sum; 16-bit floats are computed in float32."""

    def work(wide: Any) -> Any:
        powers = xp.exp(wide - xp.max(wide, axis=axis, keepdims=True))
        return powers / xp.sum(powers, axis=axis, keepdims=True)

    return _in_float32(x, work)


def rms_norm(x: Operand, weight: Operand, eps: float) -> Any:
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last axis; 16-bit floats are computed in
    float32."""

    def work(wide: Any) -> Any:
        return wide / xp.sqrt(xp.mean(wide * wide, axis=-1, keepdims=True) + np.float32(eps))

    return _in_float32(x, work) * weight


def _in_float32(x: Operand, work: Callable[[Any], Any]) -> Any:
    if x.dtype.itemsize != 2:
        return work(x)
    return work(x.astype(np.float32)).astype(x.dtype)


# ------------------------------------------------------------------------------------ top-k


def topk(
    x: Operand, k: int, axis: int = 0, is_ascend: bool = False, out: Any = None, dtype: Any = None
) -> tuple[Any, Any]:
    """The ``k`` largest elements along ``axis`` in order (the smallest with ``is_ascend``), and
    where they are (uint32); of equal ones the first comes first.

    ``out`` and ``dtype`` are taken and ignored, as in nkipy.

    Raises:
        ValueError: the axis has fewer than ``k`` elements.
    """
    axis_index = one_axis(axis, x.ndim)
    if not 0 < k <= x.shape[axis_index]:
        raise ValueError(f"k={k} must be 1 to {x.shape[axis_index]}, the size of axis {axis}")
    last = xp.moveaxis(x, axis_index, -1)
    if isinstance(last, TracedArray):
        values, positions = _topk_traced(last, k, is_ascend)
    else:
        values, positions = _topk_numpy(last, k, is_ascend)
    return xp.moveaxis(values, -1, axis_index), xp.moveaxis(positions, -1, axis_index).astype(U32)


def _topk_numpy(x: Array, k: int, smallest: bool) -> tuple[Any, Any]:
    if smallest:
        order = np.argsort(x, axis=-1, kind="stable")
    else:  # from behind, so that of equal elements the first comes first
        order = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    chosen = order[..., :k]
    return np.take_along_axis(x, chosen, axis=-1), chosen


def _topk_traced(x: TracedArray, k: int, smallest: bool) -> tuple[TracedArray, TracedArray]:
    node = _mirrored(x).node if smallest else x.node
    shape = (*node.shape[:-1], k)
    top = node.graph.emit("topk", (shape, shape), (node.dtype, S32), (node,), k=k, largest=True)
    values, positions = (
        TracedArray(node.graph.emit("get-tuple-element", shape, dtype, (top,), tuple_index=index))
        for index, dtype in enumerate((node.dtype, S32))
    )
    return (_mirrored(values) if smallest else values), positions


def _mirrored(x: TracedArray) -> TracedArray:
    """Return values in the opposite order: ``-x``, and for integers ``~x``, which never
    overflows.
    """
    return -x if x.dtype.kind not in "biu" else ~x
