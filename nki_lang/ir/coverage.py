"""Tracks cheaply which bytes of a tensor were written.

Most tensors are written whole, or always in the same pieces; then a flag or a set of pieces is
enough. The map of bytes is created only when a read does not match a written piece.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.ir.types import Access

__all__ = ["CLEAN_BYTE", "TAINTED_BYTE", "Coverage", "Piece", "piece_of"]

CLEAN_BYTE = 255
"""State of a byte that was written. All bits are set, so that one test covers a whole element."""

TAINTED_BYTE = 1
"""State of a byte that was written with a value computed from unwritten bytes."""

_UNSIGNED_DTYPES = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}


class Piece(NamedTuple):
    """A strided window in bytes.

    Attributes:
        shape: extents.
        offset: first byte.
        strides: bytes between neighbours, per dimension.
        size: bytes of one element.
    """

    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    size: int

    @property
    def covers(self) -> int:
        """Bytes in the window when no two of its elements overlap, else 0."""
        reach = self.size
        for stride, count in sorted(
            (abs(stride), count)
            for stride, count in zip(self.strides, self.shape, strict=True)
            if count != 1
        ):
            if stride < reach:
                return 0
            reach = stride * (count - 1) + reach
        total = self.size
        for count in self.shape:
            total *= count
        return total


class _Run(NamedTuple):
    """A window as contiguous runs of ``length`` bytes, repeated along ``dims``."""

    offset: int
    length: int
    dims: tuple[tuple[int, int], ...]

    @property
    def edges(self) -> tuple[int, ...]:
        """The numbers that a common unit must divide."""
        return (self.offset, self.length, *(stride for stride, _ in self.dims))


def _runs(piece: Piece) -> _Run:
    length = piece.size
    dims: list[tuple[int, int]] = []
    for stride, count in sorted(zip(piece.strides, piece.shape, strict=True)):
        if count == 1:
            continue
        if stride == length and not dims:
            length *= count
        else:
            dims.append((stride, count))
    return _Run(piece.offset, length, tuple(dims))


def piece_of(access: Access) -> Piece:
    """Return the window of a static access in its densely stored tensor."""
    size = access.element_type.itemsize
    return Piece(
        access.shape,
        access.offset * size,
        tuple([step * size for step, _ in access.pattern]),
        size,
    )


def _word(piece: Piece, value: int) -> Array:
    return np.array(value, _UNSIGNED_DTYPES[piece.size])


class Coverage:
    """The written bytes among ``nbytes`` bytes.

    Attributes:
        complete: every byte was written and none is tainted.
    """

    __slots__ = ("_map", "_pieces", "_sum", "complete", "nbytes")

    def __init__(self, nbytes: int, *, complete: bool = False) -> None:
        self.nbytes = nbytes
        self.complete = complete
        self._pieces: set[Piece] = set()
        self._sum = 0
        self._map: Array | None = None

    @property
    def untouched(self) -> bool:
        """True if no byte was written yet."""
        return not (self.complete or self._pieces or self._map is not None)

    def copy(self) -> Coverage:
        """Return an independent copy."""
        duplicate = Coverage(self.nbytes, complete=self.complete)
        duplicate._pieces, duplicate._sum = set(self._pieces), self._sum
        duplicate._map = None if self._map is None else self._map.copy()
        return duplicate

    def add(self, piece: Piece) -> None:
        """Record a write of the window."""
        if self.complete or piece in self._pieces:
            return
        covers = piece.covers
        if covers == self.nbytes:
            self.finish()
            return
        self._sum += covers
        self._pieces.add(piece)
        if self._map is not None:
            self._window(piece).fill(self._full(piece))

    def finish(self) -> None:
        """Record a write of every byte."""
        self.complete = True
        self._map = None
        self._pieces.clear()

    def add_at(self, piece: Piece, index: tuple[Array, ...]) -> None:
        """Record a write of these positions of the window's leading dimensions."""
        if self.complete:
            return
        self._filled()
        self._window(piece)[index] = self._full(piece)

    def taint_at(self, piece: Piece, index: tuple[Array, ...], bad: Array) -> None:
        """Record a write of these positions of the window, tainted where ``bad``."""
        self._mapped()
        tainted = int.from_bytes(bytes([TAINTED_BYTE]) * piece.size, "little")
        values = np.where(bad, _word(piece, tainted), _word(piece, self._full(piece)))
        self._window(piece)[index] = values

    def forget(self, piece: Piece, where: Array) -> None:
        """Mark these elements of the window as unwritten."""
        self._mapped()
        self._window(piece)[where] = 0

    def taint(self, piece: Piece, bad: Array) -> None:
        """Record a write of the window, tainted where ``bad``."""
        self.add(piece)
        self._mapped()
        self._window(piece)[np.broadcast_to(bad, piece.shape)] = int.from_bytes(
            bytes([TAINTED_BYTE]) * piece.size, "little"
        )

    def has(self, piece: Piece) -> bool:
        """Return True if every element of the window is clean."""
        if self.complete or piece in self._pieces:
            return True
        if not self._pieces and self._map is None:
            return 0 in piece.shape
        if self.try_finish():
            return True
        good = bool((self._states(piece) == self._full(piece)).all())
        if good and piece.covers == self.nbytes:
            self.complete = True
        elif good:
            self._pieces.add(piece)
        return good

    def missing(self, piece: Piece) -> Array:
        """Return where the window is unwritten or tainted."""
        if self.try_finish():
            return np.zeros(piece.shape, np.bool_)
        return self._states(piece) != self._full(piece)

    def tainted(self, piece: Piece) -> Array:
        """Return where the window is tainted."""
        if self.complete:
            return np.zeros(piece.shape, np.bool_)
        states = self._states(piece)
        return (states & 0xFF) == TAINTED_BYTE

    def unwritten(self, piece: Piece) -> Array:
        """Return where the window is unwritten."""
        if self.try_finish():
            return np.zeros(piece.shape, np.bool_)
        return self._states(piece) == 0

    def try_finish(self) -> bool:
        """Detect that the pieces together cover every byte; return True if they do.

        The pieces are joined in units as large as their edges allow, not byte by byte.
        """
        if self.complete or self._map is not None or self._sum < self.nbytes:
            return self.complete
        runs = [_runs(piece) for piece in self._pieces]
        unit = math.gcd(self.nbytes, *(edge for run in runs for edge in run.edges))
        if unit == 0 or any(stride < 0 for run in runs for stride, _ in run.dims):
            return False
        units = np.zeros(self.nbytes // unit, np.bool_)
        for run in runs:
            shape = (*(count for _, count in run.dims), run.length // unit)
            strides = (*(stride // unit for stride, _ in run.dims), 1)
            np.ndarray(shape, np.bool_, units, run.offset // unit, strides).fill(True)
        if units.all():
            self.finish()
        else:
            self._sum = 0
        return self.complete

    def holes(self) -> Array:
        """Return which bytes were never written."""
        if self.complete:
            return np.zeros(self.nbytes, np.bool_)
        self._filled()
        assert self._map is not None
        return self._map[: self.nbytes] == 0

    def _full(self, piece: Piece) -> int:
        return (1 << (8 * piece.size)) - 1

    def _states(self, piece: Piece) -> Array:
        self._filled()
        return self._window(piece)

    def _mapped(self) -> None:
        """Switch from the shortcuts to the map of bytes."""
        if self.complete:
            self._map = np.full(max(1, self.nbytes), CLEAN_BYTE, np.uint8)
            self.complete = False
        self._filled()
        self._pieces.clear()

    def _filled(self) -> None:
        """Create the map from the pieces."""
        if self._map is not None:
            return
        self._map = np.zeros(max(1, self.nbytes), np.uint8)
        for piece in self._pieces:
            self._window(piece).fill(self._full(piece))

    def _window(self, piece: Piece) -> Array:
        assert self._map is not None
        kind = _UNSIGNED_DTYPES[piece.size]
        return np.ndarray(piece.shape, kind, self._map, piece.offset, piece.strides)
