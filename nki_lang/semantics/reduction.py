"""Reductions along free axes and across partitions."""

from __future__ import annotations

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.semantics.elementwise import store_bits
from nki_lang.semantics.numbers import in_order, single, store
from nki_lang.semantics.operators import Operator, operator_of
from nki_lang.semantics.table import semantics

__all__ = ["reduce_axes", "reduce_free"]


@semantics(parallel=True)
def tensor_reduce(
    dst: Array,
    op: str,
    data: Array,
    axis: int | tuple[int, ...],
    negate: bool = False,
    keepdims: bool = False,
) -> None:
    """Reduce the last free axes of ``data`` into ``dst``, in float32 (bit operators: as bits)."""
    operator = operator_of(op)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if operator.bits:
        store_bits(dst, reduce_axes(operator, data, axes))
        return
    value = reduce_axes(operator, single(data), axes)
    store(dst, -value if negate else value)


def reduce_free(operator: Operator, value: Array) -> Array:
    """All free axes reduced: one value a partition."""
    return reduce_axes(operator, value, tuple(range(1, value.ndim)))


def reduce_axes(operator: Operator, value: Array, axes: tuple[int, ...]) -> Array:
    """``value`` reduced over ``axes`` from the first element to the last."""
    axes = tuple(axis % value.ndim for axis in axes)
    if not axes:
        return value
    value = in_order(value)
    if operator.name == "average":
        return np.mean(value, axis=axes, dtype=value.dtype)
    if operator.name in ("abs_max", "abs_min"):
        ufunc = np.maximum if operator.name == "abs_max" else np.minimum
        return ufunc.reduce(np.abs(value), axis=axes)
    if operator.name == "subtract":
        # 0 - x0 - x1 ...: the accumulator starts at 0 (isa stub, tensor_scalar_cumulative).
        return -np.add.reduce(value, axis=axes)
    if operator.ufunc is not None:
        if value.size == 0 and operator.ufunc.identity is None:
            extents = [extent for index, extent in enumerate(value.shape) if index not in axes]
            return np.full(extents, operator.identity, value.dtype)
        return operator.ufunc.reduce(value, axis=axes)
    return _truth_reduce(operator, value, axes)


_TRUTH = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}


def _truth_reduce(operator: Operator, value: Array, axes: tuple[int, ...]) -> Array:
    ufunc = _TRUTH.get(operator.name)
    if ufunc is None:
        raise ValueError(f"operator {operator.name!r} cannot reduce")
    result = value != 0
    for axis in sorted(axes, reverse=True):
        result = ufunc.reduce(result, axis=axis)
    return result.astype(value.dtype)


_ACROSS = {"max": "maximum", "min": "minimum"}


@semantics()
def tensor_partition_reduce(dst: Array, op: str, data: Array) -> None:
    """Reduce across partitions into one."""
    operator = operator_of(_ACROSS.get(op, op))
    if operator.bits:
        store_bits(dst, reduce_axes(operator, data, (0,)))
        return
    store(dst, reduce_axes(operator, single(data), (0,)))
