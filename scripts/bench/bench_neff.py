"""How fast NEFFs are built and run, as ratios to NumPy in the same process, one BLAS thread.

python -m scripts.bench neff [--runs 5] [--json]

Aims: matmul 2048^3 at most 1.2 x NumPy, addition of 4096^2 at most 2 x ``a + b``, module to NEFF
at most 2 s, resident memory while running at most NumPy's + 30 %; on each target.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PROGRAMS: dict[str, tuple[int, str, Callable[[Any, Any], Any]]] = {
    "matmul": (2048, "dot(t, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}", lambda a, b: a.T @ b),
    "linear": (2048, "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}", lambda a, b: a @ b.T),
    "add": (4096, "add(a, b)", lambda a, b: a + b),
}  # fmt: skip
"""Name -> size, last HLO instruction, NumPy's own."""

TARGETS = ("trn1", "trn2", "trn3")

AIMS = {"matmul": 1.2, "linear": 1.2, "add": 2.0, "build_s": 2.0, "memory": 1.3}


def module_text(name: str) -> str:
    """The HLO of a program."""
    size, root, _ = PROGRAMS[name]
    shape = f"f32[{size},{size}]{{1,0}}"
    return (
        f"HloModule {name}\n\nENTRY main {{\n"
        f"  a = {shape} parameter(0)\n  b = {shape} parameter(1)\n"
        + (f"  t = {shape} transpose(a), dimensions={{1,0}}\n" if "(t," in root else "")
        + f"  ROOT c = {shape} {root}\n}}\n"
    )


def arrays(name: str) -> tuple[Any, Any]:
    """The two inputs."""
    size = PROGRAMS[name][0]
    random = np.random.default_rng(0)
    return random.random((size, size), np.float32), random.random((size, size), np.float32)


def seconds(run: Callable[[], object], runs: int) -> float:
    """Median of several runs, after one untimed."""
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def build(name: str, target: str, path: Path) -> float:
    """Write the NEFF; seconds from the module's text to the file."""
    import hlo_tools
    import neff
    import neff.compiler

    text = module_text(name).encode()
    start = time.perf_counter()
    neff.write(neff.compile(hlo_tools.load(text), target=target), path)
    return time.perf_counter() - start


def measure(name: str, target: str, path: Path, runs: int) -> dict[str, float]:
    """Build, load and run one program; check its result."""
    from neff.runtime import load

    built = build(name, target, path)
    start = time.perf_counter()
    model = load(path)
    loaded = time.perf_counter() - start
    a, b = arrays(name)
    inputs = {"input0": a, "input1": b}
    reference = PROGRAMS[name][2]
    np.testing.assert_allclose(model.run(inputs)["output0"], reference(a, b), rtol=1e-3)
    ours, peer_seconds = (
        seconds(lambda: model.run(inputs), runs),
        seconds(lambda: reference(a, b), runs),
    )
    return {
        "build_s": built,
        "load_s": loaded,
        "run_ms": ours * 1e3,
        "numpy_ms": peer_seconds * 1e3,
        "ratio": ours / peer_seconds,
        "memory": resident("neff", name, path) / resident("numpy", name, path),
    }


def resident(who: str, name: str, path: Path) -> float:
    """Largest resident memory of a process of its own that runs the program once."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.bench.bench_neff", "--resident", who, name, str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def run_alone(who: str, name: str, path: str) -> None:
    """Run one program and print the largest resident memory."""
    a, b = arrays(name)
    if who == "numpy":
        PROGRAMS[name][2](a, b)
    else:
        from neff.runtime import load

        load(path).run({"input0": a, "input1": b})
    print(peak())


def peak() -> int:
    """Largest resident memory of this process in KiB. Not ``ru_maxrss``: on Linux that begins
    with what the parent had.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0])
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--resident", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.resident:
        run_alone(*options.resident)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        results = {
            (name, target): measure(name, target, Path(folder) / f"{name}.neff", options.runs)
            for name in PROGRAMS
            for target in TARGETS
        }
    if options.json:
        named = {f"{name} {target}": row for (name, target), row in results.items()}
        print(json.dumps({"aims": AIMS, "results": named}, indent=2))
        return 0
    for (name, target), row in results.items():
        print(
            f"{name:8}{target:5}{row['ratio']:6.2f} x NumPy (aim {AIMS[name]:.1f})   "
            f"{row['run_ms']:8.1f} ms   build {row['build_s']:.2f} s   load {row['load_s']:.2f} s   "
            f"memory {row['memory']:.2f} x (aim {AIMS['memory']:.1f})"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
