"""Costs of work by the parameters: when the engine is free again, and when the result arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

from neff.timing.parameters import Parameters, Side
from neff.timing.ports import held_ports
from neff.timing.work import LANES, Compute, Fixed, Matmul, Transfer, Weights, Work

__all__ = ["Cost", "Pricing"]

_SHORT_ROW_BYTES, _FULL_ROW_BYTES = 1024, 4096
"""Loads of rows up to the first have ``dma.short_row_share`` of the rate (the longest measured
row), from the second on the full rate (B:74-85). Between them the time grows evenly: a longer row
never takes less time than a shorter one.
"""

_SHORT_STORE_BYTES = 512
"""Shorter writes are read, changed and written (A2, packets)."""


@dataclass(slots=True)
class Cost:
    """The cost of one piece of work, in nanoseconds.

    Attributes:
        interval: until the next instruction of the engine may start; for a weight load, until its
            matmul may start; for a transfer, how long its issue keeps the engine.
        latency: until the result arrives; for a transfer, from issue to the first packet.
        cold_interval, cold_latency: the same while the tensor engine is cold.
        busy: the duration in a profile; the latency unless it is a transfer.
        exposed, cold_exposed: for a weight load, until the first column may follow.
        packets: of a transfer, on each DMA engine; the first ``extra_packets`` engines have one more.
        packet: duration of each packet of a transfer.
        first_lane, lane_count: DMA engines that move a transfer.
        measured_share: share of the latency that comes from measured parameters, 0 to 1.
        by_software, to_hbm, nbytes: of a transfer.
        ports: memory ports that it keeps from another engine, and for how long.
    """

    interval: float
    latency: float
    busy: float
    cold_interval: float = 0.0
    cold_latency: float = 0.0
    exposed: float = 0.0
    cold_exposed: float = 0.0
    packets: int = 0
    extra_packets: int = 0
    packet: float = 0.0
    first_lane: int = 0
    lane_count: int = LANES
    measured_share: float = 0.0
    by_software: bool = False
    to_hbm: bool = False
    nbytes: int = 0
    ports: tuple[tuple[str, float], ...] = ()

    @property
    def moving(self) -> float:
        """Return how long a transfer keeps the DMA engines, summed over them."""
        return (self.packets * self.lane_count + self.extra_packets) * self.packet


class Pricing:
    """Costs of work by ``parameters``, at one end of their ranges (``side``).

    ``cores`` of the chip are running and share its HBM.
    """

    def __init__(self, parameters: Parameters, side: Side = Side.nominal, cores: int = 1) -> None:
        self.parameters = parameters
        self.numbers = parameters.numbers(side)
        self._cores = cores

    def cost(self, work: Work) -> Cost:
        """Return the cost of the work."""
        return self._RULES[type(work)](self, work)

    def _measured_share(self, *pieces: tuple[str, float]) -> float:
        """Return the share of the pieces' sum whose parameters are measured."""
        total = sum(length for _, length in pieces) or 1.0
        measured_ns = sum(length for name, length in pieces if self.parameters.is_known(name))
        return measured_ns / total

    def _compute(self, work: Compute) -> Cost:
        p, engine = self.numbers, work.engine
        clock = p[f"{engine}.clock_ghz"]
        elements = work.elements * p[work.rate]
        if engine == "gpsimd":
            interval, latency = p["gpsimd.start_cycles"], p["gpsimd.latency_cycles"]
            latency += interval
        else:
            interval, latency = p[f"{engine}.interval_cycles"], p[f"{engine}.latency_cycles"]
        for extra in work.extras:
            extra_cycles = p[extra]
            if not extra.endswith("latency_cycles"):
                interval += extra_cycles
            if not extra.endswith("interval_cycles"):
                latency += extra_cycles
        measured_share = self._measured_share(
            (work.rate, elements), (f"{engine}.latency_cycles", latency)
        )
        slower = p["engine.contention"] / clock
        duration = (elements + latency) * slower
        ports = held_ports(p, work, elements * slower)
        return Cost(
            (elements + interval) * slower,
            duration,
            duration,
            measured_share=measured_share,
            ports=ports,
        )

    def _weights(self, work: Weights) -> Cost:
        p = self.numbers
        kind = "tensor.load_cycles"
        if work.is_fp32:
            kind = (
                "tensor.load_transposed_fp32_cycles"
                if work.is_transpose
                else "tensor.load_fp32_cycles"
            )
        is_slow = work.is_fp32 and not work.is_transpose
        extra_cycles = p["tensor.weights_fp32_cycles"] if is_slow else 0.0
        warm = p["tensor.clock_ghz"]
        cold = warm * p["tensor.cold_share"]
        durations = [p["tensor.load_ns"] + p[kind] / clock for clock in (warm, cold)]
        weights_ns = p["tensor.weights_fp32_ns" if work.is_fp32 else "tensor.weights_ns"]
        exposed = [weights_ns + extra_cycles / clock for clock in (warm, cold)]
        gap = p["tensor.dispatch_ns"]
        return Cost(
            gap, durations[0], durations[0], gap, durations[1], exposed[0], exposed[1],
            measured_share=float(self.parameters.is_known(kind)),
        )  # fmt: skip

    def _matmul(self, work: Matmul) -> Cost:
        p = self.numbers
        cycles = work.columns * (p[work.rate] if work.rate else 1.0)
        warm = p["tensor.clock_ghz"]
        cold = warm * p["tensor.cold_share"]
        slower = p["engine.contention"]
        streams = [slower * cycles / clock + p["tensor.gap_ns"] for clock in (warm, cold)]
        ends = [
            slower * cycles / clock + p["tensor.latency_ns"] + p["tensor.pipeline_cycles"] / clock
            for clock in (warm, cold)
        ]
        is_measured = self.parameters.is_known(work.rate or "tensor.clock_ghz")
        return Cost(
            streams[0], ends[0], ends[0], streams[1], ends[1], measured_share=float(is_measured)
        )

    def _transfer(self, work: Transfer) -> Cost:
        issue, busy, start, name = _ISSUES[work.descriptors](self.numbers, work)
        merged = self._merged(work)
        packets = ceil(work.rows / merged)
        size = work.row_bytes * merged
        longest = self.numbers["dma.packet_bytes"]
        pieces = max(1, ceil(size / longest))
        packet = self._packet(work, size, merged, pieces) / pieces
        packets *= pieces
        lanes = work.lane_count
        full, extra_packets = divmod(packets, lanes)
        moving = ceil(packets / lanes) * packet
        measured_share = self._measured_share((name, start), ("dma.bytes_per_ns", moving))
        return Cost(
            issue, start, busy, packets=full, extra_packets=extra_packets, packet=packet, measured_share=measured_share,
            by_software=work.descriptors == "software", to_hbm=work.to_hbm, nbytes=work.nbytes,
            first_lane=work.first_lane, lane_count=lanes,
        )  # fmt: skip

    def _merged(self, work: Transfer) -> int:
        """Return the rows in one packet."""
        if _has_single_rows(work) or not work.row_bytes:
            return 1
        largest = int(self.numbers["dma.packet_bytes"]) // work.row_bytes
        return max(1, min(largest, ceil(work.rows / work.lane_count)))

    def _packet(self, work: Transfer, size: int, merged: int, pieces: int) -> float:
        """Return the nanoseconds of one packet, or of the pieces of one long row."""
        p = self.numbers
        share = p["dma.hbm_gb_per_s"] / (LANES * self._cores)
        rate = min(p["dma.bytes_per_ns"], share)
        if work.transposes >= 4:
            rate = min(rate, p["dma.transpose_bytes_per_ns"])
        elif work.transposes:
            rate *= p["dma.transpose_share" if work.from_hbm else "dma.transpose_sbuf_share"]
        if work.row_bytes < _FULL_ROW_BYTES and not work.to_hbm and _has_single_rows(work):
            rate *= _share(work.row_bytes, p["dma.short_row_share"])
        if work.to_hbm and work.from_hbm:
            rate *= p["dma.between_hbm_share"]
        duration = pieces * p["dma.descriptor_ns"] + size / rate
        row_ns = p["dma.merged_row_ns"] + work.row_bytes / p["dma.merged_bytes_per_ns"]
        duration += (merged - 1) * (p["dma.merged_row_store_ns"] if work.to_hbm else row_ns)
        if work.to_hbm:
            duration += p["dma.store_row_ns"] * (not work.from_hbm)
            duration += p["dma.short_store_ns"] * (size < _SHORT_STORE_BYTES)
        duration += p["dma.cast_ns"] * work.casts * max(1.0, size / 256)
        return duration * p["dma.contention"]

    def _fixed(self, work: Fixed) -> Cost:
        parameter = work.parameter
        if work.ranks > self.numbers["link.node_ranks"]:
            parameter = "link.node_latency_ns"
        duration = self.numbers[parameter] * work.steps
        if work.nbytes:
            duration += work.nbytes / self.numbers["link.bytes_per_ns"]
        measured_share = float(self.parameters.is_known(parameter))
        if parameter == "semaphore.more_ns":
            shown = min(duration, self.numbers["semaphore.instruction_ns"])
            return Cost(duration, shown, shown, measured_share=measured_share)
        return Cost(duration, duration, duration, measured_share=measured_share)

    _RULES: ClassVar[dict[type[Work], Callable[[Any, Any], Cost]]] = {
        Compute: _compute,
        Weights: _weights,
        Matmul: _matmul,
        Transfer: _transfer,
        Fixed: _fixed,
    }


def _has_single_rows(work: Transfer) -> bool:
    """Return True if each packet has one row, as hardware descriptors and casts send them."""
    is_moved_alone = work.descriptors == "hardware" or work.casts or work.transposes
    return bool(is_moved_alone or work.is_strided or work.gathered)


def _share(row_bytes: int, short: float) -> float:
    """Return the share of the rate for rows of so many bytes, when short rows have ``short`` of
    it.
    """
    if row_bytes <= _SHORT_ROW_BYTES:
        return short
    longer = (row_bytes - _SHORT_ROW_BYTES) / (_FULL_ROW_BYTES - _SHORT_ROW_BYTES)
    return row_bytes / (_SHORT_ROW_BYTES / short * (1 - longer) + _FULL_ROW_BYTES * longer)


def _hardware(p: dict[str, float], work: Transfer) -> tuple[float, float, float, str]:
    issue = p["dma.issue_ns"] + p["dma.issue_row_ns"] * min(work.rows, 128)
    return issue, min(issue, p["dma.issue_busy_ns"]), p["dma.start_ns"], "dma.start_ns"


def _software(p: dict[str, float], work: Transfer) -> tuple[float, float, float, str]:
    strided = work.is_strided or work.partition_rows > 1
    issue = p["dma.software_strided_ns" if strided else "dma.software_issue_ns"]
    issue += p["dma.software_rows_ns"] * work.partition_rows * strided
    issue += p["dma.indirect_row_ns"] * work.gathered
    return issue, p["dma.software_busy_ns"], p["dma.software_start_ns"], "dma.software_start_ns"


def _static(p: dict[str, float], work: Transfer) -> tuple[float, float, float, str]:
    issue = p["dma.static_issue_ns"] + p["dma.indirect_row_ns"] * work.gathered
    return issue, issue, p["dma.static_start_ns"], "dma.static_start_ns"


_ISSUES = {"hardware": _hardware, "software": _software, "static": _static}
