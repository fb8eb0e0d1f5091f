"""Time of the eager interpreter relative to a hand-written loop of one NumPy call per instruction.

python -m scripts.bench eager [--runs 9] [--json]
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.execute.checks import DEFAULT_CHECKS
from nki_lang.kernel import jit, simulate


@jit
def add(a: Any, b: Any, columns: int) -> Any:
    """Element-wise sum in tiles of 128 rows."""
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for row in range(0, a.shape[0], 128):
        for column in range(0, a.shape[1], columns):
            x = nl.ndarray((128, columns), dtype=a.dtype, buffer=nl.sbuf)
            y = nl.ndarray((128, columns), dtype=a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=x, src=a[row : row + 128, column : column + columns])
            nisa.dma_copy(dst=y, src=b[row : row + 128, column : column + columns])
            nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
            nisa.dma_copy(dst=out[row : row + 128, column : column + columns], src=x)
    return out


def by_hand(a: Any, b: Any, columns: int) -> Any:
    """The same calls without the language."""
    out = np.empty_like(a)
    for row in range(0, a.shape[0], 128):
        for column in range(0, a.shape[1], columns):
            piece = np.s_[row : row + 128, column : column + columns]
            x, y = np.empty((128, columns), a.dtype), np.empty((128, columns), a.dtype)
            np.copyto(x, a[piece])
            np.copyto(y, b[piece])
            np.add(x, y, out=x)
            np.copyto(out[piece], x)
    return out


def best(functions: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Least processor time of each in milliseconds, taken in turns.

    Other processes on the machine only ever add to it.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(runs):
        for name, function in functions.items():
            begin = time.process_time()
            function()
            times[name].append((time.process_time() - begin) * 1e3)
    return {name: min(samples) for name, samples in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    a, b = (np.random.default_rng(s).standard_normal((2048, 8192), np.float32) for s in (0, 1))
    plain, checked = simulate(add, checks=()), simulate(add, checks=DEFAULT_CHECKS)
    report: dict[str, Any] = {}
    for columns in (512, 2048, 8192):
        instructions = 4 * (2048 // 128) * (8192 // columns)
        times = best(
            {
                "by_hand": lambda columns=columns: by_hand(a, b, columns),
                "trace": lambda columns=columns: add.trace((a, b, columns)),
                "simulate": lambda columns=columns: plain(a, b, columns),
                "checked": lambda columns=columns: checked(a, b, columns),
            },
            options.runs,
        )
        report[f"tiles_128x{columns}"] = {
            "instructions": instructions,
            "simulate_to_hand": round(times["simulate"] / times["by_hand"], 2),
            "checks_to_simulate": round(times["checked"] / times["simulate"], 2),
            "us_per_instruction": round(times["simulate"] / instructions * 1e3, 1),
            "trace_us_per_instruction": round(times["trace"] / instructions * 1e3, 1),
        }
    if options.json:
        print(json.dumps(report, indent=1))
        return
    for name, value in report.items():
        print(f"{name:18} {value}")


if __name__ == "__main__":
    main()
