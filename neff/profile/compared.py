"""Two profiles beside each other: which group of instructions became slower or faster."""

from __future__ import annotations

from collections.abc import Sequence

from neff.profile.attribution import Share
from neff.profile.text import Table, shortened

__all__ = ["comparison_document", "comparison_rows", "comparison_table"]

_MAX_ROWS = 30
_MIN_CHANGE_NS = 50.0
"""A change below the resolution of the table is no change."""


def comparison_rows(
    before: Sequence[Share], after: Sequence[Share]
) -> list[tuple[str, float, float]]:
    """Return (group, path time before, path time after) in ns, the largest change first.

    The times are those of the critical path, so the sums are the times of the programs. A group
    that only one of the profiles has took no time in the other one.
    """
    times_before = {share.name: share.path_ns for share in before}
    times_after = {share.name: share.path_ns for share in after}
    rows = [
        (name, times_before.get(name, 0.0), times_after.get(name, 0.0))
        for name in dict.fromkeys([*times_after, *times_before])
    ]
    return sorted(rows, key=lambda row: -abs(row[2] - row[1]))


def comparison_document(
    grouping: str, before: Sequence[Share], after: Sequence[Share]
) -> list[dict[str, object]]:
    """Return :func:`comparison_rows` for JSON, in µs."""
    return [
        {
            grouping: name,
            "before_path_us": round(old / 1e3, 3),
            "after_path_us": round(new / 1e3, 3),
        }
        for name, old, new in comparison_rows(before, after)
    ]


def comparison_table(grouping: str, before: Sequence[Share], after: Sequence[Share]) -> Table:
    """Return the groups whose time on the critical path changed, and the total."""
    rows = comparison_rows(before, after)
    total = sum(row[1] for row in rows), sum(row[2] for row in rows)
    changed = [row for row in rows if abs(row[2] - row[1]) >= _MIN_CHANGE_NS]
    cells = [
        _cells(shortened(name), old, new)
        for name, old, new in (*changed[:_MAX_ROWS], ("total", *total))
    ]
    left_out = len(changed) - _MAX_ROWS
    note = f"and {left_out} more with smaller changes" if left_out > 0 else ""
    return Table((grouping, "before path µs", "after path µs", "change µs", "change"), cells, note)


def _cells(name: str, old: float, new: float) -> tuple[str, ...]:
    change = f"{(new - old) / old:+.1%}" if old else "new" if new else "none"
    return name, f"{old / 1e3:,.1f}", f"{new / 1e3:,.1f}", f"{(new - old) / 1e3:+,.1f}", change
