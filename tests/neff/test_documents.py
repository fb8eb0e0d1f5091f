"""The documents name every code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("container", "encoding", "runtime", "cli", "timing", "profile", "options.py")
GENERAL = {"NEFF-RUN"}
"""The code of a class, only seen where an error says nothing closer."""


def test_every_error_code_is_listed() -> None:
    listed = set(re.findall(r"`(NEFF-[A-Z-]*[A-Z])`", (ROOT / "docs/neff.md").read_text()))
    used: set[str] = set()
    for part in PARTS:
        path = ROOT / "neff" / part
        for file in [path] if path.is_file() else path.rglob("*.py"):
            used |= set(re.findall(r'"(NEFF-[A-Z-]*[A-Z])"', file.read_text()))
    missing = used - GENERAL - listed
    assert {code for code in missing if not code.startswith("NEFF-EXEC-")} == set()
