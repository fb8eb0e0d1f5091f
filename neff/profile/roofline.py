"""The share of the machine's peak rates that each kernel and HLO instruction reaches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from neff.profile.analysis import Analysis, analysis_of
from neff.profile.arrays import EventArrays, Ints, as_numbers, whole
from neff.profile.attribution import GROUPINGS
from neff.profile.stalls import slowest_core
from neff.profile.table import Profile
from neff.timing import Event, Parameters
from neff.timing.events import DESCRIPTORS, QUEUE
from neff.timing.work import LANES
from nki_lang.ir import Access, Instruction

__all__ = ["Roof", "RooflineRow", "roof_of", "roofline", "roofline_document"]

_TENSOR_ROWS, _TENSOR_COLUMNS = 128, 128
"""Size of the tensor engine; each element does two operations a cycle."""

_FULL = "tensor.fp32_cycles"

_FASTEST = {
    "trn2": ("tensor.double_cycles",),
    "trn3": ("tensor.double_cycles", "tensor.mx_cycles"),
}
"""Cycles of the products that are faster than those of 16-bit operands, by target."""

_MIN_BUSY_SHARE = 0.5
"""A group whose busiest lane works for a smaller share of the time is bound by waiting."""


@dataclass(frozen=True, slots=True)
class Roof:
    """The peak rates of one core: FLOPs and bytes a nanosecond.

    Attributes:
        half, full: of products of 16-bit and of fp32 operands.
        peak: of the fastest products that the target has: of 8-bit or microscaling operands.
        bandwidth: of transfers from and to HBM.
    """

    half: float
    full: float
    peak: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """FLOPs a byte from which on 16-bit products are bound by the tensor engine."""
        return self.half / self.bandwidth if self.bandwidth else 0.0


def roof_of(parameters: Parameters, cores: int) -> Roof:
    """The roof of one of the cores that share an HBM."""
    half = parameters["tensor.clock_ghz"].value * 2 * _TENSOR_ROWS * _TENSOR_COLUMNS
    cycles = (_cycles(parameters, name) for name in _FASTEST.get(parameters.target, ()))
    hbm = parameters["dma.hbm_gb_per_s"].value / max(1, cores)
    bandwidth = min(hbm, LANES * parameters["dma.bytes_per_ns"].value)
    full = half / _cycles(parameters, _FULL)
    return Roof(half, full, half / min(cycles, default=1.0), bandwidth)


@dataclass(slots=True)
class RooflineRow:
    """A kernel or an HLO instruction on the slowest core.

    Attributes:
        name: of the group.
        flops: of the tensor engine; ``full_flops`` are those of fp32.
        nbytes: from and to HBM; a copy within HBM counts once.
        time_ns: of the critical path.
        active_ns: for which at least one engine or transfer of the row works.
        product_ns: that the products would take at the peak rate of their operands' types.
        busy_ns: of each engine, and of the DMA engines as ``DMA``.
    """

    name: str
    flops: int = 0
    full_flops: int = 0
    nbytes: int = 0
    time_ns: float = 0.0
    active_ns: float = 0.0
    product_ns: float = 0.0
    busy_ns: dict[str, float] = field(default_factory=dict[str, float])

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
        """Return the share of its engines' time that a perfect machine would need."""
        if not self.active_ns:
            return 0.0
        return max(self.product_ns, self.nbytes / roof.bandwidth) / self.active_ns


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
    shares, half = analysis.shares[core], roof_of(profile.parameters, 1).half
    for event, number, share in zip(firsts, whole(group_of_kind), shares, strict=True):
        if share.flops:
            cycles = _cycles_of(event)
            rows[number].flops += share.flops
            rows[number].full_flops += share.flops * (cycles == _FULL)
            product_ns = share.flops * _cycles(profile.parameters, cycles) / half
            rows[number].product_ns += product_ns
        if event.lane.startswith(QUEUE) and _crosses_hbm(event):
            rows[number].nbytes += share.nbytes
    _add_busy(rows, columns, group_of_kind[kinds.number])
    return sorted(rows, key=lambda row: (-row.time_ns, row.name))


def _add_busy(rows: list[RooflineRow], columns: EventArrays, row_of: Ints) -> None:
    """Add the time of each row's engines, in order of first use, and of DMA, which is last."""
    is_queue = columns.of_lanes(lane for lane in columns.lanes if lane.startswith(QUEUE))
    is_work = ~columns.of_lanes([DESCRIPTORS])
    computes = np.flatnonzero(~is_queue & is_work)
    keys = row_of[computes] * len(columns.lanes) + columns.lane[computes]
    keys, first, groups = np.unique(keys, return_index=True, return_inverse=True)
    busy = np.bincount(groups, (columns.self_ns * columns.turns)[computes], len(keys))
    for location in whole(np.argsort(first)):
        row, lane = divmod(int(keys[location]), len(columns.lanes))
        rows[row].busy_ns[columns.lanes[lane]] = float(busy[location])
    for row, busy_ns in _occupied(columns, is_queue, row_of):
        rows[row].busy_ns["DMA"] = busy_ns
    for row, active_ns in _occupied(columns, is_work, row_of):
        rows[row].active_ns = active_ns


def _occupied(
    columns: EventArrays, selected: NDArray[np.bool_], row_of: Ints
) -> Iterator[tuple[int, float]]:
    """Yield each row's time in which one of its selected events runs; overlaps count once."""
    events = np.flatnonzero(selected)
    order = np.lexsort(
        (columns.turns[events], columns.end[events], columns.start[events], row_of[events])
    )
    events = events[order]
    rows, first = np.unique(row_of[events], return_index=True)
    for row, row_events in zip(whole(rows), np.split(events, first[1:]), strict=True):
        start, end = columns.start[row_events], columns.end[row_events]
        last = np.concatenate([[0.0], np.maximum(np.maximum.accumulate(end)[:-1], 0.0)])
        alone = (end - np.maximum(start, last)) * columns.turns[row_events]
        yield row, float(np.cumsum(np.where(end > last, alone, 0.0))[-1])


def _accesses(event: Event) -> Iterator[Access]:
    if type(event.source) is Instruction:
        for value in event.source.operands.values():
            if type(value) is Access:
                yield value


def _crosses_hbm(event: Event) -> bool:
    """Return True for a transfer that reads or writes HBM."""
    return any(not access.tensor.on_chip for access in _accesses(event))


def _cycles_of(event: Event) -> str:
    """Return the name of the parameter with the cycles of a product's column, "" for one cycle."""
    if event.opcode.startswith("nc_matmul_mx"):
        return "tensor.mx_cycles"
    if type(event.source) is Instruction and event.source.operands.get("perf_mode") == "double_row":
        return "tensor.double_cycles"
    return _FULL if any(map(_is_full, _accesses(event))) else ""


def _is_full(access: Access) -> bool:
    """Return True for an operand of four bytes an element."""
    return access.element_type.itemsize >= 4 and access.tensor.buffer.value == "sbuf"


def _cycles(parameters: Parameters, name: str) -> float:
    """Return the cycles of a column of a product; fp32 takes two passes."""
    if not name:
        return 1.0
    return parameters[name].value * (2 if name == _FULL else 1)


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
            "tflops_peak": round(roof.peak / 1e3, 3),
            "gb_per_s": round(roof.bandwidth, 3),
            "ridge_flops_per_byte": round(roof.ridge, 3),
        },
        **{
            name: [_document(row, roof) for row in roofline(analysis, name)]
            for name in ("kernel", "op")
        },
    }


def _document(row: RooflineRow, roof: Roof) -> dict[str, object]:
    time = row.active_ns or 1.0
    return {
        "name": row.name,
        "flops": row.flops,
        "bytes": row.nbytes,
        "flops_per_byte": round(row.intensity, 3),
        "time_us": round(row.time_ns / 1e3, 3),
        "active_us": round(row.active_ns / 1e3, 3),
        "tflops": round(row.flops / time / 1e3, 4),
        "gb_per_s": round(row.nbytes / time, 3),
        "bound": row.bound,
        "share_of_roof": round(row.share(roof), 4),
        "busy_us": {name: round(busy_ns / 1e3, 3) for name, busy_ns in row.busy_ns.items()},
    }
