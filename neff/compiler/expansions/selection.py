"""Choices made while the program runs: the gradient of a maximum over windows, conditionals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Node, derived, uncovered

__all__ = ["chosen", "select_and_scatter"]

Keeps = Callable[[Node, Node, tuple[int, ...]], Node]
"""(what was kept so far, the next, their shape) -> whether to keep it."""

_PRED, _INDEX = BY_NAME["pred"], BY_NAME["s32"]


def _full(like: Node, value: Any, shape: Any, element: Any) -> Node:
    number = np.asarray(value).astype(element.dtype)
    scalar = derived(like, "constant", (), (), element=element, value=number)
    return derived(like, "broadcast", (scalar,), shape, dimensions=())


def select_and_scatter(node: Node, keeps: Keeps) -> Node:
    """Each source goes to the element of its window that the comparison keeps, and is combined
    with what else went there.

    Every place of the window is compared for all windows at once.

    Raises:
        NeffCompileError: ``NEFF-OP``; the windows are dilated, or it combines in another way.
    """
    applied = node.attributes["applied"]
    if applied not in ("add", "maximum", "minimum"):
        raise uncovered(node, "a select-and-scatter that does not add or take an extreme")
    operand, source, start = node.operands
    spans = node.attributes["spans"]
    if any(span.window_dilation > 1 or span.base_dilation > 1 for span in spans):
        raise uncovered(node, "a select-and-scatter with dilations is not covered")
    padding = tuple((span.low, span.high, 0) for span in spans)
    wide = [n + low + high for n, (low, high, _) in zip(operand.shape, padding, strict=True)]
    inside = _full(node, 1, operand.shape, _PRED)
    if any(map(any, padding)):
        zero = derived(node, "constant", (), (), element=_PRED, value=np.zeros((), np.bool_))
        inside = derived(node, "pad", (inside, zero), wide, padding=padding)
        operand = derived(node, "pad", (operand, start), wide, padding=padding)
    places = list(product(*(range(span.size) for span in spans)))
    number = _selected(node, operand, inside, places, keeps) if len(places) > 1 else None
    total: Node | None = None
    for index, place in enumerate(places):
        part = source
        if number is not None:
            hit = derived(
                node, "compare", (number, _full(node, index, source.shape, _INDEX)), source.shape,
                element=_PRED, direction="EQ",
            )  # fmt: skip
            none = _full(node, _idle(applied, source), source.shape, source.element)
            part = derived(
                node, "select", (hit, source, none), source.shape, element=source.element
            )
        spread = _spread(node, part, place, wide)
        total = spread if total is None else derived(node, applied, (total, spread), wide)
    assert total is not None
    lows = tuple(low for low, _, _ in padding)
    limits = tuple(low + n for low, n in zip(lows, node.shape, strict=True))
    ones = (1,) * len(lows)
    cut = derived(node, "slice", (total,), node.shape, starts=lows, limits=limits, strides=ones)
    first = derived(node, "broadcast", (start,), node.shape, dimensions=())
    return derived(node, applied, (cut, first), node.shape)


def _idle(applied: str, like: Node) -> Any:
    """What changes nothing when it is combined."""
    if applied == "add":
        return 0
    if like.element.kind == "float":
        return -np.inf if applied == "maximum" else np.inf
    info = np.iinfo(like.element.dtype)
    return info.min if applied == "maximum" else info.max


def _window(node: Node, operand: Node, place: tuple[int, ...], shape: tuple[int, ...]) -> Node:
    """What is at one place of every window."""
    strides = tuple(span.stride for span in node.attributes["spans"])
    limits = tuple(
        at + (count - 1) * step + 1 for at, count, step in zip(place, shape, strides, strict=True)
    )
    return derived(
        node, "slice", (operand,), shape, starts=place, limits=limits, strides=strides
    )  # fmt: skip


def _selected(
    node: Node, operand: Node, inside: Node, places: list[tuple[int, ...]], keeps: Keeps
) -> Node:
    """The number of the place that each window keeps; padding is never kept."""
    shape = node.operands[1].shape
    best = _window(node, operand, places[0], shape)
    held = _window(node, inside, places[0], shape)
    number = _full(node, 0, shape, _INDEX)
    for index, place in enumerate(places[1:], 1):
        other, there = (_window(node, each, place, shape) for each in (operand, inside))
        keep = derived(node, "and", (held, keeps(best, other, shape)), shape)
        absent = derived(node, "not", (there,), shape)
        keep = derived(node, "or", (keep, absent), shape)
        best = derived(node, "select", (keep, best, other), shape, element=best.element)
        here = _full(node, index, shape, _INDEX)
        number = derived(node, "select", (keep, number, here), shape, element=_INDEX)
        held = derived(node, "or", (held, there), shape)
    return number


def _spread(node: Node, part: Node, place: tuple[int, ...], wide: list[int]) -> Node:
    """A value for each window at one place of it, zero elsewhere."""
    padding: list[tuple[int, int, int]] = []
    for at, count, span, extent in zip(
        place, part.shape, node.attributes["spans"], wide, strict=True
    ):
        reach = (count - 1) * span.stride + 1
        padding.append((at, extent - at - reach, span.stride - 1))
    idle = np.asarray(_idle(node.attributes["applied"], part)).astype(part.element.dtype)
    value = derived(node, "constant", (), (), element=part.element, value=idle)
    return derived(node, "pad", (part, value), wide, padding=tuple(padding))


def chosen(like: Node, which: Node, branches: list[Node]) -> Node:
    """The value of the branch that a predicate (true first) or a number picks.

    A number that names no branch picks the last.
    """
    shape = branches[0].shape
    result = branches[-1]
    for index in range(len(branches) - 2, -1, -1):
        hit = which
        if which.element is not _PRED:
            wanted = derived(
                like, "constant", (), (), element=which.element,
                value=np.asarray(index, which.element.dtype),
            )  # fmt: skip
            hit = derived(
                like, "compare", (which, wanted), (), element=_PRED, direction="EQ"
            )  # fmt: skip
        if prod(shape) != 1 or shape:
            hit = derived(like, "broadcast", (hit,), shape, dimensions=())
        fields: dict[str, Any] = {"element": result.element}
        result = derived(like, "select", (hit, branches[index], result), shape, **fields)
    return result
