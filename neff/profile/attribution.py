"""Time by line, HLO instruction, kernel, engine, opcode or scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neff.errors import NeffError
from neff.profile.arrays import Ints, sums
from neff.profile.sites import Site
from neff.profile.stalls import Gaps
from neff.profile.table import Profile

__all__ = [
    "GROUPINGS",
    "Cells",
    "Kinds",
    "Share",
    "by_line_and_opcode",
    "cells_of",
    "grouped",
    "kinds_of",
    "shares_of",
]


GROUPINGS: dict[str, Callable[[Site, str, str], str]] = {
    "line": lambda site, lane, opcode: site.place,
    "op": lambda site, lane, opcode: site.op or "(unknown)",
    "kernel": lambda site, lane, opcode: site.kernel or site.op or "(unknown)",
    "engine": lambda site, lane, opcode: lane,
    "opcode": lambda site, lane, opcode: opcode,
    "scope": lambda site, lane, opcode: site.scope or "(unknown)",
}
"""Criteria of attribution; a lane is an engine or one of its queues."""


@dataclass(slots=True)
class Share:
    """The cost of one line, operation, kernel, engine or opcode: all iterations, all cores.

    Attributes:
        name: of the group.
        events: how many.
        self_ns: for which its events alone keep their lanes; lanes work beside each other, so
            the sum over all groups is more than the program takes.
        path_ns: of the slowest core's critical path; the sum is what the program takes.
        waiting_ns: for which engines stood still before its events, for a semaphore.
        nbytes: of its transfers.
        flops: of the tensor engine.
        cumulative_ns, cumulative_path_ns: ``self_ns`` and ``path_ns`` of a line together with the
            functions that it calls; of other groups the same as those.
    """

    name: str
    events: int = 0
    self_ns: float = 0.0
    path_ns: float = 0.0
    waiting_ns: float = 0.0
    nbytes: int = 0
    flops: int = 0
    cumulative_ns: float = 0.0
    cumulative_path_ns: float = 0.0


Cells = dict[tuple[Site, str, str], Share]
"""Time by site, lane and opcode: every grouping sums these."""


def grouped(cells: Cells, grouping: str) -> list[Share]:
    """The groups of a profile, those that are most on the critical path first.

    A line that does nothing but call functions is a group without events.

    Raises:
        NeffError: ``NEFF-GROUPING``; there is no such grouping.
    """
    name_of = GROUPINGS.get(grouping)
    if name_of is None:
        raise NeffError(
            f"time cannot be attributed by {grouping!r}",
            code="NEFF-GROUPING",
            remedy=f"use one of {', '.join(GROUPINGS)}",
        )
    shares: dict[str, Share] = {}
    for key, cell in cells.items():
        name = name_of(*key)
        _add_to(shares.setdefault(name, Share(name)), cell)
        frames = key[0].frames if grouping == "line" else ()
        for location in dict.fromkeys((name, *frames)):
            share = shares.setdefault(location, Share(location))
            share.cumulative_ns += cell.self_ns
            share.cumulative_path_ns += cell.path_ns
    return sorted(shares.values(), key=_rank)


def _rank(share: Share) -> tuple[float, float, float, str]:
    return -share.cumulative_path_ns, -share.cumulative_ns, -share.path_ns, share.name


def by_line_and_opcode(cells: Cells) -> dict[tuple[str, str, str], Share]:
    """Return the summed costs of each line's instructions by (place, lane, opcode)."""
    shares: dict[tuple[str, str, str], Share] = {}
    for (site, lane, opcode), cell in cells.items():
        share = shares.setdefault((site.place, lane, opcode), Share(opcode))
        _add_to(share, cell)
    return shares


def _add_to(share: Share, cell: Share) -> None:
    share.events += cell.events
    share.self_ns += cell.self_ns
    share.path_ns += cell.path_ns
    share.waiting_ns += cell.waiting_ns
    share.nbytes += cell.nbytes
    share.flops += cell.flops


@dataclass(frozen=True, slots=True)
class Kinds:
    """The events of a core by kind: site, lane and opcode.

    Attributes:
        first: the first event of each kind; they rise.
        number: of each event's kind.
    """

    first: list[int]
    number: Ints


def kinds_of(profile: Profile, core: int) -> Kinds:
    """The kinds of a core's events, in the order in which they first come."""
    columns = profile.arrays[core]
    keys = np.asarray(profile.site_of[core], np.int64) * len(columns.lanes) + columns.lane
    keys = keys * len(columns.opcodes) + columns.opcode
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Kinds(first[order].tolist(), rank[number])


def cells_of(profile: Profile, kinds: list[Kinds], shares: list[list[Share]]) -> Cells:
    """The events of all cores, those of one site, lane and opcode together.

    Args:
        profile: of the program.
        kinds, shares: for each core :func:`kinds_of` and :func:`shares_of`.
    """
    cells: Cells = {}
    for core, (kind, core_shares) in enumerate(zip(kinds, shares, strict=True)):
        events, sites = profile.estimate.cores[core].events, profile.site_of[core]
        for index, share in zip(kind.first, core_shares, strict=True):
            key = profile.sites[sites[index]], events[index].lane, events[index].opcode
            _add_to(cells.setdefault(key, Share("")), share)
    return cells


def shares_of(
    profile: Profile, core: int, kinds: Kinds, gaps: Gaps, path: dict[int, float]
) -> list[Share]:
    """Return the costs of each kind of a core's events; ``path`` is empty unless it is the
    slowest.
    """
    columns, events = profile.arrays[core], profile.estimate.cores[core].events
    number, count, iterations = kinds.number, len(kinds.first), columns.turns
    flops = profile.flops[core]
    self_ns = np.bincount(number, columns.self_ns * iterations, count)
    waiting = np.bincount(number[gaps.events], gaps.waiting_ns * iterations[gaps.events], count)
    on_path = number[np.fromiter(path, np.int64, len(path))]
    times = np.bincount(on_path, np.fromiter(path.values(), float, len(path)), count)
    happened = sums(number, iterations, count, (event.turns for event in events))
    moved = (event.nbytes * event.turns for event in events)
    nbytes = sums(number, columns.nbytes * iterations, count, moved)
    computed = (count * event.turns for count, event in zip(flops, events, strict=True))
    products = sums(number, np.array(flops, float) * iterations, count, computed)
    figures = happened, self_ns.tolist(), times.tolist(), waiting.tolist(), nbytes, products
    return [Share("", *row) for row in zip(*figures, strict=True)]
