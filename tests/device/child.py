"""Programs run in a process of their own: a device is made once in a process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_ASKING = (
    "NKI_HLO_DEVICE", "NEURON_EXTRACT_GRAPHS_ONLY", "NEURON_PLATFORM_TARGET_OVERRIDE",
    "NEURON_COMPILE_CACHE_URL", "NEURON_CC_FLAGS", "NEURON_RT_NUM_CORES",
    "NEURON_RT_VISIBLE_CORES", "PJRT_DEVICE", "JAX_PLATFORMS", "NKI_HLO_EXECUTOR",
)  # fmt: skip


def run_child(
    code: str, *, timeout: float = 600, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python code with the checkout on the path, the compatible names at its end."""
    environment = {key: value for key, value in os.environ.items() if key not in _ASKING}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "compat")])
    environment |= variables
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=timeout,
    )


def check_child(code: str, **variables: str) -> str:
    """Run code that must succeed; what it printed."""
    done = run_child(code, **variables)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
