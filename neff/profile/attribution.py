"""Time by line, HLO instruction, kernel, engine, opcode or scope."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from neff.errors import NeffError
from neff.profile.sites import Site
from neff.profile.stalls import path_times, slowest_core, wait_before
from neff.profile.table import Profile

__all__ = ["GROUPINGS", "Cells", "Share", "by", "by_line_and_opcode", "cells", "grouped"]


GROUPINGS: dict[str, Callable[[Site, str, str], str]] = {
    "line": lambda site, lane, opcode: site.place,
    "op": lambda site, lane, opcode: site.op or "(unknown)",
    "kernel": lambda site, lane, opcode: site.kernel or site.op or "(unknown)",
    "engine": lambda site, lane, opcode: lane,
    "opcode": lambda site, lane, opcode: opcode,
    "scope": lambda site, lane, opcode: site.scope or "(unknown)",
}
"""What time can be attributed to; the lane stands for the engine, its queues beside it."""


@dataclass(slots=True)
class Share:
    """What one line, operation, kernel, engine or opcode takes; all turns of loops, all cores.

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


def by(profile: Profile, grouping: str) -> list[Share]:
    """The groups of a profile, those that are most on the critical path first.

    A line that does nothing but call functions is a group without events.

    Raises:
        NeffError: ``NEFF-GROUPING``; there is no such grouping.
    """
    return grouped(cells(profile), grouping)


Cells = dict[tuple[Site, str, str], Share]
"""Time by site, lane and opcode: what every grouping is a sum of."""


def grouped(cells: Cells, grouping: str) -> list[Share]:
    """See :func:`by`."""
    name_of = GROUPINGS.get(grouping)
    if name_of is None:
        raise NeffError(
            f"time cannot be attributed by {grouping!r}",
            code="NEFF-GROUPING",
            remedy=f"use one of {', '.join(GROUPINGS)}",
        )
    found: dict[str, Share] = {}
    for key, cell in cells.items():
        name = name_of(*key)
        _add_to(found.setdefault(name, Share(name)), cell)
        around = key[0].frames if grouping == "line" else ()
        for place in dict.fromkeys((name, *around)):
            share = found.setdefault(place, Share(place))
            share.cumulative_ns += cell.self_ns
            share.cumulative_path_ns += cell.path_ns
    return sorted(found.values(), key=_rank)


def _rank(share: Share) -> tuple[float, float, float, str]:
    return -share.cumulative_path_ns, -share.cumulative_ns, -share.path_ns, share.name


def by_line_and_opcode(profile: Profile) -> dict[tuple[str, str, str], Share]:
    """What the instructions of each line take: (place, lane, opcode) -> their sum."""
    found: dict[tuple[str, str, str], Share] = {}
    for (site, lane, opcode), cell in cells(profile).items():
        _add_to(found.setdefault((site.place, lane, opcode), Share(opcode)), cell)
    return found


def _add_to(share: Share, cell: Share) -> None:
    share.events += cell.events
    share.self_ns += cell.self_ns
    share.path_ns += cell.path_ns
    share.waiting_ns += cell.waiting_ns
    share.nbytes += cell.nbytes
    share.flops += cell.flops


def cells(profile: Profile) -> Cells:
    """The events of all cores, those of one site, lane and opcode together."""
    found: dict[tuple[int, str, str], Share] = {}
    slowest = slowest_core(profile)
    for core in range(len(profile.estimate.cores)):
        on_path = path_times(profile, core) if core == slowest else {}
        _add(profile, core, on_path, found)
    return {(profile.sites[site], lane, opcode): cell
            for (site, lane, opcode), cell in found.items()}  # fmt: skip


def _add(
    profile: Profile, core: int, on_path: dict[int, float], found: dict[tuple[int, str, str], Share]
) -> None:
    events, sites = profile.estimate.cores[core].events, profile.site_of[core]
    own, flops = profile.self_ns[core], profile.flops[core]
    for index, (_, lane, opcode, _, _, _, _, _, nbytes, turns, _, _) in enumerate(events):
        key = sites[index], lane, opcode
        cell = found.get(key)
        if cell is None:
            cell = found[key] = Share("")
        cell.events += turns
        cell.self_ns += own[index] * turns
        cell.nbytes += nbytes * turns
        cell.flops += flops[index] * turns
    for index, spent in wait_before(profile, core).items():
        event = events[index]
        found[sites[index], event.lane, event.opcode].waiting_ns += spent * event.turns
    for index, spent in on_path.items():
        event = events[index]
        found[sites[index], event.lane, event.opcode].path_ns += spent
