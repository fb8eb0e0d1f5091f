"""The same module run by jaxlib, as a second opinion."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hlo_tools.evaluate.arguments import arrays_of
from hlo_tools.evaluate.jaxlib_child import read_arrays, write_arrays
from hlo_tools.evaluate.values import EvaluationError
from hlo_tools.module import Module

__all__ = ["is_available", "run_with_jaxlib", "without_tuples"]

_SECONDS = 600


def is_available() -> bool:
    """Whether jaxlib is installed."""
    return importlib.util.find_spec("jaxlib") is not None


def run_with_jaxlib(module: Module, inputs: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """The arrays of the module's result from XLA's CPU backend, in a process of its own.

    Raises:
        EvaluationError: code ``HLO-JAXLIB``; jaxlib is missing, refuses the module or dies of it.
    """
    if not is_available():
        raise EvaluationError(
            "jaxlib is not installed", code="HLO-JAXLIB", remedy="pip install 'nki-hlo[jax]'"
        )
    with tempfile.TemporaryDirectory(prefix="nki-hlo-") as name:
        folder = Path(name)
        data, arrays = without_tuples(module, inputs)
        (folder / "module.pb").write_bytes(data)
        write_arrays(folder, "in", arrays)
        parts = [shape for _, shape in module.entry.root.shape.leaves()]
        tokens = [str(number) for number, shape in enumerate(parts) if not shape.is_array]
        command = [sys.executable, "-m", "hlo_tools.evaluate.jaxlib_child", name, *tokens]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise EvaluationError(
                f"jaxlib did not end within {_SECONDS} s", code="HLO-JAXLIB"
            ) from error
        if done.returncode:
            raise EvaluationError(
                f"jaxlib does not run the module: {_reason(done)}", code="HLO-JAXLIB"
            )
        return read_arrays(folder, "out")


def without_tuples(module: Module, inputs: Sequence[Any]) -> tuple[bytes, list[Any]]:
    """The module and its inputs with arrays for parameters: jaxlib takes no tuples."""
    if not any(parameter.shape.is_tuple for parameter in module.entry.parameters):
        return module.module_bytes(), arrays_of(inputs)
    from hlo_tools.loading import load
    from hlo_tools.passes.tuple_flattening import TupleFlattening

    flat = load(module.module_bytes())
    TupleFlattening(results=False).run(flat)
    return flat.module_bytes(), arrays_of(inputs)


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode < 0:
        return f"it died of signal {-done.returncode}"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"exit code {done.returncode}"
