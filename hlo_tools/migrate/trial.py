"""Runs kernels of a file on given arguments, in a process of its own: one half of a proof.

:mod:`hlo_tools.migrate.proof` starts :func:`main` with two files that it writes and reads in a folder
of its own.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path

import numpy as np

from hlo_tools.extract.python_file import import_file
from nki_lang.beta1.kernel import Beta1Kernel
from nki_lang.beta1.values import Value
from nki_lang.frontend.objects import is_mapping, is_sequence
from nki_lang.kernel import Kernel, simulate

__all__ = ["MODES", "Request", "Trial", "is_array", "main"]

MODES = ("simulate", "neff")
"""Ways in which each call runs."""


@dataclass(frozen=True, slots=True)
class Request:
    """Calls to run.

    Attributes:
        files: the Python files, which have the same kernels.
        calls: for each call the kernel's name, the launch grid, arguments, and arguments by name.
    """

    files: tuple[str, ...]
    calls: tuple[tuple[str, tuple[int, ...], tuple[Value, ...], Mapping[str, Value]], ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """The results of one call.

    Attributes:
        results: by mode, every array that the kernel returned or wrote.
        time_ns: the estimated time; None if there is none.
        error: why the call could not run, or "".
    """

    results: Mapping[str, tuple[Value, ...]]
    time_ns: float | None = None
    error: str = ""


def main(words: list[str]) -> int:
    """Run the calls of a request."""
    request: Request = pickle.loads(Path(words[0]).read_bytes())
    trials = [_trials(file, request) for file in request.files]
    Path(words[1]).write_bytes(pickle.dumps(trials))
    return 0


def _trials(file: str, request: Request) -> list[Trial]:
    sys.modules.pop(Path(file).stem, None)
    try:
        module = import_file(file)
    except Exception as error:
        return [Trial({}, None, _message(error)) for _ in request.calls]
    return [_tried(vars(module), *call) for call in request.calls]


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip()}"


def _tried(
    names: Mapping[str, Value], name: str, grid: tuple[int, ...],
    args: tuple[Value, ...], kwargs: Mapping[str, Value],
) -> Trial:  # fmt: skip
    kernel = names.get(name)
    if not callable(kernel):
        return Trial({}, None, f"the file has no kernel {name!r} at its top level")
    try:
        if not isinstance(kernel, Kernel):
            kernel = Kernel(kernel)
        if isinstance(kernel, Beta1Kernel):
            kernel = Beta1Kernel(
                kernel.func, target=kernel.target
            )  # mode="simulation" would not run the NEFF
            kernel = kernel[grid] if grid else kernel
        elif grid and "grid" in signature(kernel.func).parameters:
            kwargs = {**kwargs, "grid": grid}
        elif grid:
            kernel = kernel[grid]
        results = {mode: _run(kernel, mode, args, kwargs) for mode in MODES}
        report = kernel.profile(*args, **kwargs)
        return Trial(results, float(report.estimate.total.value))
    except Exception as error:
        return Trial({}, None, _message(error))


def _run(
    kernel: Value, mode: str, args: tuple[Value, ...], kwargs: Mapping[str, Value]
) -> tuple[Value, ...]:
    copies = pickle.loads(pickle.dumps((args, dict(kwargs))))
    run = simulate(kernel, checks=()) if mode == "simulate" else kernel
    returned = run(*copies[0], **copies[1])
    return (*_arrays(returned), *_arrays(copies))


def is_array(value: Value) -> bool:
    """Return True for an array of NumPy."""
    return isinstance(value, np.ndarray)


def _arrays(value: Value) -> list[Value]:
    """Return every array in a value, in order."""
    if is_array(value):
        return [value]
    if is_mapping(value):
        return [array for entry in value.values() for array in _arrays(entry)]
    if is_sequence(value):
        return [array for entry in value for array in _arrays(entry)]
    return []
