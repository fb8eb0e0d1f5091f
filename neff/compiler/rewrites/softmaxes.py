"""Recognizes a softmax of scaled and masked products, from its exponentials upwards.

Casts between floats, reshapes and transposes may stand between any two of these operations::

    exponentials  exp(x - maximum of x over the keys)
    x             dot(q, k), multiplied or divided by positive numbers, and masked by
                  select(mask, x, fill) or x + select(mask, 0, fill)

A fill is so small that the exponential of a masked score is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from neff.compiler.graph.bands import Band, band_of
from neff.compiler.graph.nodes import Node
from neff.compiler.rewrites.labels import FLOATS, Extents, Labeled, up

__all__ = ["Mask", "Softmax", "band_of_masks", "is_empty_row", "softmax_of"]

Mask = tuple[Labeled, bool]
"""A predicate that is true for the pairs that count, and whether it is negated."""

MAX_FILL = -9.9e8
"""A masked score at most this small (-1e9, in bfloat16, too) has the exponential 0: scores of products
are not smaller."""


@dataclass(slots=True)
class Softmax:
    """A softmax over the keys.

    Attributes:
        node: the exponentials. Labels are its dimensions of more than one element.
        extents: label -> extent.
        key: the label that counts keys.
        scores: x, from which the maximum is subtracted.
        product: the products of queries and keys.
        scale: positive factor of the scores.
        masks: predicates that are true for pairs that count.
    """

    node: Node
    extents: dict[int, int]
    key: int
    scores: Labeled
    product: Labeled
    scale: float = 1.0
    masks: list[Mask] = field(default_factory=list[Mask])


def softmax_of(node: Node) -> Softmax | None:
    """Return the softmax that an exponential belongs to, or None."""
    if node.opcode != "exponential" or node.element.name not in FLOATS or not node.size:
        return None
    extents = {dim: extent for dim, extent in enumerate(node.shape) if extent != 1}
    axes = tuple((dim,) if extent != 1 else () for dim, extent in enumerate(node.shape))
    difference = up(Labeled(node.operands[0], axes), extents)
    if difference.node.opcode != "subtract":
        return None
    scores, greatest = (up(difference.operand(side), extents) for side in (0, 1))
    if greatest.node.opcode == "maximum":
        numbers = [operand.splat for operand in greatest.node.operands]
        if -np.inf not in numbers:
            return None
        greatest = up(greatest.operand(1 - numbers.index(-np.inf)), extents)
    key = _key_of(greatest, scores, extents)
    if key is None:
        return None
    softmax = Softmax(node, extents, key, scores, scores)
    return softmax if _takes_scores(softmax) else None


def is_empty_row(softmax: Softmax, predicate: Labeled) -> bool:
    """Return True if a predicate is true for rows whose scores are all minus infinity.

    PyTorch sets the probabilities of such rows to zero. With finite operands a band that leaves no
    row empty has none.
    """
    walk = up(predicate, softmax.extents)
    reduction, direction = "and", "EQ"
    if walk.node.opcode == "not":
        walk = up(walk.operand(0), softmax.extents)
        reduction, direction = "or", "NE"
    node = walk.node
    if node.opcode != "reduce" or node.attributes["applied"] != reduction:
        return False
    start = node.operands[1].splat
    if start is None or bool(start) != (reduction == "and"):
        return False
    if softmax.key in walk.labels:
        return False
    comparison = up(_over_keys(walk, softmax.key), softmax.extents)
    if comparison.node.opcode == "not":
        comparison = up(comparison.operand(0), softmax.extents)
        direction = {"EQ": "NE", "NE": "EQ"}[direction]
    node = comparison.node
    if node.opcode != "compare" or node.attributes["direction"] != direction:
        return False
    for side in (0, 1):
        number = node.operands[1 - side].splat
        if number is not None and float(number) == -np.inf:
            source = up(comparison.operand(side), softmax.extents)
            return source.node is softmax.scores.node and source.axes == softmax.scores.axes
    return False


def _over_keys(reduced: Labeled, key: int) -> Labeled:
    """Return the operand of a reduction over the keys."""
    operand, dims = reduced.node.operands[0], reduced.node.attributes["dimensions"]
    axes_left = iter(reduced.axes)
    axes = tuple(
        (() if extent == 1 else (key,)) if dim in dims else next(axes_left)
        for dim, extent in enumerate(operand.shape)
    )
    return Labeled(operand, axes)


def _key_of(greatest: Labeled, scores: Labeled, extents: Extents) -> int | None:
    """Return the label over which a value is the maximum of the scores, or None."""
    node = greatest.node
    if (
        node.opcode != "reduce"
        or len(node.operands) != 2
        or node.attributes["applied"] != "maximum"
    ):
        return None
    start = node.operands[1].splat
    missing = set(extents) - set(greatest.labels)
    if start is None or float(start) != -np.inf or len(missing) != 1:
        return None
    (key,) = missing
    source = up(_over_keys(greatest, key), extents)
    is_same = source.node is scores.node and source.axes == scores.axes
    return key if is_same and source.labels.count(key) == 1 else None


def _takes_scores(softmax: Softmax) -> bool:
    """Walk from the scores to the product of queries and keys; return False if there is none."""
    walk = softmax.product
    while walk.node.opcode != "dot":
        step = _STEPS.get(walk.node.opcode)
        operand = None if step is None else step(walk, softmax)
        if operand is None:
            return False
        walk = up(operand, softmax.extents)
    softmax.product = walk
    return set(walk.labels) == set(softmax.extents)


def _factor(walk: Labeled, softmax: Softmax) -> Labeled | None:
    """Take a positive number out of a product or a quotient."""
    node = walk.node
    numbers = [operand.splat for operand in node.operands]
    side = 1 if numbers[1] is not None else 0
    if numbers[side] is None or (node.opcode == "divide" and side == 0):
        return None
    number = float(numbers[side])
    if not 0 < number < np.inf:
        return None
    softmax.scale *= 1 / number if node.opcode == "divide" else number
    return walk.operand(1 - side)


def _masked(walk: Labeled, softmax: Softmax) -> Labeled | None:
    """Take the mask of ``select(mask, x, fill)``."""
    node = walk.node
    fills = [operand.splat for operand in node.operands]
    side = 2 if fills[2] is not None else 1
    if fills[side] is None or not float(fills[side]) * softmax.scale <= MAX_FILL:
        return None
    if node.operands[0].shape != node.shape:
        return None
    softmax.masks.append((walk.operand(0), side == 1))
    return walk.operand(3 - side)


def _biased(walk: Labeled, softmax: Softmax) -> Labeled | None:
    """Take the mask of ``x + select(mask, 0, fill)``."""
    for side in (0, 1):
        bias = up(walk.operand(side), softmax.extents)
        if bias.node.opcode != "select" or bias.node.operands[0].shape != bias.node.shape:
            continue
        numbers = [operand.splat for operand in bias.node.operands[1:]]
        if None in numbers:
            continue
        on_true, on_false = (float(number) for number in numbers)
        fill, neutral = sorted((on_true, on_false))
        if neutral == 0 and fill * softmax.scale <= MAX_FILL:
            softmax.masks.append((bias.operand(0), fill == on_true))
            return walk.operand(1 - side)
    return None


_STEPS: dict[str, Callable[[Labeled, Softmax], Labeled | None]] = {
    "add": _biased, "divide": _factor, "multiply": _factor, "select": _masked,
}  # fmt: skip
"""Opcode of an operation between the product and the softmax -> takes it into the softmax."""


def band_of_masks(masks: list[Mask], query: int, key: int, extents: Extents) -> Band | None:
    """Return the band in which all masks are true, or None if it is not proved.

    Args:
        masks: the masks.
        query, key: the labels that count queries and keys.
        extents: label -> extent.
    """
    total = Band()
    for mask, is_negated in masks:
        walk = up(mask, extents)
        if (query,) not in walk.axes or (key,) not in walk.axes:
            return None
        band = band_of(walk.node, walk.axes.index((query,)), walk.axes.index((key,)))
        band = band.complement() if band is not None and is_negated else band
        if band is None:
            return None
        total = total.meet(band)
    return total
