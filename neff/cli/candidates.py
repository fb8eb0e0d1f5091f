"""Variants of a kernel: each traced, compiled, estimated and run in a process of its own."""

from __future__ import annotations

import inspect
import itertools
import multiprocessing
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from hlo_tools.cli.shared.kernel_call import load_kernel, parse_arguments
from hlo_tools.errors import CodedError, HloError
from nki_lang.kernel import Kernel

__all__ = ["Candidate", "Parameters", "Search", "Status", "Value", "combinations", "tried"]

Value = int | float | bool | str | None
Parameters = tuple[tuple[str, Value], ...]
Status = Literal["correct", "fits", "differs", "disagrees", "unwritten", "failed"]


@dataclass(frozen=True, slots=True)
class Search:
    """The candidates to try.

    Attributes:
        file, kernel: where the kernel is.
        arguments: ``x=bf16[128,512]`` and constants, as search.
        cores: it is launched on so many.
        target: the family, "" for the kernel's own.
        runs: also run each candidate on generated inputs, and compare.
        reference: ``FILE.py:NAME`` of a function that computes the results with NumPy, "" for none.
        seed: of the generated tensors.
    """

    file: str
    kernel: str
    arguments: tuple[str, ...]
    cores: int = 1
    target: str = ""
    runs: bool = True
    reference: str = ""
    seed: int = 0


@dataclass(slots=True)
class Candidate:
    """One combination of parameters and what became of it.

    Attributes:
        parameters: (name, value) of each.
        target: the family that it was compiled for.
        total_us, low_us, high_us: estimated.
        sbuf_bytes: up to the highest address, of one partition.
        unwritten: elements of its results that it leaves unwritten.
        difference: largest difference to the results of the reference, or of the first candidate,
            relative to their largest value; None when not compared.
        status: ``correct`` (equals the reference), ``fits`` (without a reference: equals every
            candidate that writes its results), ``differs`` (from the reference), ``disagrees`` (without
            a reference: candidates differ), ``unwritten`` or ``failed``.
        error: why there is no estimate, "" when there is one.
    """

    parameters: Parameters
    target: str = ""
    total_us: float = 0.0
    low_us: float = 0.0
    high_us: float = 0.0
    sbuf_bytes: int = 0
    unwritten: int = 0
    difference: float | None = None
    status: Status = "fits"
    error: str = ""
    results: list[Path] = field(default_factory=list[Path], repr=False)

    @property
    def name(self) -> str:
        """``TILE=128 BUFFERS=2``."""
        return " ".join(f"{name}={value}" for name, value in self.parameters)

    @property
    def usable(self) -> bool:
        """Return True if nothing shows that its results are wrong."""
        return self.status in ("correct", "fits")


def combinations(parameters: Mapping[str, Sequence[Value]]) -> list[Parameters]:
    """Every combination, the last parameter changing fastest."""
    names = list(parameters)
    return [
        tuple(zip(names, values, strict=True)) for values in itertools.product(*parameters.values())
    ]


def tried(
    search: Search, combined: Sequence[Parameters], jobs: int, folder: Path
) -> list[Candidate]:
    """Estimate and run every combination; results are files in ``folder``.

    Raises:
        HloError: the file or the kernel is not there, or has no such parameter.
        typer.BadParameter: an argument is not NAME=VALUE, or has an unknown type.
    """
    _check_names(search, combined[0])
    parse_arguments(list(search.arguments))
    candidates = list(_tried(search, combined, jobs, folder))
    for candidate in candidates:
        if candidate.error:
            candidate.status = "failed"
        elif candidate.unwritten:
            candidate.status = "unwritten"
    return candidates


def _check_names(search: Search, parameters: Parameters) -> None:
    kernel = load_kernel(search.file, search.kernel)
    kernel_parameters = inspect.signature(kernel.func).parameters
    for name, _ in parameters:
        if name not in kernel_parameters and name not in kernel.func.__globals__:
            raise HloError(
                f"{search.kernel} has no parameter {name!r}, and its file no such constant",
                code="HLO-ARGUMENT",
                place=search.file,
                remedy=f"its parameters are {', '.join(kernel_parameters)}",
            )


def _tried(
    search: Search, combined: Sequence[Parameters], jobs: int, folder: Path
) -> Iterator[Candidate]:
    folders = [folder / str(number) for number in range(len(combined))]
    if jobs == 1:
        yield from (
            _try(search, candidate, folder)
            for candidate, folder in zip(combined, folders, strict=True)
        )
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(combined)), context) as pool:
        futures = [
            pool.submit(_try, search, candidate, folder)
            for candidate, folder in zip(combined, folders, strict=True)
        ]
        for parameters, future in zip(combined, futures, strict=True):
            yield _outcome(parameters, future)


def _outcome(parameters: Parameters, future: Future[Candidate]) -> Candidate:
    try:
        return future.result()
    except Exception as error:  # a process that was killed
        return Candidate(parameters, error=f"its process ended: {error or type(error).__name__}")


def _try(search: Search, parameters: Parameters, folder: Path) -> Candidate:
    """Estimate one candidate; whatever its kernel raises is what became of it."""
    candidate = Candidate(parameters)
    warnings.simplefilter("ignore")
    try:
        _estimate(search, candidate, folder)
    except CodedError as error:
        candidate.error = f"[{error.code}] {error.message}" + (
            f" ({error.place})" if error.place else ""
        )
    except Exception as error:  # the kernel's own assertions, say
        candidate.error = f"{type(error).__name__}: {error}"
    return candidate


def _estimate(search: Search, candidate: Candidate, folder: Path) -> None:
    from neff.compiler import compile_kernel
    from neff.profile.budgets import sbuf_peak
    from neff.runtime import load
    from neff.runtime.trips import trips_of
    from neff.timing import estimate

    kernel = load_kernel(search.file, search.kernel)
    values: dict[str, object] = {
        **parse_arguments(list(search.arguments), seed=search.seed),
        **_applied(kernel, candidate.parameters),
    }
    launched = kernel[search.cores] if search.cores > 1 else kernel
    program = compile_kernel(launched.trace((), values, target=search.target or None))
    inputs = dict(zip(program.inputs, kernel.arrays((), values), strict=True))
    total = estimate(program, trips=trips_of(program, inputs)).total
    candidate.target = program.target
    candidate.total_us, candidate.low_us, candidate.high_us = (
        nanoseconds / 1e3 for nanoseconds in total
    )
    candidate.sbuf_bytes = sbuf_peak(program)[0]
    if search.runs:
        outputs, unwritten = load(program).run_checked(inputs)
        candidate.unwritten = sum(unwritten.values())
        candidate.results = [_kept(array, folder, name) for name, array in outputs.items()]


def _applied(kernel: Kernel, parameters: Parameters) -> dict[str, Value]:
    """Arguments among the parameters; constants of the file are set in it."""
    arguments = inspect.signature(kernel.func).parameters
    for name, value in parameters:
        if name not in arguments:
            kernel.func.__globals__[name] = value
    return {name: value for name, value in parameters if name in arguments}


def _kept(array: npt.NDArray[np.generic], folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{len(list(folder.iterdir()))}-{array.dtype.itemsize}.npy"
    wide = array if array.dtype.kind in "biufc" else array.astype(np.float32)
    np.save(path, wide, allow_pickle=False)
    return path
