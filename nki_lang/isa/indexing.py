"""Index patterns, gathers and searches.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from typing import Any

from nki_lang.frontend.operators import equal
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.table import TABLE

__all__ = [
    "affine_select",
    "iota",
    "local_gather",
    "max8",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_n_gather",
    "nonzero_with_count",
    "sequence_bounds",
    "topk",
]


def iota(
    dst: NkiTensor,
    pattern: Any,
    offset: Any = 0,
    channel_multiplier: Any = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Fill ``dst`` with ``offset + partition * channel_multiplier + pattern``."""
    return issue(TABLE["iota"], (dst, pattern, offset, channel_multiplier), Engine.unknown, name)


def affine_select(
    dst: NkiTensor,
    pattern: Any,
    channel_multiplier: Any,
    on_true_tile: NkiTensor,
    on_false_value: Any,
    cmp_op: Any = equal,
    offset: Any = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Keep ``on_true_tile`` where an affine expression of the indices compares with 0."""
    return issue(
        TABLE["affine_select"],
        (dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op, offset),
        Engine.unknown,
        name,
    )


def local_gather(
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: Any = 1,
    num_valid_indices: Any = None,
    name: str | None = None,
) -> NkiInstruction:
    """Gather within groups of 16 partitions by uint16 indices."""
    return issue(
        TABLE["local_gather"],
        (dst, src_buffer, index, num_elem_per_idx, num_valid_indices),
        Engine.unknown,
        name,
    )


def nc_n_gather(
    dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Gather within each partition by uint32 indices."""
    return issue(TABLE["nc_n_gather"], (dst, data, indices), Engine.unknown, name)


def max8(dst: NkiTensor, src: NkiTensor, name: str | None = None) -> NkiInstruction:
    """The eight largest values of each partition, in descending order."""
    return issue(TABLE["max8"], (dst, src), Engine.unknown, name)


def nc_find_index8(
    dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Index of the first occurrence of each of eight values."""
    return issue(TABLE["nc_find_index8"], (dst, data, vals), Engine.unknown, name)


def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Replace the first occurrence of each of eight values by ``imm``."""
    return issue(TABLE["nc_match_replace8"], (dst, data, vals, imm, dst_idx), Engine.unknown, name)


def nonzero_with_count(
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: Any = 0,
    padding_val: Any = -1,
    name: str | None = None,
) -> NkiInstruction:
    """Indices of the nonzero elements, padding, and their count (trn2)."""
    return issue(
        TABLE["nonzero_with_count"], (dst, src, index_offset, padding_val), Engine.unknown, name
    )


def topk(
    val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: Any, name: str | None = None
) -> NkiInstruction:
    """The K largest values and their indices."""
    return issue(TABLE["topk"], (val_dst, idx_dst, src, n), Engine.unknown, name)


def sequence_bounds(
    dst: NkiTensor, segment_ids: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Start and end of the segment that each element belongs to."""
    return issue(TABLE["sequence_bounds"], (dst, segment_ids), Engine.unknown, name)
