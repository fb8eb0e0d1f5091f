"""Describes how a unit over rows walks an operand or a result: over the rows, and within a row."""

from __future__ import annotations

from math import prod

from neff.compiler.graph.views import Dim, View, merge
from neff.compiler.lowering.tiles.task import Port
from neff.compiler.lowering.tiles.tiling import PARTITIONS

__all__ = ["Reach", "best_rows", "tight"]


_MAX_COLUMNS = 8192
"""Limit on the elements of a row of a unit without reductions."""


def best_rows(shape: tuple[int, ...], views: list[View]) -> tuple[int, ...] | None:
    """Return the leading extents to use as rows if nothing reduces; None if no view repeats.

    The cut is chosen so that most views repeat entirely on one of its sides, all partitions have
    rows, and few elements of these views are loaded.
    """
    extents = tuple(extent for extent in shape if extent != 1)
    best: tuple[tuple[int, bool, int], tuple[int, ...]] | None = None
    for cut in range(1, len(extents)):
        if prod(extents[:cut]) < PARTITIONS // 4:
            continue
        kinds = [_repeats(tight(view), cut) for view in views]
        if (count := sum(kind in ("row", "column") for kind in kinds)) and "mixed" not in kinds:
            rows, columns = prod(extents[:cut]), prod(extents[cut:])
            loaded = kinds.count("row") * rows + kinds.count("column") * columns
            cost = -count, rows < PARTITIONS, loaded
            if columns <= _MAX_COLUMNS and (best is None or cost <= best[0]):
                best = cost, extents[:cut]
    return None if best is None else best[1]


def tight(view: View) -> View:
    """Return the view without dimensions of one element."""
    dims = [dim for dim, extent in enumerate(view.shape) if extent != 1]
    return View(
        view.buffer,
        tuple(view.shape[dim] for dim in dims),
        tuple(view.strides[dim] for dim in dims),
        view.offset,
    )


def _repeats(view: View, cut: int) -> str:
    if not any(view.strides[cut:]):
        return "row"
    if not any(view.strides[:cut]):
        return "column"
    return "full" if view.strides[-1] else "mixed"


class Reach:
    """The walk of a port: its steps over the rows, and its dimensions within a row."""

    def __init__(self, rows: tuple[int, ...], port: Port) -> None:
        view, cut = tight(port.view), len(rows)
        self.port = port
        self.steps = view.strides[:cut]
        kind = "row" if len(view.shape) == cut else _repeats(view, cut)
        self.kind = "full" if kind == "mixed" else kind
        inner = zip(view.shape[cut:], view.strides[cut:], strict=True)
        dims = [] if kind == "row" else merge([Dim(extent, (step,)) for extent, step in inner])
        self.columns = [[dim.steps[0], dim.extent] for dim in dims]

    def column_range(self, begin: int, count: int) -> tuple[int, list[list[int]]]:
        """Return the begin and the pattern of a range of columns; all of them if there is no
        cut.
        """
        if not self.columns or count >= self.count:
            return 0, self.columns
        ((step, _),) = self.columns
        return begin * step, [[step, count]]

    @property
    def count(self) -> int:
        return prod(extent for _, extent in self.columns)
