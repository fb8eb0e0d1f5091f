"""Events as rows of a timeline: each engine and queue, more rows where its events overlap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from neff.timing import Event

__all__ = ["lanes_of"]


def lanes_of(events: list[Event]) -> Iterator[tuple[str, list[list[int]]]]:
    """Lanes with the events of each of their tracks; those of one track do not overlap."""
    lanes: dict[str, list[int]] = {}
    for index, event in enumerate(events):
        lane = "tensor weights" if event.opcode == "load_weights" else event.lane
        lanes.setdefault(lane, []).append(index)
    starts = [event.start for event in events]
    for lane in sorted(lanes, key=_lane_rank):
        yield lane, _tracks(events, sorted(lanes[lane], key=starts.__getitem__))


_ORDER = ("tensor", "tensor weights", "vector", "scalar", "gpsimd", "descriptors", "sync")


def _lane_rank(lane: str) -> tuple[int, str]:
    return (_ORDER.index(lane) if lane in _ORDER else len(_ORDER)), lane


def _tracks(events: list[Event], indices: Iterable[int]) -> list[list[int]]:
    """Each event on the first track that is free when it starts; they are in that order."""
    tracks: list[list[int]] = []
    free: list[int] = []
    for index in indices:
        _, _, _, begin, until, _, _, _, _, _, _, _ = events[index]
        start, end = round(begin), round(until)
        for place, time in enumerate(free):
            if time <= start:
                tracks[place].append(index)
                free[place] = end
                break
        else:
            tracks.append([index])
            free.append(end)
    return tracks
