"""Processor time of NEFFs of whole JAX programs relative to jaxlib's CPU backend in one process.

python scripts/bench/bench_programs.py [--runs 7] [--only NAME] [--json]

Forward passes, training steps, scans and while loops are built for trn2 and run by the runtime;
jaxlib runs the same function. Both have one thread. A figure is the least processor time of
several runs taken in turns, and results are compared. Aims: forward 1.5, training steps 5, scans
and while loops 10.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.bench.execution_programs import PROGRAMS, Case


def statements(body: Any) -> int:
    """Return the number of instructions of a body, each counted once."""
    return sum(statements(entry.body) if hasattr(entry, "body") else 1 for entry in body)


def built(case: Case) -> Callable[[], list[Any]]:
    """Build the NEFF of a case, and return a function that runs it."""
    import jax

    import hlo_tools
    import neff.compiler
    from neff.runtime import load

    lowered = jax.jit(case.function).lower(*case.arguments)
    proto = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    model = load(neff.compile(hlo_tools.load(proto), target="trn2"))
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(case.arguments)]
    inputs = dict(zip(model.inputs, leaves, strict=True))
    return lambda: list(model.run(inputs).values())


def least(functions: tuple[Callable[[], Any], ...], runs: int) -> list[float]:
    """Return the least processor time of each function in milliseconds, taken in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(runs):
        for samples, function in zip(times, functions, strict=True):
            begun, count = time.process_time(), 0
            while (elapsed := time.process_time() - begun) < 0.02 or not count:
                function()
                count += 1
            samples.append(elapsed / count * 1e3)
    return [min(samples) for samples in times]


def measure(case: Case, runs: int) -> dict[str, float]:
    """Return both times and their ratio; check the results."""
    import jax

    ours, jitted = built(case), jax.jit(case.function)

    def run_jaxlib() -> Any:
        return jax.block_until_ready(jitted(*case.arguments))

    for result, expected in zip(ours(), jax.tree.leaves(run_jaxlib()), strict=True):
        np.testing.assert_allclose(
            np.asarray(result, np.float32), np.asarray(expected, np.float32), rtol=2e-3, atol=2e-3
        )
    ours()
    ours_ms, jaxlib_ms = least((ours, run_jaxlib), runs)
    return {
        "ours_ms": round(ours_ms, 3),
        "jaxlib_ms": round(jaxlib_ms, 3),
        "ratio": round(ours_ms / jaxlib_ms, 2),
        "aim": case.aim,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", choices=sorted(PROGRAMS), action="append")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = {}
    for name in options.only or PROGRAMS:
        report[name] = measure(PROGRAMS[name](), options.runs)
        if not options.json:
            row = report[name]
            print(
                f"{name:18} {row['ratio']:6.2f} x jaxlib (aim {row['aim']:4.1f})   "
                f"{row['ours_ms']:9.3f} ms, jaxlib {row['jaxlib_ms']:9.3f} ms",
                flush=True,
            )
    if options.json:
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
