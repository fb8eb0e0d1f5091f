"""A number beside every byte of a piece of memory."""

from __future__ import annotations

from math import gcd

import numpy as np

from nki_lang.dtypes import Array
from nki_lang.execute.memory import Memory
from nki_lang.execute.storage import Layout
from nki_lang.ir.types import Access

__all__ = ["Shadow"]


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

    def get(self, memory: Memory, access: Access) -> Array:
        """The largest number in each element of the access, in its shape."""
        if self._marks is None:
            return np.zeros(access.shape, np.int32)
        if access.vector_offset is None:
            layout = memory.layout(access)
            blocks, size = self._blocks(layout), layout.dtype.itemsize
            if self.unit % size == 0:
                return np.repeat(blocks, self.unit // size, axis=-1).reshape(layout.shape)
        return self._window(memory, access).max(axis=-1)

    def most(self, memory: Memory, access: Access) -> int:
        """The largest number in all of the access."""
        if self._marks is None:
            return 0
        if access.vector_offset is None:
            return int(self._blocks(memory.layout(access)).max(initial=0))
        return int(self._window(memory, access).max(initial=0))

    def set(self, memory: Memory, access: Access, value: int | Array) -> None:
        """Give every element of the access a number, or each its own."""
        if access.vector_offset is None:
            layout = memory.layout(access)
            if isinstance(value, int):
                self._blocks(layout)[...] = value
            else:
                self._at(layout, layout.dtype.itemsize)[...] = value[..., None]
            return
        rows = memory.rows(access, skip=True)
        numbers = value if isinstance(value, int) else value[rows.good][..., None]
        self._at(rows.window, rows.window.dtype.itemsize)[rows.existing] = numbers

    def _window(self, memory: Memory, access: Access) -> Array:
        if access.vector_offset is None:
            layout = memory.layout(access)
            return self._at(layout, layout.dtype.itemsize)
        rows = memory.rows(access, skip=True)
        window = self._at(rows.window, rows.window.dtype.itemsize)
        taken = np.zeros((*access.shape, window.shape[-1]), np.int32)
        taken[rows.good] = window[rows.existing]
        return taken

    def _blocks(self, layout: Layout) -> Array:
        """The numbers of a window whose last dimensions, as far as they are dense, are one element."""
        shape, strides, size = list(layout.shape), list(layout.strides), layout.dtype.itemsize
        while shape and shape[-1] and (shape[-1] == 1 or strides[-1] == size):
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
