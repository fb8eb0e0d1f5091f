"""Changed fields of NEFF members, kernel files, modules and cache entries are read or refused: a
small share of tests/fuzz/drivers/fuzz_members.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_changed_fields_are_read_or_refused_with_a_code(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.fuzz.drivers.fuzz_members",
        "--count",
        "60",
    ]
    done = subprocess.run(
        [*command, "--json", str(report)], cwd=ROOT, capture_output=True, text=True
    )
    assert report.exists(), done.stdout + done.stderr
    report_data = json.loads(report.read_text())
    assert report_data["faults"] == []
    kinds = {outcome.split()[0] for outcome in report_data["runs"]}
    assert kinds == {"neff", "klir", "module", "entry"}
    refused = sum(count for outcome, count in report_data["runs"].items() if "-" in outcome)
    assert refused >= 60
