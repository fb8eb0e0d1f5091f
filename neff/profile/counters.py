"""What is held and how busy everything is over time: the counters of a trace."""

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

_WINDOWS = 256
"""Parts of the time in which the utilisation of an engine is counted."""


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


def counters(profile: Profile, known: list[Holding] | None = None) -> list[list[Counter]]:
    """Those of each core: bytes held in SBUF and PSUM, MB/s of transfers, busy engines in per mille.

    Args:
        profile: of the program.
        known: its :func:`~neff.profile.memory.holdings`, if they are known.
    """
    held: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for one in holdings(profile) if known is None else known:
        changes = held.setdefault((one.core, one.memory), [])
        changes += [(one.start_ns, one.nbytes), (one.end_ns, -one.nbytes)]
    return [
        [
            Counter("SBUF", "bytes", _sums(np.array(held.get((number, "sbuf"), []), float))),
            Counter("PSUM", "bytes", _sums(np.array(held.get((number, "psum"), []), float))),
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
    width = max(1.0, total / _WINDOWS)
    for engine in engines:
        own = columns.of_lanes([engine])
        shares = np.rint(1000 * _busy(columns, own, width) / width)
        shares = np.minimum(shares, 1000.0)
        distinct = np.append(True, shares[1:] != shares[:-1])
        times = np.rint(np.arange(_WINDOWS + 1) * width)
        samples = _samples(times[distinct], shares[distinct])
        yield Counter(f"{engine} utilisation", "‰", samples)


def _busy(columns: EventArrays, own: NDArray[np.bool_], width: float) -> Floats:
    """Nanoseconds of each window in which one of the events happens; what overlaps counts once."""
    begin = np.maximum(columns.start, columns.until)
    own = own & (begin < columns.end)
    start, end = begin[own], columns.end[own]
    windows = np.minimum(_WINDOWS, (start / width).astype(np.int64))
    until = np.where(windows == _WINDOWS, end, np.minimum(end, (windows + 1) * width))
    spent, orders = until - start, np.arange(len(start))
    more: list[tuple[int, int, float]] = []
    for place in np.flatnonzero((until < end) & (until > start)).tolist():
        more += _later_windows(place, float(until[place]), float(end[place]), width)
    if more:
        places, numbers, lengths = zip(*more, strict=True)
        order = np.argsort(np.concatenate([orders, np.array(places)]), kind="stable")
        windows = np.concatenate([windows, np.array(numbers)])[order]
        spent = np.concatenate([spent, np.array(lengths)])[order]
    return np.bincount(windows, spent, _WINDOWS + 1).astype(np.float64)


def _later_windows(
    place: int, start: float, end: float, width: float
) -> Iterator[tuple[int, int, float]]:
    """What an event spends in the windows behind its first one."""
    while start < end:
        window = min(_WINDOWS, int(start / width))
        until = end if window == _WINDOWS else min(end, (window + 1) * width)
        yield place, window, until - start
        if until <= start:
            return
        start = until
