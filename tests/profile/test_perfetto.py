"""The trace, decoded by a reader of the wire format that shares nothing with the writer."""

from __future__ import annotations

import io
import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from neff.errors import NeffError
from neff.profile import profile_of, write_trace
from neff.profile.counters import _later_windows  # pyright: ignore[reportPrivateUsage]
from neff.program import Program
from tests.neff.programs import counted
from tests.profile.programs import line_of, matmul, softmax


def fields(data: bytes) -> dict[int, list[Any]]:
    """Field number -> values of a message."""
    by_number: dict[int, list[Any]] = defaultdict(list)
    position = 0

    def varint() -> int:
        nonlocal position
        shift = value = 0
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while position < len(data):
        key = varint()
        if key & 7 == 0:
            by_number[key >> 3].append(varint())
            continue
        length = 8 if key & 7 == 1 else varint()
        assert key & 7 in (1, 2)
        piece = data[position : position + length]
        assert len(piece) == length
        position += length
        by_number[key >> 3].append(int.from_bytes(piece, "little") if key & 7 == 1 else piece)
    return by_number


class Trace:
    """Tracks by uuid, and slices: (track, begin, end, name, arguments, flows out, flows in)."""

    def __init__(self, data: bytes) -> None:
        self.tracks: dict[int, tuple[str, int]] = {}
        self.slices: list[tuple[int, int, int, str, dict[str, Any], list[int], list[int]]] = []
        self.names: dict[int, dict[int, str]] = {}
        self.units: dict[int, str] = {}
        self.samples: dict[int, list[tuple[int, int]]] = defaultdict(list)
        pending: dict[int, tuple[int, Any]] = {}
        for outer in fields(data)[1]:
            (compressed,) = fields(outer)[50]
            for content in fields(zlib.decompress(compressed))[1]:
                self.packet(fields(content), pending)
        assert not pending

    def packet(self, packet: dict[int, list[Any]], pending: dict[int, tuple[int, Any]]) -> None:
        if 12 in packet:
            for kind, entries in fields(packet[12][0]).items():
                pairs = (fields(entry) for entry in entries)
                self.names[kind] = {pair[1][0]: pair[2][0].decode() for pair in pairs}
        if 60 in packet:
            track = fields(packet[60][0])
            self.tracks[track[1][0]] = track[2][0].decode(), track.get(5, [0])[0]
            if 8 in track:
                self.units[track[1][0]] = fields(track[8][0])[6][0].decode()
        if 11 in packet:
            event, time = fields(packet[11][0]), packet[8][0]
            track = event[11][0]
            if event[9] == [4]:
                assert track in self.units
                self.samples[track].append((time, event[30][0]))
            elif event[9] == [1]:
                assert track in self.tracks and track not in self.units
                assert track not in pending, "slices of a track overlap"
                pending[track] = time, event
            else:
                begin, first = pending.pop(track)
                self.slices.append((
                    track, begin, time, self.names[2][first[10][0]],
                    dict(self.argument(fields(annotation)) for annotation in first[4]), first[47], first[48],
                ))  # fmt: skip

    def argument(self, annotation: dict[int, list[Any]]) -> tuple[str, Any]:
        value = annotation[4][0] if 4 in annotation else self.names[29][annotation[17][0]]
        return self.names[3][annotation[1][0]], value


def traced(program: Program) -> tuple[Any, Trace]:
    profile, file = profile_of(program), io.BytesIO()
    write_trace(profile, file)
    return profile, Trace(file.getvalue())


@pytest.mark.parametrize("make", [softmax, matmul, counted])
def test_every_event_is_one_slice(make: Callable[[], Program]) -> None:
    profile, trace = traced(make())
    events = profile.estimate.cores[0].events
    expected = sorted((round(event.start), round(event.end), event.opcode) for event in events)
    assert sorted(slice[1:4] for slice in trace.slices) == expected
    assert all(track in trace.tracks for track, *_ in trace.slices)


def test_slices_of_a_track_follow_each_other() -> None:
    _, trace = traced(matmul())
    last: dict[int, int] = {}
    for track, begin, end, *_ in trace.slices:
        assert last.get(track, 0) <= begin <= end
        last[track] = end


def test_tracks_are_lanes_below_a_core_that_says_estimated() -> None:
    profile, trace = traced(matmul())
    roots = [name for name, parent in trace.tracks.values() if not parent]
    assert roots == [f"{profile.name}, core 0 (estimated, trn2)"]
    names = {name for name, _ in trace.tracks.values()}
    assert {"tensor", "tensor weights", "sync", "dma.sync.in"} <= names
    assert {"vector", "scalar"} & names  # which of them takes the product out of PSUM
    assert len(names) == len(trace.tracks)


def test_flows_are_the_semaphores_that_were_waited_for() -> None:
    profile, trace = traced(softmax())
    events = profile.estimate.cores[0].events
    expected = {
        (round(events[event.waits_for].start), round(event.start))
        for event in events
        if event.waits_for >= 0
    }
    begins = {flow: slice[1] for slice in trace.slices for flow in slice[5]}
    flows = {(begins[flow], slice[1]) for slice in trace.slices for flow in slice[6]}
    assert flows == expected
    assert all(begin < end for begin, end in flows)


def test_arguments() -> None:
    profile, trace = traced(matmul())
    products = [slice[4] for slice in trace.slices if slice[3] == "nc_matmul"]
    assert [product["flops"] for product in products] == [128 * 64 * 512] * 2
    line = line_of("nisa.nc_matmul(")
    assert products[0]["place"].endswith(f"programs.py:{line}")
    assert products[0]["operands"].startswith("dst=float32[64,512]@PSUM")
    moved = sum(slice[4].get("bytes", 0) for slice in trace.slices)
    assert moved == profile.estimate.cores[0].dma_bytes


def test_folded_turns_of_a_loop_are_said() -> None:
    _, trace = traced(counted(5))
    assert {slice[4].get("turns") for slice in trace.slices} == {None, 4}


def counter(trace: Trace, name: str) -> list[tuple[int, int]]:
    (track,) = [uuid for uuid, (track_name, _) in trace.tracks.items() if track_name == name]
    return trace.samples[track]


def test_memory_is_counted() -> None:
    """A product: two tiles of SBUF, then its result in PSUM and a copy; nothing at the end."""
    _profile, trace = traced(matmul())
    sbuf, psum = counter(trace, "SBUF"), counter(trace, "PSUM")
    assert max(value for _, value in sbuf) == 4 * (128 * 64 + 128 * 512)
    assert [value for _, value in psum] == [4 * 64 * 512, 0]
    assert sbuf[-1][1] == 0
    assert sorted(set(trace.units.values())) == ["MB/s", "bytes", "‰"]


def test_bandwidth_times_time_is_bytes() -> None:
    _profile, trace = traced(softmax())
    samples = counter(trace, "DMA bandwidth")
    moved = sum(
        value * (later - time) / 1e3 for (time, value), (later, _) in itertools.pairwise(samples)
    )
    assert moved == pytest.approx(2 * 128 * 512 * 4, rel=0.02)


def test_utilisation_is_busy_time() -> None:
    profile, trace = traced(matmul())
    total = profile.estimate.total.value
    for engine in ("tensor", "vector"):
        samples = [*counter(trace, f"{engine} utilisation"), (round(total), 0)]
        busy = sum(
            value * (later - time) / 1e3
            for (time, value), (later, _) in itertools.pairwise(samples)
        )
        busy_ns = profile.estimate.cores[0].engines[engine].occupied_ns
        assert busy == pytest.approx(busy_ns, rel=0.05)


@pytest.mark.parametrize("total", [8522.026373626373, 1000.1, 123456.7])
def test_no_window_of_an_event_is_lost(total: float) -> None:
    width = total / 256
    for start in range(0, 200, 3):
        end = (start + 50.5) * width
        lengths = [length for _, _, length in _later_windows(0, start, end, width)]
        assert sum(lengths) == pytest.approx(49.5 * width)


def test_samples_follow_each_other() -> None:
    _, trace = traced(counted(5))
    for samples in trace.samples.values():
        times = [time for time, _ in samples]
        assert times == sorted(set(times))


def test_an_overlap_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that put every event of a lane on one track would lose ends without a word."""
    monkeypatch.setattr("neff.profile.lanes._tracks", lambda events, indices: [list(indices)])
    with pytest.raises(NeffError, match="NEFF-TRACE"):
        traced(matmul())
