"""The lanes of the fuzzers: rounds until the time is over, and what ends without a report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fuzz.drivers.lanes import Round, run_round

ROOT = Path(__file__).resolve().parents[2]


def lanes(folder: Path, *options: str) -> tuple[int, str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.fuzz.drivers.lanes", "--keep", str(folder)]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True)
    table = json.loads((folder / "table.json").read_text()) if done.returncode < 2 else {}
    return done.returncode, done.stdout + done.stderr, table


def test_rounds_take_seeds_of_their_own_and_are_summed(tmp_path: Path) -> None:
    options = ("--hours", "0.003", "--round", "0.05", "--lanes", "2", "--drivers", "ranks")
    code, message, table = lanes(tmp_path, *options, "--seed", "900")
    assert code == 0, message
    seeds = sorted(int(path.stem.split("-")[1]) for path in tmp_path.glob("ranks-*.json"))
    assert len(seeds) >= 2 and seeds == [900 + 10_000_000 * number for number in range(len(seeds))]
    reports = [json.loads(path.read_text()) for path in tmp_path.glob("ranks-*.json")]
    assert table["drivers"]["ranks"]["cases"] == sum(
        b - a for a, b in (r["seeds"] for r in reports)
    )
    assert table["drivers"]["ranks"]["differences"] == table["drivers"]["ranks"]["deaths"] == 0
    assert table["lane_minutes"] == table["lane_minutes_since_the_last_difference"] > 0


def ended(folder: Path, source: str, limit: float = 60.0) -> Round:
    return run_round([sys.executable, "-c", source], "kernels", 7, folder, limit)


def test_a_driver_that_ends_without_a_report_has_died(tmp_path: Path) -> None:
    assert ended(tmp_path, "import os; os._exit(0)").died == "no report, exit code 0"
    assert ended(tmp_path, "import os; os.abort()").died == "no report, exit code -6"
    assert ended(tmp_path, "import signal; signal.pause()", 0.2).died == "no report, exit code -9"


def test_differences_are_counted(tmp_path: Path) -> None:
    report = {"seeds": [7, 19], "runs": {"simulate": 36}, "faults": [{"seed": 9}]}
    source = f"open('kernels-7.json', 'w').write({json.dumps(report)!r}); raise SystemExit(1)"
    done = ended(tmp_path, source)
    assert (done.cases, done.runs, done.wrong, done.died) == (12, 36, 1, "")


def test_a_driver_that_does_not_exist(tmp_path: Path) -> None:
    code, message, _ = lanes(tmp_path, "--seed", "0", "--drivers", "telepathy")
    assert code == 2 and "there is no driver 'telepathy'" in message
