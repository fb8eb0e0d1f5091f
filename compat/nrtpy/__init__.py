"""``nrtpy``: run a NEFF. Import-compatible with the vendor's package of that name."""

from neff.runtime.nrtpy_api import (
    BenchmarkResult,
    ModelTensorInfo,
    NrtError,
    NrtModel,
    NrtpyError,
    NrtpyModel,
    NrtpyTensor,
    NrtTensor,
    TensorMetadata,
    configure,
    get_nrtpy_singleton,
    reset,
)

__all__ = [
    "BenchmarkResult",
    "ModelTensorInfo",
    "NrtError",
    "NrtModel",
    "NrtTensor",
    "NrtpyError",
    "NrtpyModel",
    "NrtpyTensor",
    "TensorMetadata",
    "configure",
    "get_nrtpy_singleton",
    "reset",
]
