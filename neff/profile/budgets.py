"""Limits that a program must keep, checked on its estimate: latency, memory, busy engines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neff.errors import NeffError
from neff.profile.analysis import by
from neff.profile.table import SCHEMA, Profile
from neff.program import EngineLoop, EngineStep, Program, Step
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.plain_files import MAX_RECORD_BYTES, read_plain
from nki_lang.base.targets import target_of
from nki_lang.ir import Access

__all__ = ["Budget", "Check", "budget_of", "check_budget", "sbuf_peak"]

_TIMES = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SHARES = {"%": 0.01}

_ROUNDING_NS = 0.5
"""A summary's total may be lower by this than the figure that it was rounded from."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits; None for what is not limited.

    Attributes:
        latency_ns: of the estimate's total.
        sbuf_bytes: of the highest address used in SBUF, times the partitions.
        hbm_bytes: of all variables and scratch areas.
        baseline_ns: the total of an earlier summary; ``tolerance`` more is allowed.
        tolerance: a share, 0.05 for 5 %.
        utilisation: engine -> share of the time in which it has to be busy.
    """

    latency_ns: float | None = None
    sbuf_bytes: float | None = None
    hbm_bytes: float | None = None
    baseline_ns: float | None = None
    tolerance: float = 0.0
    utilisation: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Check:
    """One limit by ``name``: what was found, what is allowed, in the limit's unit.

    ``is_kept`` is False where more was found than is allowed. ``place`` is the line with most of the critical path for latencies, of the highest tensor for
    SBUF, else "".
    """

    name: str
    found: float
    limit: float
    unit: str
    is_kept: bool
    place: str = ""

    def __str__(self) -> str:
        location = f"{self.place}: " if self.place else ""
        estimated, limit = _shown(self.found), _shown(self.limit)
        return f"{location}{self.name}: {estimated} {self.unit}, limit {limit} (estimated)"


def _shown(value: float) -> str:
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"


def budget_of(
    *,
    max_latency: str = "",
    max_sbuf: str = "",
    max_hbm: str = "",
    min_utilisation: tuple[str, ...] = (),
    baseline: Path | None = None,
    tolerance: str = "",
) -> Budget:
    """Read limits as the command line gives them; "" is no limit.

    Args:
        max_latency: ``250us``.
        max_sbuf: ``20MiB``, of all partitions.
        max_hbm: ``1GiB``, of all cores.
        min_utilisation: ``tensor=60%``, of the time until the last event.
        baseline: the ``summary.json`` of another profile, whose total is the limit.
        tolerance: ``5%``; how much more than the baseline is allowed.

    Raises:
        NeffError: ``NEFF-BUDGET``, a limit has no number with a unit; ``NEFF-BASELINE``, the
            baseline is not a ``summary.json`` of ours.
    """
    shares: list[tuple[str, float]] = []
    for text in min_utilisation:
        engine, _, share = text.partition("=")
        shares.append((engine.strip(), _quantity(share, _SHARES)))
    return Budget(
        _quantity(max_latency, _TIMES) if max_latency else None,
        _quantity(max_sbuf, _SIZES) if max_sbuf else None,
        _quantity(max_hbm, _SIZES) if max_hbm else None,
        _baseline(baseline) if baseline else None,
        _quantity(tolerance, _SHARES) if tolerance else 0.0,
        tuple(shares),
    )


def _quantity(text: str, units: dict[str, float] | dict[str, int]) -> float:
    match = re.fullmatch(r"\s*([0-9]{0,15}\.?[0-9]{1,15})\s*(\S+)\s*", text)
    if match is None or match[2] not in units:
        raise NeffError(
            f"{text!r} is not a number with a unit",
            code="NEFF-BUDGET",
            remedy=f"write a number and {' or '.join(', '.join(units).rsplit(', ', 1))}",
        )
    return float(match[1]) * units[match[2]]


def _baseline(path: Path) -> float:
    """Total of a summary that ``nki-neff profile -o`` wrote, in nanoseconds."""
    try:
        document: Any = json.loads(read_plain(path, MAX_RECORD_BYTES))
        if document["schema"] == SCHEMA:
            total = float(document["total_us"]) * 1e3
            if math.isfinite(total):
                return total
        reason = f"its schema is not {SCHEMA}"
    except OSError as error:
        reason = error.strerror or "it cannot be read"
    except (ValueError, KeyError, TypeError, RecursionError):
        reason = "it has no total"
    raise NeffError(
        f"the baseline cannot be used: {reason}",
        code="NEFF-BASELINE",
        place=str(path),
        remedy="give the summary.json of nki-neff profile -o",
    )


def check_budget(program: Program, profile: Profile, budget: Budget) -> list[Check]:
    """Every limit of a budget with what the program's profile shows.

    Raises:
        NeffError: ``NEFF-BUDGET``; a limit is on an engine that the program does not have.
    """
    return [*_latencies(profile, budget), *_memory(program, budget), *_engines(profile, budget)]


def _latencies(profile: Profile, budget: Budget) -> Iterator[Check]:
    total = profile.estimate.total.value
    lines = by(profile, "line")
    location = max(lines, key=lambda line: line.path_ns).name if lines else ""
    if budget.latency_ns is not None:
        limit = budget.latency_ns
        yield Check("latency", total / 1e3, limit / 1e3, "µs", total <= limit, location)
    if budget.baseline_ns is not None:
        limit = budget.baseline_ns * (1 + budget.tolerance)
        yield Check(
            "baseline", total / 1e3, limit / 1e3, "µs", total <= limit + _ROUNDING_NS, location
        )


def _memory(program: Program, budget: Budget) -> Iterator[Check]:
    if budget.sbuf_bytes is not None:
        peak, location = sbuf_peak(program)
        used = peak * target_of(program.target).partitions
        yield Check("sbuf", used, budget.sbuf_bytes, "B", used <= budget.sbuf_bytes, location)
    if budget.hbm_bytes is not None:
        used = program.scratch_bytes * len(program.subgraphs) + sum(
            variable.nbytes
            for variable in program.variables.values()
            if variable.kind != "scratch" and not variable.alias
        )
        yield Check("hbm", used, budget.hbm_bytes, "B", used <= budget.hbm_bytes)


def sbuf_peak(program: Program) -> tuple[int, str]:
    """Bytes of a partition up to the highest address in SBUF; the line that uses it first."""
    highest, location = 0, ""
    for graph in program.subgraphs:
        for steps in graph.engines.values():
            for step in _steps(steps):
                for value in step.instruction.operands.values():
                    if type(value) is not Access or value.tensor.buffer is not MemoryRegion.sbuf:
                        continue
                    address = value.tensor.address
                    end = (address[1] if address else 0) + value.tensor.free_bytes
                    if end > highest:
                        highest, location = end, str(step.instruction.location or "")
    return highest, location


def _steps(steps: list[EngineStep]) -> Iterator[Step]:
    for step in steps:
        if isinstance(step, EngineLoop):
            yield from _steps(step.body)
        else:
            yield step


def _engines(profile: Profile, budget: Budget) -> Iterator[Check]:
    """The busy share is that of the core where it is lowest."""
    for engine, limit in budget.utilisation:
        cores = profile.estimate.cores
        if not all(engine in core.engines for core in cores):
            raise NeffError(
                f"{engine!r} is not an engine of the program",
                code="NEFF-BUDGET",
                remedy="use tensor, vector, scalar, gpsimd or sync",
            )
        if limit > 1:
            raise NeffError(
                f"{engine} cannot be busy for {limit:.0%} of the time",
                code="NEFF-BUDGET",
                remedy="give at most 100 % (from Python, 1.0)",
            )
        shares = [core.engines[engine].occupied_ns / (core.total.value or 1.0) for core in cores]
        share = min(shares, default=0.0)
        yield Check(f"utilisation of {engine}", share * 100, limit * 100, "%", share >= limit)
