"""Timing a model again and again."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from neff.program import Program
from neff.runtime.nrt.device import Device
from neff.runtime.trips import trips_of
from neff.timing import estimate

__all__ = ["BenchmarkResult", "TraceSession", "estimated", "host_times", "summarise"]


@dataclass
class BenchmarkResult:
    """Statistics over the timed iterations; the deviation is that of the population.

    ``estimated`` is False for times that the host took; for the device's it is True, and ``low_ms``
    and ``high_ms`` are the range of the model.
    """

    mean_ms: float
    min_ms: float
    max_ms: float
    std_dev_ms: float
    iterations: int
    warmup_iterations: int
    durations_ms: list[float] = field(default_factory=list[float])
    estimated: bool = False
    low_ms: float = math.nan
    high_ms: float = math.nan

    def __repr__(self) -> str:
        range_ = f", estimated {self.low_ms:.4f}–{self.high_ms:.4f}ms" if self.estimated else ""
        return (
            f"BenchmarkResult(mean={self.mean_ms:.4f}ms, min={self.min_ms:.4f}ms, "
            f"max={self.max_ms:.4f}ms, std_dev={self.std_dev_ms:.4f}ms, "
            f"iterations={self.iterations}, warmup_iterations={self.warmup_iterations}{range_})"
        )


def summarise(durations_ms: list[float], warmup_iterations: int) -> BenchmarkResult:
    """The statistics of durations (at least one)."""
    count = len(durations_ms)
    mean = math.fsum(durations_ms) / count
    variance = math.fsum((duration - mean) ** 2 for duration in durations_ms) / count
    return BenchmarkResult(
        mean,
        min(durations_ms),
        max(durations_ms),
        math.sqrt(variance),
        count,
        warmup_iterations,
        list(durations_ms),
    )


def host_times(run: Callable[[], object], warmup: int, iterations: int) -> list[float]:
    """Milliseconds of each of ``iterations`` runs, after ``warmup`` untimed ones."""
    for _ in range(warmup):
        run()
    durations: list[float] = []
    for _ in range(iterations):
        start = time.perf_counter()
        run()
        durations.append((time.perf_counter() - start) * 1000.0)
    return durations


def estimated(
    program: Program, arrays: Mapping[str, object], warmup: int, iterations: int
) -> BenchmarkResult:
    """Return the durations by the timing model: all iterations are equal."""
    trips = trips_of(program, arrays)
    value, low, high = estimate(program, statistic="benchmark", trips=trips).total
    result = summarise([value / 1e6] * iterations, warmup)
    result.estimated, result.low_ms, result.high_ms = True, low / 1e6, high / 1e6
    return result


class TraceSession:
    """Records when executions start and stop, by the host's clock.

    Args:
        device: the runtime to listen to.
        error: makes the front package's error.
    """

    def __init__(self, device: Device, error: Callable[..., Exception]) -> None:
        self._device, self._error = device, error
        self._events: list[dict[str, Any]] = []
        self._started = True
        device.listen(self._events)

    def stop(self) -> None:
        """Record nothing more; again is fine."""
        self._started = False
        self._device.unlisten(self._events)

    def fetch_events_json(self) -> str:
        """The events since the last call, as JSON."""
        self._check("fetch")
        text = json.dumps({"events": self._events})
        self._events.clear()
        return text

    def drain_events(self) -> None:
        """Forget the events so far."""
        self._check("drain")
        self._events.clear()

    def _check(self, action: str) -> None:
        if not self._started:
            raise self._error(
                f"Cannot {action} events: sys trace is not started",
                code="NEFF-TRACE-SESSION",
                remedy="call start() first, or use the session in a with statement",
            )

    def __enter__(self) -> TraceSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
