"""Expands triangular systems, Cholesky and Householder factors into products and elementwise steps.

A triangular matrix is inverted block by block: neighbors are joined in pairs, so that all blocks of
a size are one product. One step of iterative refinement improves the solution. Factors are computed
column by column. Arithmetic is float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Node, derived, sliced, uncovered

__all__ = ["cholesky", "householder_factors", "householder_product", "triangular_solve"]

_F32, _PRED, _S32 = BY_NAME["f32"], BY_NAME["pred"], BY_NAME["s32"]
_MAX_COLUMNS = 1024
"""Limit on the columns of a factored matrix: each becomes several operations of the program."""


class _Maths:
    """Arithmetic on stacks of matrices; all nodes get the name of one operation."""

    def __init__(self, like: Node) -> None:
        self._like = like

    def do(self, opcode: str, *operands: Node) -> Node:
        """Return an elementwise operation."""
        return derived(self._like, opcode, operands, operands[-1].shape)

    def number(self, value: float, shape: Sequence[int]) -> Node:
        constant = derived(
            self._like, "constant", (), (), _F32, value=np.float32(value).reshape(())
        )
        return derived(self._like, "broadcast", (constant,), shape, dimensions=())

    def compare(self, a: Node, direction: str, b: Node) -> Node:
        return derived(self._like, "compare", (a, b), a.shape, _PRED, direction=direction)

    def select(self, choice: Node, a: Node, b: Node) -> Node:
        return derived(self._like, "select", (choice, a, b), a.shape, a.element)

    def reshape(self, array: Node, shape: Sequence[int]) -> Node:
        return derived(self._like, "reshape", (array,), shape)

    def spread(self, array: Node, shape: Sequence[int]) -> Node:
        """Repeat dimensions of one element."""
        dims = tuple(
            dim
            for dim, (extent, new_extent) in enumerate(zip(array.shape, shape, strict=True))
            if extent == new_extent
        )
        flat = self.reshape(array, [array.shape[dim] for dim in dims])
        return derived(self._like, "broadcast", (flat,), shape, dimensions=dims)

    def transposed(self, array: Node) -> Node:
        """Exchange the last two dimensions."""
        order = (*range(len(array.shape) - 2), len(array.shape) - 1, len(array.shape) - 2)
        shape = [array.shape[dim] for dim in order]
        return derived(self._like, "transpose", (array,), shape, dimensions=order)

    def reversed(self, array: Node, dims: tuple[int, ...]) -> Node:
        return derived(self._like, "reverse", (array,), array.shape, dimensions=dims)

    def cut(self, array: Node, dim: int, start: int, limit: int) -> Node:
        return sliced(self._like, array, dim, start, limit)

    def joined(self, parts: Sequence[Node], dim: int) -> Node:
        shape = list(parts[0].shape)
        shape[dim] = sum(array.shape[dim] for array in parts)
        return derived(self._like, "concatenate", parts, shape, dimensions=(dim,))

    def pad(self, array: Node, shape: Sequence[int]) -> Node:
        """Append zeros up to a shape."""
        zero = derived(self._like, "constant", (), (), _F32, value=np.zeros((), np.float32))
        padding = tuple(
            (0, new_extent - extent, 0)
            for extent, new_extent in zip(array.shape, shape, strict=True)
        )
        return derived(self._like, "pad", (array, zero), shape, padding=padding)

    def product(self, a: Node, b: Node) -> Node:
        """Return the matrix products of stacks."""
        rank = len(a.shape)
        batch = tuple(range(rank - 2))
        shape = (*a.shape[:-1], b.shape[-1])
        return derived(
            self._like, "dot", (a, b), shape, _F32, lhs_batch=batch, rhs_batch=batch,
            lhs_contracting=(rank - 1,), rhs_contracting=(rank - 2,),
        )  # fmt: skip

    def total(self, array: Node, dim: int, applied: str = "add") -> Node:
        """Return the sum along a dimension, which stays with one element."""
        zero = derived(
            self._like, "constant", (), (), array.element, value=np.zeros((), array.element.dtype)
        )
        shape = [extent for axis, extent in enumerate(array.shape) if axis != dim]
        reduced = derived(
            self._like, "reduce", (array, zero), shape, dimensions=(dim,), applied=applied
        )
        return self.reshape(
            reduced, [1 if axis == dim else extent for axis, extent in enumerate(array.shape)]
        )

    def indices(self, shape: Sequence[int], dim: int) -> Node:
        """Return the index of each element along a dimension."""
        return derived(self._like, "iota", (), shape, _S32, dimensions=(dim,))

    def index_mask(self, shape: Sequence[int], dim: int, direction: str, value: int) -> Node:
        """Return where the index along a dimension compares so with a value."""
        constant = derived(self._like, "constant", (), (), _S32, value=np.asarray(value, np.int32))
        spread = derived(self._like, "broadcast", (constant,), shape, dimensions=())
        return self.compare(self.indices(shape, dim), direction, spread)


def _stacked(m: _Maths, matrices: Node) -> Node:
    """Return a stack of matrices of float32 with one batch dimension."""
    if matrices.element.kind != "float" or matrices.element.name == "f64":
        raise uncovered(matrices, f"matrices of {matrices.element} are not factored")
    wide = (
        matrices if matrices.element is _F32 else matrices.like("convert", matrices, element="f32")
    )
    return m.reshape(wide, (prod(matrices.shape[:-2]), *matrices.shape[-2:]))


def _result(node: Node, value: Node, shape: Sequence[int]) -> Node:
    """Return a result of float32 in the type of ``node``."""
    reshaped = derived(node, "reshape", (value,), shape)
    return (
        reshaped
        if node.element is _F32
        else reshaped.like("convert", reshaped, element=node.element.name)
    )


# -- triangular systems ---------------------------------------------------------------------------


def triangular_solve(node: Node) -> Node:
    """Solve ``op(A) X = B`` or ``X op(A) = B``; the other triangle of A is not read."""
    if not node.size:
        return node.operands[1]
    fields = node.attributes
    m = _Maths(node)
    a, b = (_stacked(m, operand) for operand in node.operands)
    lower = fields["lower"]
    if fields["transposed"]:
        a, lower = m.transposed(a), not lower
    if not fields["left"]:
        a, b, lower = m.transposed(a), m.transposed(b), not lower
    if not lower:
        a, b = m.reversed(a, (1, 2)), m.reversed(b, (1,))
    a = _lower_triangle(m, a, fields["unit"])
    inverse = _inverse(m, a)
    x = m.product(inverse, b)
    residual = m.do("subtract", b, m.product(a, x))
    x = m.do("add", x, m.product(inverse, residual))
    if not lower:
        x = m.reversed(x, (1,))
    if not fields["left"]:
        x = m.transposed(x)
    return _result(node, x, node.shape)


def _lower_triangle(m: _Maths, a: Node, unit: bool) -> Node:
    """Zero the elements above the diagonal, and set the diagonal to one for a unit diagonal."""
    rows, columns = m.indices(a.shape, 1), m.indices(a.shape, 2)
    below = m.select(m.compare(columns, "LE", rows), a, m.number(0, a.shape))
    if not unit:
        return below
    return m.select(m.compare(columns, "EQ", rows), m.number(1, a.shape), below)


def _inverse(m: _Maths, lower: Node) -> Node:
    """Return the inverses of lower triangular matrices.

    For neighbors A and B on the diagonal and the block C below A, the inverse of ``[[A, 0], [C, B]]``
    is ``[[A', 0], [-B' C A', B']]``. Blocks double in size until one block is the matrix.
    """
    count, extent, _ = lower.shape
    size = 1 << (extent - 1).bit_length()
    padded = lower
    if size > extent:  # continue the matrix with the identity
        padded = m.pad(lower, (count, size, size))
        rows, columns = m.indices(padded.shape, 1), m.indices(padded.shape, 2)
        added_diagonal = m.do(
            "and", m.compare(rows, "EQ", columns), m.index_mask(padded.shape, 1, "GE", extent)
        )
        padded = m.select(added_diagonal, m.number(1, padded.shape), padded)
    diagonal = _blocks(m, padded, size, 1, 0)
    blocks = m.do("divide", m.number(1, diagonal.shape), diagonal)
    half = 1
    while half < size:
        pairs = m.reshape(blocks, (count, size // (2 * half), 2, half, half))
        shape = (count, size // (2 * half), half, half)
        first, second = (m.reshape(m.cut(pairs, 2, side, side + 1), shape) for side in (0, 1))
        below = _blocks(m, padded, size // 2, half, half, 2 * half)
        corner = m.do("negate", m.product(second, m.product(below, first)))
        top = m.joined((first, m.number(0, shape)), 3)
        blocks = m.joined((top, m.joined((corner, second), 3)), 2)
        half *= 2
    inverse = m.reshape(blocks, (count, size, size))
    return m.cut(m.cut(inverse, 1, 0, extent), 2, 0, extent)


def _blocks(m: _Maths, matrices: Node, reach: int, size: int, below: int, step: int = 1) -> Node:
    """Return square blocks along the diagonal, ``below`` rows under it: (count, blocks, size,
    size).

    ``reach`` is the part of the diagonal that the blocks cover.
    """
    count, extent, _ = matrices.shape
    source = m.cut(matrices, 1, below, extent)
    shape = (count, reach // size, size, size)
    steps = ((0, 1), (2, step * (extent + 1)), (1, 1), (2, 1))
    return derived(matrices, "restride", (source,), shape, steps=steps)


# -- factors --------------------------------------------------------------------------------------


def _check_columns(node: Node, columns: int) -> None:
    if columns > _MAX_COLUMNS:
        raise uncovered(
            node, f"a matrix of {columns} columns, at most {_MAX_COLUMNS} are factored",
            code="NEFF-SIZE",
        )  # fmt: skip


def cholesky(node: Node) -> Node:
    """Return the lower factor, or the upper one; NaN for a matrix that is not positive definite."""
    if not node.size:
        return node.operands[0]
    m = _Maths(node)
    a = _stacked(m, node.operands[0])
    lower = node.attributes["lower"]
    if not lower:
        a = m.transposed(a)
    extent = a.shape[1]
    _check_columns(node, extent)
    columns: list[Node] = []
    for number in range(extent):
        column = m.cut(a, 2, number, number + 1)
        root = m.do("sqrt", m.cut(column, 1, number, number + 1))
        column = m.do("divide", column, m.spread(root, column.shape))
        inside = m.index_mask(column.shape, 1, "GE", number)
        column = m.select(inside, column, m.number(0, column.shape))
        columns.append(column)
        if number + 1 < extent:
            row = m.spread(m.transposed(column), a.shape)
            a = m.do("subtract", a, m.do("multiply", m.spread(column, a.shape), row))
    factor = m.joined(columns, 2) if extent > 1 else columns[0]
    nan_sum = m.total(m.total(factor, 1), 2)
    nan_sum = m.spread(m.compare(nan_sum, "NE", nan_sum), factor.shape)
    factor = m.select(nan_sum, m.number(np.nan, factor.shape), factor)
    return _result(node, factor if lower else m.transposed(factor), node.shape)


def householder_factors(node: Node, operand: Node) -> tuple[Node, Node]:
    """Return R with the reflections' vectors below it, and their factors, as LAPACK's ``geqrf``.

    Args:
        node: the node whose name, location and element type the results get.
        operand: (..., m, n).
    """
    m = _Maths(node)
    a = _stacked(m, operand)
    count, rows, columns = a.shape
    steps = min(rows, columns)
    _check_columns(node, steps)
    taus: list[Node] = []
    for number in range(steps):
        a, tau = _reflected(m, a, number)
        taus.append(tau)
    batch = operand.shape[:-2]
    factors = m.joined(taus, 1) if taus else m.number(0, (count, 0, 1))
    return _result(node, a, operand.shape), _result(node, factors, (*batch, steps))


def _reflected(m: _Maths, a: Node, number: int) -> tuple[Node, Node]:
    """Do one step: replace the column below the diagonal by its reflection's vector."""
    column = m.cut(a, 2, number, number + 1)
    shape = column.shape
    below = m.index_mask(shape, 1, "GT", number)
    tail = m.select(below, column, m.number(0, shape))
    head = m.cut(column, 1, number, number + 1)
    tail_norm = m.total(m.do("multiply", tail, tail), 1)
    is_reduced = m.compare(tail_norm, "EQ", m.number(0, tail_norm.shape))
    size = m.do("sqrt", m.do("add", m.do("multiply", head, head), tail_norm))
    negative = m.compare(head, "LT", m.number(0, head.shape))
    beta = m.select(negative, size, m.do("negate", size))
    beta = m.select(is_reduced, head, beta)
    safe = m.select(is_reduced, m.number(1, beta.shape), beta)
    tau = m.do("divide", m.do("subtract", beta, head), safe)
    divisor = m.do("subtract", head, beta)
    divisor = m.select(is_reduced, m.number(1, divisor.shape), divisor)
    tail = m.do("divide", tail, m.spread(divisor, shape))
    on_diagonal = m.index_mask(shape, 1, "EQ", number)
    vector = m.select(on_diagonal, m.number(1, shape), tail)
    moved = _reflection(m, a, vector, tau)
    # columns to the left stay; this column becomes beta and the vector
    new_column = m.select(on_diagonal, m.spread(beta, shape), m.select(below, tail, column))
    is_column = m.index_mask(a.shape, 2, "EQ", number)
    is_right = m.index_mask(a.shape, 2, "GT", number)
    return m.select(is_column, m.spread(new_column, a.shape), m.select(is_right, moved, a)), tau


def _reflection(m: _Maths, a: Node, vector: Node, tau: Node) -> Node:
    """Return ``A - tau v (v^T A)``."""
    row = m.product(m.transposed(vector), a)
    scaled = m.do("multiply", vector, m.spread(tau, vector.shape))
    change = m.do("multiply", m.spread(scaled, a.shape), m.spread(row, a.shape))
    return m.do("subtract", a, change)


def householder_product(node: Node, operand: Node, factors: Node) -> Node:
    """Return the first columns of the product of reflections, as LAPACK's ``orgqr``.

    Args:
        node: the node of the result's shape.
        operand: (..., m, n), the vectors below the diagonal.
        factors: (..., k), a factor for each.
    """
    m = _Maths(node)
    a = _stacked(m, operand)
    steps = factors.shape[-1]
    _check_columns(node, steps)
    taus = m.reshape(factors, (a.shape[0], steps, 1))
    if factors.element is not _F32:
        taus = taus.like("convert", taus, element="f32")
    equal = m.compare(m.indices(a.shape, 1), "EQ", m.indices(a.shape, 2))
    product = m.select(equal, m.number(1, a.shape), m.number(0, a.shape))
    for number in reversed(range(steps)):
        column = m.cut(a, 2, number, number + 1)
        shape = column.shape
        below = m.index_mask(shape, 1, "GT", number)
        vector = m.select(below, column, m.number(0, shape))
        vector = m.select(m.index_mask(shape, 1, "EQ", number), m.number(1, shape), vector)
        product = _reflection(m, product, vector, m.cut(taus, 1, number, number + 1))
    return _result(node, product, node.shape)
