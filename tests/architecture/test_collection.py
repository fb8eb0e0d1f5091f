"""Every process collects the same tests, so that they can run side by side."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def collected(seed: int) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-o", "addopts="]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.slow("collects the whole suite twice")
def test_collection_does_not_depend_on_the_hash_seed() -> None:
    first = collected(1)
    assert first and collected(2) == first
