"""The rows of :mod:`neff.timing.parameters`: name, unit, meaning, and a value a generation.

Sources: "streams 512" = the decoded instruction streams of four attention kernels (allenkchau/
trainium-kernel-fusion, trn2), of length 512; "intervals" = intervals and latencies of single
instructions in eight profiles of the same source; "packets" = its DMA packets; cs149 = kernels
of stanford-cs149 students, adds of two vectors; kt = blocked fp32 products (yahavb/
trainium-agent-labs, NKI 0.6, trn2); pantheon = trn1 bandwidth measurements; tutorial
= the vendor's matrix multiplication tutorial; isa 2.26:<line> = the vendor's
documentation of version 2.26 (git history, commit 1db4d74e, nki/api/nki/isa); isa 0.6:<line> = the
stub of NKI 0.6.0; A1, A2, A3 = the architecture guides of trainium_inferentia2, trainium2 and
trainium3; B = the DMA bandwidth guide (nki/deep-dives/nki-dma-bandwidth-guide.rst).
"""

from __future__ import annotations

__all__ = ["EARLIER_ROWS", "PARAMETER_ROWS", "Cell"]

Cell = tuple[float, float, float, str, str]
"""Value, low, high, kind, source."""


def _measured(value: float, low: float, high: float, source: str) -> Cell:
    return value, low, high, "measured", source


def _documented(value: float, source: str, spread: float = 0.0) -> Cell:
    return value, value * (1 - spread), value * (1 + spread), "documented", source


def _documented_range(value: float, low: float, high: float, source: str) -> Cell:
    return value, low, high, "documented", source


def _assumed(value: float, low: float, high: float, source: str) -> Cell:
    return value, low, high, "assumed", source


def _all(cell: Cell) -> dict[str, Cell]:
    return {"trn1": cell, "trn2": cell, "trn3": cell}


_PORT = (1.0, 0.5, 1.0, "documented", "A1:596-597; low: elements use half of a port's accesses")
_BANK = (1.0, 0.5, 1.0, "documented", "A2:266-273; low as of the ports of trn1")
_NO_PORT = _documented(0.0, "A2:266-273")

_CLOCKS = "A1:63-74, A2:49-64, A3:46-61"
_STREAMS = "streams 512"
_SINGLE = "intervals"

_TENSOR = (
    ("tensor.clock_ghz", "GHz", "clock of the tensor engine",
     {"trn1": (2.8, 2.4, 2.85, "documented", f"{_CLOCKS}; nothing published came above 2.45"),
      "trn2": _measured(2.4, 2.38, 2.42, _SINGLE),
      "trn3": _documented(2.4, _CLOCKS, 0.05)}),
    ("tensor.cold_share", "share", "share of the clock while the engine is cold",
     {"trn1": _assumed(1.0, 0.7, 1.0, "no gating is published for trn1"),
      "trn2": _measured(0.5, 0.5, 0.51, _STREAMS)}),
    ("tensor.warm_up_ns", "ns", "activity without a pause before the full rate",
     {"trn2": _measured(5120, 3413, 6827, "streams 512: a full window of 3413 ns must be busy, "
                        "its phase is unknown; the mean")}),
    ("tensor.pause_ns", "ns", "a longer pause starts the warming again",
     {"trn2": _measured(500, 250, 786, "streams 512: a pause of 786 ns did")}),
    ("tensor.cooling_ns", "ns", "a longer pause makes a warm engine cold",
     {"trn2": _assumed(3413, 1700, 6827, "one window; streams 512: 1.7 us does not")}),
    ("tensor.gap_ns", "ns", "between two matmuls, besides their columns",
     {"trn2": _measured(2, 0, 10, "intervals; labs over a whole product: 10")}),
    ("tensor.dispatch_ns", "ns", "between the starts of a weight load and its matmul",
     {"trn2": _measured(2, 1, 30, _STREAMS)}),
    ("tensor.latency_ns", "ns", "from the last column to the result in PSUM, any clock",
     {"trn2": _measured(126, 122, 132, _SINGLE)}),
    ("tensor.pipeline_cycles", "cycles", "the same, in cycles of the clock at the time",
     {"trn2": _measured(94, 90, 98, _SINGLE)}),
    ("tensor.weights_ns", "ns", "from the start of a 2-byte weight load to the first column",
     {"trn2": _measured(30, 28, 48, _STREAMS)}),
    ("tensor.weights_fp32_ns", "ns", "the same in fp32",
     {"trn2": _measured(58, 54, 64, _STREAMS)}),
    ("tensor.weights_fp32_cycles", "cycles", "more for fp32 weights that are not transposed",
     {"trn2": _measured(124, 115, 130, _STREAMS)}),
    ("tensor.load_ns", "ns", "duration of a weight load, fixed part",
     {"trn2": _measured(45, 42, 50, _SINGLE)}),
    ("tensor.load_cycles", "cycles", "duration of a weight load of 2 bytes",
     {"trn2": _measured(126, 120, 130, _SINGLE)}),
    ("tensor.load_transposed_fp32_cycles", "cycles", "the same in fp32, for a transpose",
     {"trn2": _measured(226, 215, 240, _SINGLE)}),
    ("tensor.load_fp32_cycles", "cycles", "the same in fp32",
     {"trn2": _measured(348, 330, 352, _SINGLE)}),
    ("tensor.fp32_cycles", "cycles/column", "of each of the two passes of a product in fp32, or of a transpose",
     {"trn2": _measured(2, 2, 2, _SINGLE)}),
    ("tensor.double_cycles", "cycles/column", "of a matmul in a double performance mode",
     {"trn2": _documented(0.5, "isa 0.6, nc_matmul perf_mode", 0.1)}),
    ("tensor.mx_cycles", "cycles/column", "of a matmul in a microscaling format",
     {"trn2": _documented(0.25, "A3: four times bf16", 0.1)}),
)  # fmt: skip

_VECTOR = (
    ("vector.clock_ghz", "GHz", "clock of the vector engine",
     {"trn1": _documented(1.12, _CLOCKS), "trn2": _measured(0.96, 0.955, 0.965, _SINGLE),
      "trn3": _documented(1.2, _CLOCKS)}),
    ("vector.interval_cycles", "cycles", "between two instructions, besides their elements",
     {"trn2": _measured(62, 56, 70, _SINGLE)}),
    ("vector.latency_cycles", "cycles", "from the last element to its arrival",
     {"trn2": _measured(145, 138, 151, _SINGLE)}),
    ("vector.operand_cycles", "cycles", "more for a scalar operand of tensor_scalar",
     {"trn2": _measured(60, 55, 66, _SINGLE)}),
    ("vector.fast_32_cycles", "cycles/element", "tensor_scalar and tensor_copy, fp32, in SBUF",
     {"trn1": _documented(1.0, "isa 2.26:1678"),
      "trn2": _measured(0.5, 0.5, 0.5, _SINGLE)}),
    ("vector.fast_16_cycles", "cycles/element", "the same with 2-byte types",
     {"trn1": _documented(1.0, "isa 2.26:1678"), "trn2": _documented(0.25, "A2:222-239", 0.2)}),
    ("vector.reduce_16_cycles", "cycles/element", "tensor_reduce, bf16, add or maximum",
     {"trn1": _documented(0.5, "isa 2.26:1605", 0.2), "trn2": _documented(0.5, "isa 2.26:1605", 0.2)}),
    ("vector.two_sources_cycles", "cycles/element", "two operands from SBUF",
     {"trn1": _documented(2.0, "isa 2.26:1803", 0.1), "trn2": _measured(1.68, 1.62, 2.0, "cs149")}),
    ("vector.two_sources_fast_cycles", "cycles/element", "the same in bf16, add, subtract, multiply",
     {"trn1": _documented(1.0, "isa 2.26:1803", 0.1), "trn2": _documented(1.0, "isa 2.26:1803", 0.1)}),
    ("vector.reciprocal_cycles", "cycles/element", "reciprocal",
     {"trn1": _documented(8.0, "isa 2.26:1189", 0.1), "trn2": _measured(7.0, 6.8, 8.0, _SINGLE)}),
    ("vector.scan_cycles", "cycles/element", "tensor_tensor_scan, scalar_tensor_tensor",
     {"trn1": _documented(2.0, "isa 2.26:1206, 1888", 0.1),
      "trn2": _documented(2.0, "isa 2.26:1206, 1888", 0.1)}),
    ("vector.aggregate_cycles", "cycles/element", "bn_aggr",
     {"trn1": _documented(13 / 3, "isa 2.26:337", 0.1), "trn2": _documented(13 / 3, "isa 2.26:337", 0.1)}),
    ("vector.quarter_cycles", "cycles/element", "exponential, quantize_mx",
     {"trn2": _documented(0.25, "A3:172, 179", 0.1)}),
    ("vector.plain_cycles", "cycles/element", "everything else",
     {"trn1": _documented(1.0, "isa 2.26", 0.05), "trn2": _measured(1.0, 1.0, 1.02, _SINGLE)}),
    ("vector.undocumented_cycles", "cycles/element", "instructions of unknown cost",
     _all(_assumed(2.0, 1.0, 4.0, "nothing is published"))),
    ("vector.unknown_cycles", "cycles/element", "instructions of a stream that the model does not know",
     _all(_assumed(1.0, 0.5, 4.0, "most instructions take one cycle (isa 2.26)"))),
)  # fmt: skip

_SCALAR = (
    ("scalar.clock_ghz", "GHz", "clock of the scalar engine",
     {"trn1": _documented(1.4, _CLOCKS), "trn2": _measured(1.2, 1.195, 1.205, _SINGLE),
      "trn3": _documented(1.2, _CLOCKS)}),
    ("scalar.plain_cycles", "cycles/element", "any function",
     {"trn1": _documented(1.0, "isa 2.26:168", 0.05), "trn2": _measured(1.0, 1.0, 1.02, _SINGLE)}),
    ("scalar.interval_cycles", "cycles", "between two copies, besides their elements",
     {"trn2": _measured(65, 58, 70, _SINGLE)}),
    ("scalar.latency_cycles", "cycles", "from a copy's last element to its arrival",
     {"trn2": _measured(190, 186, 195, _SINGLE)}),
    ("scalar.activate_interval_cycles", "cycles", "more for an activation, which reads a bias",
     {"trn1": _assumed(90, 40, 107, "as trn2, but below its latency"),
      "trn2": _measured(107, 101, 112, _SINGLE)}),
    ("scalar.activate_latency_cycles", "cycles", "more latency of an activation",
     {"trn1": _documented_range(0, 0, 40, "performance guide: 264 cycles between dependent ones"),
      "trn2": _measured(120, 106, 125, _SINGLE)}),
    ("scalar.sbuf_interval_cycles", "cycles", "more for an activation with its source in SBUF",
     {"trn2": _measured(50, 46, 56, _SINGLE)}),
    ("scalar.sbuf_latency_cycles", "cycles", "more latency of such an activation",
     {"trn2": _measured(26, 22, 30, _SINGLE)}),
    ("scalar.reduce_cycles", "cycles", "more for activation_reduce",
     {"trn1": _documented(64, "isa 2.26:237", 0.2), "trn2": _documented(64, "isa 2.26:237", 0.2)}),
    ("scalar.table_load_ns", "ns", "loading the table of another set of functions",
     {"trn2": _measured(1283, 1283, 1283, _SINGLE)}),
)  # fmt: skip

_GPSIMD = (
    ("gpsimd.clock_ghz", "GHz", "clock of GpSimd",
     {"trn1": _documented(1.4, _CLOCKS), "trn2": _documented(1.2, _CLOCKS),
      "trn3": _documented(1.2, _CLOCKS)}),
    ("gpsimd.start_cycles", "cycles", "between two instructions, besides their elements",
     _all(_documented(150, "isa 2.26:291", 0.3))),
    ("gpsimd.latency_cycles", "cycles", "from the last element to its arrival",
     _all(_assumed(150, 60, 400, "as its start"))),
    ("gpsimd.documented_cycles", "cycles/element", "iota, affine_select, local_gather, topk",
     _all(_documented(1.0, "isa 2.26:291, 567, 630; isa 0.6:3341", 0.3))),
    ("gpsimd.plain_cycles", "cycles/element", "any other instruction",
     _all(_assumed(2.0, 1.0, 4.0, "documented is 1 (isa 2.26); two ports less than VectorE"))),
)  # fmt: skip

_PORTS = (
    ("sbuf.port_times", "times", "of its elements' time VectorE or GpSimd keeps the other from SBUF",
     {"trn1": _PORT, "trn2": _NO_PORT, "trn3": _NO_PORT}),
    ("psum.port_times", "times", "of its elements' time VectorE or ScalarE keeps the other from PSUM",
     {"trn1": _PORT, "trn2": _NO_PORT, "trn3": _NO_PORT}),
    ("psum.bank_times", "times", "the same, from the banks that it reads or writes",
     {"trn1": _documented(0.0, "A1:596-597: it is all of PSUM"), "trn2": _BANK, "trn3": _BANK}),
)  # fmt: skip

_CONTROL = (
    ("engine.contention", "times", "what engines slow each other down by, not modelled otherwise",
     _all(_assumed(1.0, 0.95, 1.1, "banks of SBUF; other sources than the profiles"))),
    ("dma.contention", "times", "the same for packets",
     _all(_assumed(1.0, 0.95, 1.1, "pages and refresh of HBM; other sources than the profiles"))),
    ("semaphore.compute_ns", "ns", "from a result to the start of who waits for it",
     {"trn2": _measured(36, 32, 39, _STREAMS)}),
    ("semaphore.tensor_ns", "ns", "the same when the tensor engine waits",
     {"trn2": _measured(52, 50, 54, _STREAMS)}),
    ("semaphore.more_ns", "ns", "each further semaphore that an instruction waits for",
     {"trn2": _measured(78, 70, 103, _STREAMS)}),
    ("semaphore.instruction_ns", "ns", "duration of an instruction that only waits",
     {"trn2": _measured(52, 23, 52, _STREAMS)}),
    ("control.register_ns", "ns", "an instruction on registers",
     _all(_assumed(60, 30, 150, "some cycles of the sequencer"))),
    ("control.register_memory_ns", "ns", "reading or writing a register from or to SBUF",
     _all(_assumed(200, 100, 2000, "a semaphore and an access"))),
    ("control.loop_ns", "ns", "barrier of all engines between two iterations of a loop",
     _all(_assumed(150, 80, 400, "two semaphores and a branch"))),
    ("control.barrier_ns", "ns", "barrier of the cores of a logical core",
     _all(_assumed(1000, 500, 3000, "a semaphore across cores and back"))),
    ("control.print_ns", "ns", "device_print",
     _all(_assumed(2000, 1000, 10000, "a small transfer"))),
)  # fmt: skip

_DMA = (
    ("dma.issue_ns", "ns", "a hardware descriptor transfer keeps its queue's engine",
     {"trn2": _measured(636, 470, 690, "kt: 745 for 128 rows with NKI 0.6; cs149, earlier: 486 for "
                        "one row")}),
    ("dma.issue_row_ns", "ns", "the same, each row",
     {"trn2": _measured(0.85, 0.5, 1.0, "streams 512, 128 rows: 590")}),
    ("dma.issue_busy_ns", "ns", "of it shown as busy",
     {"trn2": _measured(545, 517, 613, _SINGLE)}),
    ("dma.start_ns", "ns", "from issue to first packet, hardware descriptors",
     {"trn2": _measured(1310, 1240, 1395, "packets")}),
    ("dma.software_issue_ns", "ns", "GpSimd makes descriptors of neighbouring rows",
     {"trn2": _measured(580, 460, 670, _STREAMS)}),
    ("dma.software_strided_ns", "ns", "of rows that are not neighbours",
     {"trn2": _measured(1000, 800, 1060, "streams 512; a single row costs less, above 580")}),
    ("dma.software_rows_ns", "ns", "each further row of a partition",
     {"trn2": _measured(40, 35, 45, "streams 512 and 1024")}),
    ("dma.software_first_ns", "ns", "more for the first one of a program",
     {"trn2": _measured(710, 600, 750, _STREAMS)}),
    ("dma.software_busy_ns", "ns", "of it shown as busy",
     {"trn2": _measured(48, 31, 91, _SINGLE)}),
    ("dma.software_start_ns", "ns", "from there to first packet, software descriptors",
     {"trn2": _measured(720, 625, 770, "packets")}),
    ("dma.static_issue_ns", "ns", "starting a transfer with static descriptors",
     {"trn1": _measured(510, 345, 540, "cs149 on trn1, one row and 128: two loads a turn"),
      "trn2": _assumed(200, 50, 345, "a write to the ring's doorbell; trn1: 345")}),
    ("dma.static_start_ns", "ns", "from there to first packet",
     _all(_documented(1300, "B:41", 0.15))),
    ("dma.packet_bytes", "B", "largest packet",
     {"trn2": _measured(4096, 4096, 4096, "packets")}),
    ("dma.descriptor_ns", "ns", "each packet, fixed part",
     {"trn1": _assumed(5, 2, 8, "as trn2; pantheon allows up to 8"), "trn2": _measured(5, 4, 6, "packets")}),
    ("dma.bytes_per_ns", "B/ns", "one of the DMA engines",
     {"trn1": _measured(17.4, 16.9, 17.7, "pantheon"), "trn2": _measured(27.3, 24.5, 27.8, "packets"),
      "trn3": _documented(33.0, "B:60-63", 0.15)}),
    ("dma.short_row_share", "share", "of it with single rows up to 1 KiB; from 4 KiB on all of it",
     {"trn1": _measured(0.39, 0.34, 0.45, "tutorial, tiled and hoisted"),
      "trn2": _measured(1.0, 1.0, 1.0, "packets")}),
    ("dma.merged_row_ns", "ns", "each further row in a packet, to SBUF",
     {"trn1": _assumed(0, 0, 14, "neighboring rows of 1 KiB reach 0.76 of the rate"),
      "trn2": _measured(31, 20, 40, "streams 512: rows of 1 and 2 KiB")}),
    ("dma.merged_bytes_per_ns", "B/ns", "and each byte of it",
     {"trn1": _assumed(44, 35, 60, "neighboring rows of 1 KiB reach 0.76 of the rate"),
      "trn2": _measured(31, 26, 40, "streams 512: rows of 1 and 2 KiB")}),
    ("dma.merged_row_store_ns", "ns", "each further row in a packet, from SBUF",
     {"trn2": _measured(5, 0, 10, "packets: 222-226 ns isolated, 155-162 in a longer store")}),
    ("dma.store_row_ns", "ns", "each row written to HBM",
     {"trn1": _measured(16, 8, 18, "pantheon"), "trn2": _assumed(0, 0, 5, "none seen")}),
    ("dma.short_store_ns", "ns", "each packet under 512 B written to HBM",
     {"trn2": _measured(8, 6, 10, "packets")}),
    ("dma.cast_ns", "ns", "each packet that changes the type, at 256 B",
     {"trn2": _measured(23, 19, 27, "packets: 41 ns")}),
    ("dma.between_hbm_share", "share", "of the rate from HBM to HBM",
     {"trn1": _measured(0.56, 0.54, 0.6, "pantheon"), "trn2": _assumed(0.56, 0.5, 1.0, "as trn1")}),
    ("dma.transpose_bytes_per_ns", "B/ns", "a transpose of 4-byte elements, one DMA engine",
     {"trn2": _measured(7.1, 5.1, 7.6, "cs149: 4096x4096 in 836 us, stores included")}),
    ("dma.transpose_share", "share", "of the rate, a transpose of 2-byte elements",
     _all(_documented(0.9, "A2:321", 0.3))),
    ("dma.transpose_sbuf_share", "share", "the same from SBUF to SBUF",
     _all(_documented(0.5, "A2:340", 0.3))),
    ("dma.stagger_ns", "ns", "from the first to the last DMA engine's start",
     {"trn2": _measured(207, 180, 220, "packets")}),
    ("dma.packet_overlap_ns", "ns", "by which a packet lasts into the next one",
     {"trn2": _measured(3, 2, 4, "packets")}),
    ("dma.completion_packet_ns", "ns", "each DMA engine writes that it is done",
     {"trn1": _assumed(0, 0, 40, "pantheon has room for none"),
      "trn2": _measured(35, 20, 60, "packets")}),
    ("dma.completion_ns", "ns", "from the last packet to the start of who waits",
     {"trn2": _measured(415, 375, 460, "packets")}),
    ("dma.indirect_row_ns", "ns", "each row that is gathered or scattered",
     _all(_assumed(20, 10, 60, "a descriptor written by GpSimd"))),
    ("dma.hbm_gb_per_s", "GB/s", "HBM of a chip, shared by the cores that run",
     {"trn1": _documented(820, "A1:21", 0.1), "trn2": _documented(2900, "A2:16", 0.1),
      "trn3": _documented(4700, "A3:16", 0.1)}),
    ("link.latency_ns", "ns", "a collective, each step between ranks of a node",
     _all((1500, 1000, 2000, "documented", "docs intranode-collective-comm: 1 to 2 us a hop"))),
    ("link.node_latency_ns", "ns", "the same in a ring over several nodes",
     _all(_documented(15000, "docs internode: 15 us a hop", 0.2))),
    ("link.node_ranks", "ranks", "logical cores of a node",
     {"trn1": _documented(32, "A1: 16 chips"), "trn2": _documented(64, "A2: 16 chips, two cores each"),
      "trn3": _assumed(64, 64, 64, "as trn2")}),
    ("link.bytes_per_ns", "B/ns", "a collective, each rank",
     {"trn1": _assumed(96, 30, 192, "A1, NeuronLink"), "trn2": _assumed(128, 40, 256, "A2"),
      "trn3": _assumed(160, 50, 320, "A3")}),
)  # fmt: skip

_LAUNCH = (
    ("launch.nc_latency_ns", "ns", "nc-latency: a launch, besides the body",
     {"trn1": _assumed(10000, 7000, 15000, "attention and cs149 on trn1, one turn"),
      "trn2": _measured(8400, 5800, 10800, "streams: eight kernels")}),
    ("launch.two_cores_ns", "ns", "the same with two cores",
     {"trn2": _measured(10000, 8400, 11600, "labs")}),
    ("launch.benchmark_ns", "ns", "the runtime's own benchmark: a launch",
     {"trn2": _measured(7500, 7300, 7700, "labs")}),
    ("launch.profile_ns", "ns", "profile-total: before and behind the body",
     {"trn2": _measured(15700, 14700, 16700, "streams")}),
)  # fmt: skip

PARAMETER_ROWS = (*_TENSOR, *_VECTOR, *_SCALAR, *_GPSIMD, *_PORTS, *_CONTROL, *_DMA, *_LAUNCH)

EARLIER_ROWS: dict[str, dict[str, Cell]] = {
    "dma.issue_ns": {"trn2": _measured(485, 470, 500, "cs149, one row: 0.486")},
}
"""Values that differ with toolchains before NKI 0.6, as most published figures and streams have them."""
