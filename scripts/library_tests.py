"""Run nki-library's own tests, with its torch references and tolerances, three ways.

The checkout is copied, nothing in it is changed::

    python scripts/library_tests.py <nki-library checkout> core/cumsum experimental/loss \\
        [--ways executor,neff] [-- -k name -x]

Its tests call the vendor's simulator by name and get ours. Each call is repeated in the other
ways, and a result that differs from the simulator's fails the test. What the suite imports beside
NKI (pytest-html, boto3, fabric2, plotext, allpairspy, aws-embedded-metrics) must be installed;
two private files that its repository lacks are replaced by empty ones in the copy.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WAYS = "NKI_LIBRARY_TEST_WAYS"
ABSENT = {
    "test/utils/perf_analysis_private.py": "def analyze_trace(*a, **k):\n    return None\n",
    "test/utils/scripts/__init__.py": "",
    "test/utils/scripts/remote_lock_scripts.py": "LockResult = LockStatus = None\n",
}
DEFECT = ("test/utils/test_orchestrator.py", "if not self._compiled_kernel or", "if True or")
"""Simulated tests have no compiled kernel, and the published file asks for it all the same."""


def copied(checkout: Path, folder: Path) -> Path:
    """A copy of the checkout in which the suite can start."""
    copy = folder / "library"
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git", "neuron_test_output"))
    for name, text in ABSENT.items():
        place = copy / name
        place.parent.mkdir(exist_ok=True)
        if not place.exists():
            place.write_text(text)
    file = copy / DEFECT[0]
    file.write_text(file.read_text().replace(*DEFECT[1:]))
    return copy


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("tests", nargs="+", help="folders or files below test/integration/nkilib")
    parser.add_argument("--ways", default="executor,neff", help="beside simulate; or none")
    parser.add_argument("--python-path", default="", help="where the suite's own imports are")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:split])
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(options.checkout, Path(folder))
        paths = [ROOT, ROOT / "compat", ROOT / "scripts", copy / "src" / "nkilib_src", copy / "src", copy]  # fmt: skip
        environment = dict(os.environ) | {
            "PYTHONPATH": os.pathsep.join([*map(str, paths), options.python_path]),
            WAYS: options.ways,
        }
        places = [f"test/integration/nkilib/{name}" for name in options.tests]
        command = [
            sys.executable, "-m", "pytest", "-p", "library_tests", "--test-mode", "simulation",
            "-q", "-p", "no:cacheprovider", *places, *words[split + 1 :],
        ]  # fmt: skip
        return subprocess.run(command, cwd=copy, env=environment).returncode


# -- the plugin that pytest loads in the copy -----------------------------------------------------


def _repeated(kernel: Any, args: Any, kwargs: Any, ways: list[str]) -> dict[str, Any]:
    """What the other ways give for copies of the arguments."""
    import numpy as np
    from public_kernels import WAYS as FUNCTIONS

    def fresh(value: Any) -> Any:
        return value.copy() if isinstance(value, np.ndarray) else value

    return {
        way: FUNCTIONS[way](
            kernel, tuple(map(fresh, args)), {name: fresh(v) for name, v in kwargs.items()}
        )
        for way in ways
    }


def _by_ranks(test: Any) -> dict[str, Any]:
    """Run a test with an input for each rank and compare every rank; nothing is left to compare."""
    import numpy as np

    from nki_lang.execute import run_ranks

    count = test.inference_args.collective_ranks
    target = test.compiler_input.platform_target.get_nc_gen()
    grid = test.compiler_input.logical_nc_config
    inputs = [test.kernel_input.for_rank(rank) for rank in range(count)]
    kernel = test.kernel_func.trace((), inputs[0], target=target, grid=grid)
    arrays = [[v for v in each.values() if isinstance(v, np.ndarray)] for each in inputs]
    golden = [test.validation_args.golden_output.for_rank(rank) for rank in range(count)]
    results = run_ranks(kernel, arrays)
    for rank, (have, want) in enumerate(zip(results, golden, strict=True)):
        _compare(f"rank {rank}", have, list(want.values()))
    return {}


def _compare(way: str, have: Any, want: Any) -> None:
    import numpy as np

    pairs = zip(_listed(have), _listed(want), strict=True)
    for index, (one, other) in enumerate(pairs):
        one, other = (np.asarray(x).astype(np.float64).ravel() for x in (one, other))
        both = np.isfinite(one) & np.isfinite(other)
        scale = float(np.abs(other[both]).max()) if both.any() else 0.0
        # The executor may sum in another order and merge instructions: last bits may differ.
        close = np.abs(one[both] - other[both]) <= 1e-2 * scale
        if not close.all():
            raise AssertionError(f"{way}: result {index} differs from the simulator's")


def _listed(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (tuple, list)) else [value]


def pytest_configure() -> None:
    """Let every simulated call be repeated in the other ways."""
    ways = [way for way in os.environ.get(WAYS, "").split(",") if way not in ("", "none")]
    from hlo_tools.frameworks import simulated

    plain = simulated.SimulatedKernel.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        generation = os.environ.get("NKI_NC_VERSION", "trn2")
        previous = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE")
        os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = generation
        try:
            others = _repeated(self._kernel, args, kwargs, ways)
            result = plain(self, *args, **kwargs)
        finally:
            if previous is None:
                del os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"]
            else:
                os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = previous
        for way, value in others.items():
            _compare(way, value, result)
        return result

    from test.utils import simulation_setup  # of the copy

    one_rank = simulation_setup.run_simulator_inference

    def inference(test: Any) -> dict[str, Any]:
        return _by_ranks(test) if hasattr(test.kernel_input, "for_rank") else one_rank(test)

    simulation_setup.run_simulator_inference = inference
    simulated.SimulatedKernel.__call__ = call  # type: ignore[method-assign]


if __name__ == "__main__":
    sys.exit(main())
