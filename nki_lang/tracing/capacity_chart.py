"""A chart of the lifetimes of tiles on chip: one row per tile, one column per interval of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Holding", "draw"]

_CHART_COLUMNS = 40


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
    """Draw bars over the program's ``end`` instructions; ``^`` marks the instruction ``peak``.

    A program shorter than the chart has one column per instruction.
    """
    columns = min(_CHART_COLUMNS, max(end, 1))
    width = max(len(holding.name) for holding in holdings)
    digits = max(len(str(holding.size)) for holding in holdings)
    lines: list[str] = []
    for holding in holdings:
        first, last = _column(holding.first, end, columns), _column(holding.last, end, columns)
        bar = " " * first + "#" * (last - first + 1)
        about = f" {holding.kind} {holding.line}".rstrip()
        lines.append(
            f"  {holding.name:<{width}} {holding.size:>{digits}} |{bar:<{columns}}|{about}"
        )
    mark = " " * _column(peak, end, columns) + "^"
    lines.append(f"  {'':<{width}} {'':>{digits}}  {mark} instruction {peak} of {end}")
    return "\n".join(lines)


def _column(position: int, end: int, columns: int) -> int:
    return min(columns - 1, position * columns // max(end, 1))
