"""What the page's timeline shows beside events: counters over time, and iterations of loops."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from neff.profile.analysis import Analysis, analysis_of
from neff.profile.counters import Counter
from neff.profile.table import Profile
from neff.timing import Event
from neff.timing.costs import LANES
from nki_lang.base.targets import target_of

__all__ = ["counter_rows", "loop_rows"]

_MOST_SAMPLES = 2000
"""Samples of a counter; of more the highest of each part of the time is kept."""

_MOST_LOOPS = 5000


def counter_rows(given: Profile | Analysis, unit_ns: float) -> list[dict[str, object]]:
    """Each counter: core, name, unit, the value at full height, times in units, values."""
    analysis = analysis_of(given)
    return [
        {
            "core": core,
            "name": one.name.removesuffix(" utilisation"),
            "unit": one.unit,
            "full": _full(one, analysis.profile),
            "at": [round(time / unit_ns) for time, _ in samples],
            "values": [value for _, value in samples],
        }
        for core, found in enumerate(analysis.counters)
        for one in found
        if any(value for _, value in one.samples)
        for samples in [_fewer(one.samples)]
    ]


def _full(counter: Counter, profile: Profile) -> float:
    """What a memory holds, what all DMA engines move, or all of the time."""
    target = target_of(profile.estimate.target)
    if counter.name == "SBUF":
        return float(target.partitions * target.sbuf_usable_bytes)
    if counter.name == "PSUM":
        return float(target.partitions * target.psum_partition_bytes)
    if counter.unit == "‰":
        return 1000.0
    return LANES * profile.parameters["dma.bytes_per_ns"].value * 1e3


def _fewer(samples: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most so many samples: of each part of the time the highest value that holds in it."""
    if len(samples) <= _MOST_SAMPLES:
        return samples
    times, values = np.array(samples, np.int64).T
    begin = samples[0][0]
    width = (samples[-1][0] - begin) / _MOST_SAMPLES
    parts = ((times - begin) / width).astype(np.int64)
    first = np.flatnonzero(np.append(True, parts[1:] != parts[:-1]))
    before = np.append(0, values[first[1:] - 1])
    highest = np.maximum(np.maximum.reduceat(values, first), before)
    found_at = np.rint(begin + parts[first] * width).astype(np.int64)
    return [*zip(found_at.tolist(), highest.tolist(), strict=True), samples[-1]]


def loop_rows(profile: Profile, unit_ns: float) -> list[tuple[int, ...]]:
    """Stretches of events that stand for several iterations of a loop.

    Each: core, start, end, how many iterations, and until when the others last, which are not
    drawn; times in units.
    """
    found = [
        (core, round(start / unit_ns), round(end / unit_ns), turns, round(until / unit_ns))
        for core, given in enumerate(profile.estimate.cores)
        if (profile.arrays[core].turns > 1).any()
        for start, end, turns, until in _stretches(given.events, given.total.value)
    ]
    return found[:_MOST_LOOPS]


def _stretches(events: list[Event], total: float) -> list[tuple[float, float, int, float]]:
    """Events of one body of a loop stand together in the table."""
    found: list[tuple[float, float, int, float]] = []
    groups = [(turns, list(group)) for turns, group in groupby(events, lambda one: one.turns)]
    until = total
    for turns, group in reversed(groups):
        start, end = min(one.start for one in group), max(one.end for one in group)
        if turns > 1:
            found.append((start, end, turns, max(end, until)))
        until = start
    return found[::-1]
