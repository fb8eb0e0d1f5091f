"""A process that runs kernels: results as Python's numbers, or what was raised."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes
import numpy as np

from tests.fuzz.drivers.children import serve
from tests.fuzz.drivers.kernels.ways import WAYS, Call, load_source

__all__ = ["RUNS", "serve_runs"]

Given = list[tuple[list[float], tuple[int, ...], str]]


def _array(values: list[float], shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    plain = np.array(values, np.int64 if kind.kind in "iu" else np.float64)
    return plain.astype(kind).reshape(shape)


def _numbers(array: np.ndarray[Any, Any]) -> list[float]:
    return array.reshape(-1).astype(np.int64 if array.dtype.kind in "iu" else np.float64).tolist()


def _simulated(kernel: Any, arrays: list[Any]) -> dict[str, Any]:
    import nki

    run: Any = nki.simulate(kernel, checks=())
    results = run(*arrays)
    unwritten = {warning.details["tensor"]: warning.details["unwritten"] for warning in run.report
                 if warning.code == "NKI-UNWRITTEN"}  # fmt: skip
    return {"results": list(results), "unwritten": unwritten}


def _way(name: str, kernel: Any, arrays: list[Any]) -> dict[str, Any]:
    results = WAYS[name].make(kernel)(Call(arrays, {}))
    return {"results": results[: len(results) - len(arrays)]}


RUNS: Mapping[str, str] = {"simulate": "", "direct": "direct", "neff": "neff", "klir": "klir"}
"""Ways by name, with the row of :data:`kernels.ways.WAYS` that runs them."""


def _answer(source: str, inputs: Given, name: str, folder: Path) -> dict[str, Any]:
    kernel = load_source(source, folder)
    arrays = [_array(*spec) for spec in inputs]
    answer = _way(RUNS[name], kernel, arrays) if RUNS[name] else _simulated(kernel, arrays)
    answer["results"] = [_numbers(np.asarray(result)) for result in answer["results"]]
    return answer


def serve_runs() -> None:
    """Answer (source, arguments, way) until there are no more."""
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as folder, np.errstate(all="ignore"):
        os.environ["NKI_HLO_CACHE"] = str(Path(folder) / "cache")
        serve(lambda request: _answer(*request, Path(folder)), valid=True)
