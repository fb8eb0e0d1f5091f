"""Values of an evaluation, and the error of one that is not defined."""

from __future__ import annotations

from typing import TypeAlias, cast

import numpy as np

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.types.element_types import Array

__all__ = ["Array", "EvaluationError", "Value", "array_parts", "parts_of", "wide"]

Value: TypeAlias = "Array | tuple[Value, ...] | None"
"""An array, a tuple of values, or None for a token."""


def parts_of(value: Value) -> list[Value]:
    """The parts of a tuple; anything else is the only part."""
    return list(value) if isinstance(value, tuple) else [value]


def array_parts(value: Value) -> list[Array]:
    """The same where every part is an array, as in the results of a reducer."""
    return cast(list[Array], parts_of(value))


class EvaluationError(HloUnsupportedError):
    """An instruction whose result is not defined, or not defined on one device."""

    default_code = "HLO-EVALUATE"


def wide(value: Array) -> Array:
    """Small floats as float32: what XLA computes them in."""
    if value.dtype.kind in "biufc" and value.dtype != np.float16:
        return value
    return value.astype(np.float32)
