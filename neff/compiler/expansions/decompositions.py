"""Triangular systems, Cholesky and Householder factors, as products and elementwise steps.

A triangular matrix is inverted block by block, neighbours joined in pairs, so that all blocks of
one size are one product; the solution is improved once by what is left over. Factors are made
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
_COLUMNS = 1024
"""Columns of a factored matrix at most: each is a few operations of the program."""


class _Maths:
    """Arithmetic on stacks of matrices, in the name of one node."""

    def __init__(self, like: Node) -> None:
        self._like = like

    def do(self, opcode: str, *operands: Node) -> Node:
        """An elementwise operation."""
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

    def reshape(self, one: Node, shape: Sequence[int]) -> Node:
        return derived(self._like, "reshape", (one,), shape)

    def spread(self, one: Node, shape: Sequence[int]) -> Node:
        """Dimensions of one element repeat."""
        kept = tuple(d for d, (n, m) in enumerate(zip(one.shape, shape, strict=True)) if n == m)
        flat = self.reshape(one, [one.shape[d] for d in kept])
        return derived(self._like, "broadcast", (flat,), shape, dimensions=kept)

    def turned(self, one: Node) -> Node:
        """The last two dimensions exchanged."""
        order = (*range(len(one.shape) - 2), len(one.shape) - 1, len(one.shape) - 2)
        shape = [one.shape[d] for d in order]
        return derived(self._like, "transpose", (one,), shape, dimensions=order)

    def reversed(self, one: Node, dims: tuple[int, ...]) -> Node:
        return derived(self._like, "reverse", (one,), one.shape, dimensions=dims)

    def cut(self, one: Node, dim: int, start: int, limit: int) -> Node:
        return sliced(self._like, one, dim, start, limit)

    def joined(self, parts: Sequence[Node], dim: int) -> Node:
        shape = list(parts[0].shape)
        shape[dim] = sum(part.shape[dim] for part in parts)
        return derived(self._like, "concatenate", parts, shape, dimensions=(dim,))

    def pad(self, one: Node, shape: Sequence[int]) -> Node:
        """Zeros behind."""
        zero = derived(self._like, "constant", (), (), _F32, value=np.zeros((), np.float32))
        padding = tuple((0, m - n, 0) for n, m in zip(one.shape, shape, strict=True))
        return derived(self._like, "pad", (one, zero), shape, padding=padding)

    def product(self, a: Node, b: Node) -> Node:
        """Matrix products of stacks."""
        rank = len(a.shape)
        batch = tuple(range(rank - 2))
        shape = (*a.shape[:-1], b.shape[-1])
        return derived(
            self._like, "dot", (a, b), shape, _F32, lhs_batch=batch, rhs_batch=batch,
            lhs_contracting=(rank - 1,), rhs_contracting=(rank - 2,),
        )  # fmt: skip

    def total(self, one: Node, dim: int, applied: str = "add") -> Node:
        """The sum along a dimension, which is kept with one element."""
        zero = derived(
            self._like, "constant", (), (), one.element, value=np.zeros((), one.element.dtype)
        )
        shape = [n for d, n in enumerate(one.shape) if d != dim]
        found = derived(
            self._like, "reduce", (one, zero), shape, dimensions=(dim,), applied=applied
        )
        return self.reshape(found, [1 if d == dim else n for d, n in enumerate(one.shape)])

    def places(self, shape: Sequence[int], dim: int) -> Node:
        """The number of each element along a dimension."""
        return derived(self._like, "iota", (), shape, _S32, dimensions=(dim,))

    def at(self, shape: Sequence[int], dim: int, direction: str, value: int) -> Node:
        """Where the number along a dimension compares so."""
        constant = derived(self._like, "constant", (), (), _S32, value=np.asarray(value, np.int32))
        spread = derived(self._like, "broadcast", (constant,), shape, dimensions=())
        return self.compare(self.places(shape, dim), direction, spread)


def _stacked(m: _Maths, one: Node) -> Node:
    """A stack of matrices of float32 with one batch dimension."""
    if one.element.kind != "float" or one.element.name == "f64":
        raise uncovered(one, f"matrices of {one.element} are not factored")
    wide = one if one.element is _F32 else one.like("convert", one, element="f32")
    return m.reshape(wide, (prod(one.shape[:-2]), *one.shape[-2:]))


def _result(node: Node, found: Node, shape: Sequence[int]) -> Node:
    """A result of float32 in the type of ``node``."""
    made = derived(node, "reshape", (found,), shape)
    return made if node.element is _F32 else made.like("convert", made, element=node.element.name)


# -- triangular systems ---------------------------------------------------------------------------


def triangular_solve(node: Node) -> Node:
    """``op(A) X = B`` or ``X op(A) = B``; the other triangle of A is not read."""
    if not node.size:
        return node.operands[1]
    fields = node.attributes
    m = _Maths(node)
    a, b = (_stacked(m, one) for one in node.operands)
    lower = fields["lower"]
    if fields["transposed"]:
        a, lower = m.turned(a), not lower
    if not fields["left"]:
        a, b, lower = m.turned(a), m.turned(b), not lower
    if not lower:
        a, b = m.reversed(a, (1, 2)), m.reversed(b, (1,))
    a = _lower_triangle(m, a, fields["unit"])
    inverse = _inverse(m, a)
    x = m.product(inverse, b)
    rest = m.do("subtract", b, m.product(a, x))
    x = m.do("add", x, m.product(inverse, rest))
    if not lower:
        x = m.reversed(x, (1,))
    if not fields["left"]:
        x = m.turned(x)
    return _result(node, x, node.shape)


def _lower_triangle(m: _Maths, a: Node, unit: bool) -> Node:
    """Zeros above the diagonal; ones on it if it is a unit diagonal."""
    rows, columns = m.places(a.shape, 1), m.places(a.shape, 2)
    below = m.select(m.compare(columns, "LE", rows), a, m.number(0, a.shape))
    if not unit:
        return below
    return m.select(m.compare(columns, "EQ", rows), m.number(1, a.shape), below)


def _inverse(m: _Maths, lower: Node) -> Node:
    """Of lower triangular matrices. Of two neighbours on the diagonal and the block C below the
    first, ``[[A, 0], [C, B]]``, the inverse is ``[[A', 0], [-B' C A', B']]``."""
    count, extent, _ = lower.shape
    size = 1 << (extent - 1).bit_length()
    whole = lower
    if size > extent:  # the identity goes on behind the matrix
        whole = m.pad(lower, (count, size, size))
        rows, columns = m.places(whole.shape, 1), m.places(whole.shape, 2)
        behind = m.do("and", m.compare(rows, "EQ", columns), m.at(whole.shape, 1, "GE", extent))
        whole = m.select(behind, m.number(1, whole.shape), whole)
    diagonal = _blocks(m, whole, size, 1, 0)
    blocks = m.do("divide", m.number(1, diagonal.shape), diagonal)
    half = 1
    while half < size:
        pairs = m.reshape(blocks, (count, size // (2 * half), 2, half, half))
        shape = (count, size // (2 * half), half, half)
        first, second = (m.reshape(m.cut(pairs, 2, at, at + 1), shape) for at in (0, 1))
        below = _blocks(m, whole, size // 2, half, half, 2 * half)
        corner = m.do("negate", m.product(second, m.product(below, first)))
        top = m.joined((first, m.number(0, shape)), 3)
        blocks = m.joined((top, m.joined((corner, second), 3)), 2)
        half *= 2
    found = m.reshape(blocks, (count, size, size))
    return m.cut(m.cut(found, 1, 0, extent), 2, 0, extent)


def _blocks(m: _Maths, whole: Node, reach: int, size: int, below: int, step: int = 1) -> Node:
    """Square blocks along the diagonal, each so far below it: (count, blocks, size, size).

    ``reach`` is how much of the diagonal the blocks cover.
    """
    count, extent, _ = whole.shape
    source = m.cut(whole, 1, below, extent)
    shape = (count, reach // size, size, size)
    steps = ((0, 1), (2, step * (extent + 1)), (1, 1), (2, 1))
    return derived(whole, "restride", (source,), shape, steps=steps)


# -- factors --------------------------------------------------------------------------------------


def _affordable(node: Node, columns: int) -> None:
    if columns > _COLUMNS:
        raise uncovered(
            node, f"a matrix of {columns} columns, at most {_COLUMNS} are factored",
            code="NEFF-SIZE",
        )  # fmt: skip


def cholesky(node: Node) -> Node:
    """The lower factor, or the upper one; NaN for a matrix that is not positive definite."""
    if not node.size:
        return node.operands[0]
    m = _Maths(node)
    a = _stacked(m, node.operands[0])
    lower = node.attributes["lower"]
    if not lower:
        a = m.turned(a)
    extent = a.shape[1]
    _affordable(node, extent)
    columns: list[Node] = []
    for number in range(extent):
        column = m.cut(a, 2, number, number + 1)
        root = m.do("sqrt", m.cut(column, 1, number, number + 1))
        column = m.do("divide", column, m.spread(root, column.shape))
        inside = m.at(column.shape, 1, "GE", number)
        column = m.select(inside, column, m.number(0, column.shape))
        columns.append(column)
        if number + 1 < extent:
            row = m.spread(m.turned(column), a.shape)
            a = m.do("subtract", a, m.do("multiply", m.spread(column, a.shape), row))
    found = m.joined(columns, 2) if extent > 1 else columns[0]
    lost = m.total(m.total(found, 1), 2)
    lost = m.spread(m.compare(lost, "NE", lost), found.shape)
    found = m.select(lost, m.number(np.nan, found.shape), found)
    return _result(node, found if lower else m.turned(found), node.shape)


def householder_factors(node: Node, operand: Node) -> tuple[Node, Node]:
    """LAPACK's ``geqrf``: R, and below it the vectors of the reflections; their factors.

    Args:
        node: whose name, place and element type the results get.
        operand: (..., m, n).
    """
    m = _Maths(node)
    a = _stacked(m, operand)
    count, rows, columns = a.shape
    steps = min(rows, columns)
    _affordable(node, steps)
    taus: list[Node] = []
    for number in range(steps):
        a, tau = _reflected(m, a, number)
        taus.append(tau)
    batch = operand.shape[:-2]
    found = m.joined(taus, 1) if taus else m.number(0, (count, 0, 1))
    return _result(node, a, operand.shape), _result(node, found, (*batch, steps))


def _reflected(m: _Maths, a: Node, number: int) -> tuple[Node, Node]:
    """One step: the column below the diagonal becomes its reflection's vector."""
    column = m.cut(a, 2, number, number + 1)
    shape = column.shape
    below = m.at(shape, 1, "GT", number)
    tail = m.select(below, column, m.number(0, shape))
    head = m.cut(column, 1, number, number + 1)
    rest = m.total(m.do("multiply", tail, tail), 1)
    none = m.compare(rest, "EQ", m.number(0, rest.shape))
    size = m.do("sqrt", m.do("add", m.do("multiply", head, head), rest))
    negative = m.compare(head, "LT", m.number(0, head.shape))
    beta = m.select(negative, size, m.do("negate", size))
    beta = m.select(none, head, beta)
    safe = m.select(none, m.number(1, beta.shape), beta)
    tau = m.do("divide", m.do("subtract", beta, head), safe)
    divisor = m.do("subtract", head, beta)
    divisor = m.select(none, m.number(1, divisor.shape), divisor)
    tail = m.do("divide", tail, m.spread(divisor, shape))
    one = m.at(shape, 1, "EQ", number)
    vector = m.select(one, m.number(1, shape), tail)
    moved = _reflection(m, a, vector, tau)
    # what stands left of the column stays, the column itself is beta and the vector
    kept = m.select(one, m.spread(beta, shape), m.select(below, tail, column))
    here = m.at(a.shape, 2, "EQ", number)
    behind = m.at(a.shape, 2, "GT", number)
    return m.select(here, m.spread(kept, a.shape), m.select(behind, moved, a)), tau


def _reflection(m: _Maths, a: Node, vector: Node, tau: Node) -> Node:
    """``A - tau v (v^T A)``."""
    row = m.product(m.turned(vector), a)
    scaled = m.do("multiply", vector, m.spread(tau, vector.shape))
    change = m.do("multiply", m.spread(scaled, a.shape), m.spread(row, a.shape))
    return m.do("subtract", a, change)


def householder_product(node: Node, operand: Node, factors: Node) -> Node:
    """LAPACK's ``orgqr``: the first columns of the product of reflections.

    Args:
        node: of the result's shape.
        operand: (..., m, n), the vectors below the diagonal.
        factors: (..., k), a factor for each.
    """
    m = _Maths(node)
    a = _stacked(m, operand)
    steps = factors.shape[-1]
    _affordable(node, steps)
    taus = m.reshape(factors, (a.shape[0], steps, 1))
    if factors.element is not _F32:
        taus = taus.like("convert", taus, element="f32")
    equal = m.compare(m.places(a.shape, 1), "EQ", m.places(a.shape, 2))
    found = m.select(equal, m.number(1, a.shape), m.number(0, a.shape))
    for number in reversed(range(steps)):
        column = m.cut(a, 2, number, number + 1)
        shape = column.shape
        below = m.at(shape, 1, "GT", number)
        vector = m.select(below, column, m.number(0, shape))
        vector = m.select(m.at(shape, 1, "EQ", number), m.number(1, shape), vector)
        found = _reflection(m, found, vector, m.cut(taus, 1, number, number + 1))
    return _result(node, found, node.shape)
