"""``spike``: run a NEFF. Import-compatible with nkipy's runtime library."""

from neff.runtime.spike_api import (
    BenchmarkResult,
    ModelTensorInfo,
    NrtError,
    NrtModel,
    NrtTensor,
    SpikeError,
    SpikeModel,
    SpikeProfiler,
    SpikeTensor,
    SystemTraceSession,
    TensorMetadata,
    configure,
    get_spike_singleton,
    reset,
)

__all__ = [
    "BenchmarkResult",
    "ModelTensorInfo",
    "NrtError",
    "NrtModel",
    "NrtTensor",
    "SpikeError",
    "SpikeModel",
    "SpikeProfiler",
    "SpikeTensor",
    "SystemTraceSession",
    "TensorMetadata",
    "configure",
    "get_spike_singleton",
    "reset",
]
