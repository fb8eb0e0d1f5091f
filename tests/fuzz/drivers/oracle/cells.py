"""Elements of memory: their values, and whether something wrote what they come from."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

from tests.oracles.scalars import INTS

__all__ = ["AddressError", "Cell", "Mark", "StartError", "fill", "index_of"]


class Mark(IntEnum):
    """The dependence of a value on elements that nothing wrote.

    ``MAYBE``: arithmetic may hide it, as a comparison does with NaN; no document says which.
    """

    NO = 0
    MAYBE = 1
    YES = 2


class Cell(NamedTuple):
    """The value of an element and where it comes from."""

    value: float
    mark: Mark = Mark.NO


class StartError(Exception):
    """A product accumulates where nothing was written."""


class AddressError(Exception):
    """An index depends on an element that nothing wrote."""


def index_of(cell: Cell) -> int:
    """An index that was read.

    Raises:
        AddressError: nothing wrote it.
    """
    if cell.mark:
        raise AddressError("an index that nothing wrote")
    return int(cell.value)


def fill(dtype: str) -> float:
    """Return the value of unwritten memory (docs/simulator.md, Numbers)."""
    if dtype not in INTS:
        return math.nan
    low, high = INTS[dtype]
    return -1 if low < 0 else high
