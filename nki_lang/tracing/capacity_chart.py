"""A picture of who holds on-chip memory when: one row a tile, one column a stretch of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Holding", "draw"]

_COLUMNS = 40


@dataclass(frozen=True, slots=True)
class Holding:
    """A tile that is alive from its first to its last instruction.

    Attributes:
        name: of the tile.
        size: bytes of each partition.
        first, last: places of instructions in the program.
        kind: dtype and shape.
        line: where it was allocated.
    """

    name: str
    size: int
    first: int
    last: int
    kind: str = ""
    line: str = ""


def draw(holdings: Sequence[Holding], end: int, peak: int) -> str:
    """Bars over the program's ``end`` instructions; ``^`` marks the instruction ``peak``.

    A program shorter than the picture has one column an instruction.
    """
    columns = min(_COLUMNS, max(end, 1))
    width = max(len(one.name) for one in holdings)
    digits = max(len(str(one.size)) for one in holdings)
    lines: list[str] = []
    for one in holdings:
        first, last = _column(one.first, end, columns), _column(one.last, end, columns)
        bar = " " * first + "#" * (last - first + 1)
        about = f" {one.kind} {one.line}".rstrip()
        lines.append(f"  {one.name:<{width}} {one.size:>{digits}} |{bar:<{columns}}|{about}")
    mark = " " * _column(peak, end, columns) + "^"
    lines.append(f"  {'':<{width}} {'':>{digits}}  {mark} instruction {peak} of {end}")
    return "\n".join(lines)


def _column(place: int, end: int, columns: int) -> int:
    return min(columns - 1, place * columns // max(end, 1))
