"""Choices made while the program runs: the gradient of a maximum over windows, conditionals."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.expansions.spans import Span
from neff.compiler.graph.nodes import Node, derived, uncovered

__all__ = ["chosen", "select_and_scatter"]

Keeps = Callable[[Node, Node, tuple[int, ...]], Node]
"""(what was kept so far, the next, their shape) -> whether to keep it."""

Places = tuple[int, ...]
"""A number for each dimension."""

_PRED, _PLACE = BY_NAME["pred"], BY_NAME["f32"]
"""Places of a window are numbered in float32, which every engine compares."""


def _full(like: Node, value: Any, shape: Any, element: Any) -> Node:
    number = np.asarray(value).astype(element.dtype)
    scalar = derived(like, "constant", (), (), element=element, value=number)
    return derived(like, "broadcast", (scalar,), shape, dimensions=())


def _first_window(spans: tuple[Span, ...], phase: Places, tap: Places, before: Places) -> Places:
    """Which window has a phase's first element at a place, ``before`` windows standing in front."""
    return tuple(
        (at + span.low - one) // span.stride + front
        for at, span, one, front in zip(phase, spans, tap, before, strict=True)
    )


def select_and_scatter(node: Node, keeps: Keeps) -> Node:
    """Each source goes to the element of its window that the comparison keeps, and is combined
    with what else went there.

    Every place of the window is compared for all windows at once. An element is in a few places of its
    windows, and elements a stride apart are in the same ones: these are computed together.

    Raises:
        NeffCompileError: ``NEFF-OP``; the windows are dilated, or it combines in another way.
    """
    applied = node.attributes["applied"]
    if applied not in ("add", "maximum", "minimum"):
        raise uncovered(node, "a select-and-scatter that does not add or take an extreme")
    _, source, start = node.operands
    spans: tuple[Span, ...] = tuple(node.attributes["spans"])
    if any(span.window_dilation > 1 or span.base_dilation > 1 for span in spans):
        raise uncovered(node, "a select-and-scatter with dilations is not covered")
    first = derived(node, "broadcast", (start,), node.shape, dimensions=())
    if not source.size or not node.size:
        return first
    number = _selected(node, spans, keeps)
    reach = tuple((span.size - 1) // span.stride for span in spans)
    ends = [
        max(0, (extent - 1 + span.low) // span.stride - count + 1)
        for extent, span, count in zip(node.shape, spans, source.shape, strict=True)
    ]
    sides = tuple((before, after, 0) for before, after in zip(reach, ends, strict=True))
    idle = np.asarray(_idle(applied, source)).astype(source.element.dtype)
    number = _around(node, number, sides, np.asarray(-1, _PLACE.dtype))
    source = _around(node, source, sides, idle)
    whole = first
    for phase in product(
        *(range(min(span.stride, n)) for span, n in zip(spans, node.shape, strict=True))
    ):
        taps = [
            range((at + span.low) % span.stride, span.size, span.stride)
            for at, span in zip(phase, spans, strict=True)
        ]
        if not all(taps):
            continue
        strides = tuple(span.stride for span in spans)
        shape = tuple(
            -(-(n - at) // step) for n, at, step in zip(node.shape, phase, strides, strict=True)
        )
        total = derived(node, "broadcast", (start,), shape, dimensions=())
        for tap in product(*taps):
            begin = _first_window(spans, phase, tap, reach)
            hit = _hit(node, number, source, tap, begin, shape)
            total = derived(node, applied, (total, hit), shape)
        limits = tuple(
            at + (count - 1) * step + 1
            for at, count, step in zip(phase, shape, strides, strict=True)
        )
        whole = node.like(
            "update-slice", whole, total, starts=phase, limits=limits, strides=strides
        )
    return whole


def _hit(
    node: Node, number: Node, source: Node, tap: tuple[int, ...], begin: tuple[int, ...],
    shape: tuple[int, ...],
) -> Node:  # fmt: skip
    """What the windows from ``begin`` on give to the element at one place of them."""
    window = [span.size for span in node.attributes["spans"]]
    index = int(np.ravel_multi_index(tap, window))
    limits = tuple(at + count for at, count in zip(begin, shape, strict=True))
    cut: dict[str, Any] = {"starts": begin, "limits": limits, "strides": (1,) * len(begin)}
    chosen_ones, given = (derived(node, "slice", (one,), shape, **cut) for one in (number, source))
    wanted = _full(node, index, shape, _PLACE)
    hit = derived(
        node, "compare", (chosen_ones, wanted), shape, element=_PRED, direction="EQ"
    )  # fmt: skip
    idle = _full(node, _idle(node.attributes["applied"], source), shape, source.element)
    return derived(node, "select", (hit, given, idle), shape, element=source.element)


def _around(node: Node, one: Node, sides: tuple[tuple[int, int, int], ...], value: Any) -> Node:
    """An array with a value, a number or a node, around it."""
    if not any(map(any, sides)):
        return one
    shape = [n + low + high for n, (low, high, _) in zip(one.shape, sides, strict=True)]
    if not isinstance(value, Node):
        value = derived(node, "constant", (), (), element=one.element, value=value)
    return derived(node, "pad", (one, value), shape, padding=sides)


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


def _selected(node: Node, spans: tuple[Span, ...], keeps: Keeps) -> Node:
    """The number of the place that each window keeps; padding is never kept."""
    operand, source, start = node.operands
    shape = source.shape
    padding = tuple((span.low, span.high, 0) for span in spans)
    inside = _full(node, 1, operand.shape, _PRED)
    operand = _around(node, operand, padding, start)
    inside = _around(node, inside, padding, np.zeros((), np.bool_))
    places = list(product(*(range(span.size) for span in spans)))
    best = _window(node, operand, places[0], shape)
    held = None if _is_inside(node, places[0]) else _window(node, inside, places[0], shape)
    number = _full(node, 0, shape, _PLACE)
    for index, place in enumerate(places[1:], 1):
        other = _window(node, operand, place, shape)
        keep = keeps(best, other, shape)
        if held is not None:
            keep = derived(node, "and", (held, keep), shape)
        if _is_inside(node, place):
            held = None
        else:
            there = _window(node, inside, place, shape)
            absent = derived(node, "not", (there,), shape)
            keep = derived(node, "or", (keep, absent), shape)
            if held is not None:
                held = derived(node, "or", (held, there), shape)
        best = derived(node, "select", (keep, best, other), shape, element=best.element)
        here = _full(node, index, shape, _PLACE)
        number = derived(node, "select", (keep, number, here), shape, element=_PLACE)
    return number


def _is_inside(node: Node, place: tuple[int, ...]) -> bool:
    """True where no window has padding at a place."""
    operand, source, _ = node.operands
    spans: tuple[Span, ...] = node.attributes["spans"]
    return all(
        at >= span.low and (count - 1) * span.stride + at - span.low < extent
        for at, span, count, extent in zip(place, spans, source.shape, operand.shape, strict=True)
    )


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
