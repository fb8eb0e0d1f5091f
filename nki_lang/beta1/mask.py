"""Masks of NKI beta 1: conditions on index expressions, and the boxes of elements they leave.

A condition on one axis shortens the access along it. Conditions on two and more axes leave several
boxes, one for each run of rows with the same columns.

Source: nki/api/nki.api.shared.rst, nki-mask (SDK 2.26).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.beta1.index import IndexExpression, Mask, refuse_mask
from nki_lang.beta1.values import MaskLike

__all__ = ["Box", "align_condition", "mask_boxes", "whole_box"]

Box = tuple[tuple[int, int], ...]
"""The range (start, stop) of each axis."""


def whole_box(shape: Sequence[int]) -> Box:
    """Return the box of all elements."""
    return tuple((0, extent) for extent in shape)


def mask_boxes(mask: MaskLike, shape: tuple[int, ...]) -> list[Box]:
    """Return the boxes of the elements of ``shape`` where the mask holds.

    Args:
        mask: a :class:`Mask`, None or a truth value.
        shape: of the instruction's tile.
    """
    if mask is None or mask is True:
        return [whole_box(shape)]
    if isinstance(mask, (bool, np.bool_)):
        return [whole_box(shape)] if mask else []
    if not isinstance(mask, Mask):
        refuse_mask(f"mask={mask!r:.80}", "compare index expressions: mask=(i_p < rows)")
    ranges = list(whole_box(shape))
    joint: list[tuple[IndexExpression, str]] = []
    for expression, relation in mask.conditions:
        aligned = align_condition(expression, shape)
        axes = [axis for axis, step in enumerate(aligned.steps) if step]
        if relation == ">=" and len(axes) <= 1:
            _shorten(ranges, aligned, axes)
        elif axes or not _holds(np.asarray(aligned.offset), relation):
            joint.append((aligned, relation))
    if any(start >= stop for start, stop in ranges):
        return []
    return _joint_boxes(ranges, joint) if joint else [tuple(ranges)]


def align_condition(expression: IndexExpression, shape: tuple[int, ...]) -> IndexExpression:
    """Return the expression with one axis for each axis of the tile.

    An axis of extent 1 has a single value, which holds for the whole axis of the tile.

    Raises:
        NkiValidationError: code ``NKI-BETA1-MASK``; an axis has another extent than the tile's.
    """
    surplus = max(len(expression.shape) - len(shape), 0)
    extents = (1,) * (len(shape) - len(expression.shape)) + expression.shape[surplus:]
    steps = (0,) * (len(shape) - len(expression.shape)) + expression.steps[surplus:]
    is_wrong = any(extent != 1 for extent in expression.shape[:surplus]) or any(
        extent not in (1, length) for extent, length in zip(extents, shape, strict=True)
    )
    if is_wrong:
        refuse_mask(
            f"a mask of shape {expression.shape} on a tile of shape {shape}",
            "use the index expressions of the tile's own axes",
        )
    steps = tuple(0 if e == 1 else step for e, step in zip(extents, steps, strict=True))
    return IndexExpression(shape, expression.offset, steps)


def _shorten(ranges: list[tuple[int, int]], expression: IndexExpression, axes: list[int]) -> None:
    """Cut one axis to where the expression is not negative."""
    if not axes:
        if expression.offset < 0:
            ranges[:] = [(0, 0)] * len(ranges)
        return
    axis = axes[0]
    step, (start, stop) = expression.steps[axis], ranges[axis]
    if step > 0:  # offset + step * i >= 0
        start = max(start, -(expression.offset // step))
    else:
        stop = min(stop, expression.offset // -step + 1)
    ranges[axis] = (start, stop)


def _holds(values: Array, relation: str) -> Array:
    if relation == ">=":
        return values >= 0
    return values == 0 if relation == "==" else values != 0


def _joint_boxes(
    ranges: list[tuple[int, int]], joint: list[tuple[IndexExpression, str]]
) -> list[Box]:
    """Return the boxes inside ``ranges`` where conditions on several axes hold."""
    axes = sorted(
        {axis for expression, _ in joint for axis, step in enumerate(expression.steps) if step}
    )
    extents = [ranges[axis][1] - ranges[axis][0] for axis in axes]
    selected = np.ones(extents, bool)
    for expression, relation in joint:
        values = np.full(extents, expression.offset, np.int64)
        for position, axis in enumerate(axes):
            along = [1] * len(axes)
            along[position] = extents[position]
            positions = np.arange(*ranges[axis], dtype=np.int64).reshape(along)
            values = values + expression.steps[axis] * positions
        selected &= _holds(values, relation)
    boxes: list[Box] = []
    for cuts in _cuts(selected):
        box = list(ranges)
        for axis, (start, stop) in zip(axes, cuts, strict=True):
            first = ranges[axis][0]
            box[axis] = (first + start, first + stop)
        boxes.append(tuple(box))
    return boxes


def _cuts(selected: Array) -> list[Box]:
    """Return boxes that cover exactly the true elements."""
    if selected.ndim == 0:
        return [()] if selected else []
    boxes: list[Box] = []
    start, extent = 0, selected.shape[0]
    while start < extent:
        stop = start + 1
        while stop < extent and np.array_equal(selected[stop], selected[start]):
            stop += 1
        if selected[start].any():
            boxes += [((start, stop), *inner) for inner in _cuts(selected[start])]
        start = stop
    return boxes
