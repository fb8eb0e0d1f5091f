"""Operators that combine the elements of dimensions: sums, extremes, variances and running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.elementwise import LOWERINGS
from hlo_tools.trace.functions.reductions import highest, lowest
from hlo_tools.trace.graph import Node, Operand
from neff.torch_graph.operator_call import BOOL, F32, S64, OperatorCall, Row, axes_of, axis_of

__all__ = ["REDUCTIONS", "reduced"]


def _is_float(node: Node) -> bool:
    return node.dtype.kind not in "biuc"


def reduced(
    call: OperatorCall, node: Node, axes: tuple[int, ...], opcode: str, initial: object
) -> Node:
    """All elements along axes combined, in the result's shape; 16-bit floats in float32."""
    narrow = _is_float(node) and node.dtype.itemsize < 4 and opcode in ("add", "multiply")
    wide = call.node(node, F32) if narrow else node
    if axes:
        wide = hlo.reduce(wide, initial, axes, opcode)
    return hlo.reshape(call.node(wide, node.dtype), call.shape)


def _sum(
    call: OperatorCall, x: Node, dims: Operand = None, keepdim: bool = False, dtype: Operand = None
) -> Node:
    node = call.node(x, call.dtype)
    return reduced(call, node, axes_of(dims, len(x.shape)), "add", 0)


def _sum_of_all(call: OperatorCall, x: Node, dtype: Operand = None) -> Node:
    return _sum(call, x)


def _count(x: Node, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[axis] for axis in axes)


def _mean(
    call: OperatorCall, x: Node, dims: Operand = None, keepdim: bool = False, dtype: Operand = None
) -> Node:
    axes = axes_of(dims, len(x.shape))
    wide = F32 if call.dtype.itemsize < 4 else call.dtype
    total = reduced(call, call.node(x, wide), axes, "add", 0)
    count = call.full(_count(x, axes), dtype=wide)
    return call.node(hlo.elementwise("divide", total, count), call.dtype)


def _mean_of_all(call: OperatorCall, x: Node, dtype: Operand = None) -> Node:
    return _mean(call, x)


def _product(call: OperatorCall, x: Node, dim: int, keepdim: bool, dtype: Operand) -> Node:
    node = call.node(x, call.dtype)
    return reduced(call, node, axes_of(dim, len(x.shape)), "multiply", 1)


def _product_of_all(call: OperatorCall, x: Node, dtype: Operand) -> Node:
    return reduced(call, call.node(x, call.dtype), axes_of(None, len(x.shape)), "multiply", 1)


def _extreme(kind: str) -> Row:
    start = lowest if kind == "maximum" else highest

    def row(call: OperatorCall, x: Node, dims: Operand = None, keepdim: bool = False) -> Node:
        opcode = kind if x.dtype != BOOL else {"maximum": "or", "minimum": "and"}[kind]
        return reduced(call, x, axes_of(dims, len(x.shape)), opcode, start(x.dtype))

    return row


def _truth(opcode: str) -> Row:
    def row(call: OperatorCall, x: Node, dims: Operand = None, keepdim: bool = False) -> Node:
        axes = tuple(range(len(x.shape))) if dims is None else axes_of(dims, len(x.shape))
        truth = reduced(call, call.node(x, BOOL), axes, opcode, opcode == "and")
        return call.node(truth, call.dtype)

    return row


def _variances(call: OperatorCall, x: Node, dims: Operand, correction: Operand) -> list[Node]:
    """The variance and the mean, in float32 for 16-bit floats."""
    if x.dtype.kind == "c":
        raise call.refused("for complex numbers")
    axes = axes_of(dims, len(x.shape))
    wide = call.node(x, F32) if x.dtype.itemsize < 4 else x
    lengths = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
    count = _count(x, axes)
    total = hlo.reduce(wide, 0, axes, "add") if axes else wide
    size = hlo.full(call.graph, lengths, count, wide.dtype)
    mean = hlo.elementwise("divide", hlo.reshape(total, lengths), size)
    distance = hlo.elementwise("subtract", wide, hlo.broadcast(mean, x.shape))
    square = hlo.elementwise("multiply", distance, distance)
    squares = hlo.reduce(square, 0, axes, "add") if axes else square
    freedom = max(0.0, count - (1 if correction is None else float(correction)))
    divisor = hlo.full(call.graph, lengths, freedom, wide.dtype)
    variance = hlo.elementwise("divide", hlo.reshape(squares, lengths), divisor)
    return [hlo.reshape(call.node(node, call.dtype), call.shape) for node in (variance, mean)]


def _variance(
    call: OperatorCall, x: Node, dims: Operand = None, correction: Operand = None,
    keepdim: bool = False,
) -> Node:  # fmt: skip
    return _variances(call, x, dims, correction)[0]


def _prims_sum(call: OperatorCall, x: Node, dims: Sequence[int], *_: Operand) -> Node:
    return reduced(call, call.node(x, call.dtype), tuple(dims or ()), "add", 0)


def _prims_variance(
    call: OperatorCall, x: Node, dims: Operand = None, correction: Operand = 1, *_: Operand
) -> Node:
    return _variances(call, x, dims, correction)[0]


def _variance_and_mean(
    call: OperatorCall, x: Node, dims: Operand = None, correction: Operand = None,
    keepdim: bool = False,
) -> tuple[Node, ...]:  # fmt: skip
    return tuple(_variances(call, x, dims, correction))


def best_position(x: Node, axis: int, kind: str) -> tuple[Node, Node]:
    """The extreme along an axis and its first position; a NaN is one. The axis is dropped."""
    graph, shape = x.graph, x.shape
    node = hlo.convert(x, np.int32) if x.dtype == BOOL else x
    start: Any = (lowest if kind == "maximum" else highest)(node.dtype)
    best = hlo.reduce(node, start, (axis,), kind)
    kept_shape = (*shape[:axis], 1, *shape[axis + 1 :])
    spread = hlo.broadcast(hlo.reshape(best, kept_shape), shape)
    hit = hlo.compare("EQ", node, spread)
    if _is_float(node):
        hit = hlo.elementwise("or", hit, hlo.compare("NE", node, node))
    positions = hlo.iota(graph, shape, axis)
    beyond = hlo.full(graph, shape, shape[axis] - 1, positions.dtype)
    first = hlo.reduce(
        hlo.select(hit, positions, beyond), np.iinfo(np.int32).max, (axis,), "minimum"
    )
    return hlo.convert(best, x.dtype), hlo.convert(first, S64)


def _as_vector(x: Node, dim: int | None) -> tuple[Node, int]:
    """All elements in one dimension for None; a scalar as one element."""
    if dim is None or not x.shape:
        return hlo.reshape(x, (math.prod(x.shape),)), 0
    return x, axis_of(dim, len(x.shape))


def _position(kind: str) -> Row:
    def row(call: OperatorCall, x: Node, dim: int | None = None, keepdim: bool = False) -> Node:
        return hlo.reshape(best_position(*_as_vector(x, dim), kind)[1], call.shape)

    return row


def _extreme_and_position(kind: str) -> Row:
    def row(call: OperatorCall, x: Node, dim: int, keepdim: bool = False) -> tuple[Node, ...]:
        results = best_position(*_as_vector(x, dim), kind)
        return tuple(hlo.reshape(node, call.shape) for node in results)

    return row


def _norm(
    call: OperatorCall, x: Node, order: Operand = 2, dims: Operand = None, keepdim: bool = False,
    dtype: Operand = None,
) -> Node:  # fmt: skip
    wide = F32 if call.dtype.itemsize < 4 else call.dtype
    size = LOWERINGS[np.absolute](x)
    size = call.node(size, wide)
    axes = axes_of(dims, len(x.shape))
    if not axes and order != 0:
        return call.node(hlo.reshape(size, call.shape), call.dtype)
    if math.isinf(order):
        kind, start = ("maximum", 0) if order > 0 else ("minimum", math.inf)
        return call.node(reduced(call, size, axes, kind, start), call.dtype)
    if order == 0:
        zero = hlo.full(call.graph, x.shape, 0, wide)
        count = call.node(hlo.compare("NE", size, zero), wide)
        return call.node(reduced(call, count, axes, "add", 0), call.dtype)
    if order == 2:
        total = reduced(call, hlo.elementwise("multiply", size, size), axes, "add", 0)
        return call.node(hlo.elementwise("sqrt", total), call.dtype)
    if order != 1:
        size = hlo.elementwise("power", size, hlo.full(call.graph, x.shape, order, wide))
    total = reduced(call, size, axes, "add", 0)
    if order != 1:
        total = hlo.elementwise("power", total, call.full(1 / order, dtype=wide))
    return call.node(total, call.dtype)


def _running(opcode: str, neutral: int) -> Row:
    """Running sums and products, in the order in which PyTorch adds."""

    def row(call: OperatorCall, x: Node, dim: int, dtype: Operand = None) -> Node:
        node = call.node(x, call.dtype)
        if not node.shape or 0 in node.shape:
            return node
        narrow = _is_float(node) and node.dtype.itemsize < 4
        wide = call.node(node, F32) if narrow else node
        axis = axis_of(dim, len(node.shape))
        if wide.dtype.kind in "fc":
            return call.node(hlo.running(wide, neutral, axis, opcode), call.dtype)
        return _doubled(wide, axis, opcode, neutral)

    return row


def _doubled(node: Node, axis: int, opcode: str, neutral: int) -> Node:
    """Combine each element with all before it, in steps of doubling distance."""
    distance, size = 1, node.shape[axis]
    zero = hlo.constant(node.graph, neutral, node.dtype)
    while distance < size:
        low = [distance if n == axis else 0 for n in range(len(node.shape))]
        shifted = hlo.pad(node, zero, low, [-n for n in low])
        node = hlo.elementwise(opcode, node, shifted)
        distance *= 2
    return node


REDUCTIONS: dict[str, Row] = {
    "aten.all.default": _truth("and"),
    "aten.all.dim": _truth("and"),
    "aten.all.dims": _truth("and"),
    "aten.amax.default": _extreme("maximum"),
    "aten.amin.default": _extreme("minimum"),
    "aten.any.default": _truth("or"),
    "aten.any.dim": _truth("or"),
    "aten.any.dims": _truth("or"),
    "aten.argmax.default": _position("maximum"),
    "aten.argmin.default": _position("minimum"),
    "aten.cumprod.default": _running("multiply", 1),
    "aten.cumsum.default": _running("add", 0),
    "aten.linalg_vector_norm.default": _norm,
    "aten.max.default": _extreme("maximum"),
    "aten.max.dim": _extreme_and_position("maximum"),
    "aten.mean.default": _mean_of_all,
    "aten.mean.dim": _mean,
    "aten.min.default": _extreme("minimum"),
    "aten.min.dim": _extreme_and_position("minimum"),
    "aten.prod.default": _product_of_all,
    "aten.prod.dim_int": _product,
    "aten.sum.default": _sum_of_all,
    "aten.sum.dim_IntList": _sum,
    "aten.var.correction": _variance,
    "aten.var_mean.correction": _variance_and_mean,
    "prims.sum.default": _prims_sum,
    "prims.var.default": _prims_variance,
}
"""Operator -> its lowering."""
