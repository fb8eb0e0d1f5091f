"""``nki.benchmark`` and ``nki.profile`` as NKI had them before 0.2, by the timing model.

A decorated kernel is called with arrays as any other and returns its results. Afterwards its
``benchmark_result.nc_latency.get_latency_percentile(50)`` is the estimated latency in
microseconds; there is no spread, so all percentiles are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from neff.compiler import compile_kernel
from neff.container import write
from neff.errors import NeffError
from neff.profile import ProfileReport
from neff.runtime.kernel_estimates import profile_report
from nki_lang.base.dtypes import dtype_of
from nki_lang.kernel import Kernel, jit, trace
from nki_lang.tracing.arguments import TensorSpec

__all__ = ["BenchmarkResult", "BenchmarkedKernel", "Latency", "benchmark", "profile"]

_PERCENTILES = (0, 1, 10, 25, 50, 90, 99, 100)


@dataclass(frozen=True, slots=True)
class Latency:
    """Estimated latency of one core: body and launch, with the range of the model.

    Attributes:
        microseconds, low, high: the estimate and its range.
    """

    microseconds: float
    low: float
    high: float

    def get_latency_percentile(self, percentile: int) -> float:
        """Microseconds, estimated.

        Raises:
            ValueError: not one of 0, 1, 10, 25, 50, 90, 99, 100.
        """
        if percentile not in _PERCENTILES:
            allowed = ", ".join(str(percentile) for percentile in _PERCENTILES)
            raise ValueError(f"there is no percentile {percentile!r}; there are {allowed}")
        return self.microseconds

    def __repr__(self) -> str:
        return f"Latency({self.microseconds:.1f} µs, {self.low:.1f}–{self.high:.1f}, estimated)"


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """The result of a benchmark; all of it is estimated."""

    nc_latency: Latency


@dataclass(frozen=True, slots=True)
class _Artifacts:
    """Where a call leaves its files; "" for none."""

    folder: Path
    neff: str = ""
    trace: str = ""
    overwrite: bool = True


class BenchmarkedKernel:
    """A kernel that is estimated whenever it is called.

    Attributes:
        benchmark_result: of the last call, None before.
        report: the profile of the last call, None before.
    """

    def __init__(self, kernel: Kernel, artifacts: _Artifacts) -> None:
        self._kernel, self._artifacts = kernel, artifacts
        self.benchmark_result: BenchmarkResult | None = None
        self.report: ProfileReport | None = None

    def __getitem__(self, grid: object) -> BenchmarkedKernel:
        return BenchmarkedKernel(self._kernel[grid], self._artifacts)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Estimate the kernel for these arguments, then run it.

        Nothing runs, and the result is None, if an argument is a ``TensorSpec``
        (``nt.tensor[[128, 512], nl.float32]`` of beta 1); the estimate takes zeros for it.
        """
        has_values = not any(isinstance(v, TensorSpec) for v in (*args, *kwargs.values()))
        args = tuple(map(_zeros_of, args))
        kwargs = {name: _zeros_of(value) for name, value in kwargs.items()}
        kernel = trace(self._kernel, args, kwargs)
        arrays = self._kernel.arrays(args, kwargs)
        self.report = profile_report(kernel, arrays, statistic="nc-latency")
        total = self.report.estimate.total
        latency = Latency(total.value / 1e3, total.low / 1e3, total.high / 1e3)
        self.benchmark_result = BenchmarkResult(latency)
        artifacts = self._artifacts
        if artifacts.neff:
            write(compile_kernel(kernel), _free(artifacts, artifacts.neff))
        if artifacts.trace:
            target = _free(artifacts, artifacts.trace)
            self.report.write(target.with_suffix(".profile"))
        return self._kernel(*args, **kwargs) if has_values else None


def _zeros_of(value: object) -> object:
    """Return an array of zeros for the description of a tensor, any other value as it is."""
    if not isinstance(value, TensorSpec):
        return value
    return np.zeros(value.shape, dtype_of(value.dtype).dtype)


def _free(artifacts: _Artifacts, name: str) -> Path:
    path = artifacts.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not artifacts.overwrite:
        raise NeffError(
            "the file is there already",
            code="NEFF-WRITE",
            place=str(path),
            remedy="remove it, or pass overwrite=True",
        )
    return path


def benchmark(
    kernel: Callable[..., object] | None = None, *, warmup: int = 10, iters: int = 100,
    device_count: int = 1, save_neff_name: str = "", save_trace_name: str = "",
    additional_compile_opt: str = "",
) -> BenchmarkedKernel | Callable[[Callable[..., object]], BenchmarkedKernel]:  # fmt: skip
    """Decorate a kernel so that calls estimate its latency.

    Args:
        kernel: the function.
        warmup, iters, device_count, additional_compile_opt: accepted; an estimate needs no
            repetition.
        save_neff_name: a file for the NEFF of each call.
        save_trace_name: ``x.ntff`` leaves the documents of ``nki-neff profile`` in ``x.profile``,
            the NTFF format not being public.
    """
    del warmup, iters, device_count, additional_compile_opt
    artifacts = _Artifacts(Path(), save_neff_name, save_trace_name)
    return _decorated(kernel, artifacts)


def profile(
    func: Callable[..., object] | None = None, *, working_directory: str,
    save_neff_name: str = "file.neff", save_trace_name: str = "profile.ntff",
    additional_compile_opt: str = "", overwrite: bool = False, profile_nth: int = 1,
) -> BenchmarkedKernel | Callable[[Callable[..., object]], BenchmarkedKernel]:  # fmt: skip
    """Decorate a kernel so that calls leave its NEFF and its estimated profile in a folder.

    Args:
        func: the function.
        working_directory: an absolute path.
        save_neff_name, save_trace_name: as for :func:`benchmark`.
        overwrite: replace what an earlier call left.
        additional_compile_opt, profile_nth: accepted; every execution takes as long.

    Raises:
        ValueError: the path is not absolute.
    """
    del additional_compile_opt, profile_nth
    folder = Path(working_directory)
    if not folder.is_absolute():
        raise ValueError(f"working_directory is {working_directory!r}; pass an absolute path")
    return _decorated(func, _Artifacts(folder, save_neff_name, save_trace_name, overwrite))


def _decorated(
    func: Callable[..., object] | None, artifacts: _Artifacts
) -> BenchmarkedKernel | Callable[[Callable[..., object]], BenchmarkedKernel]:
    def decorate(kernel: Callable[..., object]) -> BenchmarkedKernel:
        return BenchmarkedKernel(kernel if isinstance(kernel, Kernel) else jit(kernel), artifacts)

    return decorate if func is None else decorate(func)
