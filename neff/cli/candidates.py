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
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt

from hlo_tools.cli.shared.kernel_call import load_kernel, parse_arguments
from hlo_tools.errors import CodedError, HloError
from nki_lang.errors import NkiError
from nki_lang.kernel import Kernel

__all__ = ["Candidate", "Search", "combinations", "search"]

_EXACT, _TOLERANCES = 0.0, {8: 1e-5, 4: 1e-3}
"""Allowed relative difference by bytes of a float; 0.05 for shorter ones."""

Value = int | float | bool | str | None
Parameters = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Search:
    """What is tried.

    Attributes:
        file, kernel: where the kernel is.
        arguments: ``x=bf16[128,512]`` and constants, as given.
        cores: it is launched on so many.
        target: the family, "" for the kernel's own.
        runs: also run each candidate on generated inputs, and compare.
    """

    file: str
    kernel: str
    arguments: tuple[str, ...]
    cores: int = 1
    target: str = ""
    runs: bool = True


@dataclass(slots=True)
class Candidate:
    """One combination of parameters and what became of it.

    Attributes:
        parameters: (name, value) of each.
        target: the family that it was compiled for.
        total_us, low_us, high_us: estimated.
        sbuf_bytes: up to the highest address, of one partition.
        difference: largest difference to the first candidate's results, relative to their largest
            value; None when not compared.
        differs: it is more than rounding explains.
        error: why there is no estimate, "" when there is one.
    """

    parameters: Parameters
    target: str = ""
    total_us: float = 0.0
    low_us: float = 0.0
    high_us: float = 0.0
    sbuf_bytes: int = 0
    difference: float | None = None
    differs: bool = False
    error: str = ""
    results: list[Path] = field(default_factory=list[Path], repr=False)

    @property
    def name(self) -> str:
        """``TILE=128 BUFFERS=2``."""
        return " ".join(f"{name}={value}" for name, value in self.parameters)


def combinations(parameters: Mapping[str, Sequence[Value]]) -> list[Parameters]:
    """Every combination, the last parameter changing fastest."""
    names = list(parameters)
    return [
        tuple(zip(names, values, strict=True)) for values in itertools.product(*parameters.values())
    ]


def search(given: Search, combined: Sequence[Parameters], jobs: int) -> list[Candidate]:
    """Try every combination; those that can be used first, the fastest in front.

    Raises:
        HloError: the file or the kernel is not there, or has no such parameter.
        typer.BadParameter: an argument is not NAME=VALUE, or has an unknown type.
    """
    _check_names(given, combined[0])
    parse_arguments(list(given.arguments))
    with TemporaryDirectory(prefix="nki-hlo-") as folder:
        candidates = list(_tried(given, combined, jobs, Path(folder)))
        reference = next((one for one in candidates if not one.error), None)
        for candidate in candidates:
            if reference is not None and not candidate.error and given.runs:
                _compare(reference, candidate)
    return sorted(candidates, key=lambda one: (bool(one.error), one.differs, one.total_us))


def _check_names(given: Search, parameters: Parameters) -> None:
    kernel = load_kernel(given.file, given.kernel)
    known = inspect.signature(kernel.func).parameters
    for name, _ in parameters:
        if name not in known and name not in kernel.func.__globals__:
            raise HloError(
                f"{given.kernel} has no parameter {name!r}, and its file no such constant",
                code="HLO-ARGUMENT",
                place=given.file,
                remedy=f"its parameters are {', '.join(known)}",
            )


def _tried(
    given: Search, combined: Sequence[Parameters], jobs: int, folder: Path
) -> Iterator[Candidate]:
    folders = [folder / str(number) for number in range(len(combined))]
    if jobs == 1:
        yield from (_try(given, one, at) for one, at in zip(combined, folders, strict=True))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(combined)), context) as pool:
        futures = [
            pool.submit(_try, given, one, at) for one, at in zip(combined, folders, strict=True)
        ]
        for parameters, future in zip(combined, futures, strict=True):
            yield _outcome(parameters, future)


def _outcome(parameters: Parameters, future: Future[Candidate]) -> Candidate:
    try:
        return future.result()
    except Exception as error:  # a process that was killed
        return Candidate(parameters, error=f"its process ended: {error or type(error).__name__}")


def _try(given: Search, parameters: Parameters, folder: Path) -> Candidate:
    """Estimate one candidate; whatever its kernel raises is what became of it."""
    candidate = Candidate(parameters)
    warnings.simplefilter("ignore")
    try:
        _estimate(given, candidate, folder)
    except (CodedError, NkiError) as error:
        place = getattr(error, "place", "") or getattr(error, "location", None) or ""
        candidate.error = f"[{error.code}] {error.message}" + (f" ({place})" if place else "")
    except Exception as error:  # the kernel's own assertions, say
        candidate.error = f"{type(error).__name__}: {error}"
    return candidate


def _estimate(given: Search, candidate: Candidate, folder: Path) -> None:
    from neff.compiler import compile_kernel
    from neff.profile.budgets import sbuf_peak
    from neff.runtime import load
    from neff.runtime.trips import trips_of
    from neff.timing import estimate

    kernel = load_kernel(given.file, given.kernel)
    values = parse_arguments(list(given.arguments)) | _applied(kernel, candidate.parameters)
    launched = kernel[given.cores] if given.cores > 1 else kernel
    program = compile_kernel(launched.trace((), values, target=given.target or None))
    inputs = dict(zip(program.inputs, kernel.arrays((), values), strict=True))
    total = estimate(program, trips=trips_of(program, inputs)).total
    candidate.target = program.target
    candidate.total_us, candidate.low_us, candidate.high_us = (each / 1e3 for each in total)
    candidate.sbuf_bytes = sbuf_peak(program)[0]
    if given.runs:
        outputs = load(program).run(inputs)
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


def _compare(reference: Candidate, candidate: Candidate) -> None:
    """Set the difference of a candidate's results to the reference's."""
    candidate.difference, candidate.differs = 0.0, len(reference.results) != len(candidate.results)
    for left, right in zip(reference.results, candidate.results, strict=False):
        expected, found = np.load(left), np.load(right)
        if expected.shape != found.shape or left.name != right.name:
            candidate.differs = True
            continue
        difference = _difference(expected, found)
        is_float = expected.dtype.kind in "fc"
        size = int(left.stem.rpartition("-")[2])
        allowed = _TOLERANCES.get(size, 0.05) if is_float else _EXACT
        candidate.difference = max(candidate.difference, difference)
        candidate.differs |= difference > allowed


def _difference(expected: npt.NDArray[np.generic], found: npt.NDArray[np.generic]) -> float:
    """Largest difference, relative to the largest value; infinite where only one is NaN."""
    wide, other = expected.astype(np.float64), found.astype(np.float64)
    same = (wide == other) | (np.isnan(wide) & np.isnan(other))
    if same.all():
        return 0.0
    finite = np.abs(wide[np.isfinite(wide)])
    with np.errstate(invalid="ignore"):
        apart = float(np.abs(np.where(same, 0.0, wide - other)).max())
    return (
        apart / float(finite.max() or 1.0) if np.isfinite(apart) and finite.size else float("inf")
    )
