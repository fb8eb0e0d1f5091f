"""Operators that read and write at positions: gather, scatter, and PyTorch's indexing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.functions.reductions import highest, lowest
from hlo_tools.trace.graph import Node, Operand
from neff.torch_graph.operator_call import BOOL, S32, OperatorCall, Row, Shape, axis_of
from neff.torch_graph.shaping import taken

__all__ = ["INDEXING"]


def _positions(call: OperatorCall, index: Node, size: int) -> Node:
    """Positions as int32, negative ones counted from the end."""
    node = call.node(index, S32)
    behind = hlo.elementwise("add", node, hlo.full(call.graph, node.shape, size, S32))
    return hlo.select(
        hlo.compare("LT", node, hlo.full(call.graph, node.shape, 0, S32)), behind, node
    )


def _columns(nodes: Sequence[Node]) -> Node:
    """Positions in each dimension, side by side in a new last dimension."""
    shape = nodes[0].shape
    return hlo.concatenate([hlo.reshape(node, (*shape, 1)) for node in nodes], len(shape))


def _gathered(
    node: Node, locations: Node, dims: Sequence[int], offset_dims: Sequence[int], shape: Shape
) -> Node:
    sizes = tuple(1 if n in dims else size for n, size in enumerate(node.shape))
    numbers = {
        "offset_dims": list(offset_dims), "collapsed_slice_dims": list(dims),
        "start_index_map": list(dims), "index_vector_dim": len(locations.shape) - 1,
    }  # fmt: skip
    return node.graph.emit(
        "gather", shape, node.dtype, (node, locations), gather_dimension_numbers=numbers,
        gather_slice_sizes=sizes,
    )  # fmt: skip


def _scattered(
    node: Node, locations: Node, updates: Node, dims: Sequence[int], window_dims: Sequence[int],
    combine: str,
) -> Node:  # fmt: skip
    numbers = {
        "update_window_dims": list(window_dims), "inserted_window_dims": list(dims),
        "scatter_dims_to_operand_dims": list(dims), "index_vector_dim": len(locations.shape) - 1,
    }  # fmt: skip
    return node.graph.emit(
        "scatter", node.shape, node.dtype, (node, locations, updates),
        scatter_dimension_numbers=numbers, apply=(combine, node.dtype),
    )  # fmt: skip


def _index_select(call: OperatorCall, x: Node, dim: int, index: Node) -> Node:
    if not x.shape:
        return x
    axis = axis_of(dim, len(x.shape))
    if not math.prod(call.shape):
        return call.full(0)
    positions = hlo.reshape(_positions(call, index, x.shape[axis]), (call.shape[axis], 1))
    offsets = [n for n in range(len(x.shape)) if n != axis]
    return _gathered(x, positions, [axis], offsets, call.shape)


def _embedding(call: OperatorCall, weight: Node, indices: Node, *arguments: Operand) -> Node:
    if not math.prod(call.shape):
        return call.full(0)
    positions = _columns([_positions(call, indices, weight.shape[0])])
    return _gathered(weight, positions, [0], [len(indices.shape)], call.shape)


def _along(call: OperatorCall, index: Node, dim: int, size: int) -> Node:
    """For each element of the index, its position in every dimension but with the index in one."""
    axis = axis_of(dim, len(index.shape))
    nodes = [hlo.iota(call.graph, index.shape, n) for n in range(len(index.shape))]
    nodes[axis] = _positions(call, index, size)
    return _columns(nodes)


def _gather(call: OperatorCall, x: Node, dim: int, index: Node, *arguments: Operand) -> Node:
    if not x.shape:
        return hlo.broadcast(hlo.reshape(x, (1,) * len(index.shape)), call.shape)
    if not math.prod(call.shape):
        return call.full(0)
    if not index.shape:
        index = hlo.reshape(index, (1,))
    positions = _along(call, index, dim, x.shape[axis_of(dim, len(x.shape))])
    picked = _gathered(x, positions, range(len(x.shape)), [], index.shape)
    return hlo.reshape(picked, call.shape)


def _as_vectors(x: Node, index: Node) -> tuple[Node, Node]:
    """Scalars as vectors of one element."""
    return tuple(node if node.shape else hlo.reshape(node, (1,)) for node in (x, index))  # type: ignore[return-value]


def _scatter(combine: str) -> Row:
    def row(
        call: OperatorCall, x: Node, dim: int, index: Node, source: Operand, *arguments: Operand
    ) -> Node:
        target, places_of = _as_vectors(x, index)
        if not math.prod(places_of.shape):
            return x
        values = _source(call, source, places_of.shape)
        axis = axis_of(dim, len(target.shape))
        positions = _along(call, places_of, axis, target.shape[axis])
        kind = "or" if combine == "add" and x.dtype == BOOL else combine
        result = _scattered(target, positions, values, range(len(target.shape)), [], kind)
        return hlo.reshape(result, call.shape)

    return row


def _source(call: OperatorCall, source: Operand, shape: Shape) -> Node:
    """The values for each element of the index: a number, or the first elements of a tensor."""
    node = call.node(source, call.dtype)
    if not isinstance(source, Node) or len(node.shape) != len(shape):
        return (
            hlo.broadcast(hlo.reshape(node, ()), shape)
            if not node.shape
            else hlo.reshape(node, shape)
        )
    for axis, extent in enumerate(shape):
        node = taken(node, axis, 0, extent)
    return node


_REDUCES = {
    "add": "add", "amax": "maximum", "amin": "minimum", "multiply": "multiply", "prod": "multiply",
    "sum": "add",
}  # fmt: skip


def _scatter_by_name(
    call: OperatorCall, x: Node, dim: int, index: Node, source: Operand, reduce: str
) -> Node:
    """``scatter`` with ``reduce="add"`` or ``"multiply"``."""
    node: Node | tuple[Node, ...] = _scatter(_REDUCES[reduce])(call, x, dim, index, source)
    assert isinstance(node, Node)
    return node


def _scatter_reduce(
    call: OperatorCall, x: Node, dim: int, index: Node, source: Node, reduce: str,
    include_self: bool = True,
) -> Node:  # fmt: skip
    if reduce not in _REDUCES:
        raise call.refused(f"with reduce={reduce!r}")
    kind = _REDUCES[reduce]
    if kind in ("maximum", "minimum") and x.dtype == BOOL:
        kind = {"maximum": "or", "minimum": "and"}[kind]
    target = x
    if not include_self:
        starts = {"add": 0, "multiply": 1, "maximum": lowest, "minimum": highest}
        start = starts.get(kind, kind == "and")
        value = start(x.dtype) if callable(start) else start
        target = _scatter("second")(call, x, dim, index, value)
    node: Node | tuple[Node, ...] = _scatter(kind)(call, target, dim, index, source)
    assert isinstance(node, Node)
    return node


def _index(call: OperatorCall, x: Node, indices: Sequence[Node | None]) -> Node:
    positions, dims, batch = _index_places(call, x, indices)
    if not math.prod(call.shape):
        return call.full(0)
    start = _batch_start(dims, indices)
    window = [n for n in range(len(call.shape)) if not start <= n < start + len(batch)]
    return _gathered(x, positions, dims, window, call.shape)


def _index_places(
    call: OperatorCall, x: Node, indices: Sequence[Node | None]
) -> tuple[Node, list[int], Shape]:
    """Positions, the dimensions that they are in, and the shape of the indices together."""
    if any(index is not None and index.dtype == BOOL for index in indices):
        raise call.refused("for masks, which select as many elements as they have true ones")
    dims = [n for n, index in enumerate(indices) if index is not None]
    nodes = [index for index in indices if index is not None]
    batch = np.broadcast_shapes(*(node.shape for node in nodes))
    if not math.prod(batch):
        return hlo.full(call.graph, (*batch, len(dims)), 0, S32), dims, batch
    columns = [
        hlo.broadcast(_positions(call, node, x.shape[dim]), batch)
        for node, dim in zip(nodes, dims, strict=True)
    ]
    return _columns(columns), dims, batch


def _batch_start(dims: Sequence[int], indices: Sequence[Node | None]) -> int:
    """Where the indices' dimensions stand in the result: in front unless they are adjacent."""
    return dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0


def _index_put(
    call: OperatorCall, x: Node, indices: Sequence[Node | None], values: Node,
    accumulate: bool = False, unsafe: bool = False,
) -> Node:  # fmt: skip
    positions, dims, batch = _index_places(call, x, indices)
    if not math.prod(batch) or not math.prod(x.shape):
        return x
    start = _batch_start(dims, indices)
    trailing = tuple(size for n, size in enumerate(x.shape) if n not in dims)
    shape = (*trailing[:start], *batch, *trailing[start:])
    updates = call.node(values, x.dtype, shape)
    window = [n for n in range(len(shape)) if not start <= n < start + len(batch)]
    combine = "second" if not accumulate else "or" if x.dtype == BOOL else "add"
    return _scattered(x, positions, updates, dims, window, combine)


INDEXING: dict[str, Row] = {
    "aten._unsafe_index.Tensor": _index,
    "aten._unsafe_index_put.default": _index_put,
    "aten.embedding.default": _embedding,
    "aten.gather.default": _gather,
    "aten.index.Tensor": _index,
    "aten.index_put.default": _index_put,
    "aten.index_select.default": _index_select,
    "aten.scatter.reduce": _scatter_by_name,
    "aten.scatter.src": _scatter("second"),
    "aten.scatter.value": _scatter("second"),
    "aten.scatter.value_reduce": _scatter_by_name,
    "aten.scatter_add.default": _scatter("add"),
    "aten.scatter_reduce.two": _scatter_reduce,
}
"""Operator -> its lowering."""
