"""The shared analysis of a profile agrees with plain loops over its events."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from neff.profile import Analysis, Profile, by, engine_splits, profile_of, summary, write_trace
from neff.profile import analysis as module
from neff.profile.arrays import arrays_of, sums
from neff.profile.files import write_files
from neff.profile.page import write
from neff.profile.stalls import wait_before
from neff.timing import Event
from tests.profile.programs import matmul, softmax
from tests.profile.slow_kernels import PAIRS

ENGINES = ("tensor", "vector", "scalar", "gpsimd", "sync")
ONCE: tuple[str, ...] = ("path_times", "gaps_of", "kinds_of", "lanes_of", "holdings", "counters")


@pytest.fixture(scope="module", params=["softmax", "matmul", "two_passes", "one_queue"])
def profile(request: pytest.FixtureRequest) -> Profile:
    makers = {"softmax": softmax, "matmul": matmul}
    name = request.param
    return profile_of(makers[name]() if name in makers else PAIRS[name].slow())


def test_a_profile_is_analysed_once(
    profile: Profile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = dict.fromkeys(ONCE, 0)
    for name in ONCE:
        inner = getattr(module, name)

        def counted(*arguments: object, inner: object = inner, name: str = name) -> object:
            calls[name] += 1
            return inner(*arguments)  # type: ignore[operator]

        monkeypatch.setattr(module, name, counted)
    monkeypatch.setattr(write, "MAX_EVENTS_FOR_ADVICE", 0)  # which profiles programs of its own
    analysis = Analysis(profile)
    by(analysis, "line")
    write_files(analysis, summary(analysis), tmp_path)
    assert calls == dict.fromkeys(ONCE, 1)
    document, trace = summary(profile), io.BytesIO()
    write_trace(profile, trace)
    assert summary(analysis) == document
    assert (tmp_path / "profile.perfetto-trace").read_bytes() == trace.getvalue()


def test_waits_are_the_gaps_of_each_engine(profile: Profile) -> None:
    events = profile.estimate.cores[0].events
    last: dict[str, float] = {}
    waits: dict[int, float] = {}
    for index, event in enumerate(events):
        until = last.get(event.lane, 0.0)
        if event.lane in ENGINES and event.start > until and event.waits_for >= 0:
            waits[index] = event.start - min(max(event.since, until), event.start)
        last[event.lane] = max(until, event.end)
    assert wait_before(profile, 0) == {index: wait for index, wait in waits.items() if wait}
    waited = sum(wait * events[index].turns for index, wait in waits.items())
    splits = engine_splits(profile, 0)
    assert sum(sum(split.waiting_ns.values()) for split in splits) == pytest.approx(waited)


def test_self_times_of_overlapping_events() -> None:
    spans = [(0.0, 10.0), (5.0, 7.0), (6.0, 12.0), (12.0, 12.0), (20.0, 21.5)]
    events = [
        Event(0, lane, "copy", start, end, -1, -1, start, 0, 1, 1.0, None)
        for start, end in spans
        for lane in ("vector", "scalar")
    ]
    assert arrays_of(events).self_ns[::2].tolist() == [10.0, 0.0, 2.0, 0.0, 1.5]
    assert arrays_of(events).previous.tolist() == [-1, -1, 0, 1, 2, 3, 4, 5, 6, 7]
    assert arrays_of([]).self_ns.tolist() == []


def test_sums_that_floats_cannot_hold_are_exact() -> None:
    values = [2**53, 1, 1, 5]
    groups = np.array([0, 0, 0, 1])
    assert sums(groups, np.array(values, float), 2, values) == [2**53 + 2, 5]
    assert sums(groups[2:], np.array([1.0, 5.0]), 3, [1, 5]) == [1, 5, 0]
