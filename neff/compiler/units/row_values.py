"""Values of one element for each row that repeat over some of the rows: copied, so that rows merge.

The statistics of a channel repeat over the samples. Rows (32 samples, 64 channels) with such an operand
are 32 tiles of 64 partitions; with 2048 values side by side they are 16 tiles of 128 partitions.
"""

from __future__ import annotations

from math import prod

from neff.compiler.graph.nodes import Node
from neff.compiler.graph.views import Dim, View, merge
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.rows.reaches import Reach, tight
from neff.compiler.lowering.rows.row_groups import RowGroup
from neff.compiler.lowering.tiles.task import Port
from neff.compiler.lowering.tiles.tiling import PARTITIONS

__all__ = ["values_side_by_side"]

_MAX_ROWS = 1 << 16
"""A copy of more values takes longer than partitions without work."""

_MIN_COLUMNS = 256
"""Shorter rows are several in each partition: their values are no operands of instructions."""


_MIN_ELEMENTS = 1 << 21
"""Rows of fewer elements take no longer than a copy, which the unit waits for."""


def values_side_by_side(group: RowGroup, lowerer: Lowerer, node: Node) -> dict[int, Port]:
    """Return inputs of one element for each row, copied if all other views walk the rows in one step.

    Args:
        group: the unit.
        lowerer: makes the copies.
        node: for messages and profiles.
    """
    if group.products or group.contractions or group.widest < _MIN_COLUMNS:
        return {}
    count = prod(group.rows)
    if not 1 < count <= _MAX_ROWS or group.rows[-1] % PARTITIONS == 0:
        return {}
    if count * group.widest < _MIN_ELEMENTS:
        return {}
    reaches = {
        key: Reach(group.rows, port)
        for key, port in group.inputs.items()
        if isinstance(port, Port) and not port.wide
    }
    stored = [
        Reach(group.rows, port) for output, port in group.outputs if id(output) not in group.sums
    ]
    repeated = {
        key: reach
        for key, reach in reaches.items()
        if reach.kind == "row" and _repeats(group, reach)
    }
    unrepeated = [reach for key, reach in reaches.items() if key not in repeated]
    if not repeated or len(_merged(group, [*unrepeated, *stored])) != 1:
        return {}
    return {key: _copied(group, reach, lowerer, node) for key, reach in repeated.items()}


def _merged(group: RowGroup, reaches: list[Reach]) -> list[Dim]:
    return merge(
        [
            Dim(extent, tuple(reach.steps[dim] for reach in reaches))
            for dim, extent in enumerate(group.rows)
        ]
    )


def _repeats(group: RowGroup, reach: Reach) -> bool:
    """Return True for rows that the view walks in several steps, one of them 0."""
    return len(_merged(group, [reach])) > 1 and 0 in reach.steps


def _copied(group: RowGroup, reach: Reach, lowerer: Lowerer, node: Node) -> Port:
    view = tight(reach.port.view)
    cut = len(group.rows)
    line = View(view.buffer, view.shape[:cut], view.strides[:cut], view.offset)
    compacted = lowerer.compact(line, node)
    strides = (*compacted.strides, *(0 for _ in view.shape[cut:]))
    return lowerer.port(View(compacted.buffer, view.shape, strides, compacted.offset))
