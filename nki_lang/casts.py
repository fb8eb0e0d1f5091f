"""Conversions and facts of dtypes for host code (what scripts import as ``neuron_dtypes``)."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from nki_lang.dtypes import DType, dtype_of

__all__ = ["finfo", "is_float_type", "sizeinbytes", "static_cast"]


def static_cast(array: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """The values of an array in another dtype, rounded to nearest even.

    A packed dtype (``float8_e4m3fn_x4``, ...) takes four neighbours of the last dimension into
    one element, the first in the lowest bits; an array that was made for one, or comes from a
    kernel, is taken apart again.

    Raises:
        TypeError: there is no such dtype.
        ValueError: the last dimension does not divide by four.
    """
    values = np.asarray(array)
    wanted, source = _kind(dtype), _kind(values.dtype)
    if isinstance(source, DType) and source.lane is not None:
        if source == wanted:
            return values
        values = _unpack(values, source, source.lane)
    if isinstance(wanted, np.dtype):
        return values.astype(wanted)
    if wanted.lane is None:
        return values.astype(wanted.dtype)
    return _pack(values, wanted, wanted.lane)


def _pack(values: np.ndarray[Any, Any], packed: DType, lane: DType) -> np.ndarray[Any, Any]:
    if values.dtype == packed.dtype:
        return values.view(packed.dtype)
    if values.ndim == 0 or values.shape[-1] % packed.lanes:
        raise ValueError(
            f"{packed} packs {packed.lanes} neighbours of the last dimension, "
            f"which has {values.shape[-1:] or 'no'} elements"
        )
    small = np.ascontiguousarray(values.astype(lane.dtype)).view(np.uint8)
    bits = 8 * packed.itemsize // packed.lanes
    groups = small.reshape(*values.shape[:-1], -1, packed.lanes).astype(packed.dtype)
    shifts = np.arange(packed.lanes, dtype=packed.dtype) * packed.dtype.type(bits)
    return np.bitwise_or.reduce(groups << shifts, axis=-1).view(packed.dtype)


def _unpack(values: np.ndarray[Any, Any], packed: DType, lane: DType) -> np.ndarray[Any, Any]:
    bits = 8 * packed.itemsize // packed.lanes
    plain = np.dtype(f"u{packed.itemsize}")
    shifts = np.arange(packed.lanes, dtype=plain) * plain.type(bits)
    lanes = values.view(plain)[..., None] >> shifts & plain.type((1 << bits) - 1)
    return lanes.astype(np.uint8).reshape(*values.shape[:-1], -1).view(lane.dtype)


def sizeinbytes(dtype: Any) -> int:
    """Bytes of one element (of all four values for a packed dtype)."""
    return _kind(dtype).itemsize


def is_float_type(dtype: Any) -> bool:
    """True for floating point dtypes, packed ones included."""
    kind = _kind(dtype)
    return kind.is_float if isinstance(kind, DType) else kind.kind == "f"


def finfo(dtype: Any) -> Any:
    """Limits of a floating point dtype (of one value for a packed dtype), as NumPy's finfo."""
    kind = _kind(dtype)
    if isinstance(kind, DType):
        kind = (kind.lane or kind).dtype
    return ml_dtypes.finfo(kind)


def _kind(dtype: Any) -> DType | np.dtype[Any]:
    """A dtype of the language, or one that only NumPy has (float64)."""
    try:
        return dtype_of(dtype)
    except TypeError:
        return np.dtype(dtype)
