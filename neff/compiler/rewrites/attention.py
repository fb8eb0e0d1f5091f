"""Recognizes attention: ``softmax(q k^T * scale + mask) v`` becomes one node.

The pattern, from the product with the values upwards; casts between floats, and reshapes and
transposes, may stand between any two of its operations::

    product       dot(p, v) or dot(v, p), which contracts the keys
    p             divide(e, sum of e over the keys)
    e             exp(x - maximum of x over the keys)
    x             dot(q, k), multiplied or divided by positive numbers, and masked by
                  select(mask, x, fill) or x + select(mask, 0, fill)

A mask is a :class:`~neff.compiler.graph.bands.Band` that leaves no row empty, and its fill is so
small that the exponential of a masked score is 0. Each of the four values has one reader inside the
pattern and none outside: a gradient that reads the exponentials keeps them.

The data flow in one direction: :func:`attention` finds a ``_Pattern`` (nodes, with the dimensions of
the probabilities that their dimensions walk), replaces the product by a node ``attention`` with the
operands q (batch..., group..., queries, depth), k (batch..., keys, depth) and v (batch..., keys,
columns), and :mod:`neff.compiler.lowering.products.attention` makes its kernel. ``group`` are the dimensions of q
that k lacks, such as the query heads of a key head.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from neff.compiler.graph.bands import Band, band_of
from neff.compiler.graph.nodes import Node, derived

__all__ = ["attention"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""

_FLOATS = frozenset({"f32", "bf16"})

_MAX_FILL = -9.9e8
"""A masked score at most this small (-1e9, in bfloat16, too) has the exponential 0: scores of products
are not smaller."""

_MIN_SCALE = 1e-20
"""A smaller factor of the scores would lift masked ones, which the kernel sets to -3e38."""

_MAX_DEPTH = 512
"""Depth of the queries and columns of the values that fit on chip with the scores."""

_MIN_SCORES = {"bf16": 256 * 256, "f32": 1280 * 1280}
"""Scores of a batch index, by the type of the values: with fewer, a unit over rows is as fast in the
timing model (trn2, heads of 64 columns). Exponentials of four bytes are transposed in PSUM."""


@dataclass(frozen=True, slots=True)
class _Walk:
    """A value, and for each of its dimensions the dimension of the probabilities that it walks.

    Attributes:
        node: the value.
        axes: for each dimension; None for one element.
    """

    node: Node
    axes: tuple[int | None, ...]

    def up(self) -> _Walk:
        """Return the value behind casts, reshapes that move ones, transposes and broadcasts."""
        walk = self
        while (operand := walk._viewed()) is not None:
            walk = operand
        return walk

    def _viewed(self) -> _Walk | None:
        node, axes = self.node, self.axes
        if (
            node.opcode == "convert"
            and {node.element.name, node.operands[0].element.name} <= _FLOATS
        ):
            return _Walk(node.operands[0], axes)
        if node.opcode == "transpose":
            operand_axes: list[int | None] = [None] * len(axes)
            for axis, dim in zip(axes, node.attributes["dimensions"], strict=True):
                operand_axes[dim] = axis
            return _Walk(node.operands[0], tuple(operand_axes))
        if node.opcode == "broadcast":
            operand = node.operands[0]
            dimensions: tuple[int, ...] = node.attributes["dimensions"]
            pairs = zip(operand.shape, dimensions, strict=True)
            return _Walk(operand, tuple(None if n == 1 else axes[dim] for n, dim in pairs))
        if node.opcode == "reshape":
            operand = node.operands[0]
            if _wide(operand.shape) != _wide(node.shape):
                return None
            wide = iter(axis for axis, n in zip(axes, node.shape, strict=True) if n != 1)
            return _Walk(operand, tuple(next(wide) if n != 1 else None for n in operand.shape))
        return None

    def operand(self, number: int) -> _Walk:
        """Return an operand of an elementwise operation, or the operand of a reduction's shape."""
        return _Walk(self.node.operands[number], self.axes)


@dataclass(slots=True)
class _Pattern:
    """The scale and the masks that were matched so far.

    Attributes:
        key: the dimension of the probabilities that counts keys.
        scale: factor of the scores.
        masks: predicates that are true for pairs that count, and whether they are negated.
    """

    key: int
    scale: float = 1.0
    masks: list[tuple[_Walk, bool]] = field(default_factory=list[tuple[_Walk, bool]])


def _wide(shape: Sequence[int]) -> list[int]:
    return [extent for extent in shape if extent != 1]


def attention(node: Node, uses: Uses) -> Node | None:
    """Return the attention of which a product with the values is the last operation."""
    if node.element.name not in _FLOATS or not node.size:
        return None
    for side in (0, 1):
        attended = _match(node, side, uses)
        if attended is not None:
            return attended
    return None


def _match(node: Node, side: int, uses: Uses) -> Node | None:
    probabilities, values = node.operands[side], node.operands[1 - side]
    contracted = [dim for dim in _dims(node, side, "contracting") if probabilities.shape[dim] != 1]
    if len(contracted) != 1 or values.element.name not in _FLOATS:
        return None
    pattern = _Pattern(contracted[0])
    axes = tuple(None if extent == 1 else dim for dim, extent in enumerate(probabilities.shape))
    weights = _divided(_Walk(probabilities, axes), pattern.key, uses)
    scores = None if weights is None else _exponent(weights, pattern.key, uses)
    product = None if scores is None else _scaled(scores, pattern)
    return None if product is None else _replacement(node, side, product, pattern)


def _dims(node: Node, side: int, which: str) -> tuple[int, ...]:
    dims: tuple[int, ...] = node.attributes[f"{('lhs', 'rhs')[side]}_{which}"]
    return dims


def _divided(walk: _Walk, key: int, uses: Uses) -> _Walk | None:
    """Return the exponentials of ``exp / sum of exp over the keys``."""
    quotient = walk.up()
    if quotient.node.opcode != "divide" or uses.get(id(quotient.node), 0) > 1:
        return None
    top, total = quotient.operand(0).up(), quotient.operand(1).up()
    is_softmax = top.node.opcode == "exponential" and _reduces(total, top, key, "add", 0.0)
    return top if is_softmax and uses.get(id(top.node), 0) <= 2 else None


def _exponent(walk: _Walk, key: int, uses: Uses) -> _Walk | None:
    """Return the scores x of ``exp(x - maximum of x over the keys)``."""
    difference = walk.operand(0).up()
    if difference.node.opcode != "subtract" or uses.get(id(difference.node), 0) > 1:
        return None
    scores, greatest = difference.operand(0).up(), difference.operand(1).up()
    if greatest.node.opcode == "maximum":
        numbers = [operand.splat for operand in greatest.node.operands]
        if -np.inf not in numbers:
            return None
        greatest = greatest.operand(1 - numbers.index(-np.inf)).up()
    return scores if _reduces(greatest, scores, key, "maximum", -np.inf) else None


def _reduces(total: _Walk, source: _Walk, key: int, op: str, start: float) -> bool:
    """Return True if a value is the reduction of ``source`` over the keys alone."""
    node = total.node
    if node.opcode != "reduce" or len(node.operands) != 2 or node.attributes["applied"] != op:
        return False
    if node.operands[1].splat is None or float(node.operands[1].splat) != start:
        return False
    operand, reduced = node.operands[0], node.attributes["dimensions"]
    axes_left = iter(total.axes)
    axes = [key if dim in reduced else next(axes_left) for dim in range(len(operand.shape))]
    axes = [None if n == 1 else axis for axis, n in zip(axes, operand.shape, strict=True)]
    walk = _Walk(operand, tuple(axes)).up()
    return axes.count(key) == 1 and walk.node is source.node and walk.axes == source.axes


def _scaled(walk: _Walk, pattern: _Pattern) -> _Walk | None:
    """Return the product of queries and keys, with the scale and the masks put in the pattern."""
    while walk.node.opcode != "dot":
        step = _STEPS.get(walk.node.opcode)
        operand = None if step is None else step(walk, pattern)
        if operand is None:
            return None
        walk = operand.up()
    return walk


def _factor(walk: _Walk, pattern: _Pattern) -> _Walk | None:
    """Take a positive number out of a product or a quotient."""
    node = walk.node
    numbers = [operand.splat for operand in node.operands]
    side = 1 if numbers[1] is not None else 0
    if numbers[side] is None or (node.opcode == "divide" and side == 0):
        return None
    number = float(numbers[side])
    if not 0 < number < np.inf:
        return None
    pattern.scale *= 1 / number if node.opcode == "divide" else number
    return walk.operand(1 - side)


def _masked(walk: _Walk, pattern: _Pattern) -> _Walk | None:
    """Take the mask of ``select(mask, x, fill)``."""
    node = walk.node
    fills = [operand.splat for operand in node.operands]
    side = 2 if fills[2] is not None else 1
    if fills[side] is None or not float(fills[side]) * pattern.scale <= _MAX_FILL:
        return None
    if node.operands[0].shape != node.shape:
        return None
    pattern.masks.append((walk.operand(0), side == 1))
    return walk.operand(3 - side)


def _biased(walk: _Walk, pattern: _Pattern) -> _Walk | None:
    """Take the mask of ``x + select(mask, 0, fill)``."""
    for side in (0, 1):
        bias = walk.operand(side).up()
        if bias.node.opcode != "select" or bias.node.operands[0].shape != bias.node.shape:
            continue
        numbers = [operand.splat for operand in bias.node.operands[1:]]
        if None in numbers:
            continue
        on_true, on_false = (float(number) for number in numbers)
        fill, neutral = sorted((on_true, on_false))
        if neutral == 0 and fill * pattern.scale <= _MAX_FILL:
            pattern.masks.append((bias.operand(0), fill == on_true))
            return walk.operand(1 - side)
    return None


_STEPS = {"add": _biased, "divide": _factor, "multiply": _factor, "select": _masked}
"""Opcode of an operation between the product and the softmax -> takes it into the pattern."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of a product, with the dimension of the probabilities for each of its dimensions.

    Attributes:
        node: the operand.
        axes: for each dimension; None for one element, and for what is no dimension of them.
        last: the dimensions that come last when the operand is arranged, in their order.
    """

    node: Node
    axes: tuple[int | None, ...]
    last: tuple[int, ...]

    def arranged(self, order: Sequence[int]) -> Node:
        """Return the operand with these axes in front and the product of the last dimensions."""
        front = [self.axes.index(axis) for axis in order]
        ones = [dim for dim in range(len(self.axes)) if dim not in (*front, *self.last)]
        dims = (*ones, *front, *self.last)
        shape = self.node.shape
        value = self.node
        if dims != tuple(range(len(dims))):
            moved = [shape[dim] for dim in dims]
            value = derived(value, "transpose", (value,), moved, dimensions=dims)
        final = (*(shape[dim] for dim in front), prod(shape[dim] for dim in self.last))
        return value if value.shape == final else derived(value, "reshape", (value,), final)


def _free(node: Node, side: int) -> list[int]:
    """Return the dimensions of an operand that are dimensions of the product alone."""
    used_dims = (*_dims(node, side, "batch"), *_dims(node, side, "contracting"))
    return [dim for dim in range(len(node.operands[side].shape)) if dim not in used_dims]


def _operand(product: _Walk, side: int) -> _Operand:
    """Return an operand of the product of queries and keys."""
    node, batch = product.node, _dims(product.node, side, "batch")
    free, contracting = _free(node, side), _dims(node, side, "contracting")
    first = len(batch) + (len(_free(node, 0)) if side else 0)
    axes: list[int | None] = [None] * len(node.operands[side].shape)
    for position, dim in enumerate(batch):
        axes[dim] = product.axes[position]
    for position, dim in enumerate(free):
        axes[dim] = product.axes[first + position]
    return _Operand(node.operands[side], tuple(axes), contracting)


def _values(node: Node, side: int) -> _Operand:
    """Return the values, the operand of the product that is no probability."""
    values = node.operands[1 - side]
    axes: list[int | None] = [None] * len(values.shape)
    for which in ("batch", "contracting"):
        pairs = zip(_dims(node, side, which), _dims(node, 1 - side, which), strict=True)
        for axis, dim in pairs:
            axes[dim] = axis if values.shape[dim] != 1 else None
    return _Operand(values, tuple(axes), tuple(_free(node, 1 - side)))


def _replacement(node: Node, side: int, product: _Walk, pattern: _Pattern) -> Node | None:
    """Return the node ``attention`` in the shape of the product with the values."""
    probabilities, operands = node.operands[side], product.node.operands
    if not {value.element.name for value in (product.node, *operands)} <= _FLOATS:
        return None
    rows = [dim for dim in _free(node, side) if probabilities.shape[dim] != 1]
    batch = [dim for dim in _dims(node, side, "batch") if probabilities.shape[dim] != 1]
    sides = [_operand(product, number) for number in (0, 1)]
    wide = [{axis for axis in operand.axes if axis is not None} for operand in sides]
    keyed = {*batch, pattern.key}
    if keyed not in wide or {*batch, *rows} not in wide:
        return None
    key_side = wide.index(keyed)
    band, query = _band(pattern, rows)
    extents = [probabilities.shape[axis] for axis in (query, pattern.key)]
    if band is None or not band.leaves_no_row_empty(*extents):
        return None
    if prod(extents) < _MIN_SCORES[node.operands[1 - side].element.name]:
        return None
    if not _MIN_SCALE < pattern.scale < np.inf:
        return None
    group = [axis for axis in rows if axis != query]
    values = _values(node, side)
    arranged = (
        sides[1 - key_side].arranged([*batch, *group, query]),
        sides[key_side].arranged([*batch, pattern.key]),
        values.arranged([*batch, pattern.key]),
    )
    if max(value.shape[-1] for value in arranged) > _MAX_DEPTH:
        return None
    order = [*batch, *group, query]
    shape = (*(probabilities.shape[axis] for axis in order), arranged[2].shape[-1])
    result = Node(
        "attention", arranged, shape, node.element,
        {"batch": len(batch), "scale": pattern.scale, "low": band.low, "high": band.high},
        node.name, node.place,
    )  # fmt: skip
    return _in_shape_of(node, side, result, order)


def _band(pattern: _Pattern, rows: list[int]) -> tuple[Band | None, int]:
    """Return the band of all masks, and the row's dimension that counts queries."""
    for query in rows:
        total: Band | None = Band()
        for walk, is_negated in pattern.masks:
            if query not in walk.axes or pattern.key not in walk.axes:
                total = None
                break
            band = band_of(walk.node, walk.axes.index(query), walk.axes.index(pattern.key))
            band = band.complement() if band is not None and is_negated else band
            total = None if band is None or total is None else total.meet(band)
        if total is not None and pattern.masks:
            return total, query
    return None, -1


def _in_shape_of(node: Node, side: int, result: Node, order: list[int]) -> Node:
    """Return the result with the dimensions of the product with the values.

    Args:
        node: the product.
        side: which operand has the probabilities.
        result: (axes of ``order``..., columns).
        order: dimensions of the probabilities.
    """
    values = node.operands[1 - side]
    columns = [dim for dim in _free(node, 1 - side) if values.shape[dim] != 1]
    sides: list[list[int]] = [_free(node, side), [-1 - dim for dim in _free(node, 1 - side)]]
    dims = [*_dims(node, side, "batch"), *sides[side], *sides[1 - side]]
    named = [*order, *(-1 - dim for dim in columns)]
    wide = [dim for dim in dims if dim in named]
    split = (*result.shape[:-1], *(values.shape[dim] for dim in columns))
    value = derived(result, "reshape", (result,), split) if split != result.shape else result
    moved = tuple(named.index(dim) for dim in wide)
    if moved != tuple(range(len(moved))):
        shape = [split[dim] for dim in moved]
        value = derived(value, "transpose", (value,), shape, dimensions=moved)
    return value if value.shape == node.shape else derived(value, "reshape", (value,), node.shape)
