"""Values of an evaluation, and the error of one that is not defined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

import numpy as np

from hlo_tools.errors import HloUnsupportedError
from hlo_tools.types.element_types import Array, DType, element_of

__all__ = ["Array", "EvaluationError", "Value", "array_parts", "parts_of", "undefined", "wide"]

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


def undefined(extents: Sequence[int], dtype: DType) -> Array:
    """Elements that nothing wrote: NaN, or the lowest integer, so that a read of them shows."""
    element = element_of(dtype)
    lowest = {"int": -(1 << max(element.bits - 1, 0)), "uint": 0, "pred": 0}
    return np.full(extents, lowest.get(element.kind, np.nan), dtype)


def wide(value: Array) -> Array:
    """Small floats as float32: what XLA computes them in."""
    kind = value.dtype.kind
    if kind in "biuc" or (kind == "f" and value.dtype.itemsize >= 4):  # float8_e5m2 is an "f", too
        return value
    return value.astype(np.float32)
