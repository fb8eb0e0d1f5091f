"""The element type in HLO of each torch dtype, as NumPy names it."""

from __future__ import annotations

from typing import cast

import ml_dtypes
import numpy as np

from hlo_tools.trace.graph import DType
from neff.torch_graph.pytorch import Tree, torch

__all__ = ["NUMPY_DTYPES", "numpy_dtype"]

_NAMES = {
    "bool": np.bool_, "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32,
    "uint64": np.uint64, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32,
    "float64": np.float64, "complex64": np.complex64, "complex128": np.complex128,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip

NUMPY_DTYPES: dict[Tree, DType] = {
    getattr(torch, name): np.dtype(cast("type", kind)) for name, kind in _NAMES.items()
}
"""torch dtype -> NumPy's of the same elements."""

TORCH_DTYPES: dict[DType, Tree] = {kind: name for name, kind in NUMPY_DTYPES.items()}
"""The reverse."""


def numpy_dtype(kind: Tree) -> DType | None:
    """NumPy's dtype for torch's; None if HLO has no such elements (quantized ones, for instance)."""
    return NUMPY_DTYPES.get(kind)
