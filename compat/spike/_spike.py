"""``spike._spike``: the low-level runtime."""

from neff.runtime.spike_api import (
    ModelTensorInfo,
    NrtError,
    NrtModel,
    NrtTensor,
    Spike,
    SpikeError,
    SpikeRuntimeError,
    SystemTraceSession,
    TensorMetadata,
)

__all__ = [
    "ModelTensorInfo",
    "NrtError",
    "NrtModel",
    "NrtTensor",
    "Spike",
    "SpikeError",
    "SpikeRuntimeError",
    "SystemTraceSession",
    "TensorMetadata",
]
