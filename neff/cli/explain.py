"""``nki-neff build --explain``: what the compiler did, as tables."""

from __future__ import annotations

from hlo_tools.cli.shared import console
from neff.profile.explanation import Told

__all__ = ["show"]


def show(told: Told) -> None:
    """Print what cost most; everything with ``--verbose``."""
    console.line(told.headline)
    for title, (columns, rows) in told.full if console.settings().verbose else told.short:
        console.line(f"\n{title}")
        console.table(columns, rows, indent="  ")
