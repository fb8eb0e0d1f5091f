"""The share of the machine's peak rates that each kernel and HLO instruction reaches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from neff.profile.analysis import Analysis, analysis_of
from neff.profile.arrays import EventArrays, Floats, Ints, as_numbers, whole
from neff.profile.attribution import GROUPINGS, SPLIT_BY_FUSION
from neff.profile.stalls import slowest_core
from neff.profile.table import Profile
from neff.timing import Event, Parameters
from neff.timing.costs import LANES
from neff.timing.events import DESCRIPTORS, QUEUE
from nki_lang.ir import Access, Instruction

__all__ = ["Roof", "RooflineRow", "roof_of", "roofline", "roofline_document"]

_TENSOR_ROWS, _TENSOR_COLUMNS = 128, 128
"""Size of the tensor engine; each element does two operations a cycle."""

_MIN_BUSY_SHARE = 0.5
"""A group whose busiest lane works for a smaller share of the time is bound by waiting."""


_RELATIVE_ROUNDING_ERROR = 1e-9
"""Rounding error of sums of times."""


@dataclass(frozen=True, slots=True)
class Roof:
    """The peak rates of one core: FLOPs and bytes of HBM a nanosecond."""

    half: float
    full: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """FLOPs a byte from which on 16-bit products are bound by the tensor engine."""
        return self.half / self.bandwidth if self.bandwidth else 0.0


def roof_of(parameters: Parameters, cores: int) -> Roof:
    """The roof of one of the cores that share an HBM."""
    half = parameters["tensor.clock_ghz"].value * 2 * _TENSOR_ROWS * _TENSOR_COLUMNS
    full = half / (2 * parameters["tensor.fp32_cycles"].value)
    hbm = parameters["dma.hbm_gb_per_s"].value / max(1, cores)
    return Roof(half, full, min(hbm, LANES * parameters["dma.bytes_per_ns"].value))


@dataclass(slots=True)
class RooflineRow:
    """A kernel or an HLO instruction on the slowest core.

    Attributes:
        name: of the group.
        flops: of the tensor engine; ``full_flops`` are those of fp32.
        nbytes: from and to HBM.
        time_ns: of the critical path.
        busy_ns: of each engine, and of the DMA engines as ``DMA``.
        is_fused: it has the work of other HLO instructions, which the compiler fused with it.
    """

    name: str
    flops: int = 0
    full_flops: int = 0
    nbytes: int = 0
    time_ns: float = 0.0
    busy_ns: dict[str, float] = field(default_factory=dict[str, float])
    is_fused: bool = False

    @property
    def intensity(self) -> float:
        """FLOPs a byte."""
        return self.flops / self.nbytes if self.nbytes else 0.0

    @property
    def bound(self) -> str:
        """The busiest engine, or ``waiting`` when none is busy for half of the time."""
        if not self.busy_ns:
            return "waiting"
        name, busy = max(self.busy_ns.items(), key=lambda item: item[1])
        return name if busy >= _MIN_BUSY_SHARE * self.time_ns else "waiting"

    def share(self, roof: Roof) -> float:
        """Return the share of the time that a perfect machine would need."""
        return min(1.0, self._least_ns(roof) / self.time_ns) if self.time_ns else 0.0

    def is_approximate(self, roof: Roof) -> bool:
        """True above the roof: a part of the row's work overlaps the time of other rows."""
        return self.is_fused or self._least_ns(roof) > self.time_ns * (1 + _RELATIVE_ROUNDING_ERROR)

    def _least_ns(self, roof: Roof) -> float:
        """Return the time of the products or the bytes on a perfect machine."""
        half = self.flops - self.full_flops
        products = half / roof.half + self.full_flops / roof.full
        return max(products, self.nbytes / roof.bandwidth)


def roofline(profile: Profile | Analysis, grouping: str = "kernel") -> list[RooflineRow]:
    """The groups (``kernel`` or ``op``) of the slowest core, the longest first."""
    analysis = analysis_of(profile)
    profile, core = analysis.profile, slowest_core(analysis.profile)
    if core < 0:
        return []
    columns, kinds = profile.arrays[core], analysis.kinds[core]
    events, sites = profile.estimate.cores[core].events, profile.site_of[core]
    firsts = [events[index] for index in kinds.first]
    names, group_of_kind = as_numbers(
        [
            GROUPINGS[grouping](profile.sites[sites[index]], event.lane, event.opcode)
            for index, event in zip(kinds.first, firsts, strict=True)
        ]
    )
    rows = [RooflineRow(name) for name in names]
    path = analysis.paths[core]
    times = np.zeros(len(events))
    times[np.fromiter(path, np.int64, len(path))] = np.fromiter(path.values(), float, len(path))
    for row, path_ns in zip(
        rows, np.bincount(group_of_kind[kinds.number], times, len(rows)), strict=True
    ):
        row.time_ns = float(path_ns)
    shares = analysis.shares[core]
    for event, number, share in zip(firsts, whole(group_of_kind), shares, strict=True):
        rows[number].flops += share.flops
        rows[number].full_flops += share.flops * _is_full(event)
        if event.lane.startswith(QUEUE):
            rows[number].nbytes += share.nbytes * _crossings(event)
    if grouping in SPLIT_BY_FUSION:
        for index, number in zip(kinds.first, whole(group_of_kind), strict=True):
            rows[number].is_fused |= profile.sites[sites[index]].is_fused
    _add_busy(rows, columns, group_of_kind[kinds.number])
    return sorted(rows, key=lambda row: (-row.time_ns, row.name))


def _add_busy(rows: list[RooflineRow], columns: EventArrays, row_of: Ints) -> None:
    """Add the busy time of each row's engines, in order of first use, and DMA last."""
    is_queue = columns.of_lanes(lane for lane in columns.lanes if lane.startswith(QUEUE))
    computes = np.flatnonzero(~is_queue & ~columns.of_lanes([DESCRIPTORS]))
    keys = row_of[computes] * len(columns.lanes) + columns.lane[computes]
    keys, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    busy = np.bincount(groups, (columns.self_ns * columns.turns)[computes], len(keys))
    for place in whole(np.argsort(first)):
        row, lane = divmod(int(keys[place]), len(columns.lanes))
        rows[row].busy_ns[columns.lanes[lane]] = float(busy[place])
    for number in whole(np.unique(row_of[is_queue])):
        moves = is_queue & (row_of == number)
        rows[number].busy_ns["DMA"] = _occupied(
            columns.start[moves], columns.end[moves], columns.turns[moves]
        )


def _occupied(start: Floats, end: Floats, turns: Floats) -> float:
    """Return the time in which something moves; overlaps count once."""
    order = np.lexsort((turns, end, start))
    start, end, turns = start[order], end[order], turns[order]
    last = np.concatenate([[0.0], np.maximum(np.maximum.accumulate(end)[:-1], 0.0)])
    busy_ns = np.where(end > last, (end - np.maximum(start, last)) * turns, 0.0)
    return float(np.cumsum(busy_ns)[-1])


def _accesses(event: Event) -> Iterator[Access]:
    if type(event.source) is Instruction:
        for value in event.source.operands.values():
            if type(value) is Access:
                yield value


def _crossings(event: Event) -> int:
    """How often a transfer's bytes cross the border of HBM."""
    return sum(not access.tensor.on_chip for access in _accesses(event))


def _is_full(event: Event) -> bool:
    return any(
        access.element_type.itemsize >= 4
        for access in _accesses(event)
        if access.tensor.buffer.value == "sbuf"
    )


def roofline_document(source: Profile | Analysis) -> dict[str, object]:
    """The roof of one core, and the rows of each kernel and HLO instruction."""
    analysis = analysis_of(source)
    profile = analysis.profile
    roof = roof_of(profile.parameters, len(profile.estimate.cores))
    return {
        "estimated": True,
        "program": profile.name,
        "roof": {
            "tflops": round(roof.half / 1e3, 3),
            "tflops_fp32": round(roof.full / 1e3, 3),
            "gb_per_s": round(roof.bandwidth, 3),
            "ridge_flops_per_byte": round(roof.ridge, 3),
        },
        **{
            name: [_document(row, roof) for row in roofline(analysis, name)]
            for name in ("kernel", "op")
        },
    }


def _document(row: RooflineRow, roof: Roof) -> dict[str, object]:
    time = row.time_ns or 1.0
    return {
        "name": row.name,
        "flops": row.flops,
        "bytes": row.nbytes,
        "flops_per_byte": round(row.intensity, 3),
        "time_us": round(row.time_ns / 1e3, 3),
        "tflops": round(row.flops / time / 1e3, 4) if row.time_ns else 0.0,
        "gb_per_s": round(row.nbytes / time, 3) if row.time_ns else 0.0,
        "bound": row.bound,
        "share_of_roof": round(row.share(roof), 4),
        "approximate": row.is_approximate(roof),
        "busy_us": {name: round(busy_ns / 1e3, 3) for name, busy_ns in row.busy_ns.items()},
    }
