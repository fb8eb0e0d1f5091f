"""Run nki-library's own tests, with its torch references and tolerances, three ways.

The checkout is copied, nothing in it is changed::

    python -m tests.suites.library_tests <nki-library checkout> core/cumsum experimental/loss \\
        [--ways neff,jax] [--sample 5 [--seed 1]] [--json results.json] [-- -k name]

Each test runs in the simulator; each call that it makes is repeated in the other ways, and a
result that differs from the simulator's fails the test. A table of kernels by ways follows. What
the suite imports beside NKI (pytest-html, pytest-xdist, boto3, fabric2, plotext, allpairspy,
aws-embedded-metrics) must be installed, in a folder named with ``--python-path`` if not beside
this project. Faults of the published files that keep them from being read are mended in the copy.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.suites.published.table import Result, print_table, write_json

ROOT = Path(__file__).resolve().parents[2]
ABSENT = {
    "test/utils/perf_analysis_private.py": "def analyze_trace(*a, **k):\n    return None\n",
    "test/utils/scripts/__init__.py": "",
    "test/utils/scripts/remote_lock_scripts.py": "LockResult = LockStatus = None\n",
}
"""Private files that the published tests import."""

_TESTS = "test/integration/nkilib"
_STRAY = '    """\n\n        TKG mode supports:'
DEFECTS = (
    # Simulated tests have no compiled kernel, and the published file asks for it all the same.
    ("test/utils/test_orchestrator.py", "if not self._compiled_kernel or", "if True or"),
    # The end of a docstring stands twice.
    ("src/nkilib_src/nkilib/core/mlp/mlp.py", _STRAY, "    \"\"\"\n    \"\"\"\n        TKG mode supports:"),
    # A name that is used and not imported.
    (f"{_TESTS}/core/qkv/test_qkv_tkg.py", "    LazyGoldenGenerator,\n", "    LazyGoldenGenerator,\n    Platforms,\n"),
    # A key without the suffix that the inputs give it.
    (f"{_TESTS}/core/attention/test_gen_mask_tkg.py", '["mask_out_hbm"]', '["mask_out_hbm.must_alias_input"]'),
    # A module that was moved.
    (f"{_TESTS}/experimental/subkernels/test_topk_reduce.py", "experimental.subkernels.topk_reduce", "experimental.collectives.topk_reduce"),
)  # fmt: skip
"""(file, text, what stands in its place)."""


def copied(checkout: Path, folder: Path) -> Path:
    """A copy of the checkout in which the suite can start."""
    copy = folder / "library"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "neuron_test_output"))
    for name, text in ABSENT.items():
        location = copy / name
        location.parent.mkdir(exist_ok=True)
        if not location.exists():
            location.write_text(text)
    for name, old, new in DEFECTS:
        file = copy / name
        file.write_text(file.read_text().replace(old, new))
    return copy


def _options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("tests", nargs="+", help=f"folders or files below {_TESTS}")
    parser.add_argument("--ways", default="neff,jax", help="beside simulate: executor, neff, jax")
    parser.add_argument(
        "--sample",
        type=int,
        default=0,
        help="at most so many of each function, from the smaller half",
    )
    parser.add_argument("--seed", type=int, help="sample by chance from this seed, of any size")
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of one test")
    parser.add_argument("--gigabytes", type=float, default=8.0, help="limit of the memory")
    parser.add_argument("--python-path", default="", help="where the suite's own imports are")
    parser.add_argument("--json", type=Path, help="write every result to this file")
    return parser.parse_args(words)


def main() -> int:
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    options = _options(words[:split])
    modes = [mode for mode in options.ways.split(",") if mode not in ("", "none")]
    with tempfile.TemporaryDirectory() as folder:
        copy, records = copied(options.checkout, Path(folder)), Path(folder) / "records"
        paths = [ROOT, ROOT / "compat", copy / "src" / "nkilib_src", copy / "src", copy]  # fmt: skip
        settings = {
            "ways": modes, "records": str(records), "sample": options.sample,
            "seed": options.seed, "seconds": options.seconds, "gigabytes": options.gigabytes,
        }  # fmt: skip
        environment = dict(os.environ) | {
            "PYTHONPATH": os.pathsep.join([*map(str, paths), options.python_path]),
            "NKI_LIBRARY_TESTS": json.dumps(settings),
            "NKILIB_SIMULATION_RUN_ALL": "1",
            # The goldens compute block scales as the OCP sample algorithm does.
            "NKI_HLO_MX_SCALE": "ocp",
            # Tests of up to so many ranks, each of which is a device of JAX.
            "XLA_FLAGS": "--xla_force_host_platform_device_count=64",
        }
        command = [
            sys.executable, "-m", "pytest", "-p", "tests.suites.published.library_plugin", "--test-mode",
            "simulation", "-q", "--tb=short", "-p", "no:cacheprovider",
        ]  # fmt: skip
        codes: dict[str, int] = {}
        for name in options.tests:  # each in its own process: at the limit of memory XLA aborts
            call = [*command, f"{_TESTS}/{name}", *words[split + 1 :]]
            codes[name] = subprocess.run(call, cwd=copy, env=environment).returncode
        lines = records.read_text(encoding="utf-8").splitlines() if records.exists() else []
    results = [Result(**json.loads(line)) for line in lines]
    if results:
        print_table(results, ["simulate", *modes])
    if options.json:
        write_json(results, options.json)
    for name, code in codes.items():
        if code < 0:
            print(f"{name}: ended by signal {-code}; the tests behind it did not run")
    return max(abs(code) for code in codes.values())


if __name__ == "__main__":
    sys.exit(main())
