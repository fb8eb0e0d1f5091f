"""Views of HBM: which elements of a buffer are a value, without a copy.

Broadcast, transpose, slice, reverse and most reshapes change the view and move nothing; whoever
reads the value passes the strides to its DMA.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

__all__ = ["VIEWS", "Dim", "View", "merge", "row_major"]

VIEWS = frozenset({"broadcast", "reshape", "transpose", "slice", "reverse", "restride"})
"""Opcodes that only change which elements of a buffer are meant."""


class Dim(NamedTuple):
    """One dimension of a loop nest over views: its extent, and each view's step in elements."""

    extent: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class View:
    """Element ``(i0, i1, ...)`` is element ``offset + sum(i_k * strides[k])`` of the buffer."""

    buffer: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def contiguous(self) -> bool:
        """True when the elements stand in the buffer in row-major order without gaps."""
        return _dense(self)

    def matches(self, view: View) -> bool:
        """True when both are the same elements in the same order."""
        if (self.buffer, self.offset, self.shape) != (view.buffer, view.offset, view.shape):
            return False
        pairs = zip(self.shape, self.strides, view.strides, strict=True)
        return all(count == 1 or stride == step for count, stride, step in pairs)

    def transpose(self, dims: tuple[int, ...]) -> View:
        """Dimension ``k`` of the result is dimension ``dims[k]``."""
        return View(
            self.buffer,
            tuple(self.shape[dim] for dim in dims),
            tuple(self.strides[dim] for dim in dims),
            self.offset,
        )

    def broadcast(self, shape: tuple[int, ...], dims: tuple[int, ...]) -> View:
        """HLO's broadcast: dimension ``k`` becomes ``dims[k]`` of ``shape``, the rest repeats."""
        strides = [0] * len(shape)
        for source, target in enumerate(dims):
            if self.shape[source] == shape[target]:
                strides[target] = self.strides[source]
        return View(self.buffer, shape, tuple(strides), self.offset)

    def slice(
        self, starts: tuple[int, ...], limits: tuple[int, ...], steps: tuple[int, ...]
    ) -> View:
        """Every ``step``-th element from ``start`` up to before ``limit``, in each dimension."""
        shape = tuple(
            max(0, -(-(limit - start) // step))
            for start, limit, step in zip(starts, limits, steps, strict=True)
        )
        offset = sum(start * stride for start, stride in zip(starts, self.strides, strict=True))
        strides = tuple(stride * step for stride, step in zip(self.strides, steps, strict=True))
        return View(self.buffer, shape, strides, self.offset + offset)

    def restride(self, shape: tuple[int, ...], steps: tuple[tuple[int, int], ...]) -> View:
        """Dimensions that walk this view's: (dimension, multiple of its stride) for each."""
        strides = tuple(self.strides[dim] * times for dim, times in steps)
        return View(self.buffer, shape, strides, self.offset)

    def reverse(self, dims: tuple[int, ...]) -> View:
        """The dimensions run backwards."""
        offset, strides = self.offset, list(self.strides)
        for dim in dims:
            offset += (self.shape[dim] - 1) * strides[dim]
            strides[dim] = -strides[dim]
        return View(self.buffer, self.shape, tuple(strides), offset)

    def reshape(self, shape: tuple[int, ...]) -> View | None:
        """The same elements in row-major order under another shape; None when it takes a copy."""
        if self.size == 0:
            return View(self.buffer, shape, row_major(shape), self.offset)
        runs = merge(
            [Dim(count, (step,)) for count, step in zip(self.shape, self.strides, strict=True)]
        )
        strides = [0] * len(shape)
        position = len(shape) - 1
        for count, (step,) in reversed(runs):
            left = count
            while left > 1:
                while position >= 0 and shape[position] == 1:
                    position -= 1
                extent = shape[position]
                if left % extent:
                    return None
                strides[position] = step
                step *= extent
                left //= extent
                position -= 1
        return View(self.buffer, shape, tuple(strides), self.offset)


def _dense(view: View) -> bool:
    expected = 1
    for count, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if count > 1 and stride != expected:
            return False
        expected *= count
    return True


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array without gaps."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * shape[dim + 1]
    return tuple(strides)


def merge(dims: list[Dim]) -> list[Dim]:
    """The same loop nest with as few dimensions as can be: neighbours that every view walks in
    one stride become one, dimensions of one element go."""
    merged: list[Dim] = []
    for dim in dims:
        if dim.extent == 1:
            continue
        if merged:
            outer = merged[-1]
            if all(o == i * dim.extent for o, i in zip(outer.steps, dim.steps, strict=True)):
                merged[-1] = Dim(outer.extent * dim.extent, dim.steps)
                continue
        merged.append(dim)
    return merged
