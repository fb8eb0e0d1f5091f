"""Time of the simulator's checks: each, the default ones and all, relative to ``checks=()``.

python -m scripts.bench checks [--nki-library CHECKOUT] [--runs 7] [--json]

Kernels are a sum in tiles and, with a checkout of nki-library, its mixture of experts on two cores
(docs/published-kernels.md).
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import copy
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nki_lang.execute.checks import CHECKS
from nki_lang.kernel import simulate
from scripts.bench.bench_eager import add, best

FAULTS = tuple(name for name in CHECKS if name != "precision")
"""The checks that ``nki-hlo check`` runs without ``--checks``."""


def kernels(library: Path | None) -> Iterator[tuple[str, Any, tuple[Any, ...], dict[str, Any]]]:
    """Name, kernel, arguments."""
    x = np.random.default_rng(0).standard_normal((2048, 8192), np.float32)
    yield "add", add, (x, x + 1, 512), {}
    if library is None:
        return
    from tests.suites.published.library import library as published

    for case in published(library):
        if case.name == "blockwise_mm":
            yield case.name, case.kernel[2], case.args, case.kwargs


def _runs(
    kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Callable[[], Any]]:
    """The kernel with each set of checks, on arguments of its own."""
    chosen: dict[str, Any] = {"none": (), "default": None, "faults": FAULTS}
    chosen |= {name: (name,) for name in FAULTS}

    def run(checks: Any) -> Callable[[], Any]:
        simulation = simulate(kernel, checks=checks)
        copied_args, named = copy.deepcopy((args, kwargs))
        return lambda: simulation(*copied_args, **named)

    return {name: run(checks) for name, checks in chosen.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nki-library", type=Path, help="checkout of nki-library")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    report: dict[str, Any] = {}
    for name, kernel, args, kwargs in kernels(options.nki_library):
        times = best(_runs(kernel, args, kwargs), options.runs)
        ratios = {key: round(times[key] / times["none"], 2) for key in times if key != "none"}
        report[name] = {"ms": round(times["none"], 1), **ratios}
        if not options.json:
            print(f"{name:18} {report[name]}", flush=True)
    if options.json:
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
