"""``nki-neff build --explain``: what the compiler did, as tables."""

from __future__ import annotations

from hlo_tools.cli.shared import console
from neff.profile.explanation import Told

__all__ = ["show"]


def show(message: Told) -> None:
    """Print what cost most; everything with ``--verbose``."""
    console.line(message.headline)
    for title, (columns, rows) in message.full if console.settings().verbose else message.short:
        console.line(f"\n{title}")
        console.table(columns, rows, indent="  ")
