"""Counters over time and iterations of loops, for the page's timeline."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from neff.profile.analysis import Analysis, analysis_of
from neff.profile.counters import Counter
from neff.profile.table import Profile
from neff.timing import Event
from neff.timing.work import LANES
from nki_lang.base.targets import target_of

__all__ = ["counter_rows", "loop_rows"]

_MAX_SAMPLES = 2000
"""Samples of a counter; with more, the highest of each period of the time is kept."""

_MAX_LOOPS = 5000


def counter_rows(source: Profile | Analysis, unit_ns: float) -> list[dict[str, object]]:
    """Each counter: core, name, unit, the value at full height, times in units, values."""
    analysis = analysis_of(source)
    return [
        {
            "core": core,
            "name": counter.name.removesuffix(" utilisation"),
            "unit": counter.unit,
            "full": _full(counter, analysis.profile),
            "at": [round(time / unit_ns) for time, _ in samples],
            "values": [value for _, value in samples],
        }
        for core, core_counters in enumerate(analysis.counters)
        for counter in core_counters
        if any(value for _, value in counter.samples)
        for samples in [_fewer(counter.samples)]
    ]


def _full(counter: Counter, profile: Profile) -> float:
    """Return the full height: a memory's capacity, the peak DMA rate, or 1000 per mille."""
    target = target_of(profile.estimate.target)
    if counter.name == "SBUF":
        return float(target.partitions * target.sbuf_usable_bytes)
    if counter.name == "PSUM":
        return float(target.partitions * target.psum_partition_bytes)
    if counter.unit == "‰":
        return 1000.0
    return LANES * profile.parameters["dma.bytes_per_ns"].value * 1e3


def _fewer(samples: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return at most ``_MAX_SAMPLES`` samples: the highest value of each period of the time."""
    if len(samples) <= _MAX_SAMPLES:
        return samples
    times, values = np.array(samples, np.int64).T
    begin = samples[0][0]
    width = (samples[-1][0] - begin) / _MAX_SAMPLES
    periods = ((times - begin) / width).astype(np.int64)
    first = np.flatnonzero(np.append(True, periods[1:] != periods[:-1]))
    before = np.append(0, values[first[1:] - 1])
    highest = np.maximum(np.maximum.reduceat(values, first), before)
    found_at = np.rint(begin + periods[first] * width).astype(np.int64)
    return [*zip(found_at.tolist(), highest.tolist(), strict=True), samples[-1]]


def loop_rows(profile: Profile, unit_ns: float) -> list[tuple[int, ...]]:
    """Return spans of events that represent several iterations of a loop.

    Each: core, start, end, how many iterations, and until when the others last, which are not
    drawn; times in units.
    """
    rows = [
        (core, round(start / unit_ns), round(end / unit_ns), iterations, round(until / unit_ns))
        for core, core_estimate in enumerate(profile.estimate.cores)
        if (profile.arrays[core].turns > 1).any()
        for start, end, iterations, until in _spans(core_estimate.events, core_estimate.total.value)
    ]
    return rows[:_MAX_LOOPS]


def _spans(events: list[Event], total: float) -> list[tuple[float, float, int, float]]:
    """Return the spans of loop bodies; events of one body are adjacent in the table."""
    spans: list[tuple[float, float, int, float]] = []
    groups = [
        (iterations, list(group))
        for iterations, group in groupby(events, lambda event: event.turns)
    ]
    until = total
    for iterations, group in reversed(groups):
        start, end = min(event.start for event in group), max(event.end for event in group)
        if iterations > 1:
            spans.append((start, end, iterations, max(end, until)))
        until = start
    return spans[::-1]
