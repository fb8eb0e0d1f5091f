"""What is held and how busy everything is over time: the counters of a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from neff.profile.memory import Holding, holdings
from neff.profile.table import Profile
from neff.timing import Event
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
            Counter("SBUF", "bytes", _sums(held.get((number, "sbuf"), []))),
            Counter("PSUM", "bytes", _sums(held.get((number, "psum"), []))),
            Counter("DMA bandwidth", "MB/s", _sums(list(_rates(core.events)))),
            *_utilisation(core.events, list(core.engines), core.total.value),
        ]
        for number, core in enumerate(profile.estimate.cores)
    ]


def _sums(changes: list[tuple[float, float]]) -> list[tuple[int, int]]:
    """The sum of all changes so far, once for each nanosecond with one."""
    found: list[tuple[int, int]] = []
    value = 0.0
    for time, change in sorted(changes):
        value += change
        if found and found[-1][0] == round(time):
            found.pop()
        found.append((round(time), max(0, round(value))))
    return found


def _rates(events: list[Event]) -> Iterator[tuple[float, float]]:
    for event in events:
        if event.lane.startswith(QUEUE) and event.end > event.start:
            rate = event.nbytes / (event.end - event.start) * 1e3
            yield event.start, rate
            yield event.end, -rate


def _utilisation(events: list[Event], engines: list[str], total: float) -> Iterator[Counter]:
    """Per mille of each window in which an engine is busy; its events are in order."""
    width = max(1.0, total / _WINDOWS)
    busy = {engine: [0.0] * (_WINDOWS + 1) for engine in engines}
    last = dict.fromkeys(engines, 0.0)
    for _, lane, _, start, end, _, _, _, _, _, _, _ in events:
        windows = busy.get(lane)
        if windows is None:
            continue
        start, last[lane] = max(start, last[lane]), max(end, last[lane])
        while start < end:
            window = min(_WINDOWS, int(start / width))
            until = end if window == _WINDOWS else min(end, (window + 1) * width)
            windows[window] += until - start
            if until <= start:
                break
            start = until
    for engine in engines:
        shares = [min(1000, round(1000 * spent / width)) for spent in busy[engine]]
        samples = [(round(at * width), share) for at, share in enumerate(shares)]
        distinct = [one for at, one in enumerate(samples) if not at or one[1] != samples[at - 1][1]]
        yield Counter(f"{engine} utilisation", "‰", distinct)
