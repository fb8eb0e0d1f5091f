"""Run the vendor's tests of NKI beta 1 (``nki/test`` of aws-neuron-sdk), unmodified.

The folder is that of a checkout at SDK 2.26 (commit 1db4d74e), the last one with these tests::

    python -m tests.suites.beta1_tests <aws-neuron-sdk>/nki/test [--json results.json] [-- -k name]

The table has one row for each file. A test that cannot pass is listed in ``REASONS`` with the
reason; it must fail, and no other test may. The exit code is 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from tests.suites.published.table import Result, print_table, write_json

ROOT = Path(__file__).resolve().parents[2]

_NUMPY_TEXT = (
    "expects the text of NumPy's IndexError in the vendor's simulator; ours names the line"
)
REASONS = {
    "test_nki_isa_activation::test_activation": (
        "compares bfloat16 with a float32 reference; the vendor's simulator kept 32 bits"
    ),
    "test_nki_isa_dma_copy::test_indirect_load_oob_err_negative": _NUMPY_TEXT,
    "test_nki_isa_dma_copy::test_indirect_store_oob_err_negative": _NUMPY_TEXT,
    "test_nki_isa_nc_match_replace8::test_nc_match_replace_indices8_mask": (
        "stores elements that its mask left unwritten, which is an error here"
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="nki/test of a checkout")
    parser.add_argument("--json", type=Path, help="write every result to this file")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:split])
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        environment = dict(os.environ) | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'compat'}"}
        command = [
            sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider",
            "--continue-on-collection-errors", f"--junitxml={report}",
            f"--rootdir={options.folder.resolve()}", str(options.folder.resolve()),
            *words[split + 1 :],
        ]  # fmt: skip
        subprocess.run(command, cwd=scratch, env=environment)
        if not report.exists():
            return 1
        results = list(outcomes(report))
    print_table(results, ["simulate"])
    if options.json:
        write_json(results, options.json)
    surprises = [result for result in results if result.outcome == "failed"]
    return int(bool(surprises) or not results)


def outcomes(report: Path) -> Iterator[Result]:
    """Yield each test of a report; a failure with a stated reason is set aside."""
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        file = case.get("classname", "").split(".")[0] or case.get("name", "")
        name = f"{file}::{case.get('name', '')}"
        problem = next(
            (case.find(kind) for kind in ("failure", "error") if case.find(kind) is not None), None
        )
        reason = REASONS.get(name)
        seconds = float(case.get("time", 0.0))
        if problem is None and reason is None:
            yield Result(file, name, "simulate", "passed", "", seconds)
        elif problem is None:
            yield Result(file, name, "simulate", "failed", "passes; remove its reason", seconds)
        elif reason is not None:
            yield Result(file, name, "simulate", "skipped", reason, seconds)
        else:
            text = " ".join((problem.get("message") or "").split())[:300]
            yield Result(file, name, "simulate", "failed", text, seconds)


if __name__ == "__main__":
    sys.exit(main())
