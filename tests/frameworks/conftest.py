"""Each test gets a kernel cache of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from hlo_tools.frameworks import clear_cache
from hlo_tools.kernels import calls as kernels

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_torch*.py"]


@pytest.fixture(autouse=True)
def kernel_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that NKI_HLO_CACHE names; nothing remembered from other tests."""
    folder = tmp_path / "kernel-cache"
    monkeypatch.setenv("NKI_HLO_CACHE", str(folder))
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    clear_cache()
    kernels.clear_cache()
    return folder


@pytest.fixture
def start_script(
    tmp_path: Path, python_environment: dict[str, str]
) -> Callable[..., subprocess.Popen[str]]:
    """Start a script in a fresh interpreter: ``start_script(source, VARIABLE="value")``."""

    def start(source: str, **environment: str) -> subprocess.Popen[str]:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(source))
        paths = [python_environment["PYTHONPATH"], str(Path(__file__).parent)]
        return subprocess.Popen(
            [sys.executable, str(script)],
            env={
                **python_environment,
                "NKI_HLO_CACHE": str(tmp_path / "kernel-cache"),
                "PYTHONPATH": os.pathsep.join(paths),
                **environment,
            },
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture
def run_script(
    start_script: Callable[..., subprocess.Popen[str]],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a script in a fresh interpreter to its end."""

    def run(source: str, **environment: str) -> subprocess.CompletedProcess[str]:
        child = start_script(source, **environment)
        try:
            out, err = child.communicate(timeout=600)
        finally:
            child.kill()
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)

    return run
