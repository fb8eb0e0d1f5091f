"""Masks as shorter ranges: ``mask=i_p < rows`` becomes ``min(128, rows)``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from hlo_tools.migrate.context import Context
from hlo_tools.migrate.extents import axis_texts, difference, total
from hlo_tools.migrate.facts import IndexFact, MaskFact
from hlo_tools.migrate.markers import Unmigrated
from hlo_tools.migrate.source import parenthesized, same_number, text_of

__all__ = ["NarrowedAxis", "Narrowing", "difference_steps", "narrowing_of"]


@dataclass(frozen=True, slots=True)
class NarrowedAxis:
    """The range of an axis that a mask leaves, as texts: first element and number of elements."""

    first: str
    count: str


Narrowing = dict[int, NarrowedAxis]
"""Axis of the result, counted from the last as -1, and what the mask leaves of it."""

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS: dict[type[cst.BaseCompOp], str] = {
    cst.LessThan: "<", cst.LessThanEqual: "<=", cst.GreaterThan: ">", cst.GreaterThanEqual: ">=",
}  # fmt: skip


def narrowing_of(mask: cst.BaseExpression, context: Context) -> tuple[Narrowing, list[str]]:
    """Return the ranges that a mask leaves, and conditions without an axis.

    Raises:
        Unmigrated: NKI-M004; the mask is no range of single axes.
    """
    limits: dict[int, tuple[str, list[str], list[str]]] = {}
    guards: list[str] = []
    for condition in _conditions(mask, context):
        if context.is_number(condition):
            guards.append(context.text(condition))
        else:
            _limit(condition, context, limits)
    return {axis: _range(*entry) for axis, entry in limits.items()}, guards


def _refuse(node: cst.BaseExpression, why: str) -> Unmigrated:
    return Unmigrated("NKI-M004", f"mask={text_of(node)}", why,
                      "shorten the slices, or select with nisa.affine_select")  # fmt: skip


def _conditions(mask: cst.BaseExpression, context: Context) -> Iterator[cst.BaseExpression]:
    """Yield the comparisons that are joined by ``&`` and ``and``."""
    if isinstance(mask, (cst.BinaryOperation, cst.BooleanOperation)) and isinstance(
        mask.operator, (cst.BitAnd, cst.And)
    ):
        yield from _conditions(mask.left, context)
        yield from _conditions(mask.right, context)
    elif isinstance(mask, cst.Name) and mask.value not in ("None", "True"):
        value = context.scope.value_of(mask.value)
        if value is None:
            raise _refuse(mask, "the variable has several values")
        yield from _conditions(value, context)
    elif not isinstance(mask, cst.Name):
        yield mask


def _limit(
    node: cst.BaseExpression,
    context: Context,
    limits: dict[int, tuple[str, list[str], list[str]]],
) -> None:
    """Add one comparison to the limits: axis -> (extent, first elements, numbers of elements)."""
    facts = context.all_facts(node)
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        raise _refuse(node, "it is no comparison of index expressions")
    relation = _OPERATORS.get(type(node.comparisons[0].operator))
    if relation is None or not facts or any(not isinstance(fact, MaskFact) for fact in facts):
        raise _refuse(node, "the relation has no range, or it was not reached by the recorded call")
    left, right = node.left, node.comparisons[0].comparator
    along = difference_steps(left, right, context)
    axes = [axis for axis, step in along.items() if step]
    if len(axes) != 1:
        raise _refuse(node, "it joins several axes")
    axis, step = axes[0], along[axes[0]]
    low, high = context.text(left), context.text(right)
    if step < 0:
        low, high, step, relation = high, low, -step, _SWAPPED[relation]
    extent = _extent(left, right, axis, context, node)
    _, firsts, counts = limits.setdefault(axis, (extent, [], []))
    bound = difference(high, low)
    if relation in ("<", "<="):
        bound = bound if relation == "<" else total(bound, "1")
        counts.append(bound if step == 1 else f"-(-{parenthesized(bound)} // {step})")
    else:
        bound = bound if relation == ">=" else total(bound, "1")
        firsts.append(bound if step == 1 else f"-(-{parenthesized(bound)} // {step})")


def difference_steps(
    left: cst.BaseExpression, right: cst.BaseExpression, context: Context
) -> dict[int, int]:
    """Return the steps of left - right by axis, counted from the last as -1."""
    steps: dict[int, int] = {}
    for side, sign in ((left, 1), (right, -1)):
        fact = context.index(side)
        for location, step in enumerate(() if fact is None else fact.steps):
            axis = location - len(fact.steps) if fact is not None else 0
            steps[axis] = steps.get(axis, 0) + sign * step
    return steps


def _extent(
    left: cst.BaseExpression, right: cst.BaseExpression, axis: int, context: Context,
    node: cst.BaseExpression,
) -> str:  # fmt: skip
    extents: set[int] = set()
    for side in (left, right):
        facts = [fact for fact in context.all_facts(side) if isinstance(fact, IndexFact)]
        if not facts or not any(fact.steps[axis] for fact in facts if len(fact.shape) >= -axis):
            continue
        texts = axis_texts(side, context.scope, context.source)
        if len(texts) >= -axis and texts[axis] is not None:
            return texts[axis] or ""
        extents |= {fact.shape[axis] for fact in facts}
    return context.constant(extents, node, f"the axis of {text_of(node)}")


def _range(extent: str, firsts: list[str], counts: list[str]) -> NarrowedAxis:
    first = _folded("max", ["0", *firsts])
    stop = _folded("min", [extent, *counts])
    return NarrowedAxis(first, difference(stop, first))


def _folded(function: str, texts: list[str]) -> str:
    unique = list(dict.fromkeys(texts))
    numbers = [same_number(text) for text in unique]
    known_numbers = [number for number in numbers if number is not None]
    texts_left = [text for text, number in zip(unique, numbers, strict=True) if number is None]
    if known_numbers:
        limit = max(known_numbers) if function == "max" else min(known_numbers)
        texts_left.insert(0, str(limit))
    return texts_left[0] if len(texts_left) == 1 else f"{function}({', '.join(texts_left)})"
