"""What one core did to one tensor of shared HBM, byte by byte."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nki_lang.dtypes import Array
from nki_lang.execute.checks.shadow import Place, Shadow
from nki_lang.execute.memory import Rows
from nki_lang.ir.types import Instruction

__all__ = ["History", "Marks", "Spot", "Touch"]

_WAITING = 1024
"""Touches that wait to be entered; most are never compared with another core's."""


@dataclass(slots=True, eq=False)
class Touch:
    """One access to shared HBM by one instruction; a read counts once its value is used."""

    instruction: Instruction
    writes: bool
    counts: bool


class Spot(NamedTuple):
    """Where an access goes, and the first and the last byte that it can touch."""

    place: Place
    low: int
    high: int

    @staticmethod
    def of(place: Place) -> Spot:
        """The place with its reach."""
        layout = place.window if isinstance(place, Rows) else place
        low = high = layout.offset
        for stride, count in zip(layout.strides, layout.shape, strict=True):
            if stride < 0:
                low += stride * max(0, count - 1)
            else:
                high += stride * max(0, count - 1)
        return Spot(place, low, high + layout.dtype.itemsize - 1)


class Marks:
    """Beside each byte the number of the last touch of one kind.

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
        self._waiting: list[tuple[Place, int]] = []

    def add(self, spot: Spot, number: int) -> None:
        """Enter a touch."""
        self.low, self.high = min(self.low, spot.low), max(self.high, spot.high)
        self.last = number
        self._waiting.append((spot.place, number))
        if len(self._waiting) > _WAITING:
            self._enter()

    def may_meet(self, spot: Spot, known: int) -> bool:
        """Whether a touch behind number ``known`` may share bytes with the spot."""
        return self.last > known and spot.low <= self.high and self.low <= spot.high

    def most(self, spot: Spot) -> int:
        """Number of the last touch of the spot."""
        self._enter()
        return self._shadow.most(spot.place)

    def get(self, spot: Spot) -> Array:
        """Number of the last touch of each element."""
        self._enter()
        return self._shadow.get(spot.place)

    def like(self) -> Shadow:
        """No numbers yet, in units as here."""
        return Shadow(self._shadow.size, self._shadow.unit)

    def _enter(self) -> None:
        for place, number in self._waiting:
            self._shadow.set(place, number)
        self._waiting.clear()


@dataclass(slots=True)
class History:
    """What one core did to one tensor of shared HBM.

    Attributes:
        touches: the n-th has the number n + 1.
        reads, writes: which byte was touched last by which.
        same: for each other history, up to which of its writes this core wrote the same values.
    """

    reads: Marks
    writes: Marks
    touches: list[Touch] = field(default_factory=list[Touch])
    same: dict[Any, Shadow] = field(default_factory=dict[Any, Shadow])

    def add(self, touch: Touch, spot: Spot) -> int:
        """Enter a touch; its number."""
        self.touches.append(touch)
        number = len(self.touches)
        (self.writes if touch.writes else self.reads).add(spot, number)
        return number
