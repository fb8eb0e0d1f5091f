"""Follows a softmax through the graph: which products read its probabilities or their gradient.

Frameworks write the gradient of a softmax in several forms, and the maximum has a gradient, too,
whose sum vanishes. All of them are sums of terms ``c * E^e * G^g * L^l * R^r`` with

    E   the exponentials                          (queries, keys)
    G   the gradient of the probabilities: the    (queries, keys)
        product of the result's gradient and the values
    L   the sum of E over the keys                (queries)
    R   the sum of E * G over the keys            (queries)

The probabilities are ``E / L``, and the gradient of the scores is ``c * (E G / L - E R / L^2)``.
:func:`readers_of` computes the terms of each value that depends on the exponentials, in the order of
the graph, and returns the products that read one of these two sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from math import isclose

from neff.compiler.graph.nodes import Node
from neff.compiler.rewrites.labels import FLOATS, Axes, Labeled, regrouped, up
from neff.compiler.rewrites.softmaxes import Mask, Softmax, is_empty_row

__all__ = ["Reader", "Readers", "readers_of"]

Powers = tuple[int, int, int, int]
"""The exponents of E, G, L and R in a term."""

Terms = dict[Powers, float]
"""The coefficients of terms; none for a value that is zero."""

_PROBABILITY: Powers = (1, 0, -1, 0)
_SLOPE: Powers = (1, 1, -1, 0)
_MEAN_SLOPE: Powers = (1, 0, -2, 1)


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of terms; values of L and R alone do not walk the keys."""

    axes: Axes
    terms: Terms

    @property
    def is_of_rows(self) -> bool:
        """Return True if the value is the same for all keys."""
        return all(not e and not g for e, g, _, _ in self.terms)


@dataclass(frozen=True, slots=True)
class Reader:
    """A product that reads the probabilities, or the gradient of the scores.

    Attributes:
        node: the product.
        side: which operand it is.
        axes: its labels.
        factor: the factor of the sum.
        is_gradient: it is the gradient of the scores.
    """

    node: Node
    side: int
    axes: Axes
    factor: float
    is_gradient: bool


@dataclass(slots=True)
class Readers:
    """The readers of a softmax.

    Attributes:
        products: the products.
        slopes: the product G, if a value depends on it.
        masks: predicates that choose zero where they are false; true wherever a pair counts.
    """

    products: list[Reader] = field(default_factory=list[Reader])
    slopes: Labeled | None = None
    masks: list[Mask] = field(default_factory=list[Mask])


class _Flow:
    """The terms of the values that depend on a softmax."""

    def __init__(self, softmax: Softmax) -> None:
        self.softmax, self.readers = softmax, Readers()
        axes = tuple((dim,) if n != 1 else () for dim, n in enumerate(softmax.node.shape))
        self._values = {id(softmax.node): _Value(axes, {(1, 0, 0, 0): 1.0})}

    def visit(self, node: Node) -> bool:
        """Add the terms of a node, whose operands were visited; return True if it has terms."""
        if node.opcode == "dot":
            self._read(node)
            return False
        rule = _RULES.get(node.opcode)
        value = rule(self, node) if rule is not None and node.element.name in FLOATS else None
        if value is not None:
            self._values[id(node)] = value
        return value is not None

    def of(self, node: Node) -> _Value | None:
        """Return the terms of a visited node."""
        return self._values.get(id(node))

    def _read(self, node: Node) -> None:
        for side in (0, 1):
            value = self.of(node.operands[side])
            if value is None or self.of(node.operands[1 - side]) is not None:
                continue
            terms = value.terms
            if set(terms) == {_PROBABILITY}:
                factor, is_gradient = terms[_PROBABILITY], False
            elif set(terms) == {_SLOPE, _MEAN_SLOPE} and isclose(
                terms[_SLOPE], -terms[_MEAN_SLOPE], rel_tol=1e-6
            ):
                factor, is_gradient = terms[_SLOPE], True
            else:
                continue
            self.readers.products.append(Reader(node, side, value.axes, factor, is_gradient))

    def lifted(self, node: Node, axes: Axes) -> _Value | None:
        """Return a value without terms as a multiple of G."""
        walk = up(Labeled(node, axes), self.softmax.extents)
        if walk.node.opcode == "multiply":
            for side in (0, 1):
                number = walk.node.operands[side].splat
                if number is not None:
                    value = self.lifted(walk.node.operands[1 - side], walk.axes)
                    return None if value is None else _Value(axes, _scaled(value.terms, number))
        if walk.node.opcode != "dot" or set(walk.labels) != set(self.softmax.extents):
            return None
        slopes = self.readers.slopes = self.readers.slopes or walk
        if slopes.node is not walk.node or slopes.axes != walk.axes:
            return None
        return _Value(axes, {(0, 1, 0, 0): 1.0})

    def pair(self, node: Node) -> tuple[_Value, _Value] | None:
        """Return the terms of both operands of an elementwise operation, of the same labels."""
        left, right = (self.of(operand) for operand in node.operands)
        if left is None and right is not None:
            left = self.lifted(node.operands[0], right.axes)
        elif right is None and left is not None:
            right = self.lifted(node.operands[1], left.axes)
        if left is None or right is None or left.axes != right.axes:
            return None
        return left, right


def _scaled(terms: Terms, number: float) -> Terms:
    return {powers: coefficient * float(number) for powers, coefficient in terms.items()}


def _product(left: Terms, right: Terms) -> Terms:
    return _sum(
        ((a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]), x * y)
        for a, x in left.items()
        for b, y in right.items()
    )


def _sum(summands: Iterable[tuple[Powers, float]]) -> Terms:
    """Return the sum of terms, without those that cancel."""
    total: Terms = {}
    greatest: Terms = {}
    for powers, coefficient in summands:
        total[powers] = total.get(powers, 0.0) + coefficient
        greatest[powers] = max(greatest.get(powers, 0.0), abs(coefficient))
    return {
        powers: coefficient
        for powers, coefficient in total.items()
        if abs(coefficient) > 1e-6 * greatest[powers]
    }


def _same_terms(flow: _Flow, node: Node) -> _Value | None:
    is_float = node.operands[0].element.name in FLOATS
    return flow.of(node.operands[0]) if is_float else None


def _negated(flow: _Flow, node: Node) -> _Value | None:
    value = flow.of(node.operands[0])
    return None if value is None else _Value(value.axes, _scaled(value.terms, -1))


def _multiplied(flow: _Flow, node: Node) -> _Value | None:
    for side in (0, 1):
        value, number = flow.of(node.operands[side]), node.operands[1 - side].splat
        if value is not None and (number is not None or not value.terms):
            return _Value(value.axes, {} if number is None else _scaled(value.terms, number))
    pair = flow.pair(node)
    return None if pair is None else _Value(pair[0].axes, _product(pair[0].terms, pair[1].terms))


def _divided(flow: _Flow, node: Node) -> _Value | None:
    top, bottom = (flow.of(operand) for operand in node.operands)
    number = node.operands[1].splat
    if top is not None and (number is not None or not top.terms):
        if number is not None and float(number) == 0:
            return None
        return _Value(top.axes, {} if number is None else _scaled(top.terms, 1 / float(number)))
    if bottom is None or len(bottom.terms) != 1 or not bottom.is_of_rows:
        return None
    ((_, _, of_sum, of_mean), coefficient), *_ = bottom.terms.items()
    inverse = {(0, 0, -of_sum, -of_mean): 1 / coefficient}
    number = node.operands[0].splat
    if number is not None:
        return _Value(bottom.axes, _scaled(inverse, number))
    top = top or flow.lifted(node.operands[0], bottom.axes)
    if top is None or top.axes != bottom.axes:
        return None
    return _Value(top.axes, _product(top.terms, inverse))


def _added(flow: _Flow, node: Node) -> _Value | None:
    pair = flow.pair(node)
    if pair is None:
        return None
    sign = -1 if node.opcode == "subtract" else 1
    right = _scaled(pair[1].terms, sign)
    return _Value(pair[0].axes, _sum(chain(pair[0].terms.items(), right.items())))


def _chosen(flow: _Flow, node: Node) -> _Value | None:
    """Take ``select(mask, x, 0)``, where each term of x has E, which is zero outside of masks.

    A predicate that chooses zero in rows without scores is no mask: the band leaves none.
    """
    predicate, *choices = node.operands
    for side in (0, 1):
        value, number = flow.of(choices[side]), choices[1 - side].splat
        if value is None or number is None or float(number) != 0:
            continue
        if predicate.shape != node.shape or not all(e > 0 for e, _, _, _ in value.terms):
            return None
        mask = Labeled(predicate, value.axes)
        if side == 0 or not is_empty_row(flow.softmax, mask):
            flow.readers.masks.append((mask, side == 1))
        return value
    return None


def _broadcast(flow: _Flow, node: Node) -> _Value | None:
    (operand,) = node.operands
    value = flow.of(operand)
    if value is None:
        return None
    axes: list[tuple[int, ...] | None] = [None] * len(node.shape)
    for dim, target, extent in zip(
        range(len(operand.shape)), node.attributes["dimensions"], operand.shape, strict=True
    ):
        if extent == node.shape[target]:
            axes[target] = value.axes[dim]
    softmax = flow.softmax
    added = [dim for dim, axis in enumerate(axes) if axis is None and node.shape[dim] != 1]
    if added:
        is_of_keys = [node.shape[dim] for dim in added] == [softmax.extents[softmax.key]]
        if not is_of_keys or not value.is_of_rows:
            return None
        axes[added[0]] = (softmax.key,)
    return _Value(tuple(axis or () for axis in axes), value.terms)


def _reshaped(flow: _Flow, node: Node) -> _Value | None:
    value = flow.of(node.operands[0])
    if value is None:
        return None
    labels = tuple(chain.from_iterable(value.axes))
    axes = regrouped(labels, node.shape, flow.softmax.extents)
    return None if axes is None else _Value(axes, value.terms)


def _transposed(flow: _Flow, node: Node) -> _Value | None:
    value = flow.of(node.operands[0])
    if value is None:
        return None
    dims: tuple[int, ...] = node.attributes["dimensions"]
    return _Value(tuple(value.axes[dim] for dim in dims), value.terms)


def _reduced(flow: _Flow, node: Node) -> _Value | None:
    """Take a sum over the keys, or over dimensions of one element."""
    if len(node.operands) != 2 or node.attributes["applied"] != "add":
        return None
    value, start = flow.of(node.operands[0]), node.operands[1].splat
    if value is None or start is None or float(start) != 0:
        return None
    dims: tuple[int, ...] = node.attributes["dimensions"]
    axes = tuple(axis for dim, axis in enumerate(value.axes) if dim not in dims)
    labels = [label for dim in dims for label in value.axes[dim]]
    if not labels or not value.terms:
        return _Value(axes, value.terms)
    if labels != [flow.softmax.key]:
        return None
    total: list[tuple[Powers, float]] = []
    for (e, g, of_sum, of_mean), coefficient in value.terms.items():
        if e != 1 or g not in (0, 1):
            return None
        total.append(((0, 0, of_sum + 1 - g, of_mean + g), coefficient))
    return _Value(axes, _sum(total))


_RULES: dict[str, Callable[[_Flow, Node], _Value | None]] = {
    "add": _added,
    "broadcast": _broadcast,
    "convert": _same_terms,
    "divide": _divided,
    "multiply": _multiplied,
    "negate": _negated,
    "reduce": _reduced,
    "reshape": _reshaped,
    "select": _chosen,
    "subtract": _added,
    "transpose": _transposed,
}
"""Opcode -> computes the terms of a node from those of its operands."""


def readers_of(softmax: Softmax, users: dict[int, list[Node]], order: dict[int, int]) -> Readers:
    """Return the products that read a softmax, and what else they depend on.

    Args:
        softmax: the softmax.
        users: ``id`` of a node -> its readers.
        order: ``id`` of a node -> its position in the graph.
    """
    flow = _Flow(softmax)
    waiting = {order[id(user)]: user for user in users.get(id(softmax.node), ())}
    while waiting:
        node = waiting.pop(min(waiting))
        if flow.visit(node):
            waiting |= {order[id(user)]: user for user in users.get(id(node), ())}
    return flow.readers
