"""Memory use and utilization over time: the counters of a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from neff.profile.arrays import EventArrays, Floats
from neff.profile.memory import Holding, holdings
from neff.profile.table import Profile
from neff.timing.events import QUEUE

__all__ = ["Counter", "counters"]

_WINDOW_COUNT = 256
"""The utilization of an engine is counted in this many windows of the time."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A number over time.

    Attributes:
        name, unit: such as ``SBUF`` and ``bytes``.
        samples: (nanosecond, value from then on); times rise.
    """

    name: str
    unit: str
    samples: list[tuple[int, int]]


def counters(profile: Profile, cached_holdings: list[Holding] | None = None) -> list[list[Counter]]:
    """Return the counters of each core: bytes in SBUF and PSUM, MB/s, busy engines in per mille.

    Args:
        profile: of the program.
        cached_holdings: its :func:`~neff.profile.memory.holdings`, when already computed.
    """
    changes_by_memory: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for holding in holdings(profile) if cached_holdings is None else cached_holdings:
        changes = changes_by_memory.setdefault((holding.core, holding.memory), [])
        changes += [(holding.start_ns, holding.nbytes), (holding.end_ns, -holding.nbytes)]
    return [
        [
            Counter(
                "SBUF", "bytes", _sums(np.array(changes_by_memory.get((number, "sbuf"), []), float))
            ),
            Counter(
                "PSUM", "bytes", _sums(np.array(changes_by_memory.get((number, "psum"), []), float))
            ),
            Counter("DMA bandwidth", "MB/s", _sums(_rates(columns))),
            *_utilisation(columns, list(core.engines), core.total.value),
        ]
        for number, (core, columns) in enumerate(
            zip(profile.estimate.cores, profile.arrays, strict=True)
        )
    ]


def _sums(changes: Floats) -> list[tuple[int, int]]:
    """The sum of all changes so far, once for each nanosecond with one; rows of time and change."""
    if not changes.size:
        return []
    times, steps = changes[np.lexsort((changes[:, 1], changes[:, 0]))].T
    times, values = np.rint(times), np.maximum(np.rint(np.cumsum(steps)), 0.0)
    last = np.append(times[1:] != times[:-1], True)
    return _samples(times[last], values[last])


def _samples(times: Floats, values: Floats) -> list[tuple[int, int]]:
    return list(zip(times.astype(np.int64).tolist(), values.astype(np.int64).tolist(), strict=True))


def _rates(columns: EventArrays) -> Floats:
    """Begin and end of each transfer, and its MB/s."""
    queues = (lane for lane in columns.lanes if lane.startswith(QUEUE))
    moves = columns.of_lanes(queues) & (columns.end > columns.start)
    start, end = columns.start[moves], columns.end[moves]
    rates = columns.nbytes[moves] / (end - start) * 1e3
    begins, ends = np.stack([start, rates], axis=1), np.stack([end, -rates], axis=1)
    return np.concatenate([begins, ends])


def _utilisation(columns: EventArrays, engines: list[str], total: float) -> Iterator[Counter]:
    """Per mille of each window in which an engine is busy; its events are in order."""
    width = max(1.0, total / _WINDOW_COUNT)
    for engine in engines:
        is_event = columns.of_lanes([engine])
        shares = np.rint(1000 * _busy(columns, is_event, width) / width)
        shares = np.minimum(shares, 1000.0)
        distinct = np.append(True, shares[1:] != shares[:-1])
        times = np.rint(np.arange(_WINDOW_COUNT + 1) * width)
        samples = _samples(times[distinct], shares[distinct])
        yield Counter(f"{engine} utilisation", "‰", samples)


def _busy(columns: EventArrays, is_event: NDArray[np.bool_], width: float) -> Floats:
    """Return nanoseconds of each window in which an event happens; overlaps count once."""
    begin = np.maximum(columns.start, columns.until)
    is_event = is_event & (begin < columns.end)
    start, end = begin[is_event], columns.end[is_event]
    windows = np.minimum(_WINDOW_COUNT, (start / width).astype(np.int64))
    until = np.where(windows == _WINDOW_COUNT, end, np.minimum(end, (windows + 1) * width))
    busy_ns, orders = until - start, np.arange(len(start))
    later_windows: list[tuple[int, int, float]] = []
    for location in np.flatnonzero((until < end) & (until > start)).tolist():
        later_windows += _later_windows(
            location, int(windows[location]), float(end[location]), width
        )
    if later_windows:
        positions, numbers, lengths = zip(*later_windows, strict=True)
        order = np.argsort(np.concatenate([orders, np.array(positions)]), kind="stable")
        windows = np.concatenate([windows, np.array(numbers)])[order]
        busy_ns = np.concatenate([busy_ns, np.array(lengths)])[order]
    return np.bincount(windows, busy_ns, _WINDOW_COUNT + 1).astype(np.float64)


def _later_windows(
    position: int, window: int, end: float, width: float
) -> Iterator[tuple[int, int, float]]:
    """Yield the time of an event in each window after its first one.

    Windows are counted: a window's start divided by the width may round down to the one before.
    """
    start = (window + 1) * width
    while start < end:
        window += 1
        until = end if window == _WINDOW_COUNT else min(end, (window + 1) * width)
        yield position, window, until - start
        start = until
