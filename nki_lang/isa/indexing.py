"""Index patterns, gathers and searches.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_lang.frontend.operators import Operator, equal
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
    pattern: Sequence[Sequence[int]],
    offset: int = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Fill ``dst`` with ``offset + partition * channel_multiplier + pattern``.

    Args:
        dst: tile written, in SBUF.
        pattern: up to four [step, count] pairs over the elements of a partition.
        offset: what is added to every value.
        channel_multiplier: what the value grows by from one partition to the next.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-PATTERN, NKI-VALUE.

    Rules:
        pattern is up to four [step, count] pairs whose counts multiply to the elements per
            partition of dst (NKI-PATTERN).
        offset, channel_multiplier: an integer (NKI-VALUE).

    Engines: GpSimd on trn1, trn2, trn3.
    Source: nisa.iota (nki/api/nki/isa, NKI 0.6.0).

    Example::

        indices = nl.ndarray((128, 512), nl.int32, buffer=nl.sbuf)
        nisa.iota(dst=indices, pattern=[[1, 512]], channel_multiplier=512)
    """
    return issue(TABLE["iota"], (dst, pattern, offset, channel_multiplier), Engine.unknown, name)


def affine_select(
    dst: NkiTensor,
    pattern: Sequence[Sequence[int]],
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: Operator = equal,
    offset: int = 0,
    name: str | None = None,
) -> NkiInstruction:
    """Keep ``on_true_tile`` where an affine expression of the indices compares with 0.

    Args:
        dst: tile written, in SBUF.
        pattern: up to four [step, count] pairs over the elements of a partition.
        channel_multiplier: what the value grows by from one partition to the next.
        on_true_tile: tile read, in SBUF.
        on_false_value: the number for elements that are not selected.
        cmp_op: an operator of nki.language, such as nl.equal.
        offset: what is added to every value.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-PATTERN, NKI-VALUE.

    Rules:
        cmp_op is one of equal, greater, greater_equal, less, less_equal, not_equal
            (NKI-OPERATOR).
        dst, on_true_tile have the same partitions and the same elements per partition
            (NKI-SHAPE).
        pattern is up to four [step, count] pairs whose counts multiply to the elements per
            partition of dst (NKI-PATTERN).
        offset, channel_multiplier: an integer (NKI-VALUE).

    Engines: GpSimd on trn1, trn2, trn3.
    Source: nisa.affine_select (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.affine_select(dst=out, pattern=[[-1, 512]], channel_multiplier=1, on_true_tile=a,
                           on_false_value=0.0, cmp_op=nl.greater_equal)
    """
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
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Gather within groups of 16 partitions by uint16 indices.

    Args:
        dst: tile written, in SBUF.
        src_buffer: tile read, in SBUF.
        index: tile read, in SBUF, of uint16.
        num_elem_per_idx: elements that one index takes: 1, 2, 4, 8, 16 or 32.
        num_valid_indices: indices that count in each core; None for all.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-GATHER.

    Rules:
        dst, src_buffer have the same dtype (NKI-DTYPE).
        partitions are equal and a multiple of 16, num_elem_per_idx is 1 to 32 (a power of two),
            at most 4096 indices a core (NKI-GATHER).

    Engines: GpSimd on trn1, trn2, trn3.
    Source: nisa.local_gather (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        index = nl.ndarray((128, 4), nl.uint16, buffer=nl.sbuf)
        few = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf)
        nisa.memset(index, 3)
        nisa.local_gather(dst=few, src_buffer=a, index=index)
    """
    return issue(
        TABLE["local_gather"],
        (dst, src_buffer, index, num_elem_per_idx, num_valid_indices),
        Engine.unknown,
        name,
    )


def nc_n_gather(
    dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Gather within each partition by uint32 indices.

    Args:
        dst: tile written, in SBUF.
        data: tile read, in SBUF.
        indices: tile read, in SBUF, of uint32.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE.

    Rules:
        dst, data have the same dtype (NKI-DTYPE).
        dst, indices have the same partitions and the same elements per partition (NKI-SHAPE).
        dst, data have the same partitions (NKI-SHAPE).

    Engines: GpSimd on trn1, trn2, trn3.
    Source: nisa.nc_n_gather (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        indices = nl.ndarray((128, 8), nl.uint32, buffer=nl.sbuf)
        few = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
        nisa.iota(dst=indices, pattern=[[2, 8]])
        nisa.nc_n_gather(dst=few, data=a, indices=indices)
    """
    return issue(TABLE["nc_n_gather"], (dst, data, indices), Engine.unknown, name)


def max8(dst: NkiTensor, src: NkiTensor, name: str | None = None) -> NkiInstruction:
    """The eight largest values of each partition, in descending order.

    Args:
        dst: tile written with 8 elements in a partition, in SBUF or PSUM.
        src: tile read, in SBUF or PSUM.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE, NKI-RANK.

    Rules:
        8 to 16384 elements per partition in, 8 out of each (NKI-SHAPE).
        src: at most 3 dimensions (NKI-RANK).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.max8 (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        largest = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
        nisa.max8(dst=largest, src=a)
    """
    return issue(TABLE["max8"], (dst, src), Engine.unknown, name)


def nc_find_index8(
    dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Index of the first occurrence of each of eight values.

    Args:
        dst: tile written with 8 indices in a partition, in SBUF or PSUM, of uint16, uint32.
        data: tile read, in SBUF or PSUM.
        vals: tile read with 8 elements in a partition, in SBUF or PSUM.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE.

    Rules:
        8 to 16384 elements per partition in, 8 out of each (NKI-SHAPE).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.nc_find_index8 (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        largest = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
        where = nl.ndarray((128, 8), nl.uint32, buffer=nl.sbuf)
        nisa.max8(dst=largest, src=a)
        nisa.nc_find_index8(dst=where, data=a, vals=largest)
    """
    return issue(TABLE["nc_find_index8"], (dst, data, vals), Engine.unknown, name)


def nc_match_replace8(
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Replace the first occurrence of each of eight values by ``imm``.

    Args:
        dst: tile written, in SBUF or PSUM.
        data: tile read, in SBUF or PSUM.
        vals: tile read with 8 elements in a partition, in SBUF or PSUM.
        imm: the number that replaces.
        dst_idx: tile written, in SBUF or PSUM, of uint16, uint32; None for none.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE.

    Rules:
        dst, data have the same partitions and the same elements per partition (NKI-SHAPE).
        8 to 16384 elements per partition in, 8 out of each (NKI-SHAPE).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.nc_match_replace8 (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        largest = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
        nisa.max8(dst=largest, src=a)
        nisa.nc_match_replace8(dst=out, data=a, vals=largest, imm=-1.0)
    """
    return issue(TABLE["nc_match_replace8"], (dst, data, vals, imm, dst_idx), Engine.unknown, name)


def nonzero_with_count(
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: int = 0,
    padding_val: int = -1,
    name: str | None = None,
) -> NkiInstruction:
    """Indices of the nonzero elements, padding, and their count (trn2).

    Args:
        dst: tile read and written, in SBUF, of int32.
        src: tile read, in SBUF, of float32, int32.
        index_offset: what is added to every index.
        padding_val: what stands behind the indices.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE, NKI-VALUE.

    Rules:
        dst has one element per partition more than src (NKI-SHAPE).
        index_offset, padding_val: an integer (NKI-VALUE).

    Engines: GpSimd on trn2, trn3.
    Source: nisa.nonzero_with_count (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        found = nl.ndarray((128, 513), nl.int32, buffer=nl.sbuf)
        nisa.memset(found, 0)
        nisa.nonzero_with_count(dst=found, src=a)
    """
    return issue(
        TABLE["nonzero_with_count"], (dst, src, index_offset, padding_val), Engine.unknown, name
    )


def topk(
    val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: int, name: str | None = None
) -> NkiInstruction:
    """The K largest values and their indices.

    Args:
        val_dst: tile written, in SBUF, of bfloat16.
        idx_dst: tile written, in SBUF, of uint32.
        src: tile read, in SBUF, of bfloat16.
        n: how many are looked for in each partition.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE.

    Rules:
        val_dst, idx_dst have the same partitions and the same elements per partition
            (NKI-SHAPE).
        8 <= n < 65536, 1 <= K <= n, src holds n elements in 16 partitions (NKI-SHAPE).

    Engines: GpSimd on trn1, trn2, trn3.
    Source: nisa.topk (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        values = nl.ndarray((128, 8), nl.bfloat16, buffer=nl.sbuf)
        where = nl.ndarray((128, 8), nl.uint32, buffer=nl.sbuf)
        half = nl.ndarray((128, 512), nl.bfloat16, buffer=nl.sbuf)
        nisa.tensor_copy(dst=half, src=a)
        nisa.topk(val_dst=values, idx_dst=where, src=half, n=8)
    """
    return issue(TABLE["topk"], (val_dst, idx_dst, src, n), Engine.unknown, name)


def sequence_bounds(
    dst: NkiTensor, segment_ids: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Start and end of the segment that each element belongs to.

    Args:
        dst: tile written, in SBUF, of float32, int32.
        segment_ids: tile read, in SBUF, of float32, int32.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE.

    Rules:
        one partition; dst holds two values for each id (NKI-SHAPE).

    Engines: GpSimd on trn1, trn2, trn3.
    Source: nisa.sequence_bounds (nki/api/nki/isa, NKI 0.6.0).

    Example::

        segments = nl.ndarray((1, 512), nl.float32, buffer=nl.sbuf)
        bounds = nl.ndarray((1, 2, 512), nl.float32, buffer=nl.sbuf)
        nisa.memset(segments, 1.0)
        nisa.sequence_bounds(dst=bounds, segment_ids=segments)
    """
    return issue(TABLE["sequence_bounds"], (dst, segment_ids), Engine.unknown, name)
