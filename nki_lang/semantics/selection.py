"""Choose element by element: predicates, ranges, the largest values and where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.semantics.accumulators import accumulate
from nki_lang.semantics.movement import ramp
from nki_lang.semantics.numbers import aligned, convert, is_array, per_partition, single, store
from nki_lang.semantics.operators import operator_of
from nki_lang.semantics.state import EngineState
from nki_lang.semantics.table import semantics

__all__ = ["FP32_MIN"]


FP32_MIN = float(np.finfo(np.float32).min)
"""Value that range_select writes where the condition is false (isa stub)."""


@semantics(updates=("dst",), elementwise=True)
def tensor_copy_predicated(
    dst: Array, src: object, predicate: Array, reverse_pred: bool = False
) -> None:
    """``dst = src`` where the predicate is not zero (where it is zero when reversed)."""
    chosen = aligned(predicate, dst.shape) != 0
    if reverse_pred:
        chosen = ~chosen
    value = src if is_array(src) else np.asarray(src, np.float32)
    if value.size == dst.size:
        value = value.reshape(dst.shape)
    elif value.ndim and value.size == value.shape[0] == dst.shape[0]:
        value = value.reshape(-1, *(1,) * (dst.ndim - 1))
    np.copyto(dst, convert(value, dst.dtype), where=chosen)


@semantics(elementwise=True)
def affine_select(
    dst: Array,
    pattern: object,
    channel_multiplier: int,
    on_true_tile: Array,
    on_false_value: object,
    cmp_op: str = "equal",
    offset: int = 0,
) -> None:
    """``on_true_tile`` where an affine expression of the position compares true with 0."""
    affine = ramp(dst.shape, pattern, offset, channel_multiplier)
    chosen = operator_of(cmp_op).function(affine, np.zeros((), np.int32)) != 0
    value = aligned(on_true_tile, dst.shape)
    if value.dtype != dst.dtype:
        value = single(value)
    on_false = convert(np.asarray(on_false_value, np.float32), value.dtype)
    store(dst, np.where(chosen, value, on_false))


@semantics("dst", "reduce_res", parallel=True, aligned=("dst",))
def range_select(
    dst: Array,
    on_true_tile: Array,
    comp_op0: str,
    comp_op1: str,
    bound0: Array,
    bound1: Array,
    state: EngineState,
    reduce_cmd: str = "reset_reduce",
    reduce_res: Array | None = None,
    reduce_op: str = "maximum",
    range_start: int = 0,
    on_false_value: Any = None,
) -> None:
    """``on_true_tile`` where the index along the free axes lies between the bounds."""
    value = single(on_true_tile).reshape(on_true_tile.shape[0], -1)
    index = (np.arange(value.shape[1]) + range_start).astype(np.float32)[None, :]
    low, high = per_partition(bound0, value), per_partition(bound1, value)
    chosen = (operator_of(comp_op0).function(index, low) != 0) & (
        operator_of(comp_op1).function(index, high) != 0
    )
    on_false = np.float32(FP32_MIN if on_false_value is None else on_false_value)
    selected = np.where(chosen, value, on_false)
    total = accumulate(state, selected, operator_of(reduce_op), reduce_cmd)
    store(dst, selected)
    if reduce_res is not None:
        store(reduce_res, total)


@semantics("dst", "reduce_res", parallel=True, aligned=("dst",))
def select_reduce(
    dst: Array,
    predicate: Array,
    on_true: Array,
    on_false: object,
    state: EngineState,
    reduce_res: Array | None = None,
    reduce_cmd: str = "idle",
    reduce_op: str = "maximum",
    reverse_pred: bool = False,
) -> None:
    """``on_true`` or ``on_false`` by the predicate, and the maximum of each partition."""
    value = single(aligned(on_true, dst.shape))
    chosen = aligned(predicate, dst.shape) != 0
    if reverse_pred:
        chosen = ~chosen
    selected = np.where(chosen, value, per_partition(on_false, value))
    total = accumulate(state, selected, operator_of(reduce_op), reduce_cmd)
    store(dst, selected)
    if reduce_res is not None:
        store(reduce_res, total)


@semantics(parallel=True)
def max8(dst: Array, src: Array) -> None:
    """The 8 largest values of each partition, falling."""
    value = np.sort(single(src).reshape(src.shape[0], -1), axis=1)
    store(dst, value[:, ::-1][:, :8])


def _matches(data: Array, vals: Array, order: range) -> Array:
    """Return the position of each of the 8 values of each partition, -1 where there is none.

    Equal values take one occurrence each, in the order of ``order``.
    """
    rows, width = data.shape[0], 8
    haystack = single(data).reshape(rows, -1)
    needles = single(vals).reshape(rows, width)
    positions = np.full((rows, width), -1, np.int64)
    for row in range(rows):
        used_count: dict[float, int] = {}
        for column in order:
            needle = float(needles[row, column])
            occurrences = np.flatnonzero(haystack[row] == needles[row, column])
            used = used_count.get(needle, 0)
            used_count[needle] = used + 1
            if used < len(occurrences):
                positions[row, column] = occurrences[used]
    return positions


def _store_index(dst: Array, positions: Array) -> None:
    """Write positions; a missing position becomes all ones."""
    dst[...] = (
        positions.astype(f"i{dst.dtype.itemsize}").view(f"u{dst.dtype.itemsize}").reshape(dst.shape)
    )


@semantics(parallel=True)
def nc_find_index8(dst: Array, data: Array, vals: Array) -> None:
    """Index of each value; equal values get their occurrences in rising order."""
    _store_index(dst, _matches(data, vals, range(8)))


@semantics("dst", "dst_idx", parallel=True)
def nc_match_replace8(
    dst: Array, data: Array, vals: Array, imm: float, dst_idx: Array | None = None
) -> None:
    """``data`` with one occurrence of each value replaced; equal values from the last column."""
    positions = _matches(data, vals, range(7, -1, -1))
    value = single(data).reshape(data.shape[0], -1).copy()
    rows, columns = np.nonzero(positions >= 0)
    value[rows, positions[rows, columns]] = imm
    store(dst, value)
    if dst_idx is not None:
        _store_index(dst_idx, positions)


@semantics()
def sequence_bounds(dst: Array, segment_ids: Array) -> None:
    """First index of each element's segment, and the index after its last; padding: n and -1."""
    ids = segment_ids.reshape(-1)
    count = len(ids)
    edges = np.flatnonzero(np.diff(ids) != 0) + 1 if count else np.zeros(0, np.int64)
    starts = np.concatenate([[0], edges]).astype(np.int64)
    ends = np.concatenate([edges, [count]]).astype(np.int64)
    lengths = ends - starts
    low, high = np.repeat(starts, lengths), np.repeat(ends, lengths)
    padding = ids == 0
    store(dst, np.stack([np.where(padding, count, low), np.where(padding, -1, high)]))


_GROUP_PARTITIONS = 16
"""Partitions that one core of the GpSimd Engine is connected to."""


@semantics(updates=("dst",), parallel=True)
def nonzero_with_count(
    dst: Array, src: Array, index_offset: int = 0, padding_val: int = -1
) -> None:
    """Indices of the nonzero elements, padding, and their count, in every 16th partition."""
    value = src.reshape(src.shape[0], -1)
    for row in range(0, len(value), _GROUP_PARTITIONS):
        positions = np.flatnonzero(value[row])
        line = np.full(value.shape[1] + 1, padding_val, np.int32)
        line[: len(positions)] = positions + index_offset
        line[-1] = len(positions)
        dst[row] = line.reshape(dst[row].shape)


@semantics("val_dst", "idx_dst")
def topk(val_dst: Array, idx_dst: Array, src: Array, n: int) -> None:
    """The largest of ``n`` values that lie in snake order over 16 partitions, rising.

    Every partition of a group gets the result of its group. Among equal values the one with the
    lower index counts as the larger; which one hardware keeps is not documented.
    """
    count = val_dst.reshape(val_dst.shape[0], -1).shape[1]
    for start in range(0, len(src), _GROUP_PARTITIONS):
        group = src[start : start + _GROUP_PARTITIONS]
        line = group.reshape(len(group), -1).T.reshape(-1)[:n]
        order = np.lexsort((-np.arange(len(line)), single(line)))[-count:]
        lanes = slice(start, start + len(group))
        val_dst[lanes] = line[order].reshape(1, *val_dst.shape[1:])
        idx_dst[lanes] = order.astype(np.uint32).reshape(1, *idx_dst.shape[1:])
