"""CPU time of one launch of a small program, and of a small training step.

python -m scripts.bench launch [--runs 300]

Columns: JAX's own CPU backend, the device with the executors cpu and neff, each in a process of its
own; microseconds of CPU time of the whole process, the least of several rounds. Aims: a launch on
neff at most 120 us, a training step at most 10 times jaxlib's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = {
    "jaxlib": {"JAX_PLATFORMS": "cpu"},
    "cpu": {"JAX_PLATFORMS": "neuron", "NKI_HLO_EXECUTOR": "cpu"},
    "neff": {"JAX_PLATFORMS": "neuron", "NKI_HLO_EXECUTOR": "neff"},
}
_ROUNDS = 8


def _programs() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    import jax
    import jax.numpy as jnp

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ weights[0]) @ weights[1] - y) ** 2)

    def step(weights: Any, x: Any, y: Any) -> Any:
        slopes = jax.grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, slopes)

    x, y = jnp.ones((16, 32)), jnp.ones((16, 8))
    weights = (jnp.ones((32, 64)) / 8, jnp.ones((64, 8)) / 8)
    return {"launch": (lambda x: x + 1, (jnp.ones((8, 8)),)), "step": (step, (weights, x, y))}


def measured(runs: int) -> list[float]:
    """Microseconds of each program in this process."""
    import jax

    times: list[float] = []
    for function, arguments in _programs().values():
        jitted, best = jax.jit(function), float("inf")
        jax.block_until_ready(jitted(*arguments))
        for _ in range(_ROUNDS):
            begun = time.process_time()
            for _ in range(runs):
                result = jitted(*arguments)
            jax.block_until_ready(result)
            best = min(best, (time.process_time() - begun) / runs)
        times.append(best * 1e6)
    return times


def _in_child(column: str, runs: int) -> list[float]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "compat"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | COLUMNS[column] | {"NEURON_RT_NUM_CORES": "1", "PYTHONPATH": path}
    command = [sys.executable, __file__, "--child", "--runs", str(runs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(*measured(options.runs))
        return 0
    columns = {name: _in_child(name, options.runs) for name in COLUMNS}
    for row, name in enumerate(("launch", "step")):
        jaxlib_us = columns["jaxlib"][row]
        cells = [
            f"{column} {us[row]:7.1f} us ({us[row] / jaxlib_us:5.1f}x)"
            for column, us in columns.items()
        ]
        print(f"{name:8}" + "   ".join(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
