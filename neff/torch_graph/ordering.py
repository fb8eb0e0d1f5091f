"""Sorting, and the largest elements."""

from __future__ import annotations

import math

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.elementwise import LOWERINGS
from hlo_tools.trace.graph import Node
from neff.torch_graph.operator_call import BOOL, S32, S64, OperatorCall, Row, axis_of
from neff.torch_graph.shaping import taken

__all__ = ["ORDERING"]


def _key(node: Node, descending: bool) -> Node:
    """A key whose rising total order is PyTorch's: NaN is the greatest, zeros are equal."""
    if node.dtype.kind == "c":
        raise TypeError("complex numbers have no order")
    if node.dtype == BOOL:
        node = hlo.convert(node, S32)
    if node.dtype.kind in "iu":
        return LOWERINGS[np.invert](node) if descending else node
    shape, graph = node.shape, node.graph
    zero = hlo.full(graph, shape, 0, node.dtype)
    plain = hlo.select(hlo.compare("EQ", node, zero), zero, node)
    if descending:
        plain = hlo.select(hlo.compare("EQ", node, zero), zero, hlo.elementwise("negate", plain))
    limit = -math.nan if descending else math.nan
    nan = hlo.full(graph, shape, math.copysign(math.nan, limit), node.dtype)
    return hlo.select(hlo.compare("NE", node, node), _signed_nan(nan, descending), plain)


def _signed_nan(nan: Node, negative: bool) -> Node:
    """A NaN of the sign that puts it at the end: total order has -NaN first and NaN last."""
    minus = hlo.full(nan.graph, nan.shape, -1.0 if negative else 1.0, nan.dtype)
    return LOWERINGS[np.copysign](nan, minus)


def _sorted(node: Node, axis: int, descending: bool) -> tuple[Node, Node]:
    """Values and their positions, stable."""
    key = _key(node, descending)
    positions = hlo.iota(node.graph, node.shape, axis)
    operands = (key, node, positions)
    dtypes = tuple(operand.dtype for operand in operands)
    shapes = (node.shape,) * 3
    ordered = node.graph.emit(
        "sort", shapes, dtypes, operands, dimensions=(axis,), is_stable=True, apply=("LT", *dtypes)
    )
    values, indices = (
        node.graph.emit("get-tuple-element", node.shape, dtypes[n], (ordered,), tuple_index=n)
        for n in (1, 2)
    )
    return values, hlo.convert(indices, S64)


def _sort(call: OperatorCall, x: Node, dim: int = -1, descending: bool = False) -> tuple[Node, ...]:
    if not x.shape or not math.prod(x.shape):
        return x, call.full(0, dtype=S64)
    return _sorted(x, axis_of(dim, len(x.shape)), descending)


def _stable_sort(
    call: OperatorCall, x: Node, stable: bool | None, dim: int = -1, descending: bool = False
) -> tuple[Node, ...]:
    return _sort(call, x, dim, descending)


def _topk(
    call: OperatorCall, x: Node, count: int, dim: int = -1, largest: bool = True,
    is_sorted: bool = True,
) -> tuple[Node, ...]:  # fmt: skip
    if not x.shape or not math.prod(call.shape):
        return hlo.reshape(x, call.shape) if not x.shape else call.full(0), call.full(0, dtype=S64)
    axis = axis_of(dim, len(x.shape))
    return tuple(taken(node, axis, 0, count) for node in _sorted(x, axis, largest))


ORDERING: dict[str, Row] = {
    "aten.sort.default": _sort,
    "aten.sort.stable": _stable_sort,
    "aten.topk.default": _topk,
}
"""Operator -> its lowering."""
