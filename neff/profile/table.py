"""The events of a program, each with its instruction's site, as one document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import BinaryIO

from hlo_tools._gc import no_collection
from neff.profile.arrays import EventArrays, arrays_of
from neff.profile.sites import Site, Sites
from neff.program import Program
from neff.timing import Estimate, Event, Parameters, Trips, estimate

__all__ = ["COLUMNS", "SCHEMA", "Profile", "profile_of"]

SCHEMA = "nki-neff/profile/1"
"""Version of ``summary.json`` and ``events.json``; changes when a column's meaning does."""

COLUMNS = (
    "core", "lane", "opcode", "start_ns", "end_ns", "self_ns", "site", "bytes", "flops", "turns",
    "after", "waits_for", "since_ns",
)  # fmt: skip

_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class Profile:
    """A program's estimate, with the instruction of each event.

    Attributes:
        name: the program's.
        estimate: the source of the events; ``estimate.cores[i].events`` are the events.
        parameters: of the model.
        sites: the distinct instructions.
        site_of: for each core, the number of each event's site.
        self_ns: for each core, the time for which each event alone keeps its lane: its addition
            to the lane's busy time. Their sum is the lane's busy time.
        flops: for each core, the FLOPs of each event.
        program: the estimated program.
        trips: iterations of loops that only a run determines, as they were given.
        arrays: for each core, the columns of its events.
    """

    name: str
    estimate: Estimate
    parameters: Parameters
    sites: tuple[Site, ...]
    site_of: tuple[list[int], ...]
    self_ns: tuple[list[float], ...]
    flops: tuple[list[int], ...]
    program: Program
    trips: Trips
    arrays: tuple[EventArrays, ...] = field(repr=False, compare=False)

    def write_events(self, file: BinaryIO) -> None:
        """The event table as JSON: columns, sites, and one array an event."""
        head = {
            "schema": SCHEMA,
            "estimated": True,
            "program": self.name,
            "target": self.estimate.target,
            "statistic": self.estimate.statistic,
            "site_columns": Site._fields,
            "sites": self.sites,
            "columns": COLUMNS,
        }
        file.write(json.dumps(head, ensure_ascii=False)[:-1].encode() + b', "events": [\n')
        separator = ""
        for number in range(len(self.estimate.cores)):
            for lines in _chunks(self._lines(number)):
                file.write((separator + ",\n".join(lines)).encode())
                separator = ",\n"
        file.write(b"\n]}\n")

    def _lines(self, core: int) -> Iterator[str]:
        """Events as JSON arrays; lanes and opcodes are identifiers, which need no escapes."""
        columns = self.site_of[core], self.self_ns[core], self.flops[core]
        events = self.estimate.cores[core].events
        for event, site, self_ns, flops in zip(events, *columns, strict=True):
            _, lane, opcode, start, end, after, waits_for, since, nbytes, iterations, _, _ = event
            yield (
                f'[{core},"{lane}","{opcode}",{start:.1f},{end:.1f},{self_ns:.1f},{site},{nbytes},'
                f"{flops},{iterations},{after},{waits_for},{since:.1f}]"
            )


def profile_of(
    program: Program,
    *,
    parameters: Parameters | None = None,
    statistic: str = "body",
    dma: str = "",
    trips: Trips = None,
) -> Profile:
    """Estimate a program and say what each event is.

    ``parameters``, ``statistic``, ``dma`` and ``trips`` are those of :func:`neff.timing.estimate`.

    Raises:
        NeffError: ``NEFF-STATISTIC``; an unknown statistic or mode.
        NeffRuntimeError: its engines wait for each other.
    """
    parameters = parameters or Parameters(program.target)
    with no_collection():
        return _profile(program, parameters, statistic, dma, trips)


def _profile(
    program: Program, parameters: Parameters, statistic: str, dma: str, trips: Trips
) -> Profile:
    total = estimate(program, parameters=parameters, statistic=statistic, dma=dma, trips=trips)
    sites = Sites(program.metadata)
    site_of = tuple(
        [sites.number(event.source, event.opcode, event.lane) for event in core.events]
        for core in total.cores
    )
    arrays = tuple(arrays_of(core.events) for core in total.cores)
    self_ns = tuple(columns.self_ns.tolist() for columns in arrays)
    flops = tuple(
        [
            sites.sites[site].flops // sites.sites[site].passes if _is_product(event) else 0
            for event, site in zip(core.events, numbers, strict=True)
        ]
        for core, numbers in zip(total.cores, site_of, strict=True)
    )
    return Profile(
        program.name, total, parameters, tuple(sites.sites), site_of, self_ns, flops, program, trips,
        arrays,
    )  # fmt: skip


def _is_product(event: Event) -> bool:
    return event.lane == "tensor" and event.opcode.startswith("nc_matmul")


def _chunks(lines: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(lines, _CHUNK)):
        yield chunk
