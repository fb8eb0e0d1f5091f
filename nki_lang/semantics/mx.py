"""Microscaling block formats: groups of 8 partitions x 4 elements share a power of two.

Sources: isa stub, quantize_mx and nc_matmul_mx; nki/deep-dives/mxfp-matmul.rst. Scales lie in
the quadrant (32 partitions) of their group: the group that starts at partition p has its scale
in row ``p // 32 * 32 + p % 32 // 8`` of the scale tile, or in row ``p // 8`` when the scale tile
is compact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from nki_lang.base.dtypes import Array, DType, finfo
from nki_lang.semantics.numbers import single, store
from nki_lang.semantics.state import EngineState
from nki_lang.semantics.table import semantics

__all__ = ["pack", "unpack"]


_LARGEST_EXPONENT = {"float8_e4m3fn": 8, "float8_e5m2": 15, "float4_e2m1fn": 2}
_BIAS = 127
_NAN_SCALE = 255


def unpack(value: Array, packed: DType) -> Array:
    """The lanes of packed elements as float32, along a new last axis."""
    assert packed.lane is not None
    if packed.lane.name == "float4_e2m1fn":
        shifts = np.arange(0, 16, 4, dtype=np.uint16)
        nibbles = (value[..., None] >> shifts) & np.uint16(15)
        return nibbles.astype(np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    dense = np.ascontiguousarray(value)
    lanes = dense.reshape(*dense.shape, 1).view(np.uint8).view(packed.lane.dtype)
    return lanes.reshape(*dense.shape, 4).astype(np.float32)


def pack(lanes: Array, packed: DType) -> Array:
    """Float32 lanes (last axis of extent 4) as packed elements, rounded to nearest even.

    What is too large becomes the largest finite value.
    """
    assert packed.lane is not None
    limit = float(finfo(packed.lane.dtype).max)
    small = np.clip(lanes, -limit, limit).astype(packed.lane.dtype)
    if packed.lane.name == "float4_e2m1fn":
        nibbles = small.view(np.uint8).astype(np.uint16) & 15
        return (nibbles << np.arange(0, 16, 4, dtype=np.uint16)).sum(axis=-1, dtype=np.uint16)
    return np.ascontiguousarray(small).view(np.uint32).reshape(lanes.shape[:-1])


def _scale_rows(partitions: int, available: int) -> Array:
    """Row of the scale tile for each partition of the data."""
    lane = np.arange(partitions)
    scattered = lane // 32 * 32 + lane % 32 // 8
    return scattered if scattered[-1] < available else lane // 8


def _decoded(scale: Array) -> Array:
    """Scales as float32: 2 ** (byte - 127)."""
    bytes_ = scale.view(np.uint8).astype(np.int32)
    value = np.ldexp(np.float32(1), bytes_ - _BIAS)
    return np.where(bytes_ == _NAN_SCALE, np.float32(np.nan), value.astype(np.float32))


@semantics("dst", "dst_scale", updates=("dst_scale",))
def quantize_mx(
    dst: Array, src: Array, dst_scale: Array, state: EngineState, accesses: Mapping[str, Any]
) -> None:
    """Quantise groups of 8 partitions x 4 elements, and write their scales.

    The scale is ``2 ** (floor(log2(max)) - (Emax - 1))``, twice that of the OCP sample
    algorithm, so that the largest value rounds without saturating; ``state.wide_mx_scale`` False
    gives the OCP one.
    """
    packed: DType = accesses["dst"].element_type
    assert packed.lane is not None
    partitions = src.shape[0]
    value = single(src).reshape(partitions // 8, 8, -1, 4)
    largest = np.abs(value).max(axis=(1, 3))
    _, exponent = np.frexp(largest)
    reserve = 1 if state.wide_mx_scale else 0
    power = exponent - 1 - (_LARGEST_EXPONENT[packed.lane.name] - reserve)
    power = np.where(largest == 0, -_BIAS, np.clip(power, -_BIAS, _BIAS))
    scaled = np.ldexp(value, -power[:, None, :, None])
    store_packed = pack(scaled.reshape(partitions, -1, 4), packed)
    dst[...] = store_packed.reshape(dst.shape)
    codes = np.where(np.isfinite(largest), power + _BIAS, _NAN_SCALE).astype(np.uint8)
    rows = _scale_rows(partitions, dst_scale.shape[0])[::8]
    flat = codes.reshape(len(codes), *dst_scale.shape[1:])
    dst_scale[rows] = flat.view(dst_scale.dtype)


def _dequantised(data: Array, scale: Array, packed: DType) -> Array:
    """(partitions * 4, free) float32."""
    partitions = data.shape[0]
    lanes = unpack(data.reshape(partitions, -1), packed)
    rows = _scale_rows(partitions, scale.shape[0])
    factors = _decoded(np.ascontiguousarray(scale.reshape(scale.shape[0], -1)))[rows]
    return (lanes * factors[:, :, None]).transpose(0, 2, 1).reshape(partitions * 4, -1)


@semantics(updates=("dst",))
def nc_matmul_mx(
    dst: Array,
    stationary: Array,
    moving: Array,
    stationary_scale: Array,
    moving_scale: Array,
    accesses: Mapping[str, Any],
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: bool | None = None,
) -> None:
    """``dst = stationary.T @ moving`` of block-scaled values, accumulated in float32."""
    left = _dequantised(stationary, stationary_scale, accesses["stationary"].element_type)
    right = _dequantised(moving, moving_scale, accesses["moving"].element_type)
    value = (left.T @ right).reshape(dst.shape)
    store(dst, single(dst) + value if accumulate else value)
