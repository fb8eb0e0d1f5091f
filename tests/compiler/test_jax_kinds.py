"""Samples of JAX's own tests: NEFFs give jaxlib's results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compiler.compiling import check

pytest.importorskip("jax")

from tests.compiler.jax_kinds import KINDS

pytestmark = pytest.mark.jax

ROOT = Path(__file__).resolve().parents[2]
CHECKOUT = "NKI_HLO_JAX_CHECKOUT"


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_gives_what_jaxlib_gives(name: str) -> None:
    function, arguments = KINDS[name]
    check(function, *arguments, tolerance=2e-5)


@pytest.mark.slow("samples JAX's own tests on both executors: an hour")
@pytest.mark.skipif(not os.environ.get(CHECKOUT), reason=f"{CHECKOUT} names no checkout of JAX")
def test_samples_of_jaxs_own_tests(tmp_path: Path) -> None:
    """Nothing wrong, no foreign exception, no crash, no hang; nearly all of the rest passes."""
    report = tmp_path / "results.json"
    command = [sys.executable, "-m", "tests.suites.jax_tests", os.environ[CHECKOUT]]
    done = subprocess.run([*command, "--seed", "1", "--json", str(report)], cwd=ROOT, check=False)
    assert done.returncode == 0
    counted = [row for row in json.loads(report.read_text()) if row["outcome"] == "passed"]
    for executor in ("cpu", "neff"):
        assert sum(row["executor"] == executor for row in counted) > 100
