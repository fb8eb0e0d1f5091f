"""Run the simulator tests of the trnsci projects (trnfft, trnrand, trnsolver, trnsparse, trntensor).

Nothing of them is in this repository. A folder holds the checkouts, which stay as they are::

    python -m tests.suites.trnsci_tests FOLDER [--only trnrand ...] [--seconds 3600] [--json results.json]
        [-- -k name]

Each checkout's tests that are marked ``nki_simulator`` run in a process of their own with
``<NAME>_USE_SIMULATOR=1``, as its ``scripts/run_simulator_tests.sh`` runs them. A table counts passed
and tried tests; what ``--seconds`` ended, and what had not begun then, is counted as limited. The exit
code is 1 when a test failed or was skipped, and 2 when none ran.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.suites.published.table import Result, print_table, write_json

ROOT = Path(__file__).resolve().parents[2]
MARK = "nki_simulator"
OUTCOMES = {
    "PASSED": "passed", "XPASS": "passed", "FAILED": "failed", "ERROR": "failed",
    "SKIPPED": "skipped", "XFAIL": "skipped",
}  # fmt: skip
_LINE = re.compile(rf"^(tests/\S+?::.*?) ({'|'.join(OUTCOMES)})\b")
_SELECTED = re.compile(r"^collect.*?(\d+) items?(?:.* (\d+) selected)?")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the checkouts")
    parser.add_argument("--only", nargs="*", default=[], help="names of checkouts")
    parser.add_argument("--seconds", type=float, default=3600, help="limit of one checkout")
    parser.add_argument("--json", type=Path, help="write every result to this file")
    parser.add_argument("words", nargs="*", help="options of pytest, behind --")
    options = parser.parse_args()
    checkouts = sorted(
        path for path in options.folder.iterdir()
        if (path / "tests").is_dir() and (not options.only or path.name in options.only)
    )  # fmt: skip
    results = [
        result for checkout in checkouts for result in run(checkout, options.seconds, options.words)
    ]
    print_table(results, ["simulate"])
    if options.json:
        write_json(results, options.json)
    if not any(result.outcome in ("passed", "failed") for result in results):
        return 2
    return int(any(result.outcome in ("failed", "skipped") for result in results))


def run(checkout: Path, seconds: float, words: list[str]) -> list[Result]:
    """Run one checkout's tests within the limit of time."""
    path = os.pathsep.join([str(checkout), str(ROOT), str(ROOT / "compat")])
    variables = {"PYTHONPATH": path, f"{checkout.name.upper()}_USE_SIMULATOR": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests",
        "-m",
        MARK,
        "-v",
        "-p",
        "no:cacheprovider",
        *words,
    ]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        try:
            subprocess.run(command, cwd=checkout, env={**os.environ, **variables}, stdout=output,
                           stderr=subprocess.STDOUT, timeout=seconds, check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            print(f"{checkout.name}: ended after {seconds:.0f} s", file=sys.stderr)
        output.seek(0)
        return list(results_of(checkout.name, output))


def results_of(project: str, lines: Iterable[str]) -> Iterator[Result]:
    """Yield the outcomes that pytest printed, and a limited result for each test without one."""
    selected = finished = 0
    for line in lines:
        count = _SELECTED.search(line)
        if count:
            selected = int(count[2] or count[1])
        outcome = _LINE.match(line)
        if outcome:
            finished += 1
            kind = OUTCOMES[outcome[2]]
            reason = "" if kind == "passed" else f"{outcome[1]} {kind}"
            yield Result(project, outcome[1], "simulate", kind, reason)
    for number in range(finished, selected):
        yield Result(
            project, f"test {number + 1}", "simulate", "limited", "the limit of time ended it"
        )


if __name__ == "__main__":
    sys.exit(main())
