"""Arrays for a module's parameters, and the arrays in its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from hlo_tools.evaluate.limits import Limits, check_inputs
from hlo_tools.evaluate.values import Array, Value
from hlo_tools.ir.module import Module
from hlo_tools.types.element_types import DType, element_of
from hlo_tools.types.shape import Shape

__all__ = ["arrays_of", "filled", "filled_array", "random_inputs"]


def arrays_of(value: object) -> list[Array]:
    """The arrays in nested tuples and lists, from left to right; tokens are left out."""
    if isinstance(value, (tuple, list)):
        parts = cast(Sequence[object], value)
        return [array for element in parts for array in arrays_of(element)]
    return [] if value is None else [cast(Array, value)]


def filled(shape: Shape, random: np.random.Generator | None = None) -> Value:
    """Zeros of a shape; with ``random``, normal floats, and integers and booleans 0 or 1."""
    if shape.is_tuple:
        return tuple(filled(element_shape, random) for element_shape in shape.tuple_shapes)
    if not shape.is_array or shape.dtype is None:
        return None
    return filled_array(shape.dimensions, shape.dtype, random)


def filled_array(extents: Sequence[int], dtype: DType, random: np.random.Generator | None) -> Array:
    """One array of :func:`filled`."""
    if random is None:
        return np.zeros(extents, dtype)
    if element_of(dtype).kind in ("int", "uint", "pred"):
        return random.integers(0, 2, extents).astype(dtype)
    return random.standard_normal(extents).astype(dtype)


def random_inputs(module: Module, seed: int, limits: Limits | None = None) -> list[Value]:
    """A value for each parameter of the entry, from :func:`filled`.

    Raises:
        LimitError: the parameters take more memory than an evaluation may.
    """
    check_inputs(module, limits)
    random = np.random.default_rng(seed)
    return [filled(parameter.shape, random) for parameter in module.entry.parameters]
