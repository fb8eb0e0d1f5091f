"""A number beside every byte of a piece of memory."""

from __future__ import annotations

from math import gcd

import numpy as np

from nki_lang.dtypes import Array
from nki_lang.execute.memory import Rows
from nki_lang.execute.storage import Layout

__all__ = ["Place", "Shadow"]

Place = Layout | Rows
"""Where the elements of an access are: a window, or rows of one."""


class Shadow:
    """An integer for each byte, 0 at first; neighbours share one until they differ.

    It takes no memory before a number is set.

    Args:
        size: bytes of the memory.
        unit: bytes that share a number at first. Accesses that need smaller units make them so.
    """

    def __init__(self, size: int, unit: int) -> None:
        self.size = size
        self.unit = gcd(size, unit) or 1
        self._marks: Array | None = None

    def get(self, place: Place) -> Array:
        """The largest number in each element of the place, in its shape."""
        if isinstance(place, Rows):
            return self._get_rows(place)
        if self._marks is None:
            return np.zeros(place.shape, np.int32)
        size = place.dtype.itemsize
        blocks = self._blocks(place)
        if self.unit % size == 0:
            return np.repeat(blocks, self.unit // size, axis=-1).reshape(place.shape)
        return self._at(place, size).max(axis=-1)

    def most(self, place: Place) -> int:
        """The largest number in all of the place."""
        if self._marks is None:
            return 0
        if isinstance(place, Rows):
            return int(self._rows(place)[place.existing].max(initial=0))
        return int(self._blocks(place).max(initial=0))

    def holds(self, place: Layout, value: int) -> bool:
        """Every number of the place is this one or 0."""
        if self._marks is None:
            return True
        blocks = self._blocks(place)
        return not ((blocks != value) & (blocks != 0)).any()

    def set(self, place: Place, value: int | Array) -> None:
        """Give every element of the place a number, or each its own."""
        if isinstance(place, Rows):
            if isinstance(value, int):
                self._rows(place)[place.existing] = value
            else:
                window = self._at(place.window, place.window.dtype.itemsize)
                window[place.existing] = value[place.good][..., None]
        elif isinstance(value, int):
            self._blocks(place)[...] = value
        else:
            self._at(place, place.dtype.itemsize)[...] = value[..., None]

    def _get_rows(self, rows: Rows) -> Array:
        window = rows.window
        inner = window.shape[len(rows.index) :]
        taken = np.zeros((*rows.good.shape, *inner), np.int32)
        if self._marks is None:
            return taken
        size = window.dtype.itemsize
        found = self._rows(rows)[rows.existing]
        if self.unit % size == 0:
            found = np.repeat(found, self.unit // size, axis=-1)
        else:
            found = self._at(window, size)[rows.existing].max(axis=-1)
        taken[rows.good] = found.reshape(found.shape[0], *inner)
        return taken

    def _rows(self, rows: Rows) -> Array:
        """The numbers of a window of rows, dense dimensions behind the indices as one element."""
        return self._blocks(rows.window, len(rows.index))

    def _blocks(self, layout: Layout, fixed: int = 0) -> Array:
        """The numbers of a window whose last dimensions, as far as they are dense, are one element.

        The first ``fixed`` dimensions stay.
        """
        shape, strides, size = list(layout.shape), list(layout.strides), layout.dtype.itemsize
        while len(shape) > fixed and shape[-1] and (shape[-1] == 1 or strides[-1] == size):
            size *= shape.pop()
            strides.pop()
        return self._at(layout._replace(shape=tuple(shape), strides=tuple(strides)), size)

    def _at(self, layout: Layout, size: int) -> Array:
        """The numbers of a window of elements of ``size`` bytes, those inside one as the last dimension."""
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
