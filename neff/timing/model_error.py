"""The error of the model itself, by target and kind of bottleneck.

Ranges of parameters leave out what the model simplifies. How much that is shows in kernels and
streams that were measured: :data:`MODEL_ERRORS` has, for each target and kind of bottleneck, the relative error
that four of five of these rows stay within (``scripts/timing/table.py`` computes it).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot
from types import MappingProxyType

from neff.timing.events import DESCRIPTORS, LaneTime
from neff.timing.transfers import COPIES
from neff.timing.work import LANES

__all__ = ["BOTTLENECKS", "MODEL_ERRORS", "bottleneck_of", "model_error", "widened"]

BOTTLENECKS = ("tensor", "compute", "issue", "DMA", "latency")
"""Kinds of bottlenecks: the tensor engine, another engine, the issue of transfers or the DMA engines
are busy for most of the time; else latencies decide it."""

_MIN_BUSY_SHARE = 0.6
"""If nothing is busy for this share of the time, latencies decide it."""

MODEL_ERRORS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "trn1": {"tensor": 0.2, "compute": 0.18, "issue": 0.13, "DMA": 0.06, "latency": 0.15},
        "trn2": {"tensor": 0.09, "compute": 0.18, "issue": 0.11, "DMA": 0.06, "latency": 0.06},
    }
)
"""Relative error of the body by target and bottleneck. What the range of the launch explains does not count. A
target with fewer than four rows of a kind has the error of all targets' rows of this kind. No error is
below 6 %: some rows of the streams and of the bandwidth tests were used to fit parameters."""

_UNMEASURED_FACTOR = 1.5
"""No kernel on trn3 is among the measured rows but one; its errors are assumed to be larger than those of trn2."""


def bottleneck_of(
    total_ns: float, engines: Mapping[str, LaneTime], queues: Mapping[str, LaneTime], dma_ns: float
) -> str:
    """Return the kind of bottleneck of a core, one of :data:`BOTTLENECKS`.

    Args:
        total_ns: of the core.
        engines: time of each engine.
        queues: time of each queue, and of descriptors.
        dma_ns: busy time of the DMA engines, summed.
    """
    busy = {"DMA": dma_ns / LANES, "tensor": 0.0, "compute": 0.0, "issue": 0.0}
    if DESCRIPTORS in queues:
        busy["issue"] = queues[DESCRIPTORS].occupied_ns
    for name, lane in engines.items():
        issue_ns = sum(lane.opcodes_ns.get(opcode, 0.0) for opcode in COPIES)
        busy["issue"] = max(busy["issue"], issue_ns)
        kind = "tensor" if name == "tensor" else "compute"
        busy[kind] = max(busy[kind], lane.occupied_ns - issue_ns)
    kind = max(busy, key=lambda name: busy[name])
    return kind if busy[kind] > _MIN_BUSY_SHARE * total_ns else "latency"


def model_error(bottleneck: str, target: str) -> float:
    """Return the relative error of the model, besides that of its parameters."""
    errors = MODEL_ERRORS.get(target)
    return (
        _UNMEASURED_FACTOR * MODEL_ERRORS["trn2"][bottleneck]
        if errors is None
        else errors[bottleneck]
    )


def widened(value: float, low: float, high: float, error_ns: float) -> tuple[float, float]:
    """Return the ends of a range that includes an independent error, nanoseconds."""
    lowest = value - hypot(value - low, error_ns)
    return max(0.0, lowest), value + hypot(high - value, error_ns)
