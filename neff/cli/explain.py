"""``nki-neff build --explain``: what the compiler did, as tables."""

from __future__ import annotations

import sys

from hlo_tools.cli import console
from neff.profile.explanation import Explanation

__all__ = ["show"]


def show(explanation: Explanation) -> None:
    """Print what cost most; everything with ``--verbose``."""
    console.line(explanation.headline())
    most = {"most": sys.maxsize} if console.settings().verbose else {}
    for title, (columns, rows) in explanation.tables(**most):
        console.line(f"\n{title}")
        console.table(columns, rows, indent="  ")
