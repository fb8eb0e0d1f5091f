"""Copies, transposes, shuffles and constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiExecutionError
from nki_lang.ir.types import Engine
from nki_lang.semantics.numbers import aligned, single, store
from nki_lang.semantics.table import semantics

__all__ = ["ramp", "transposed_axes"]


@semantics(elementwise=True)
def dma_copy(
    dst: Array,
    src: Array,
    priority: object = None,
    oob_mode: str = "error",
    dge_mode: object = None,
) -> None:
    """``dst = src``, through float32 when the types differ (isa stub, dma_copy)."""
    store(dst, src)


@semantics(elementwise=True)
def tensor_copy(dst: Array, src: Array, engine: Engine = Engine.unknown) -> None:
    """``dst = src``: bit-accurate between equal types, through float32 otherwise.

    The Scalar Engine always goes through float32, so 32-bit integers are rounded there.
    """
    if engine is Engine.scalar and src.dtype.kind in "iu" and src.dtype.itemsize >= 4:
        store(dst, single(src))
        return
    store(dst, src)


@semantics()
def nc_transpose(dst: Array, data: Array) -> None:
    """Partition axis and flattened free axes exchanged, bit for bit."""
    store(dst, data.reshape(data.shape[0], -1).T)


_AXES = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""Permutation that dma_transpose does by default (isa stub)."""


def transposed_axes(axes: tuple[int, ...] | None, rank: int) -> tuple[int, ...]:
    """The permutation that ``dma_transpose`` of ``rank`` dimensions does."""
    return tuple(axes) if axes is not None else _AXES[rank]


@semantics()
def dma_transpose(
    dst: Array,
    src: Array,
    axes: tuple[int, ...] | None = None,
    priority: object = None,
    dge_mode: object = None,
    oob_mode: str = "error",
) -> None:
    """``dst = src.transpose(axes)``."""
    store(dst, src.transpose(transposed_axes(axes, src.ndim)))


_UNMODIFIED = 255


@semantics(updates=("dst",))
def nc_stream_shuffle(dst: Array, src: Array, shuffle_mask: tuple[int, ...]) -> None:
    """In each quadrant of 32 partitions, partition ``i`` takes ``shuffle_mask[i]``; 255 keeps it."""
    values = aligned(src, (src.shape[0], *dst.shape[1:])).copy()
    for base in range(0, dst.shape[0], 32):
        for lane, source_lane in enumerate(shuffle_mask):
            target, source = base + lane, base + source_lane
            if source_lane == _UNMODIFIED or target >= dst.shape[0]:
                continue
            if source >= values.shape[0]:
                raise NkiExecutionError(
                    f"shuffle_mask[{lane}] = {source_lane} names partition {source}, but src has "
                    f"{values.shape[0]}",
                    code="NKI-OUT-OF-BOUNDS",
                    remedy="name partitions that src has, or 255 to leave one as it is",
                )
            store(dst[target], values[source])


def ramp(shape: tuple[int, ...], pattern: Any, offset: int, channel_multiplier: int) -> Array:
    """The int32 stream of ``iota``, in the shape (partitions, ...) of its destination.

    Raises:
        NkiExecutionError: the counts do not make up a partition, or a number is beyond 64 bits
            (NKI-PATTERN); the language refuses both, a damaged file can have them.
    """
    numbers = offset, channel_multiplier, *(step for step, _ in pattern)
    total = math.prod(count for _, count in pattern)
    if total != math.prod(shape[1:]) or len(pattern) > 4 or max(map(abs, numbers)) >= 1 << 63:
        raise NkiExecutionError(
            f"pattern={[*map(list, pattern)]}, offset={offset} and channel_multiplier="
            f"{channel_multiplier} do not fill a destination of shape {list(shape)}",
            code="NKI-PATTERN",
            remedy="give up to four [step, count] pairs whose counts multiply to the elements per "
            "partition of dst",
        )
    value = np.arange(shape[0], dtype=np.int64) * channel_multiplier + offset
    for step, count in pattern:
        value = value[..., None] + np.arange(count, dtype=np.int64) * step
    return value.astype(np.int32).reshape(shape)


@semantics()
def iota(dst: Array, pattern: object, offset: int = 0, channel_multiplier: int = 0) -> None:
    """``dst[p, ...] = offset + p * channel_multiplier + sum(index * step)``."""
    value = ramp(dst.shape, pattern, offset, channel_multiplier)
    if dst.dtype.kind in "iu" and dst.dtype.itemsize == 4:
        dst[...] = value.view(dst.dtype)
    else:
        store(dst, value)
