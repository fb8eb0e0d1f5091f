"""New arrays like others, and parts of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import NUMBERS, TracedArray, as_node, graph_of, operand, ordered, view
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import axes_of, traced, write_out, xp
from hlo_tools.trace.graph import Node, Operand
from hlo_tools.trace.indexing import fitted

__all__: list[str] = []


@implements(np.full_like)
def full_like(
    a: Operand, fill_value: Operand, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, device: Any = None,
) -> TracedArray:  # fmt: skip
    array = traced(a, fill_value)
    target = np.dtype(dtype) if dtype is not None else array.dtype
    size = array.shape if shape is None else _shape(shape)
    if isinstance(fill_value, complex):  # its imaginary part is dropped, with NumPy's warning
        fill_value = np.asarray(fill_value).astype(target)
    fill = fitted(operand(fill_value, array.node.graph, target), size)
    return ordered(hlo.ordered_like(hlo.broadcast(fill, size), [array.node]), order)


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if np.ndim(shape) == 0 else tuple(int(n) for n in shape)


@implements(np.zeros_like)
def zeros_like(a: Operand, dtype: Any = None, *args: Any, **kwargs: Any) -> TracedArray:
    return full_like(a, 0, dtype, *args, **kwargs)


@implements(np.ones_like)
def ones_like(a: Operand, dtype: Any = None, *args: Any, **kwargs: Any) -> TracedArray:
    return full_like(a, 1, dtype, *args, **kwargs)


@implements(np.empty_like)
def empty_like(prototype: Operand, dtype: Any = None, *args: Any, **kwargs: Any) -> TracedArray:
    """Zeros: HLO has no memory without a value."""
    return full_like(prototype, 0, dtype, *args, **kwargs)


@implements(np.copy)
def copy(a: Operand, order: str = "K", subok: bool = False) -> TracedArray:
    array = traced(a)
    return ordered(array.node, order)


@implements(np.astype)
def astype(x: Operand, dtype: Any, /, *, copy: bool = True, device: Any = None) -> TracedArray:
    return x.astype(dtype, copy=copy)


@implements(np.copyto)
def copyto(dst: Operand, src: Operand, casting: Any = "same_kind", where: Operand = True) -> None:
    graph = graph_of((dst, src, where))
    if isinstance(src, NUMBERS):
        number = np.empty((), dst.dtype)
        np.copyto(number, src, casting=casting)  # or NumPy's error
        node = as_node(number, graph)
    else:
        node = as_node(src, graph)
    if not isinstance(dst, TracedArray):
        write_out(dst, node)
    node = fitted(node, dst.shape)
    if where is not True:
        chosen = as_node(where, graph)
        if chosen.dtype != np.dtype(bool):
            raise TypeError(f"Cannot cast array data from {chosen.dtype!r} to dtype('bool')")
        mask = hlo.broadcast(chosen, dst.shape)
        if not np.can_cast(node.dtype, dst.dtype, casting):
            raise TypeError(f"Cannot cast array data from {node.dtype!r} to {dst.dtype!r}")
        node = hlo.broadcast(hlo.convert(node, dst.dtype), dst.shape)
        node = hlo.select(mask, node, dst.node)
    write_out(dst, node, casting)


def _triangle(array: TracedArray, k: int, direction: str) -> TracedArray:
    """Elements on one side of a diagonal; zero elsewhere."""
    node, graph = array.node, array.node.graph
    shape = node.shape
    if not shape:
        raise TypeError("a triangle needs an array of at least one dimension")
    if len(shape) == 1:
        shape = (shape[0], shape[0])
        node = hlo.broadcast(node, shape)
    plane = shape[-2:]
    rows, columns = hlo.iota(graph, plane, 0), hlo.iota(graph, plane, 1)
    shifted = hlo.elementwise("add", rows, hlo.full(graph, plane, k, rows.dtype))
    mask = hlo.broadcast(hlo.compare(direction, columns, shifted), shape)
    zero = hlo.full(graph, shape, 0, node.dtype)
    return TracedArray(hlo.select(mask, node, zero))


@implements(np.tril)
def tril(m: Operand, k: int = 0) -> TracedArray:
    return _triangle(traced(m), int(k), "LE")


@implements(np.triu)
def triu(m: Operand, k: int = 0) -> TracedArray:
    return _triangle(traced(m), int(k), "GE")


@implements(np.diag)
def diag(v: Operand, k: int = 0) -> TracedArray:
    array = traced(v)
    if array.ndim == 2:
        return diagonal(array, k)
    if array.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    return TracedArray(_on_diagonal(array.node, int(k)))


def _on_diagonal(node: Node, k: int) -> Node:
    """A square matrix with ``node`` on its k-th diagonal."""
    size, graph = node.shape[0], node.graph
    side = size + abs(k)
    before = max(k, 0)
    zero = hlo.constant(graph, 0, node.dtype)
    row = hlo.pad(node, zero, [before], [side - size - before])
    rows, columns = hlo.iota(graph, (side, side), 0), hlo.iota(graph, (side, side), 1)
    shifted = hlo.elementwise("add", rows, hlo.full(graph, (side, side), k, rows.dtype))
    mask = hlo.compare("EQ", columns, shifted)
    spread = hlo.broadcast(row, (side, side))
    return hlo.select(mask, spread, hlo.full(graph, (side, side), 0, node.dtype))


@implements(np.diagflat)
def diagflat(v: Operand, k: int = 0) -> TracedArray:
    return diag(xp.ravel(v), k)


@implements(np.diagonal)
def diagonal(a: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TracedArray:
    array = traced(a)
    if array.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    first, second = axes_of((axis1, axis2), array.ndim)
    moved = xp.moveaxis(array, (first, second), (0, 1))
    length = max(0, min(moved.shape[0] + min(offset, 0), moved.shape[1] - max(offset, 0)))
    positions = np.arange(length)
    key = (positions + max(-offset, 0), positions + max(offset, 0))

    def read(node: Node) -> Node:
        return xp.moveaxis(TracedArray(node)[key], 0, -1).node

    return view(moved, read(moved.node), read, None)
