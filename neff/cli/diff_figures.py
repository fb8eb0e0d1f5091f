"""How ``nki-neff diff`` writes figures: quantities with units, shares of change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neff.profile.changes import Change

__all__ = ["OVERVIEW", "overview", "quantity", "share"]

OVERVIEW = ("file size", "device memory", "SBUF peak", "estimated time")
"""Figures of the table of several NEFFs."""

_SCALES = {"B": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")),
           "us": ((1e6, "s"), (1e3, "ms"), (1, "µs")), "": ((1, ""),)}  # fmt: skip
_SAME = 0.0005
"""Shares of change below this are shown as none."""


def overview(change: Change) -> Iterator[str]:
    """The figures of :data:`OVERVIEW`: after, and how much that changed."""
    from neff.profile.changes import FIGURES

    for name in OVERVIEW:
        old, new = (side.values[name] if side else None for side in (change.before, change.after))
        text = quantity(old if change.after is None else new, FIGURES[name])
        message = share(old, new) if change.status == "changed" else ""
        yield f"{text} ({message})" if message and message != "-" else text


def quantity(value: float | None, unit: str) -> str:
    """A figure with the unit that suits it; ``-`` for one that is not known."""
    if value is None:
        return "-"
    scale, name = next((pair for pair in _SCALES[unit] if abs(value) >= pair[0]), _SCALES[unit][-1])
    text = f"{value / scale:,.1f}" if name not in ("B", "") else f"{int(value):,}"
    return f"{text} {name}".rstrip()


def share(old: float | None, new: float | None) -> str:
    """How much a figure changed, in per cent; "" when it did not."""
    if old is None or new is None:
        return "-"
    if not old:
        return "new" if new else ""
    changed = (new - old) / old
    return f"{changed:+.1%}" if abs(changed) >= _SAME else ("" if old == new else "±0.0%")
