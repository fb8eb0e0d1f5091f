"""Run nkipy's own tests, its package unchanged, on our ``neuronx-cc``, ``neuronxcc`` and ``_spike``.

The checkout is copied, nothing in it is changed but that its messages are generated, as its own
``setup.py`` does (grpcio-tools is in the extra ``dev``)::

    python -m tests.suites.nkipy_tests <nkipy checkout> [tests/unit ...] [--json results.json] [-- -k name]

``spike`` is upstream's Python over our ``spike._spike``. Without tests named, those of ``tests/unit``
and ``tests/integration`` and ``spike/tests`` run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUITES = ("tests/unit", "tests/integration", "spike/tests")
PROTOS = ("xla/xla_data.proto", "xla/service/metrics.proto", "xla/service/hlo.proto")


def copied(checkout: Path, folder: Path) -> Path:
    """A copy of the checkout as it is once installed: messages generated, ``_spike`` ours."""
    copy = folder / "nkipy"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "nkigen", "docs"))
    messages = copy / "nkipy" / "src" / "nkipy" / "third_party"
    for name in PROTOS:
        words = ["-m", "grpc_tools.protoc", f"-I{messages}", f"--python_out={messages}", name]
        subprocess.run([sys.executable, *words], check=True, cwd=messages)
    for path in messages.rglob("*_pb2.py"):
        text = path.read_text().replace("from xla", "from nkipy.third_party.xla")
        path.write_text(text)
    shutil.copy(ROOT / "compat" / "spike" / "_spike.py", copy / "spike" / "src" / "spike")
    return copy


def environment(copy: Path, folder: Path) -> dict[str, str]:
    """Upstream's packages before ours, and our command."""
    command = folder / "bin" / "neuronx-cc"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m neuronxcc "$@"\n')
    command.chmod(0o755)
    path = [copy / "nkipy" / "src", copy / "spike" / "src", copy, ROOT, ROOT / "compat"]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "NKI_HLO_CACHE": str(folder / "cache"),
        "OPENBLAS_NUM_THREADS": "1",
    }


def outcomes(report: Path) -> dict[str, tuple[str, str]]:
    """Test -> (passed, failed, error or skipped, the first line of why)."""
    results: dict[str, tuple[str, str]] = {}
    for case in ET.parse(report).iter("testcase"):
        child = next(
            (element for element in case if element.tag in ("failure", "error", "skipped")), None
        )
        kind = {"failure": "failed"}.get(child.tag, child.tag) if child is not None else "passed"
        why = (child.get("message") or "").splitlines()[:1] if child is not None else []
        results[f"{case.get('classname')}::{case.get('name')}"] = (kind, "".join(why))
    return results


def main() -> int:
    """Run the tests; 0 when all pass."""
    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("tests", nargs="*", default=list(SUITES))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args(arguments[:end])
    with tempfile.TemporaryDirectory(prefix="nkipy-tests-") as name:
        folder = Path(name)
        copy = copied(chosen.checkout.resolve(), folder)
        report = folder / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", f"--junit-xml={report}",
                   "-p", "no:cacheprovider", "-p", "no:hlo_tools.pytest_plugin",
                   *arguments[end + 1 :], *chosen.tests]  # fmt: skip
        subprocess.run(command, cwd=copy, env=environment(copy, folder))
        results = outcomes(report)
    counts = Counter(kind for kind, _ in results.values())
    ran = sum(counts.values()) - counts["skipped"]
    reasons = Counter(why for kind, why in results.values() if kind in ("failed", "error"))
    for why, count in reasons.most_common():
        print(f"{count:5}  {why[:150]}")
    print(f"{counts['passed']} of {ran} passed, {counts['skipped']} skipped")
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=1))
    return 0 if counts["passed"] == ran else 1


if __name__ == "__main__":
    sys.exit(main())
