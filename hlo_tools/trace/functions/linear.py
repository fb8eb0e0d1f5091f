"""Products of vectors and matrices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from hlo_tools.trace import primitives as hlo
from hlo_tools.trace.array import TracedArray, graph_of, kind_of, operand, ordered, result
from hlo_tools.trace.functions import implements
from hlo_tools.trace.functions.arguments import (
    arrays_of,
    axes_of,
    deliver,
    nodes_of,
    one_axis,
    unsupported,
    xp,
)
from hlo_tools.trace.graph import DType, Node, Operand
from hlo_tools.trace.narrowing import tell_of_ufunc
from hlo_tools.trace.promotion import promote, resolved_dtypes

__all__ = ["matmul"]

BOOL = np.dtype(bool)
S32 = np.dtype(np.int32)


def _product(
    left: Node, right: Node, contract: tuple[Any, Any], batch: tuple[Any, Any] = ((), ())
) -> Node:
    """A dot; of booleans, whether any product is true."""
    if left.dtype != BOOL:
        return hlo.dot(left, right, contract, batch)
    counted = hlo.dot(hlo.convert(left, S32), hlo.convert(right, S32), contract, batch)
    return hlo.convert(counted, BOOL)


def matmul(
    x1: Operand, x2: Operand, *, dtype: Any = None, casting: Any = "same_kind"
) -> TracedArray:
    """NumPy's ``@``: matrices in the last two dimensions, the others broadcast.

    Raises:
        ValueError: as NumPy, for scalars and for sizes that do not fit.
    """
    graph = graph_of((x1, x2))
    signature = None if dtype is None else (None, None, np.dtype(dtype))
    wide = resolved_dtypes(np.matmul, (kind_of(x1), kind_of(x2)), signature, casting)[-1]
    tell_of_ufunc(graph, np.matmul, (kind_of(x1), kind_of(x2)), signature, casting)
    left, right = operand(x1, graph, wide), operand(x2, graph, wide)
    if not left.shape or not right.shape:
        raise ValueError("matmul: Input operand 0 or 1 does not have enough dimensions")
    inner = left.shape[-1], right.shape[-2 if len(right.shape) > 1 else -1]
    if inner[0] != inner[1]:
        raise ValueError(
            f"matmul: Input operand 1 has a mismatch in its core dimension 0, with shapes "
            f"{left.shape} and {right.shape} (size {inner[1]} is different from {inner[0]})"
        )
    if len(right.shape) == 1:
        return result(_product(left, right, ((len(left.shape) - 1,), (0,))))
    if len(left.shape) == 1:
        return result(_vector_matrix(left, right))
    return result(_batched(left, right))


def _vector_matrix(left: Node, right: Node) -> Node:
    return _product(right, left, ((len(right.shape) - 2,), (0,)))


def _batched(left: Node, right: Node) -> Node:
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    if not batch:
        return _product(left, right, ((1,), (0,)))
    if not right.shape[:-2]:
        return _product(left, right, ((len(left.shape) - 1,), (0,)))
    left = hlo.broadcast(left, (*batch, *left.shape[-2:]))
    right = hlo.broadcast(right, (*batch, *right.shape[-2:]))
    axes = tuple(range(len(batch)))
    return _product(left, right, ((len(batch) + 1,), (len(batch),)), (axes, axes))


@implements(np.dot)
def dot(a: Operand, b: Operand, out: Any = None) -> TracedArray:
    left, right = nodes_of([a, b])
    if not left.shape or not right.shape:
        return _number_or(_scaled(a, b), out, "same_kind")
    if out is not None and (out.dtype != left.dtype or not out.is_contiguous):
        raise ValueError("output array is not acceptable (must have the right datatype, ...)")
    axis = max(len(right.shape) - 2, 0)
    _same_size(left, len(left.shape) - 1, right, axis)
    product = result(_product(left, right, ((len(left.shape) - 1,), (axis,))))
    return _number_or(product, out, "no")


def _scaled(a: Operand, b: Operand) -> TracedArray:
    """A product with a number."""
    return xp.multiply(*arrays_of((a, b)))


def _number_or(product: TracedArray, out: Operand, casting: str) -> TracedArray:
    """As :func:`deliver`; a product without dimensions is a number even where ``out`` is given."""
    delivered = deliver(product, out, casting)
    return delivered if product.shape else delivered[()]


@implements(np.inner)
def inner(a: Operand, b: Operand) -> TracedArray:
    left, right = nodes_of([a, b])
    if not left.shape or not right.shape:
        return _scaled(a, b)
    last = len(left.shape) - 1, len(right.shape) - 1
    _same_size(left, last[0], right, last[1])
    return result(_product(left, right, ((last[0],), (last[1],))))


@implements(np.vdot)
def vdot(a: Operand, b: Operand) -> TracedArray:
    left = xp.ravel(a)
    return dot(xp.conjugate(left) if np.dtype(left.dtype).kind == "c" else left, xp.ravel(b))


@implements(np.outer)
def outer(a: Operand, b: Operand, out: Any = None) -> TracedArray:
    return deliver(xp.multiply(xp.ravel(a)[:, None], xp.ravel(b)[None, :]), out)


@implements(np.tensordot)
def tensordot(a: Operand, b: Operand, axes: Any = 2) -> TracedArray:
    left, right = nodes_of([a, b])
    if isinstance(axes, (int, np.integer)):
        count = operator.index(cast("int", axes))
        first = tuple(range(len(left.shape) - count, len(left.shape)))
        second = tuple(range(count))
    else:
        first = axes_of(axes[0], len(left.shape))
        second = axes_of(axes[1], len(right.shape))
    if len(first) != len(second):
        raise ValueError("shape-mismatch for sum")
    for i, j in zip(first, second, strict=True):
        _same_size(left, i, right, j)
    return TracedArray(_product(left, right, (first, second)))


def _same_size(left: Node, i: int, right: Node, j: int) -> None:
    if left.shape[i] != right.shape[j]:
        raise ValueError(
            f"shapes {left.shape} and {right.shape} not aligned: "
            f"{left.shape[i]} (dim {i}) != {right.shape[j]} (dim {j})"
        )


@implements(np.kron)
def kron(a: Operand, b: Operand) -> TracedArray:
    a, b = arrays_of((a, b))
    rank = max(np.ndim(a), np.ndim(b))
    if not rank:
        return xp.multiply(a, b)
    first, second = (xp.reshape(x, (1,) * (rank - np.ndim(x)) + np.shape(x)) for x in (a, b))
    spread = xp.expand_dims(first, tuple(range(1, 2 * rank, 2)))
    product = xp.multiply(spread, xp.expand_dims(second, tuple(range(0, 2 * rank, 2))))
    return xp.reshape(product, [m * n for m, n in zip(first.shape, second.shape, strict=True)])


@implements(np.cross)
def cross(
    a: Operand, b: Operand, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> TracedArray:
    if axis is not None:
        axisa = axisb = axisc = axis
    promote((kind_of(a), kind_of(b)))  # NumPy's error for dtypes of which there is no common one
    first, second = xp.moveaxis(a, axisa, -1), xp.moveaxis(b, axisb, -1)
    if {first.shape[-1], second.shape[-1]} <= {2, 3} and 2 in (first.shape[-1], second.shape[-1]):
        raise unsupported("a cross product of vectors of two dimensions", "add a third of zeros")
    if first.shape[-1] != 3 or second.shape[-1] != 3:
        raise ValueError("incompatible dimensions for cross product (dimension must be 3)")
    x1, y1, z1 = (first[..., i] for i in range(3))
    x2, y2, z2 = (second[..., i] for i in range(3))
    parts = [y1 * z2 - z1 * y2, z1 * x2 - x1 * z2, x1 * y2 - y1 * x2]
    return xp.moveaxis(xp.stack(parts, axis=-1), -1, axisc)


@implements(np.trace)
def trace(
    a: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> TracedArray:
    return xp.sum(xp.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


@implements(np.einsum)
def einsum(
    subscripts: Any, *operands: Operand, out: Any = None, dtype: Any = None, order: Any = "K",
    casting: Any = "safe", optimize: Any = False,
) -> TracedArray:  # fmt: skip
    """Any einsum whose operands name no index twice; two operands at a time, left to right."""
    if not isinstance(subscripts, str):
        raise unsupported("einsum with lists of numbers is not supported", "use a subscript string")
    inputs, output = _parse_subscripts(subscripts, [np.ndim(x) for x in operands])
    operands = tuple(arrays_of(operands))
    target: Any = dtype
    cast: list[Operand] = [*operands] if out is None or dtype is None else [*operands, out]
    if out is not None and dtype is None:
        target = dtype = _common_dtype(operands, out, optimize)
    for value in cast if dtype is not None else ():
        kind = kind_of(value)
        if isinstance(kind, np.dtype) and not np.can_cast(kind, target, casting):
            raise TypeError(f"einsum: an operand cannot be cast from {kind!r} to {dtype!r}")
    if len(operands) == 1 and set(output) == set(inputs[0]) and out is None:
        return xp.transpose(operands[0], [inputs[0].index(label) for label in output])
    nodes = nodes_of(operands, np.dtype(dtype) if dtype is not None else None)
    values = [*zip(_broadcast(nodes, inputs), inputs, strict=True)]
    current = values.pop(0)
    while values:
        following = values.pop(0)
        remaining = set(output).union(*(labels for _, labels in values))
        current = _contract(current, following, remaining)
    node, labels = current
    if len(operands) == 1 and node.dtype.kind not in "biuc":  # added to zeros: -0.0 becomes 0.0
        zero = hlo.full(node.graph, node.shape, 0, node.dtype)
        node = hlo.select(hlo.compare("EQ", node, zero), zero, node)
    summed = tuple(i for i, label in enumerate(labels) if label not in output)
    if summed:
        node = hlo.reduce(node, 0, summed, "add")
        labels = [label for label in labels if label in output]
    node = hlo.transpose(node, [labels.index(label) for label in output])
    if len(operands) > 1:  # NumPy follows the strides of all operands at once
        node.is_c_ordered = False
    return deliver(ordered(node, order) if node.shape else result(node), out, casting)


def _broadcast(nodes: Sequence[Node], inputs: list[list[str]]) -> list[Node]:
    """Operands whose dimensions of one element are as long as others of the same index."""
    sizes: dict[str, int] = {}
    for node, labels in zip(nodes, inputs, strict=True):
        sizes |= {label: n for label, n in zip(labels, node.shape, strict=True) if n != 1}
    return [
        hlo.broadcast(node, tuple(
            sizes.get(label, 1) if n == 1 else n for label, n in zip(labels, node.shape, strict=True)))
        for node, labels in zip(nodes, inputs, strict=True)
    ]  # fmt: skip


def _common_dtype(operands: tuple[Operand, ...], out: Operand, optimize: object) -> DType:
    """NumPy computes in the dtype that the operands and ``out`` have in common.

    The pairwise products of ``optimize`` do not know ``out``.
    """
    promoted_dtype = promote(tuple(kind_of(value) for value in operands))
    common = np.result_type(promoted_dtype, out.dtype)
    if optimize is not False and common != promoted_dtype:
        raise unsupported(
            f"einsum with optimize of {promoted_dtype} into {out.dtype}",
            "give dtype= or leave optimize out",
        )
    return common


def _parse_subscripts(text: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """Index names of each operand and of the result; an ellipsis becomes numbers."""
    left, arrow, right = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError("einsum: more operands provided than specified in the subscripts string")
    inputs = [_labels(term, rank) for term, rank in zip(terms, ranks, strict=True)]
    for labels, rank in zip(inputs, ranks, strict=True):
        if len(set(labels)) != len(labels):
            raise unsupported("einsum with an index twice in one operand", "use numpy.diagonal")
        if len(labels) != rank:
            raise ValueError("einsum: operand has a different number of dimensions than subscripts")
    spread = max((int(x) for labels in inputs for x in labels if x.isdigit()), default=-1)
    numbers = [str(n) for n in range(spread, -1, -1)]
    if arrow:
        head, dots, tail = right.partition("...")
        return inputs, [*head, *(numbers if dots else []), *tail]
    names = sorted({label for labels in inputs for label in labels if not label.isdigit()})
    once = [name for name in names if sum(labels.count(name) for labels in inputs) == 1]
    return inputs, [*numbers, *once]


def _labels(term: str, rank: int) -> list[str]:
    """Dimensions under an ellipsis are numbered from the last one backwards."""
    head, dots, tail = term.partition("...")
    count = rank - len(head) - len(tail) if dots else 0
    return [*head, *(str(n) for n in range(count - 1, -1, -1)), *tail]


def _contract(
    first: tuple[Node, list[str]], second: tuple[Node, list[str]], remaining: set[str]
) -> tuple[Node, list[str]]:
    """One dot of two operands: shared indices that nobody needs any more are summed."""
    (left, a), (right, b) = first, second
    for label in set(a) & set(b):
        if left.shape[a.index(label)] != right.shape[b.index(label)]:
            raise ValueError(f"einsum: index {label!r} has two sizes")
    left, a = _sum_out(left, a, remaining | set(b))
    right, b = _sum_out(right, b, remaining | set(a))
    shared = [label for label in a if label in b]
    batch = [label for label in shared if label in remaining]
    summed = [label for label in shared if label not in remaining]
    node = _product(
        left, right,
        ([a.index(x) for x in summed], [b.index(x) for x in summed]),
        ([a.index(x) for x in batch], [b.index(x) for x in batch]),
    )  # fmt: skip
    free = [x for x in a if x not in shared] + [x for x in b if x not in shared]
    return node, batch + free


def _sum_out(node: Node, labels: list[str], needed: set[str]) -> tuple[Node, list[str]]:
    axes = [i for i, label in enumerate(labels) if label not in needed]
    if not axes:
        return node, labels
    return hlo.reduce(node, 0, axes, "add"), [x for x in labels if x in needed]


@implements(np.linalg.matrix_transpose, np.matrix_transpose)
def matrix_transpose(x: Operand) -> TracedArray:
    one_axis(1, np.ndim(x))
    return xp.swapaxes(x, -1, -2)
