"""Windows that reach to one end of a dimension: running sums and products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hlo_tools.types.element_types import Array

if TYPE_CHECKING:
    from hlo_tools.schema.messages import Window

__all__ = ["Running", "accumulated", "running_of"]


class Running(NamedTuple):
    """Each element is combined with all on one side of it.

    Attributes:
        axis: the dimension.
        reverse: from its end.
    """

    axis: int
    reverse: bool


def running_of(window: Window, shape: Sequence[int]) -> Running | None:
    """Return the dimension of running windows over an operand; None for other windows."""
    rows = list(window.dimensions)
    moved = [axis for axis, row in enumerate(rows) if row.size != 1]
    if len(moved) != 1 or len(rows) != len(shape):
        return None
    (axis,) = moved
    far = shape[axis] - 1
    for index, row in enumerate(rows):
        gaps = {row.stride or 1, row.window_dilation or 1, row.base_dilation or 1}
        padded = tuple(sorted((row.padding_low, row.padding_high)))
        if gaps != {1} or row.window_reversal or padded != (0, far if index == axis else 0):
            return None
    return Running(axis, rows[axis].padding_high > 0) if rows[axis].size == far + 1 else None


def accumulated(ufunc: np.ufunc, values: Array, init: Array, running: Running) -> Array:
    """Accumulate every window in order, starting with ``init``, in the type of ``values``."""
    axis, step = running.axis, -1 if running.reverse else 1
    before = (slice(None),) * axis
    iteration, first = (*before, slice(None, None, step)), (*before, slice(0, 1))
    work = np.array(values[iteration])
    work[first] = ufunc(init, work[first])
    return ufunc.accumulate(work, axis=axis, dtype=values.dtype)[iteration]
