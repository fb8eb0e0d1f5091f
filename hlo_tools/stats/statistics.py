"""Statistics of a module, taken from its overview.

The module is read as an :class:`~hlo_tools.outline.Outline`, so constants are never decoded;
instructions of equal cost are examined once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hlo_tools.ir.loading import load_outline
from hlo_tools.ir.module import Module
from hlo_tools.ir.overview import ModuleOutline
from hlo_tools.stats.counting import count
from hlo_tools.stats.result import Statistics

__all__ = ["known_trips", "statistics"]


def statistics(
    source: str | Path | bytes | Module | ModuleOutline,
    *,
    trips: Mapping[int, int] | None = None,
    root: Path | None = None,
) -> Statistics:
    """The statistics of a module.

    Args:
        source: a file of any size and form, its bytes, or a module.
        trips: how often ``while`` instructions (by id) run, beside those whose configuration says
            it; of a :class:`Module`, counts are worked out where they are not given.
        root: folder that relative paths of kernel files start from; that of the module's file
            where it is not given.

    Raises:
        HloFileError: the file cannot be read, or refers to what it does not have (HLO-REFERENCE).
    """
    if isinstance(source, Module):
        trips = known_trips(source) if trips is None else trips
        source = ModuleOutline.of(source)
    elif not isinstance(source, ModuleOutline):
        source = load_outline(source)
    return count(source, trips or {}, root or source.folder)


def known_trips(module: Module) -> dict[int, int]:
    """Return the trip counts of loops (by id) that can be determined."""
    from hlo_tools.rewrite.trip_counts import trip_count

    counts = {v.id: trip_count(v) for v in module.instructions if v.proto.opcode == "while"}
    return {number: count for number, count in counts.items() if count is not None}
