"""How a unit over rows walks an operand or a result: over the rows, and within one."""

from __future__ import annotations

from math import prod

from neff.compiler.graph.views import Dim, View, merge
from neff.compiler.lowering.task import Port
from neff.compiler.lowering.tiling import PARTITIONS

__all__ = ["Reach", "best_rows", "tight"]


def best_rows(shape: tuple[int, ...], views: list[View]) -> tuple[int, ...] | None:
    """The leading extents to take as rows when nothing reduces; None when no view repeats.

    The cut is where most views repeat on one of its sides as a whole.
    """
    extents = tuple(extent for extent in shape if extent != 1)
    found: tuple[int, tuple[int, ...]] | None = None
    for cut in range(1, len(extents)):
        if prod(extents[:cut]) < PARTITIONS // 4:
            continue
        kinds = [_repeats(tight(view), cut) for view in views]
        if (count := sum(kind in ("row", "column") for kind in kinds)) and "mixed" not in kinds:
            long = prod(extents[cut:]) <= 8192
            if long and (found is None or count >= found[0]):
                found = count, extents[:cut]
    return None if found is None else found[1]


def tight(view: View) -> View:
    """The view without dimensions of one element."""
    kept = [dim for dim, extent in enumerate(view.shape) if extent != 1]
    return View(
        view.buffer,
        tuple(view.shape[dim] for dim in kept),
        tuple(view.strides[dim] for dim in kept),
        view.offset,
    )


def _repeats(view: View, cut: int) -> str:
    if not any(view.strides[cut:]):
        return "row"
    if not any(view.strides[:cut]):
        return "column"
    return "full" if view.strides[-1] else "mixed"


class Reach:
    """How a port is walked: its steps over the rows, and its dimensions within one."""

    def __init__(self, rows: tuple[int, ...], port: Port) -> None:
        view, cut = tight(port.view), len(rows)
        self.port = port
        self.steps = view.strides[:cut]
        kind = "row" if len(view.shape) == cut else _repeats(view, cut)
        self.kind = "full" if kind == "mixed" else kind
        inner = zip(view.shape[cut:], view.strides[cut:], strict=True)
        dims = [] if kind == "row" else merge([Dim(extent, (step,)) for extent, step in inner])
        self.columns = [[dim.steps[0], dim.extent] for dim in dims]

    def part(self, begin: int, count: int) -> tuple[int, list[list[int]]]:
        """Where some columns begin, and how they are walked; all of them when there is no cut."""
        if not self.columns or count >= self.count:
            return 0, self.columns
        ((step, _),) = self.columns
        return begin * step, [[step, count]]

    @property
    def count(self) -> int:
        return prod(extent for _, extent in self.columns)
