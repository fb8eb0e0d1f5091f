"""Measured rows of single instructions, packets and streams, as short streams on the model.

``SINGLES`` gives for each row's name a function from an end of the parameters' ranges to the
model's figure, in the row's own unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from neff.timing import Event, Parameters, Pricing, Side, read_stream, replay
from neff.timing.work import Compute, Transfer

__all__ = ["SINGLES"]

Figure = Callable[[Side], float | list[float]]

_T32 = "Tensor LDWEIGHTS fp32_mode=LOW fp32@S - 128 - -"
_T16 = "Tensor LDWEIGHTS - bfloat16@S - 128 - -"


def _events(side: Side, *rows: str) -> list[Event]:
    lines = [f"{number}\t" + "\t".join(row.split()) for number, row in enumerate(rows)]
    return replay(read_stream(lines), "trn2", side=side)


def _engine(events: list[Event]) -> list[Event]:
    return [event for event in events if not event.lane.startswith(("dma", "descriptors"))]


def _latency(row: str) -> Figure:
    def figure(side: Side) -> float:
        event = _engine(_events(side, row))[0]
        return event.end - event.start

    return figure


def _warm(weights: str, matmul: str, which: str) -> Figure:
    """Interval or latency of the last of many matmuls."""

    def figure(side: Side) -> float:
        events = _engine(_events(side, *[weights, matmul] * 120))
        if which == "weights":
            return events[-2].end - events[-2].start
        if which == "interval":
            return events[-1].start - events[-3].start
        return events[-1].end - events[-1].start

    return figure


def _matmul(kind: str, columns: int) -> str:
    return f"Tensor MATMUL - {kind}@S @P {columns} - -"


def _packet(work: Transfer, more: str = "") -> Figure:
    def figure(side: Side) -> float:
        pricing = Pricing(Parameters("trn2", toolchain="earlier"), side)
        return pricing.cost(work).packet + (pricing.numbers[more] if more else 0.0)

    return figure


def _parameter(name: str, scale: float = 1.0) -> Figure:
    def figure(side: Side) -> float:
        return Pricing(Parameters("trn2", toolchain="earlier"), side).numbers[name] / scale

    return figure


def _span(row: str) -> Figure:
    def figure(side: Side) -> float:
        moved = [event for event in _events(side, row) if event.lane.startswith("dma")]
        return moved[0].end - moved[0].start

    return figure


def _interval(row: str) -> Figure:
    def figure(side: Side) -> float:
        first, second = _engine(_events(side, row, row))[:2]
        return second.start - first.start

    return figure


def _first_packet(row: str) -> Figure:
    def figure(side: Side) -> float:
        events = _events(side, row)
        moved = next(event for event in events if event.lane.startswith("dma"))
        return moved.start - _engine(events)[0].start

    return figure


def _wake(side: Side) -> float:
    events = _events(
        side, "Sync DMA_DIRECT2D - H S - 128x512 -", "Scalar COPY - fp32@S fp32@S 4 - 0"
    )
    moved = next(event for event in events if event.lane.startswith("dma"))
    data = (
        moved.end
        - Pricing(Parameters("trn2", toolchain="earlier"), side).numbers["dma.completion_packet_ns"]
    )
    return next(event for event in events if event.lane == "scalar").start - data


def _semaphore(side: Side) -> float:
    first, second = _events(
        side, "Vector COPY - fp32@P fp32@S 512 - -", "Scalar COPY - fp32@P fp32@S 512 - 0"
    )
    return second.start - first.end


def _tensor_tensor(side: Side) -> list[float]:
    row = "Vector TENSOR_TENSOR op=ADD fp32@S fp32@S {} - -"
    times = [_latency(row.format(elements))(side) for elements in (2000, 1000)]
    return [times[0] / 1e3, 2 * times[1] / 1e3]


def _transposes(side: Side) -> list[float]:
    """64 of each, alone: engine active is the sum of durations."""
    copy = _latency("Scalar COPY - fp32@P fp32@S 128 - -")(side)
    weights = "Tensor LDWEIGHTS fp32_mode=LOW,transpose_mode=ENABLED fp32@S - 128 - -"
    turned = _warm(weights, _matmul("fp32", 128), "latency")(side)
    return [64 * copy / 1e3, 64 * float(turned) / 1e3]  # type: ignore[arg-type]


def _load(row_bytes: int) -> Transfer:
    return Transfer("hardware", 128, row_bytes)


def _narrow(side: Side) -> float:
    """Four partitions of 8 KiB, which one DMA engine moves."""
    pricing = Pricing(Parameters("trn2"), side)
    return pricing.cost(Transfer("hardware", 4, 8192, lane_count=1)).moving


def _dependent_activation(side: Side) -> float:
    """From the start of a tiny activation of trn1 to that of the next one, which reads its result."""
    pricing = Pricing(Parameters("trn1"), side)
    extras = tuple(
        f"scalar.{name}_{kind}_cycles"
        for name in ("activate", "sbuf")
        for kind in ("interval", "latency")
    )
    cost = pricing.cost(Compute("scalar", "scalar.plain_cycles", 1, extras))
    return cost.latency + pricing.numbers["semaphore.compute_ns"]


_STORE = "GpSimd DMA_DIRECT2D - S H - 4x512 -"

SINGLES: Mapping[str, Figure] = {
    "mm_bf16_512_ii_warm": _warm(_T16, _matmul("bfloat16", 512), "interval"),
    "mm_bf16_512_lat_warm": _warm(_T16, _matmul("bfloat16", 512), "latency"),
    "mm_bf16_128_ii_warm": _warm(_T16, _matmul("bfloat16", 128), "interval"),
    "mm_bf16_128_lat_warm": _warm(_T16, _matmul("bfloat16", 128), "latency"),
    "mm_fp32pass_512_ii_warm": _warm(_T32, _matmul("fp32", 512), "interval"),
    "mm_fp32pass_512_lat_warm": _warm(_T32, _matmul("fp32", 512), "latency"),
    "mm_fp32pass_128_lat_warm": _warm(_T32, _matmul("fp32", 128), "latency"),
    "ldweights_bf16": _warm(_T16, _matmul("bfloat16", 512), "weights"),
    "ldweights_fp32": _warm(_T32, _matmul("fp32", 128), "weights"),
    "dve_reduce_fp32_512_psum_lat": _latency("Vector TENSOR_REDUCE op=MAX fp32@P fp32@S 512 - -"),
    "dve_reduce_fp32_512_sbuf_lat": _latency("Vector TENSOR_REDUCE op=ADD fp32@S fp32@S 512 - -"),
    "dve_copy_fp32_512_psum_lat": _latency("Vector COPY - fp32@P fp32@S 512 - -"),
    "dve_copy_fp32_128_psum_lat": _latency("Vector COPY - fp32@P fp32@S 128 - -"),
    "dve_ts_fp32_512_sbuf_lat": _latency("Vector TENSOR_SCALAR - fp32@S fp32@S 512 - -"),
    "dve_ts_fp32_128_psum_lat": _latency("Vector TENSOR_SCALAR - fp32@P fp32@S 128 - -"),
    "dve_reduce_fp32_4": _latency("Vector TENSOR_REDUCE op=MAX fp32@S fp32@S 4 - -"),
    "dve_recip_fp32_4": _latency("Vector RECIPROCAL - fp32@S fp32@S 4 - -"),
    "dve_recip_fp32_8": _latency("Vector RECIPROCAL - fp32@S fp32@S 8 - -"),
    "act_copy_fp32_512_psum_lat": _latency("Scalar COPY - fp32@P fp32@S 512 - -"),
    "act_copy_fp32_128_psum_lat": _latency("Scalar COPY - fp32@P fp32@S 128 - -"),
    "act_exp_fp32_512_psum_lat": _latency("Scalar ACTIVATE EXP fp32@P fp32@S 512 - -"),
    "act_exp_fp32_512_sbuf_lat": _latency("Scalar ACTIVATE EXP fp32@S fp32@S 512 - -"),
    "act_table_load": _latency("Scalar ACT_TABLE_LOAD - - - - - -"),
    "sem_vec_scalar": _semaphore,
    "dma_pkt_256": _packet(_load(256), "dma.packet_overlap_ns"),
    "dma_pkt_512": _packet(_load(512), "dma.packet_overlap_ns"),
    "dma_pkt_2048": _packet(_load(2048), "dma.packet_overlap_ns"),
    "dma_pkt_4096": _packet(_load(4096), "dma.packet_overlap_ns"),
    "dma_pkt_cast_256": _packet(
        Transfer("software", 512, 256, True, casts=True), "dma.packet_overlap_ns"
    ),
    "dma_cadence_4096": _packet(_load(4096)),
    "dma_cadence_2048": _packet(_load(2048)),
    "dma_cadence_512": _packet(_load(512)),
    "dma_cadence_256_load": _packet(_load(256)),
    "dma_cadence_256_store": _packet(Transfer("hardware", 128, 256, to_hbm=True, from_hbm=False)),
    "dma_cadence_fit": _parameter("dma.descriptor_ns"),
    "dma_store_256KB_isolated": _span(_STORE),
    "dma_load_64KB_512": _span("Sync DMA_DIRECT2D - H S - 128x512 -"),
    "dma_engine_stagger": _parameter("dma.stagger_ns"),
    "dma_load_512KB": _span("GpSimd DMA_DIRECT2D - H S - 128x4096 -"),
    "hwdge_issue": _latency("Sync DMA_DIRECT2D - H S - 128x512 -"),
    "hwdge_first_packet": _first_packet("Sync DMA_DIRECT2D - H S - 128x512 -"),
    "swdge_issue": _latency("GpSimd DMA_DIRECT2D - H S - 128x2048 -"),
    "swdge_first_packet": _first_packet("GpSimd DMA_DIRECT2D - H S - 128x2048 -"),
    "dma_done_to_wake": _wake,
    "pe_warmup": _parameter("tensor.warm_up_ns", 1e3),
    "launch_fixed": _parameter("launch.nc_latency_ns", 1e3),
    "dve_tensor_tensor_fp32": _tensor_tensor,
    "act_copy_128_in_transpose": _transposes,
    "doc_dma_32KiB_4_partitions": _narrow,
    "doc_scalar_small_interval_ncv2": _dependent_activation,
    "doc_ring_hop": _parameter("link.latency_ns", 1e3),
    "doc_internode_hop": _parameter("link.node_latency_ns", 1e3),
}  # fmt: skip
"""By the row's name, without ``trn2_instr_``."""
