"""From memory into the engines' arithmetic and back.

The engines compute in float32 and convert when they write: round to nearest even into smaller
floats, and round to nearest even and saturate into integers (NKI release notes 0.6; isa stub,
"The float32 results are cast to dst.dtype").
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from nki_lang.base.dtypes import Array

__all__ = [
    "aligned",
    "convert",
    "in_order",
    "is_array",
    "kept_apart",
    "per_partition",
    "round_tfloat32",
    "single",
    "store",
]


def is_array(value: object) -> TypeGuard[Array]:
    """True for an array, whose type NumPy leaves open."""
    return isinstance(value, np.ndarray)


_F32 = np.dtype(np.float32)
_LIMITS = {
    np.dtype(kind): (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
    for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
}


def single(value: Array) -> Array:
    """The value as float32; the same array when it is one already."""
    return value if value.dtype == _F32 else value.astype(_F32)


def in_order(value: Array) -> Array:
    """Return the same elements, with each partition contiguous in memory.

    NumPy sums in the order of addresses, so the last bit of a sum would depend on where a tile lies:
    whether it is a transposed view, or a part of a wider one.
    """
    rows, strides = value[:1], value.strides
    row = rows.nbytes
    is_plain = value.size == 0 or (rows.flags.c_contiguous and strides[0] >= row)
    return value if is_plain else np.ascontiguousarray(value)


def convert(value: Array, dtype: np.dtype[Any]) -> Array:
    """A float32 (or integer) array in another type, with the engines' rounding.

    Floats round to nearest even; into integers they also saturate, and NaN becomes 0 (what the
    hardware makes of NaN is not documented). Integers pass through float32 unless the type stays
    the same (isa stub, tensor_copy).
    """
    if value.dtype == dtype:
        return value
    if dtype == np.bool_:
        return value != 0
    if dtype not in _LIMITS:
        return single(value).astype(dtype)
    return _saturated(single(value), dtype)


def _saturated(value: Array, dtype: np.dtype[Any]) -> Array:
    low, high = _LIMITS[dtype]
    if dtype.itemsize <= 2:
        rounded = np.asarray(np.rint(value))
        np.clip(rounded, low, high, out=rounded)
    else:
        rounded = np.asarray(np.rint(value.astype(np.float64)))
        if dtype.itemsize == 8:
            high = low + (1 << 64) - 2049 if low == 0 else (1 << 63) - 1025
        np.clip(rounded, low, high, out=rounded)
    np.nan_to_num(rounded, copy=False, nan=0.0)
    return rounded.astype(dtype)


def store(dst: Array, value: Array) -> None:
    """Write ``value`` into ``dst``, converted; the same number of elements, in order."""
    if value.shape != dst.shape and value.size == dst.size:
        value = value.reshape(dst.shape)
    if value.dtype == dst.dtype:
        dst[...] = value
        return
    dst[...] = convert(value, dst.dtype)


def aligned(value: Array, shape: tuple[int, ...]) -> Array:
    """``value`` in ``shape`` when only the free dimensions are cut differently."""
    return value if value.shape == shape else value.reshape(shape)


def per_partition(value: Any, like: Array) -> Any:
    """A scalar operand ready to broadcast against ``like``.

    Numbers become float32 scalars; a ``(P, 1)`` tile gets as many free dimensions as ``like``.
    """
    if not is_array(value):
        return np.float32(value)
    if value.ndim == 0 or value.size == 1:
        return single(value).reshape(())[()]
    if value.size == value.shape[0]:
        return single(value).reshape(value.shape[0], *(1,) * (like.ndim - 1))
    return single(aligned(value, like.shape))


def kept_apart(value: object, dst: Array) -> Any:
    """``value``, copied when it may lie in ``dst``: for what is read after ``dst`` is written.

    The engines read their vector operands before they write: a tile may be operand and result.
    """
    if is_array(value) and np.may_share_memory(value, dst):
        return value.copy()
    return value


def round_tfloat32(value: Array) -> None:
    """Round float32 in place to the 10 mantissa bits of tfloat32, to nearest even."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    finite = (bits & 0x7F800000) != 0x7F800000
    even = bits + 0xFFF + ((bits >> 13) & 1)
    value[...] = np.where(finite, even & np.uint32(0xFFFFE000), bits).view(np.float32)
