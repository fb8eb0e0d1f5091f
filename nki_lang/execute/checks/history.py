"""Byte-accurate history of one core's accesses to one tensor of shared HBM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nki_lang.base.dtypes import Array
from nki_lang.execute.checks.shadow import Location, Shadow
from nki_lang.execute.memory import Rows
from nki_lang.ir.types import Instruction

__all__ = ["History", "Marks", "Spot", "Touch"]

_MAX_PENDING_TOUCHES = 1024
"""Touches are entered in batches of this size, because most are never compared with another
core.
"""


@dataclass(slots=True, eq=False)
class Touch:
    """One access to shared HBM by one instruction; a read counts once its value is used."""

    instruction: Instruction
    writes: bool
    counts: bool


class Spot(NamedTuple):
    """The location of an access, with the first and last byte that it can touch."""

    location: Location
    low: int
    high: int

    @staticmethod
    def of(location: Location) -> Spot:
        """Return the location with its first and last byte."""
        layout = location.window if isinstance(location, Rows) else location
        low = high = layout.offset
        for stride, count in zip(layout.strides, layout.shape, strict=True):
            if stride < 0:
                low += stride * max(0, count - 1)
            else:
                high += stride * max(0, count - 1)
        return Spot(location, low, high + layout.dtype.itemsize - 1)


class Marks:
    """Maps each byte to the number of the last touch of one kind (reads or writes).

    Attributes:
        last: number of the last touch; 0 for none.
        low, high: first and last byte that was touched so far.
    """

    __slots__ = ("_shadow", "_waiting", "high", "last", "low")

    def __init__(self, size: int) -> None:
        self.last = 0
        self.low = size
        self.high = -1
        self._shadow = Shadow(size, size)
        self._waiting: list[tuple[Location, int]] = []

    def add(self, spot: Spot, number: int) -> None:
        """Add a touch."""
        self.low, self.high = min(self.low, spot.low), max(self.high, spot.high)
        self.last = number
        self._waiting.append((spot.location, number))
        if len(self._waiting) > _MAX_PENDING_TOUCHES:
            self._enter()

    def may_meet(self, spot: Spot, number: int) -> bool:
        """Return True if a touch with a number above ``number`` may share bytes with the spot."""
        return self.last > number and spot.low <= self.high and self.low <= spot.high

    def latest(self, spot: Spot) -> int:
        """Return the number of the last touch of any byte of the spot."""
        self._enter()
        return self._shadow.maximum(spot.location)

    def get(self, spot: Spot) -> Array:
        """Return the number of the last touch of each element."""
        self._enter()
        return self._shadow.get(spot.location)

    def empty_shadow(self) -> Shadow:
        """Return a shadow of the same size and unit without numbers."""
        return Shadow(self._shadow.size, self._shadow.unit)

    def _enter(self) -> None:
        for location, number in self._waiting:
            self._shadow.set(location, number)
        self._waiting.clear()


@dataclass(slots=True)
class History:
    """Accesses of one core to one tensor of shared HBM.

    Attributes:
        touches: the touch with index n has the number n + 1.
        reads, writes: the last touch of each byte.
        same: for each other history, the number of its last write whose values this core wrote too.
    """

    reads: Marks
    writes: Marks
    touches: list[Touch] = field(default_factory=list[Touch])
    same: dict[Any, Shadow] = field(default_factory=dict[Any, Shadow])

    def add(self, touch: Touch, spot: Spot) -> int:
        """Add a touch and return its number."""
        self.touches.append(touch)
        number = len(self.touches)
        (self.writes if touch.writes else self.reads).add(spot, number)
        return number
