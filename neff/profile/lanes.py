"""Events as rows of a timeline: each engine and queue, more rows where its events overlap."""

from __future__ import annotations

import numpy as np

from neff.profile.arrays import EventArrays, Ints

__all__ = ["Lane", "lanes_of"]

Lane = tuple[str, list[list[int]]]
"""Its name, and the events of each of its tracks."""


def lanes_of(columns: EventArrays) -> list[Lane]:
    """Lanes with the events of each of their tracks; those of one track do not overlap."""
    lanes: dict[str, Ints] = {}
    weights = [number for number, name in enumerate(columns.opcodes) if name == "load_weights"]
    is_load = np.isin(columns.opcode, weights)
    if is_load.any():
        lanes["tensor weights"] = np.flatnonzero(is_load)
    for number, name in enumerate(columns.lanes):
        lane_events = np.flatnonzero((columns.lane == number) & ~is_load)
        if lane_events.size:
            lanes[name] = lane_events
    starts = columns.start
    return [
        (lane, _tracks(columns, lanes[lane][np.argsort(starts[lanes[lane]], kind="stable")]))
        for lane in sorted(lanes, key=_lane_rank)
    ]


_ORDER = ("tensor", "tensor weights", "vector", "scalar", "gpsimd", "descriptors", "sync")


def _lane_rank(lane: str) -> tuple[int, str]:
    return (_ORDER.index(lane) if lane in _ORDER else len(_ORDER)), lane


def _tracks(columns: EventArrays, indices: Ints) -> list[list[int]]:
    """Each event on the first track that is free when it starts; they are in that order."""
    starts, ends = np.rint(columns.start[indices]), np.rint(columns.end[indices])
    if (starts[1:] >= np.maximum.accumulate(ends)[:-1]).all():
        return [indices.tolist()]
    tracks: list[list[int]] = []
    free: list[float] = []
    for index, start, end in zip(indices.tolist(), starts.tolist(), ends.tolist(), strict=True):
        for position, time in enumerate(free):
            if time <= start:
                tracks[position].append(index)
                free[position] = end
                break
        else:
            tracks.append([index])
            free.append(end)
    return tracks
