"""``neuronxcc.nki.isa``: the public instructions of NKI beta 1.

Signatures: nki/api/nki/isa (SDK 2.26); parameters that were positional in 2.20 still may be.
Instructions return a new tile, unless they take ``dst``.
"""

from __future__ import annotations

import numpy as np

from nki_lang.base.errors import fail, missing_attribute
from nki_lang.beta1 import elementwise, instructions, movement, products, selection
from nki_lang.beta1 import reductions as _reductions
from nki_lang.beta1.assignment import assign
from nki_lang.beta1.language import fp32
from nki_lang.beta1.operands import require_same_dtype, require_tile
from nki_lang.beta1.signature import checked_call
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import (
    AxisLike,
    ElementLike,
    EngineLike,
    MaskLike,
    OperatorLike,
    ShapeLike,
    Value,
)
from nki_lang.isa import get_nc_version as _current_version
from nki_lang.isa.enums import (
    dge_mode,
    engine,
    gpsimd_engine,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)

dma_engine = engine.dma


@checked_call
def get_nc_version() -> nc_version:
    """The generation of the target's NeuronCore."""
    return nc_version(_current_version())


@checked_call
def activation(
    op: OperatorLike,
    data: Value,
    bias: Value = None,
    scale: Value = 1.0,
    reduce_op: OperatorLike = None,
    reduce_res: Value = None,
    reduce_cmd: Value = None,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """``op(data * scale + bias)`` on the scalar engine."""
    return instructions.activation(
        op, data, bias, scale, reduce_op, reduce_res, reduce_cmd, mask, dtype
    )


@checked_call
def activation_reduce(
    op: OperatorLike,
    data: Value,
    reduce_op: OperatorLike,
    reduce_res: Value,
    bias: Value = None,
    scale: Value = 1.0,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """``op(data * scale + bias)``, and its reduction along the free axes into ``reduce_res``."""
    return instructions.activation(
        op, data, bias, scale, reduce_op, reduce_res, _RESET_REDUCE, mask, dtype
    )


_RESET_REDUCE = reduce_cmd.reset_reduce


@checked_call
def affine_select(
    pred: Value,
    on_true_tile: Value,
    on_false_value: Value,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """The tile where a comparison of index expressions holds, else a number."""
    return selection.affine_select(pred, on_true_tile, on_false_value, mask, dtype)


@checked_call
def bn_stats(data: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """Six statistics of each partition."""
    return selection.bn_stats(data, mask, dtype)


@checked_call
def bn_aggr(data: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """Mean and variance from statistics."""
    return selection.bn_aggr(data, mask, dtype)


@checked_call
def dma_copy(
    *,
    dst: Value,
    src: Value,
    mask: MaskLike = None,
    dst_rmw_op: OperatorLike = None,
    oob_mode: Value = None,
    dge_mode: Value = None,
) -> None:
    """Copy by DMA, or add to the destination with ``dst_rmw_op``.

    All arguments have names: SDK 2.20 and 2.21 had the source first.
    """
    selection.copy_by_dma(dst, src, mask, dst_rmw_op, oob_mode, dge_mode)


@checked_call
def dma_transpose(
    src: Value,
    axes: AxisLike = None,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """The transpose of a tensor, by DMA."""
    if mask is not None:
        fail("nisa.dma_transpose with a mask", "NKI-BETA1-UNSUPPORTED",
             "shorten the index of the source", "nisa.dma_transpose (beta 1)")  # fmt: skip
    return selection.transpose_by_dma(src, axes, dtype)


@checked_call
def dropout(data: Value, prob: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """Elements replaced by zero with probability ``prob``."""
    return selection.dropout(data, prob, mask, dtype)


@checked_call
def iota(expr: Value, dtype: ElementLike, mask: MaskLike = None) -> Tile:
    """A tile of the values of an index expression."""
    return selection.iota(expr, dtype, mask)


@checked_call
def local_gather(
    src_buffer: Value,
    index: Value,
    num_elem_per_idx: int = 1,
    num_valid_indices: Value = None,
    mask: MaskLike = None,
) -> Tile:
    """Elements by uint16 indices, shared by groups of 16 partitions."""
    if mask is not None:
        fail("nisa.local_gather with a mask", "NKI-BETA1-UNSUPPORTED", "shorten the index",
             "nisa.local_gather (beta 1)")  # fmt: skip
    return selection.local_gather(src_buffer, index, num_elem_per_idx, num_valid_indices)


@checked_call
def max8(src: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """The eight largest values of each partition."""
    return selection.max8(src, mask, dtype)


@checked_call
def memset(
    shape: ShapeLike,
    value: Value,
    dtype: ElementLike,
    mask: MaskLike = None,
    engine: EngineLike = None,
) -> Tile:
    """A new tile filled with a number where the mask holds."""
    return instructions.filled(shape, value, dtype, mask, engine)


@checked_call
def nc_find_index8(
    data: Value, vals: Value, mask: MaskLike = None, dtype: ElementLike = None
) -> Tile:
    """Index of the first occurrence of each of eight values."""
    return selection.find_index8(data, vals, mask, dtype)


@checked_call
def nc_match_replace8(
    data: Value,
    vals: Value,
    imm: Value,
    dst_idx: Value = None,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """The data with the first occurrence of each of eight values replaced by ``imm``."""
    return selection.match_replace8(data, vals, imm, dst_idx, mask, dtype)


@checked_call
def nc_matmul(
    stationary: Value,
    moving: Value,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    tile_position: Value = (),
    tile_size: Value = (),
    mask: MaskLike = None,
    perf_mode: Value = None,
) -> Tile:
    """``stationary.T @ moving``; float32 in PSUM."""
    return products.masked_product(
        stationary,
        moving,
        mask,
        perf_mode,
        is_stationary_onezero=bool(is_stationary_onezero),
        is_moving_onezero=bool(is_moving_onezero),
        is_transpose=bool(is_transpose),
        tile_position=tuple(tile_position),
        tile_size=tuple(tile_size),
    )


@checked_call
def nc_stream_shuffle(
    src: Value,
    dst: Value,
    shuffle_mask: Value,
    dtype: ElementLike = None,
    mask: MaskLike = None,
) -> None:
    """Exchange partitions within groups of 32."""
    require_same_dtype(dst, dtype, "nisa.nc_stream_shuffle")
    selection.shuffle(src, dst, shuffle_mask, mask)


@checked_call
def nc_transpose(
    data: Value,
    mask: MaskLike = None,
    dtype: ElementLike = None,
    engine: EngineLike = None,
) -> Tile:
    """The transpose of a tile: in PSUM from the tensor engine, in SBUF from the vector engine."""
    return movement.nc_transposed(require_tile(data, "nisa.nc_transpose"), mask, dtype, engine)


@checked_call
def range_select(
    on_true_tile: Value,
    comp_op0: OperatorLike,
    comp_op1: OperatorLike,
    bound0: Value,
    bound1: Value,
    reduce_cmd: Value = None,
    reduce_res: Value = None,
    reduce_op: OperatorLike = np.max,
    range_start: Value = 0,
    on_false_value: Value = fp32.min,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """The tile where both comparisons of the running index hold, else a number."""
    return selection.range_select(
        on_true_tile, comp_op0, comp_op1, bound0, bound1, reduce_cmd, reduce_res, reduce_op,
        range_start, on_false_value, mask, dtype,
    )  # fmt: skip


@checked_call
def reciprocal(data: Value, dtype: ElementLike = None, mask: MaskLike = None) -> Tile:
    """``1 / data`` on the vector engine."""
    return elementwise.unary("reciprocal", data, dtype, mask)


@checked_call
def scalar_tensor_tensor(
    data: Value,
    op0: OperatorLike,
    operand0: Value,
    op1: OperatorLike,
    operand1: Value,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """``(data <op0> operand0) <op1> operand1`` with a tile as ``operand1``."""
    return instructions.scalar_tensor_tensor(
        data, op0, operand0, op1, operand1, reverse0, reverse1, dtype, mask
    )


@checked_call
def select_reduce(
    dst: Value,
    predicate: Value,
    on_true: Value,
    on_false: Value,
    reduce_res: Value = None,
    reduce_cmd: Value = None,
    reduce_op: OperatorLike = np.max,
    reverse_pred: bool = False,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> None:
    """``dst = on_true`` where the predicate is not zero, else ``on_false``; and the maximum."""
    require_same_dtype(dst, dtype, "nisa.select_reduce")
    selection.select_reduce(
        dst, predicate, on_true, on_false, reduce_res, reduce_cmd, reduce_op, reverse_pred, mask
    )


@checked_call
def sequence_bounds(segment_ids: Value, dtype: ElementLike = None) -> Tile:
    """Start and end of the segment that each element belongs to."""
    return selection.sequence_bounds(segment_ids, dtype)


@checked_call
def tensor_copy(
    src: Value,
    mask: MaskLike = None,
    dtype: ElementLike = None,
    engine: EngineLike = None,
) -> Tile:
    """A copy of a tile."""
    options = instructions.engine_options(engine)
    return movement.copy(src, dtype, mask, options.get("engine"))


@checked_call
def tensor_copy_dynamic_src(
    src: Value,
    mask: MaskLike = None,
    dtype: ElementLike = None,
    engine: EngineLike = None,
) -> Tile:
    """A copy of a part whose position in the free axes is known at run time."""
    return tensor_copy(src, mask, dtype, engine)


@checked_call
def tensor_copy_dynamic_dst(
    dst: Value,
    src: Value,
    mask: MaskLike = None,
    dtype: ElementLike = None,
    engine: EngineLike = None,
) -> None:
    """Copy to a part whose position in the free axes is known at run time."""
    if mask is not None:
        fail("nisa.tensor_copy_dynamic_dst with a mask", "NKI-BETA1-UNSUPPORTED",
             "shorten the index of both tiles", "nisa.tensor_copy_dynamic_dst (beta 1)")  # fmt: skip
    require_same_dtype(dst, dtype, "nisa.tensor_copy_dynamic_dst")
    assign(dst, src)


@checked_call
def tensor_copy_predicated(
    src: Value,
    dst: Value,
    predicate: Value,
    reverse_pred: bool = False,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> None:
    """Copy ``src`` to ``dst`` where the predicate is not zero."""
    require_same_dtype(dst, dtype, "nisa.tensor_copy_predicated")
    instructions.copy_predicated(src, dst, predicate, reverse_pred, mask)


@checked_call
def tensor_partition_reduce(
    op: OperatorLike,
    data: Value,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """The reduction over partitions, on one partition."""
    return instructions.partition_reduced(op, data, dtype, mask)


@checked_call
def tensor_reduce(
    op: OperatorLike,
    data: Value,
    axis: AxisLike,
    mask: MaskLike = None,
    dtype: ElementLike = None,
    negate: bool = False,
    keepdims: bool = False,
) -> Tile:
    """The reduction along free axes."""
    return _reductions.reduce(
        op, data, axis, dtype, mask, keepdims, negate, function="nisa.tensor_reduce"
    )


@checked_call
def tensor_scalar(
    data: Value,
    op0: OperatorLike,
    operand0: Value,
    reverse0: bool = False,
    op1: OperatorLike = None,
    operand1: Value = None,
    reverse1: bool = False,
    dtype: ElementLike = None,
    mask: MaskLike = None,
    engine: EngineLike = None,
) -> Tile:
    """``(data <op0> operand0) <op1> operand1`` with numbers or one value for each partition."""
    return instructions.tensor_scalar(
        data, op0, operand0, reverse0, op1, operand1, reverse1, dtype, mask, engine
    )


@checked_call
def tensor_scalar_reduce(
    data: Value,
    op0: OperatorLike,
    operand0: Value,
    reduce_op: OperatorLike,
    reduce_res: Value,
    reverse0: bool = False,
    dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """``data <op0> operand0``, and its reduction along the free axes into ``reduce_res``."""
    return instructions.tensor_scalar_reduce(
        data, op0, operand0, reduce_op, reduce_res, reverse0, dtype, mask
    )


@checked_call
def tensor_tensor(
    data1: Value,
    data2: Value,
    op: OperatorLike,
    dtype: ElementLike = None,
    mask: MaskLike = None,
    engine: EngineLike = None,
) -> Tile:
    """``data1 <op> data2`` of two tiles."""
    return instructions.tensor_tensor(data1, data2, op, dtype, mask, engine)


@checked_call
def tensor_tensor_scan(
    data0: Value,
    data1: Value,
    initial: Value,
    op0: OperatorLike,
    op1: OperatorLike,
    reverse0: bool = False,
    reverse1: bool = False,
    dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """``result[i] = (result[i - 1] <op0> data0[i]) <op1> data1[i]`` along the free axes."""
    return instructions.scan(data0, data1, initial, op0, op1, reverse0, reverse1, dtype, mask)


__all__ = [
    "activation", "activation_reduce", "affine_select", "bn_aggr", "bn_stats", "dge_mode",
    "dma_copy", "dma_engine", "dma_transpose", "dropout", "engine", "fp32", "get_nc_version",
    "gpsimd_engine", "iota", "local_gather", "max8", "memset", "nc_find_index8",
    "nc_match_replace8", "nc_matmul", "nc_stream_shuffle", "nc_transpose", "nc_version",
    "oob_mode", "range_select", "reciprocal", "reduce_cmd", "scalar_engine",
    "scalar_tensor_tensor", "select_reduce", "sequence_bounds", "tensor_copy",
    "tensor_copy_dynamic_dst", "tensor_copy_dynamic_src", "tensor_copy_predicated",
    "tensor_engine", "tensor_partition_reduce", "tensor_reduce", "tensor_scalar",
    "tensor_scalar_reduce", "tensor_tensor", "tensor_tensor_scan", "unknown_engine",
    "vector_engine",
]  # fmt: skip

__getattr__ = missing_attribute("neuronxcc.nki.isa", __all__, {})
