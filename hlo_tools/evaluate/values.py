"""Values of an evaluation, and the error of one that is not defined."""

from __future__ import annotations

from typing import Any

import numpy as np

from hlo_tools.errors import HloUnsupportedError

__all__ = ["Array", "EvaluationError", "Value", "wide"]

Array = np.ndarray[Any, Any]
Value = Any
"""An array, a tuple of values, or None for a token."""


class EvaluationError(HloUnsupportedError):
    """An instruction whose result is not defined, or not defined on one device."""

    default_code = "HLO-EVALUATE"


def wide(value: Array) -> Array:
    """Small floats as float32: what XLA computes them in."""
    if value.dtype.kind in "biufc" and value.dtype != np.float16:
        return value
    return value.astype(np.float32)
