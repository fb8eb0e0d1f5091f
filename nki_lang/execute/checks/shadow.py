"""An integer for every byte of a memory."""

from __future__ import annotations

from math import gcd

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.execute.memory import Rows
from nki_lang.execute.storage import Layout

__all__ = ["Location", "Shadow"]

Location = Layout | Rows
"""Location of the elements of an access: a window, or rows of one."""


class Shadow:
    """An integer for each byte, initially 0; neighboring bytes share one integer until they differ.

    The integers use no memory until one is set.

    Args:
        size: bytes of the memory.
        unit: bytes that share a number initially. An access that needs smaller units splits them.
    """

    def __init__(self, size: int, unit: int) -> None:
        self.size = size
        self.unit = gcd(size, unit) or 1
        self._marks: Array | None = None

    def get(self, location: Location) -> Array:
        """Return the largest number in each element of the location, in its shape."""
        if isinstance(location, Rows):
            return self._get_rows(location)
        if self._marks is None:
            return np.zeros(location.shape, np.int32)
        size = location.dtype.itemsize
        blocks = self._blocks(location)
        if self.unit % size == 0:
            return np.repeat(blocks, self.unit // size, axis=-1).reshape(location.shape)
        return self._numbers(location, size).max(axis=-1)

    def maximum(self, location: Location) -> int:
        """Return the largest number in the location."""
        if self._marks is None:
            return 0
        if isinstance(location, Rows):
            return int(self._rows(location)[location.existing].max(initial=0))
        return int(self._blocks(location).max(initial=0))

    def holds(self, location: Layout, value: int) -> bool:
        """Return True if every number of the location is ``value`` or 0."""
        if self._marks is None:
            return True
        blocks = self._blocks(location)
        return not ((blocks != value) & (blocks != 0)).any()

    def set(self, location: Location, value: int | Array) -> None:
        """Give every element of the location the same number, or its own number from an array."""
        if isinstance(location, Rows):
            if isinstance(value, int):
                self._rows(location)[location.existing] = value
            else:
                window = self._numbers(location.window, location.window.dtype.itemsize)
                window[location.existing] = value[location.good][..., None]
        elif isinstance(value, int):
            self._blocks(location)[...] = value
        else:
            self._numbers(location, location.dtype.itemsize)[...] = value[..., None]

    def _get_rows(self, rows: Rows) -> Array:
        window = rows.window
        inner = window.shape[len(rows.index) :]
        numbers = np.zeros((*rows.good.shape, *inner), np.int32)
        if self._marks is None:
            return numbers
        size = window.dtype.itemsize
        existing = self._rows(rows)[rows.existing]
        if self.unit % size == 0:
            existing = np.repeat(existing, self.unit // size, axis=-1)
        else:
            existing = self._numbers(window, size)[rows.existing].max(axis=-1)
        numbers[rows.good] = existing.reshape(existing.shape[0], *inner)
        return numbers

    def _rows(self, rows: Rows) -> Array:
        """Return the numbers of a window of rows, with the dense dimensions after the indices as
        one element.
        """
        return self._blocks(rows.window, len(rows.index))

    def _blocks(self, layout: Layout, fixed: int = 0) -> Array:
        """The numbers of a window whose last dimensions, as far as they are dense, are one element.

        The first ``fixed`` dimensions stay.
        """
        shape, strides, size = list(layout.shape), list(layout.strides), layout.dtype.itemsize
        while len(shape) > fixed and shape[-1] and (shape[-1] == 1 or strides[-1] == size):
            size *= shape.pop()
            strides.pop()
        return self._numbers(layout._replace(shape=tuple(shape), strides=tuple(strides)), size)

    def _numbers(self, layout: Layout, size: int) -> Array:
        """Return the numbers of a window of elements of ``size`` bytes; the last dimension is
        inside an element.
        """
        if self._marks is None:
            self._marks = np.zeros(max(1, self.size // self.unit), np.int32)
        unit = gcd(self.unit, layout.offset, size, *layout.strides)
        if unit != self.unit:
            self._marks = np.repeat(self._marks, self.unit // unit)
            self.unit = unit
        scale = self._marks.itemsize
        return np.ndarray(
            (*layout.shape, size // unit),
            self._marks.dtype,
            self._marks,
            layout.offset // unit * scale,
            (*(stride // unit * scale for stride in layout.strides), scale),
        )
