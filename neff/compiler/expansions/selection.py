"""Expands choices made at run time: the gradient of a maximum over windows, conditionals."""

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
"""Signature: (best value so far, candidate, their shape) -> predicate that keeps the best value."""

Position = tuple[int, ...]
"""An index for each dimension."""

_PRED, _INDEX = BY_NAME["pred"], BY_NAME["f32"]
"""Elements of a window are numbered in float32, which every engine compares."""


def _full(like: Node, value: Any, shape: Any, element: Any) -> Node:
    number = np.asarray(value).astype(element.dtype)
    scalar = derived(like, "constant", (), (), element=element, value=number)
    return derived(like, "broadcast", (scalar,), shape, dimensions=())


def _first_window(
    spans: tuple[Span, ...], phase: Position, tap: Position, before: Position
) -> Position:
    """Return the window whose tap is a phase's first element, after ``before`` padding windows."""
    return tuple(
        (offset + span.low - window_offset) // span.stride + front
        for offset, span, window_offset, front in zip(phase, spans, tap, before, strict=True)
    )


def select_and_scatter(node: Node, keeps: Keeps) -> Node:
    """Combine each source into the element of its window that the comparison keeps.

    Every element of the window is compared for all windows at once. An element is in few windows, and
    elements a stride apart have the same offsets in theirs: these are computed together.

    Raises:
        NeffCompileError: ``NEFF-OP``; the windows are dilated, or the reduction is not covered.
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
    number = _around(node, number, sides, np.asarray(-1, _INDEX.dtype))
    source = _around(node, source, sides, idle)
    result = first
    for phase in product(
        *(range(min(span.stride, extent)) for span, extent in zip(spans, node.shape, strict=True))
    ):
        taps = [
            range((offset + span.low) % span.stride, span.size, span.stride)
            for offset, span in zip(phase, spans, strict=True)
        ]
        if not all(taps):
            continue
        strides = tuple(span.stride for span in spans)
        shape = tuple(
            -(-(extent - offset) // step)
            for extent, offset, step in zip(node.shape, phase, strides, strict=True)
        )
        total = derived(node, "broadcast", (start,), shape, dimensions=())
        for tap in product(*taps):
            begin = _first_window(spans, phase, tap, reach)
            hit = _contribution(node, number, source, tap, begin, shape)
            total = derived(node, applied, (total, hit), shape)
        limits = tuple(
            offset + (count - 1) * step + 1
            for offset, count, step in zip(phase, shape, strides, strict=True)
        )
        result = node.like(
            "update-slice", result, total, starts=phase, limits=limits, strides=strides
        )
    return result


def _contribution(
    node: Node, number: Node, source: Node, tap: tuple[int, ...], begin: tuple[int, ...],
    shape: tuple[int, ...],
) -> Node:  # fmt: skip
    """Return the contribution of the windows from ``begin`` on to the element at one of their
    taps.
    """
    window = [span.size for span in node.attributes["spans"]]
    index = int(np.ravel_multi_index(tap, window))
    limits = tuple(first + count for first, count in zip(begin, shape, strict=True))
    cut: dict[str, Any] = {"starts": begin, "limits": limits, "strides": (1,) * len(begin)}
    chosen_numbers, sources = (
        derived(node, "slice", (array,), shape, **cut) for array in (number, source)
    )
    tap_number = _full(node, index, shape, _INDEX)
    hit = derived(
        node, "compare", (chosen_numbers, tap_number), shape, element=_PRED, direction="EQ"
    )  # fmt: skip
    idle = _full(node, _idle(node.attributes["applied"], source), shape, source.element)
    return derived(node, "select", (hit, sources, idle), shape, element=source.element)


def _around(node: Node, array: Node, sides: tuple[tuple[int, int, int], ...], value: Any) -> Node:
    """Pad an array with a value, a number or a node."""
    if not any(map(any, sides)):
        return array
    shape = [extent + low + high for extent, (low, high, _) in zip(array.shape, sides, strict=True)]
    if not isinstance(value, Node):
        value = derived(node, "constant", (), (), element=array.element, value=value)
    return derived(node, "pad", (array, value), shape, padding=sides)


def _idle(applied: str, like: Node) -> Any:
    """Return the neutral element of a reduction."""
    if applied == "add":
        return 0
    if like.element.kind == "float":
        return -np.inf if applied == "maximum" else np.inf
    info = np.iinfo(like.element.dtype)
    return info.min if applied == "maximum" else info.max


def _window(node: Node, operand: Node, offset: tuple[int, ...], shape: tuple[int, ...]) -> Node:
    """Return the element at one offset of every window."""
    strides = tuple(span.stride for span in node.attributes["spans"])
    limits = tuple(
        start + (count - 1) * step + 1
        for start, count, step in zip(offset, shape, strides, strict=True)
    )
    return derived(
        node, "slice", (operand,), shape, starts=offset, limits=limits, strides=strides
    )  # fmt: skip


def _selected(node: Node, spans: tuple[Span, ...], keeps: Keeps) -> Node:
    """Return the number of the element that each window keeps; padding is never kept."""
    operand, source, start = node.operands
    shape = source.shape
    padding = tuple((span.low, span.high, 0) for span in spans)
    inside = _full(node, 1, operand.shape, _PRED)
    operand = _around(node, operand, padding, start)
    inside = _around(node, inside, padding, np.zeros((), np.bool_))
    offsets = list(product(*(range(span.size) for span in spans)))
    best = _window(node, operand, offsets[0], shape)
    any_inside = None if _is_inside(node, offsets[0]) else _window(node, inside, offsets[0], shape)
    number = _full(node, 0, shape, _INDEX)
    for index, offset in enumerate(offsets[1:], 1):
        candidate = _window(node, operand, offset, shape)
        keep = keeps(best, candidate, shape)
        if any_inside is not None:
            keep = derived(node, "and", (any_inside, keep), shape)
        if _is_inside(node, offset):
            any_inside = None
        else:
            is_real = _window(node, inside, offset, shape)
            absent = derived(node, "not", (is_real,), shape)
            keep = derived(node, "or", (keep, absent), shape)
            if any_inside is not None:
                any_inside = derived(node, "or", (any_inside, is_real), shape)
        best = derived(node, "select", (keep, best, candidate), shape, element=best.element)
        candidate_number = _full(node, index, shape, _INDEX)
        number = derived(node, "select", (keep, number, candidate_number), shape, element=_INDEX)
    return number


def _is_inside(node: Node, offset: tuple[int, ...]) -> bool:
    """Return True if no window has padding at an offset."""
    operand, source, _ = node.operands
    spans: tuple[Span, ...] = node.attributes["spans"]
    return all(
        index >= span.low and (count - 1) * span.stride + index - span.low < extent
        for index, span, count, extent in zip(
            offset, spans, source.shape, operand.shape, strict=True
        )
    )


def chosen(like: Node, which: Node, branches: list[Node]) -> Node:
    """Return the value of the branch that a predicate (true first) or a number selects.

    A number out of range selects the last branch.
    """
    shape = branches[0].shape
    result = branches[-1]
    for index in range(len(branches) - 2, -1, -1):
        hit = which
        if which.element is not _PRED:
            branch_number = derived(
                like, "constant", (), (), element=which.element,
                value=np.asarray(index, which.element.dtype),
            )  # fmt: skip
            hit = derived(
                like, "compare", (which, branch_number), (), element=_PRED, direction="EQ"
            )  # fmt: skip
        if prod(shape) != 1 or shape:
            hit = derived(like, "broadcast", (hit,), shape, dimensions=())
        fields: dict[str, Any] = {"element": result.element}
        result = derived(like, "select", (hit, branches[index], result), shape, **fields)
    return result
