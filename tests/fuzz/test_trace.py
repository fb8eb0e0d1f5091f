"""Operators of PyTorch's test database traced with some values and run with others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.torch_xla]


def swept(folder: Path, *options: str) -> dict[str, Any]:
    """Return the report of a sweep."""
    pytest.importorskip("expecttest")
    report = folder / "report.json"
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.drivers.fuzz_trace",
        *options,
        "--json",
        str(report),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert report.exists(), done.stdout + done.stderr
    return json.loads(report.read_text())


def test_a_slice_of_every_category(tmp_path: Path) -> None:
    report = swept(tmp_path, "--slice", "25")
    assert report["faults"] == []
    assert report["runs"]["correct"] >= 20


@pytest.mark.slow("compiles every operator twice: some minutes")
def test_every_operator(tmp_path: Path) -> None:
    report = swept(tmp_path, "--count", "700")
    assert report["faults"] == []
