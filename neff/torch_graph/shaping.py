"""Operators that move elements: views, slices, joins, and conversions of whole tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.graph import Node, Operand
from neff.torch_graph.operator_call import S32, OperatorCall, Row, axes_of, axis_of
from neff.torch_graph.pytorch_dtypes import NUMPY_DTYPES

__all__ = ["SHAPING", "taken"]


def _reshape(call: OperatorCall, x: Node, *arguments: Operand) -> Node:
    return hlo.reshape(x, call.shape)


def _same(call: OperatorCall, x: Node, *arguments: Operand) -> Node:
    """The value itself, in the result's dtype."""
    return call.node(x, call.dtype)


def _copied_from(call: OperatorCall, x: Node, source: Node, *arguments: Operand) -> Node:
    return call.node(source, call.dtype, call.shape)


def _expand(call: OperatorCall, x: Node, *arguments: Operand) -> Node:
    return hlo.broadcast(x, call.shape)


def _broadcast_in_dim(
    call: OperatorCall, x: Node, shape: Sequence[int], dimensions: Sequence[int]
) -> Node:
    lengths = [1] * len(shape)
    for axis, size in zip(dimensions, x.shape, strict=True):
        lengths[axis] = size
    return hlo.broadcast(hlo.reshape(x, tuple(lengths)), call.shape)


def _permute(call: OperatorCall, x: Node, dims: Sequence[int]) -> Node:
    return hlo.transpose(x, [axis_of(dim, len(x.shape)) for dim in dims])


def _transpose(call: OperatorCall, x: Node, first: int, second: int) -> Node:
    order = list(range(len(x.shape)))
    if not order:
        return x
    a, b = axis_of(first, len(order)), axis_of(second, len(order))
    order[a], order[b] = order[b], order[a]
    return hlo.transpose(x, order)


def _t(call: OperatorCall, x: Node) -> Node:
    return hlo.transpose(x, tuple(reversed(range(len(x.shape)))))


def taken(node: Node, axis: int, start: int, stop: int, step: int = 1) -> Node:
    """Elements from start up to stop along an axis."""
    starts = [start if n == axis else 0 for n in range(len(node.shape))]
    limits = [stop if n == axis else size for n, size in enumerate(node.shape)]
    steps = [step if n == axis else 1 for n in range(len(node.shape))]
    return hlo.slice_(node, starts, limits, steps)


def _bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    first, last, _ = slice(start, end).indices(size)
    return first, max(first, last)


def _slice(
    call: OperatorCall, x: Node, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Node:  # fmt: skip
    axis = axis_of(dim, len(x.shape))
    return taken(x, axis, *_bounds(x.shape[axis], start, end), step)


def _slice_scatter(
    call: OperatorCall, x: Node, source: Node, dim: int = 0, start: int | None = None,
    end: int | None = None, step: int = 1,
) -> Node:  # fmt: skip
    axis = axis_of(dim, len(x.shape))
    size = x.shape[axis]
    first, last = _bounds(size, start, end)
    source = call.node(source, x.dtype)
    if source.shape[axis] == 0:
        return x
    if step == 1:
        before, after = taken(x, axis, 0, first), taken(x, axis, last, size)
        return hlo.concatenate([n for n in (before, source, after) if n.shape[axis]], axis)
    low = [first if n == axis else 0 for n in range(len(x.shape))]
    between = [step - 1 if n == axis else 0 for n in range(len(x.shape))]
    span = (source.shape[axis] - 1) * step + 1
    high = [size - first - span if n == axis else 0 for n in range(len(x.shape))]
    spread = hlo.pad(source, hlo.constant(call.graph, 0, x.dtype), low, high, between)
    marks = np.zeros(size, bool)
    marks[first:last:step] = True
    shape = tuple(size if n == axis else 1 for n in range(len(x.shape)))
    chosen = call.graph.constant(marks.reshape(shape))
    return hlo.select(hlo.broadcast(chosen, x.shape), spread, x)


def _select(call: OperatorCall, x: Node, dim: int, index: int) -> Node:
    axis = axis_of(dim, len(x.shape))
    start = index + x.shape[axis] if index < 0 else index
    return hlo.reshape(taken(x, axis, start, start + 1), call.shape)


def _select_scatter(call: OperatorCall, x: Node, source: Node, dim: int, index: int) -> Node:
    axis = axis_of(dim, len(x.shape))
    start = index + x.shape[axis] if index < 0 else index
    kept_shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return _slice_scatter(call, x, hlo.reshape(source, kept_shape), axis, start, start + 1)


def _cat(call: OperatorCall, tensors: Sequence[Node], dim: int = 0) -> Node:
    nodes = [call.node(node, call.dtype) for node in tensors if node.shape != (0,)]
    nodes = [node for node in nodes if node.shape[axis_of(dim, len(call.shape))]] or nodes[:1]
    return hlo.concatenate(nodes, axis_of(dim, len(call.shape))) if nodes else call.full(0)


def _stack(call: OperatorCall, tensors: Sequence[Node], dim: int = 0) -> Node:
    axis = axis_of(dim, len(call.shape))
    shape = (*call.shape[:axis], 1, *call.shape[axis + 1 :])
    nodes = [hlo.reshape(call.node(node, call.dtype), shape) for node in tensors]
    return hlo.concatenate(nodes, axis)


def _split(call: OperatorCall, x: Node, sizes: Operand, dim: int = 0) -> tuple[Node, ...]:
    """Pieces of the sizes that PyTorch gives the results."""
    axis, start = axis_of(dim, len(x.shape)), 0
    pieces: list[Node] = []
    for shape in call.shapes:
        pieces.append(taken(x, axis, start, start + shape[axis]))
        start += shape[axis]
    return tuple(pieces)


def _unbind(call: OperatorCall, x: Node, dim: int = 0) -> tuple[Node, ...]:
    axis = axis_of(dim, len(x.shape))
    return tuple(
        hlo.reshape(taken(x, axis, n, n + 1), shape) for n, shape in enumerate(call.shapes)
    )


def _flip(call: OperatorCall, x: Node, dims: Sequence[int]) -> Node:
    return hlo.reverse(x, axes_of(dims, len(x.shape)) if dims else ())


def _roll(call: OperatorCall, x: Node, shifts: Sequence[int], dims: Sequence[int] = ()) -> Node:
    if not dims:
        flat = hlo.reshape(x, (math.prod(x.shape),))
        return hlo.reshape(_rolled(flat, 0, shifts[0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(x, axis_of(dim, len(x.shape)), shift)
    return x


def _rolled(node: Node, axis: int, shift: int) -> Node:
    size = node.shape[axis]
    distance = shift % size if size else 0
    if not distance:
        return node
    tail, head = taken(node, axis, size - distance, size), taken(node, axis, 0, size - distance)
    return hlo.concatenate([tail, head], axis)


def _repeat(call: OperatorCall, x: Node, repeats: Sequence[int]) -> Node:
    lengths = (1,) * (len(repeats) - len(x.shape)) + x.shape
    spaced = [extent for size in lengths for extent in (1, size)]
    spread = [
        extent for count, size in zip(repeats, lengths, strict=True) for extent in (count, size)
    ]
    if math.prod(call.shape) == 0:
        return call.full(0)
    return hlo.reshape(hlo.broadcast(hlo.reshape(x, tuple(spaced)), tuple(spread)), call.shape)


def _pad(call: OperatorCall, x: Node, widths: Sequence[int], value: Operand = 0) -> Node:
    rank = len(x.shape)
    low, high = [0] * rank, [0] * rank
    for number in range(len(widths) // 2):
        low[rank - 1 - number], high[rank - 1 - number] = widths[2 * number : 2 * number + 2]
    filler = hlo.constant(call.graph, 0 if value is None else value, x.dtype)
    return hlo.pad(x, filler, low, high)


def _diagonal(call: OperatorCall, x: Node, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Node:
    """Elements gathered by their position in the flattened last two dimensions."""
    rank = len(x.shape)
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)
    order = [axis for axis in range(rank) if axis not in (first, second)]
    moved = hlo.transpose(x, [*order, first, second])
    rows, columns = moved.shape[-2:]
    start = offset if offset >= 0 else -offset * columns
    count = call.shape[-1]
    if not count or not math.prod(call.shape):
        return call.full(0)
    flat = hlo.reshape(moved, (*moved.shape[:-2], rows * columns))
    last = start + (count - 1) * (columns + 1) + 1
    return taken(flat, len(flat.shape) - 1, start, last, columns + 1)


def _as_strided(
    call: OperatorCall,
    x: Node,
    size: Sequence[int],
    stride: Sequence[int],
    offset: int | None = None,
) -> Node:
    """Elements by their position in memory, of a tensor in C order."""
    if not call.is_contiguous:
        raise call.refused("for a tensor that is not in C order: call contiguous() before")
    positions = np.full(tuple(size), offset or 0, np.int64)
    for axis, (extent, step) in enumerate(zip(size, stride, strict=True)):
        shape = [extent if n == axis else 1 for n in range(len(size))]
        positions = positions + np.arange(extent).reshape(shape) * step
    count = math.prod(x.shape)
    if positions.size and (positions.min() < 0 or positions.max() >= count):
        raise call.refused("beyond the elements of its tensor")
    if not positions.size:
        return call.full(0)
    flat = hlo.reshape(x, (count,))
    indices = call.graph.constant(positions.reshape(-1, 1).astype(np.int32))
    numbers = {
        "offset_dims": [], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1,
    }  # fmt: skip
    picked = call.graph.emit(
        "gather", (positions.size,), x.dtype, (flat, indices),
        gather_dimension_numbers=numbers, gather_slice_sizes=(1,),
    )  # fmt: skip
    return hlo.reshape(picked, call.shape)


def _bits(call: OperatorCall, x: Node, dtype: Operand) -> Node:
    """The same bits in another dtype of the same size."""
    kind = NUMPY_DTYPES.get(dtype)
    if kind is None or kind.itemsize != x.dtype.itemsize or "c" in (kind.kind, x.dtype.kind):
        raise call.refused("for dtypes of different sizes, nor for complex ones")
    return x if kind == x.dtype else hlo.bitcast(x, kind)


def _component(opcode: str) -> Row:
    def row(call: OperatorCall, x: Node) -> Node:
        return hlo.elementwise(opcode, x, dtype=call.dtype) if x.dtype.kind == "c" else x

    return row


def _as_real(call: OperatorCall, x: Node) -> Node:
    components = [hlo.elementwise(name, x, dtype=call.dtype) for name in ("real", "imag")]
    return hlo.concatenate([hlo.reshape(n, (*x.shape, 1)) for n in components], len(x.shape))


def _as_complex(call: OperatorCall, x: Node) -> Node:
    axis = len(x.shape) - 1
    real, imag = (hlo.reshape(taken(x, axis, n, n + 1), call.shape) for n in (0, 1))
    return hlo.elementwise("complex", real, imag, dtype=call.dtype)


def _complex(call: OperatorCall, real: Node, imag: Node) -> Node:
    nodes = [hlo.broadcast(node, call.shape) for node in (real, imag)]
    return hlo.elementwise("complex", *nodes, dtype=call.dtype)


def _triangle(direction: str) -> Row:
    def row(call: OperatorCall, x: Node, diagonal: int = 0) -> Node:
        rank = len(x.shape)
        rows = hlo.iota(call.graph, x.shape, rank - 2)
        columns = hlo.iota(call.graph, x.shape, rank - 1)
        shift = hlo.full(call.graph, x.shape, diagonal, S32)
        stays = hlo.compare(direction, columns, hlo.elementwise("add", rows, shift))
        return hlo.select(stays, x, call.full(0))

    return row


_RESHAPES = (
    "_reshape_alias.default", "_unsafe_view.default", "reshape.default", "squeeze.default",
    "squeeze.dim", "squeeze.dims", "unsqueeze.default", "view.default", "view_copy.default",
    "_reshape_copy.default", "squeeze_copy.default", "squeeze_copy.dim", "squeeze_copy.dims",
    "unsqueeze_copy.default",
)  # fmt: skip
_COPIES = (
    "_to_copy.default", "alias.default", "alias_copy.default", "clone.default",
    "contiguous.default", "detach.default", "detach_.default", "detach_copy.default", "lift.default",
    "lift_fresh.default", "lift_fresh_copy.default", "resolve_conj.default", "resolve_neg.default",
)  # fmt: skip

SHAPING: dict[str, Row] = {
    **{f"aten.{name}": _reshape for name in _RESHAPES},
    **{f"aten.{name}": _same for name in _COPIES},
    "aten.as_strided.default": _as_strided,
    "aten.as_strided_copy.default": _as_strided,
    "aten.cat.default": _cat,
    "aten.complex.default": _complex,
    "aten.constant_pad_nd.default": _pad,
    "aten.copy.default": _copied_from,
    "aten.diagonal.default": _diagonal,
    "aten.diagonal_copy.default": _diagonal,
    "aten.expand.default": _expand,
    "aten.expand_copy.default": _expand,
    "aten.flip.default": _flip,
    "aten.imag.default": _component("imag"),
    "aten.permute.default": _permute,
    "aten.permute_copy.default": _permute,
    "aten.real.default": _component("real"),
    "aten.repeat.default": _repeat,
    "aten.roll.default": _roll,
    "aten.select.int": _select,
    "aten.select_copy.int": _select,
    "aten.select_scatter.default": _select_scatter,
    "aten.slice.Tensor": _slice,
    "aten.slice_copy.Tensor": _slice,
    "aten.slice_scatter.default": _slice_scatter,
    "aten.split.Tensor": _split,
    "aten.split_copy.Tensor": _split,
    "aten.split_with_sizes.default": _split,
    "aten.split_with_sizes_copy.default": _split,
    "aten.stack.default": _stack,
    "aten.t.default": _t,
    "aten.t_copy.default": _t,
    "aten.transpose.int": _transpose,
    "aten.transpose_copy.int": _transpose,
    "aten.tril.default": _triangle("LE"),
    "aten.triu.default": _triangle("GE"),
    "aten.unbind.int": _unbind,
    "aten.unbind_copy.int": _unbind,
    "aten.unsafe_split.Tensor": _split,
    "aten.unsafe_split_with_sizes.default": _split,
    "aten.view.dtype": _bits,
    "aten.view_as_complex.default": _as_complex,
    "aten.view_as_complex_copy.default": _as_complex,
    "aten.view_as_real.default": _as_real,
    "aten.view_as_real_copy.default": _as_real,
    "prims.broadcast_in_dim.default": _broadcast_in_dim,
    "prims.convert_element_type.default": _same,
}
"""Operator -> its lowering."""
