"""HLO instructions as functions over nodes; each checks nothing that NumPy has not checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo_tools.trace.graph import Graph, Node

__all__ = [
    "bitcast",
    "broadcast",
    "compare",
    "concatenate",
    "constant",
    "convert",
    "dot",
    "dynamic_update_slice",
    "elementwise",
    "full",
    "iota",
    "ordered_like",
    "pad",
    "reduce",
    "reshape",
    "reverse",
    "running",
    "select",
    "slice_",
    "transpose",
    "unordered",
]

Shape = tuple[int, ...]
BOOL = np.dtype(bool)
S32, U32 = np.dtype(np.int32), np.dtype(np.uint32)


def constant(graph: Graph, value: Any, dtype: Any) -> Node:
    """A constant; a scalar is shared with equal ones."""
    return graph.constant(np.asarray(value, dtype))


def full(graph: Graph, shape: Shape, value: Any, dtype: Any) -> Node:
    """An array with one value everywhere."""
    return broadcast(constant(graph, value, dtype), shape)


def iota(graph: Graph, shape: Shape, dimension: int, dtype: Any = S32) -> Node:
    """The position along ``dimension`` of every element."""
    return graph.emit("iota", shape, np.dtype(dtype), (), dimensions=(dimension,))


def elementwise(opcode: str, *operands: Node, dtype: Any = None) -> Node:
    """An elementwise instruction over operands of one shape."""
    first = operands[0]
    return first.graph.emit(opcode, first.shape, dtype or first.dtype, operands)


def compare(direction: str, left: Node, right: Node) -> Node:
    """``EQ NE LT LE GT GE``, elementwise."""
    return left.graph.emit(
        "compare", left.shape, BOOL, (left, right), comparison_direction=direction
    )


def select(condition: Node, yes: Node, no: Node) -> Node:
    return yes.graph.emit("select", yes.shape, yes.dtype, (condition, yes, no))


def convert(node: Node, dtype: Any) -> Node:
    """NumPy's ``astype``: truncation to integers; to booleans, whether it is not zero.

    Floats beyond a small or unsigned integer wrap, as NumPy's do through int32 (x86); HLO's own
    conversion saturates. Beyond int32 and for NaN NumPy's answer is undefined, ours saturates.
    """
    target = np.dtype(dtype)
    if node.dtype == target:
        return node
    if target == BOOL:
        return compare("NE", node, full(node.graph, node.shape, 0, node.dtype))
    if node.opcode == "constant" and not node.shape:
        with np.errstate(all="ignore"):
            return node.graph.constant(node.attributes["value"].astype(target))
    is_float = node.dtype.kind not in "biuc"
    if is_float and target.kind in "iu" and target.itemsize < 4:
        node = node.graph.emit("convert", node.shape, S32, (node,))
    if is_float and target == U32:
        return _unsigned(node)
    if node.dtype.kind == "c" and target.kind != "c":
        node = elementwise("real", node, dtype=np.dtype(np.float32))
        return convert(node, target)
    return node.graph.emit("convert", node.shape, target, (node,))


def _unsigned(node: Node) -> Node:
    """A float as uint32, negative ones wrapped."""
    shape, graph = node.shape, node.graph
    signed = bitcast(graph.emit("convert", shape, S32, (node,)), U32)
    plain = graph.emit("convert", shape, U32, (node,))
    return select(compare("LT", node, full(graph, shape, 0, node.dtype)), signed, plain)


def bitcast(node: Node, dtype: Any) -> Node:
    """The same bits as another type of the same size."""
    return node.graph.emit("bitcast-convert", node.shape, np.dtype(dtype), (node,))


def broadcast(node: Node, shape: Shape) -> Node:
    """NumPy's broadcasting of one array to ``shape``."""
    if node.shape == shape:
        return node
    if not node.shape:
        key = (node, shape)
        broadcasted = node.graph.shared(key)
        if broadcasted is None:
            broadcasted = node.graph.emit("broadcast", shape, node.dtype, (node,), dimensions=())
            node.graph.shared(key, broadcasted)
        return broadcasted
    lead = len(shape) - len(node.shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(node.shape, shape[lead:], strict=True)):
        raise ValueError(f"could not broadcast an array of shape {node.shape} into {shape}")
    same_axes = [i for i, size in enumerate(node.shape) if size == shape[lead + i]]
    if len(same_axes) < len(node.shape):
        node = reshape(node, tuple(node.shape[i] for i in same_axes))
    if node.shape == shape:
        return node
    dimensions = tuple(lead + i for i in same_axes)
    return node.graph.emit("broadcast", shape, node.dtype, (node,), dimensions=dimensions)


def reshape(node: Node, shape: Shape) -> Node:
    if node.shape == shape:
        return node
    return node.graph.emit("reshape", shape, node.dtype, (node,))


def transpose(node: Node, order: Sequence[int]) -> Node:
    permutation = tuple(order)
    if permutation == tuple(range(len(node.shape))):
        return node
    shape = tuple(node.shape[axis] for axis in permutation)
    result = node.graph.emit("transpose", shape, node.dtype, (node,), dimensions=permutation)
    moved = [axis for axis in permutation if node.shape[axis] != 1]
    result.is_c_ordered = node.is_c_ordered and moved == sorted(moved)
    return result


def unordered(node: Node) -> Node:
    """The same value as one of an array that NumPy may not keep in C order."""
    if not node.is_c_ordered or len(node.shape) < 2:
        return node
    copy = node.graph.emit("copy", node.shape, node.dtype, (node,))
    copy.is_c_ordered = False
    return copy


def ordered_like(node: Node, operands: Sequence[Node]) -> Node:
    """``node``, in C order only if the operands are: NumPy lays a new result out as they are."""
    return node if all(operand.is_c_ordered for operand in operands) else unordered(node)


def slice_(
    node: Node, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None
) -> Node:
    """Elements from start up to limit, every stride-th, in each dimension."""
    steps = tuple(strides) if strides is not None else (1,) * len(node.shape)
    bounds = list(zip(starts, limits, steps, strict=True))
    shape = tuple(max(0, -(-(limit - start) // step)) for start, limit, step in bounds)
    if shape == node.shape:
        return node
    dimensions = [{"start": a, "limit": b, "stride": c} for a, b, c in bounds]
    return node.graph.emit("slice", shape, node.dtype, (node,), slice_dimensions=dimensions)


def reverse(node: Node, dimensions: Sequence[int]) -> Node:
    if not dimensions:
        return node
    axes = tuple(dimensions)
    return node.graph.emit("reverse", node.shape, node.dtype, (node,), dimensions=axes)


def concatenate(nodes: Sequence[Node], dimension: int) -> Node:
    """Nodes of one dtype one after the other along ``dimension``."""
    if len(nodes) == 1:
        return nodes[0]
    first = nodes[0]
    total = sum(node.shape[dimension] for node in nodes)
    shape = (*first.shape[:dimension], total, *first.shape[dimension + 1 :])
    return first.graph.emit(
        "concatenate", shape, first.dtype, tuple(nodes), dimensions=(dimension,)
    )


def pad(
    node: Node, value: Node, low: Sequence[int], high: Sequence[int], interior: Sequence[int] = ()
) -> Node:
    """Surround (and space out) with a scalar; negative amounts cut off."""
    between = tuple(interior) or (0,) * len(node.shape)
    rows = list(zip(low, high, between, strict=True))
    if not any(any(row) for row in rows):
        return node
    shape = tuple(
        before + after + size + max(size - 1, 0) * inner
        for size, (before, after, inner) in zip(node.shape, rows, strict=True)
    )
    config = {
        "dimensions": [
            {"edge_padding_low": a, "edge_padding_high": b, "interior_padding": c}
            for a, b, c in rows
        ]
    }
    return node.graph.emit("pad", shape, node.dtype, (node, value), padding_config=config)


def reduce(node: Node, initial: Any, dimensions: Sequence[int], opcode: str) -> Node:
    """Combine all elements along ``dimensions`` with a binary instruction."""
    axes = tuple(dimensions)
    shape = tuple(size for axis, size in enumerate(node.shape) if axis not in axes)
    start = constant(node.graph, initial, node.dtype)
    return node.graph.emit(
        "reduce", shape, node.dtype, (node, start), dimensions=axes, apply=(opcode, node.dtype)
    )


def running(node: Node, neutral: complex, axis: int, opcode: str) -> Node:
    """Each element combined with all before it along an axis, the first ones first."""
    rows: list[dict[str, int]] = []
    for dimension, size in enumerate(node.shape):
        length = size if dimension == axis else 1
        rows.append({
            "size": length, "stride": 1, "padding_low": length - 1, "padding_high": 0,
            "window_dilation": 1, "base_dilation": 1,
        })  # fmt: skip
    start = constant(node.graph, neutral, node.dtype)
    return node.graph.emit(
        "reduce-window", node.shape, node.dtype, (node, start),
        window={"dimensions": rows}, apply=(opcode, node.dtype),
    )  # fmt: skip


def dot(
    left: Node,
    right: Node,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    dtype: Any = None,
) -> Node:
    """Sum of products over the contracted dimensions; result: batch, left's, right's others."""
    numbers = {
        "lhs_contracting_dimensions": list(contract[0]),
        "rhs_contracting_dimensions": list(contract[1]),
        "lhs_batch_dimensions": list(batch[0]),
        "rhs_batch_dimensions": list(batch[1]),
    }
    shape = tuple(left.shape[axis] for axis in batch[0])
    for node, used in ((left, (*contract[0], *batch[0])), (right, (*contract[1], *batch[1]))):
        shape += tuple(size for axis, size in enumerate(node.shape) if axis not in used)
    return left.graph.emit(
        "dot", shape, np.dtype(dtype or left.dtype), (left, right), dot_dimension_numbers=numbers
    )


def dynamic_update_slice(node: Node, update: Node, starts: Sequence[Node | int]) -> Node:
    """``node`` with ``update`` written from ``starts`` on (kept inside by HLO)."""
    if math.prod(update.shape) == 0:
        return node
    if update.shape == node.shape:
        return update
    graph = node.graph
    positions = tuple(s if isinstance(s, Node) else constant(graph, s, S32) for s in starts)
    return graph.emit("dynamic-update-slice", node.shape, node.dtype, (node, update, *positions))
