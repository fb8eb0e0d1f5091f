"""Instructions on indices, statistics, random numbers and selected elements."""

from __future__ import annotations

from math import prod

import numpy as np

from nki_lang.base.errors import NkiTypeError, fail
from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1.index import IndexExpression, Mask, is_integer
from nki_lang.beta1.mask import Box, mask_boxes
from nki_lang.beta1.operands import (
    cut,
    fitted,
    off_psum,
    operator_of,
    read,
    require_tile,
    tile_kind,
)
from nki_lang.beta1.results import new_tile, produce, run_masked
from nki_lang.beta1.session import require_session
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import AxisLike, ElementLike, MaskLike, OperatorLike, Value
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.isa import indexing, random, reductions
from nki_lang.isa.dma import dma_compute, dma_copy
from nki_lang.isa.dma import dma_transpose as dma_transposed
from nki_lang.isa.enums import dge_mode as dge_modes
from nki_lang.isa.enums import oob_mode as oob_modes
from nki_lang.isa.enums import reduce_cmd as reduce_cmds
from nki_lang.isa.movement import nc_stream_shuffle as stream_shuffle
from nki_lang.isa.movement import tensor_copy

__all__ = [
    "affine_select", "bn_aggr", "bn_stats", "copy_by_dma", "dropout", "find_index8",
    "gather_flattened", "iota", "local_gather", "match_replace8", "max8", "range_select",
    "select_reduce", "sequence_bounds", "shuffle", "transpose_by_dma",
]  # fmt: skip

_SBUF = frozenset({MemoryRegion.sbuf})
_COMPARISONS = {
    "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal",
    "!=": "not_equal",
}  # fmt: skip


def _pattern(expression: IndexExpression, box: Box) -> tuple[list[list[int]], int, int]:
    """Return (pattern of the free axes, offset, step of the partitions) within a box."""
    offset = expression.offset
    for step, (start, _) in zip(expression.steps, box, strict=True):
        offset += step * start
    pattern = [
        [step, stop - start]
        for step, (start, stop) in zip(expression.steps[1:], box[1:], strict=True)
    ]
    return pattern, offset, expression.steps[0]


def iota(expr: Value, dtype: ElementLike, mask: MaskLike = None) -> Tile:
    """A tile of the values of an index expression."""
    if not isinstance(expr, IndexExpression) or len(expr.shape) < 2:
        fail(f"nisa.iota of {expr!r}", "NKI-BETA1-INDEX",
             "pass an expression of nl.arange with two axes or more", "nisa.iota (beta 1)")  # fmt: skip

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            pattern, offset, step = _pattern(expr, box)
            indexing.iota(dst, pattern, offset, step)

        run_masked(target, mask, keep, issue)

    return produce(expr.shape, dtype, write, buffers=_SBUF)


def affine_select(
    pred: Value,
    on_true_tile: Value,
    on_false_value: Value,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """The tile where a comparison of index expressions holds, else a number."""
    tile = off_psum(require_tile(on_true_tile, "nisa.affine_select"))
    number = np.asarray(on_false_value).item()
    if isinstance(pred, (bool, np.bool_)):
        fail("nisa.affine_select with a constant predicate", "NKI-BETA1-MASK",
             "compare index expressions: pred=(i_f <= i_p)", "nisa.affine_select (beta 1)")  # fmt: skip
    if not isinstance(pred, Mask):
        fail(f"nisa.affine_select with pred={pred!r:.60}", "NKI-BETA1-MASK",
             "compare index expressions: pred=(i_f <= i_p)", "nisa.affine_select (beta 1)")  # fmt: skip
    relations = [pred.relation] if pred.relation is not None else list(pred.conditions)
    element = dtype or tile_kind(tile)

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            source = read(tile, box)
            for position, (expression, relation) in enumerate(relations):
                last = position == len(relations) - 1
                out = dst if last else new_tile(dst.shape, tile.dtype).base
                aligned = expression.expanded(len(box))
                pattern, offset, step = _pattern(aligned, box)
                indexing.affine_select(
                    out, pattern, step, source, number, operator_of(_COMPARISONS[relation]), offset
                )
                source = out

        run_masked(target, mask, keep, issue)

    return produce(tile.shape, element, write, buffers=_SBUF)


# -- statistics -------------------------------------------------------------------------------


def bn_stats(data: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """Six statistics of each partition: count, mean, variance times count of even, odd elements."""
    tile = require_tile(data, "nisa.bn_stats")

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, tile.shape):
            reductions.bn_stats(target.region((box[0], (0, 6))), read(tile, box))

    return produce((tile.shape[0], 6), dtype or tile_kind(tile), write)


def bn_aggr(data: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """Mean and variance from statistics."""
    tile = require_tile(data, "nisa.bn_aggr")

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, tile.shape):
            reductions.bn_aggr(target.region((box[0], (0, 2))), read(tile, box))

    return produce((tile.shape[0], 2), dtype or tile_kind(tile), write)


def max8(src: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """The eight largest values of each partition, in descending order."""
    tile = require_tile(src, "nisa.max8")

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, tile.shape):
            indexing.max8(target.region((box[0], (0, 8))), read(tile, box))

    return produce((tile.shape[0], 8), dtype or tile_kind(tile), write)


def find_index8(data: Value, vals: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """Index of the first occurrence of each of eight values; the mask is that of the data."""
    tile = require_tile(data, "nisa.nc_find_index8")
    values = require_tile(vals, "nisa.nc_find_index8")

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, tile.shape):
            rows = (box[0], (0, 8))
            indexing.nc_find_index8(target.region(rows), read(tile, box), values.region(rows))

    return produce((tile.shape[0], 8), dtype or "uint32", write)


def match_replace8(
    data: Value,
    vals: Value,
    imm: Value,
    dst_idx: Value = None,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """The data with the first occurrence of each of eight values replaced by ``imm``."""
    tile = require_tile(data, "nisa.nc_match_replace8")
    values = require_tile(vals, "nisa.nc_match_replace8")
    number = np.asarray(imm).item()

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, tile.shape):
            rows = (box[0], (0, 8))
            positions = None if dst_idx is None else require_tile(dst_idx, "dst_idx").region(rows)
            source = read(tile, box)
            if target.base.storage is tile.base.storage:  # in place: the instruction reads first
                source = new_tile(source.shape, tile.dtype).base
                tensor_copy(source, read(tile, box))
            indexing.nc_match_replace8(
                target.region(box), source, values.region(rows), number, positions
            )

    if dst_idx is not None:
        require_session().filled.add(dst_idx.base.storage.name)
    return produce(tile.shape, dtype or tile_kind(tile), write)


# -- selection --------------------------------------------------------------------------------


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
    on_false_value: Value = -3.4028234663852886e38,
    mask: MaskLike = None,
    dtype: ElementLike = None,
) -> Tile:
    """The tile where both comparisons of the running index hold, else a number."""
    tile = require_tile(on_true_tile, "nisa.range_select")
    command = reduce_cmds.idle if reduce_cmd is None else reduce_cmds[reduce_cmd.name]

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, tile.shape):
            rows = (box[0], (0, 1))
            reductions.range_select(
                target.region(box), read(tile, box), operator_of(comp_op0), operator_of(comp_op1),
                require_tile(bound0, "bound0").region(rows),
                require_tile(bound1, "bound1").region(rows), command,
                None if reduce_res is None else require_tile(reduce_res, "reduce_res").region(rows),
                operator_of(reduce_op), range_start, np.asarray(on_false_value).item(),
            )  # fmt: skip

    return produce(tile.shape, dtype or tile_kind(tile), write)


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
) -> None:
    """``dst = on_true`` where the predicate is not zero, else ``on_false``; and the maximum."""
    target = require_tile(dst, "nisa.select_reduce")
    data = require_tile(on_true, "nisa.select_reduce")
    bits = require_tile(predicate, "nisa.select_reduce")
    command = reduce_cmds.idle if reduce_cmd is None else reduce_cmds[reduce_cmd.name]
    require_session().newest = None
    for box in mask_boxes(mask, target.shape):
        rows = (box[0], (0, 1))
        alternative: Value = on_false
        if isinstance(on_false, Tile):
            is_full = prod(on_false.shape[1:]) != 1
            alternative = on_false.region(box if is_full else rows)
        reductions.select_reduce(
            target.region(box), read(bits, box), read(data, box), alternative,
            None if reduce_res is None else require_tile(reduce_res, "reduce_res").region(rows),
            command, operator_of(reduce_op), bool(reverse_pred),
        )  # fmt: skip


def sequence_bounds(segment_ids: Value, dtype: ElementLike = None) -> Tile:
    """Start and end of the segment that each element belongs to."""
    tile = require_tile(segment_ids, "nisa.sequence_bounds")
    shape = (tile.shape[0], 2, *tile.shape[1:])

    def write(target: Tile, keep: bool) -> None:
        indexing.sequence_bounds(target.region(), tile.region())

    return produce(shape, dtype or tile_kind(tile), write, buffers=_SBUF)


def local_gather(
    src_buffer: Value, index: Value, num_elem_per_idx: int = 1, num_valid_indices: Value = None
) -> Tile:
    """Elements by uint16 indices, shared by groups of 16 partitions."""
    tile = require_tile(src_buffer, "nisa.local_gather")
    indices = require_tile(index, "nisa.local_gather")
    valid = num_valid_indices or 16 * prod(indices.shape[1:])
    columns = valid * num_elem_per_idx
    full = (*indices.shape[1:], 16, num_elem_per_idx)
    free = full if prod(full) == columns else (columns,)

    def write(target: Tile, keep: bool) -> None:
        flat = target.region().reshape((target.shape[0], columns))
        source = tile.region().reshape((tile.shape[0], prod(tile.shape[1:])))
        indexing.local_gather(flat, source, indices.region(), num_elem_per_idx, num_valid_indices)

    return produce((tile.shape[0], *free), tile.dtype, write, buffers=_SBUF)


def gather_flattened(
    data: Value, indices: Value, mask: MaskLike = None, dtype: ElementLike = None
) -> Tile:
    """Elements of each partition by index into its flattened free axes."""
    tile = off_psum(require_tile(data, "nl.gather_flattened"))
    chosen = require_tile(indices, "nl.gather_flattened")
    if chosen.dtype.name != "uint32":
        cast = new_tile(chosen.shape, "uint32")
        tensor_copy(cast.base, chosen.region())
        chosen = cast

    def write(target: Tile, keep: bool) -> None:
        for box in mask_boxes(mask, chosen.shape):
            rows = (box[0], *((0, extent) for extent in tile.shape[1:]))
            dst = target.region(box)
            out = dst if dst.dtype == tile.dtype else new_tile(dst.shape, tile.dtype).base
            indexing.nc_n_gather(out, read(tile, rows), chosen.region(box))
            if out is not dst:
                tensor_copy(dst, out)

    return produce(chosen.shape, dtype or tile.dtype, write, buffers=_SBUF)


# -- movement ---------------------------------------------------------------------------------


def copy_by_dma(
    dst: Value,
    src: Value,
    mask: MaskLike = None,
    dst_rmw_op: OperatorLike = None,
    oob_mode: Value = None,
    dge_mode: Value = None,
) -> None:
    """Copy between HBM and SBUF, or add to the destination."""
    require_session().newest = None
    target, source = _tensor(dst), _tensor(src)
    if source.buffer is MemoryRegion.psum:
        source = off_psum(source)
    skips = getattr(oob_mode, "name", oob_mode) in ("skip", 1)
    mode = oob_modes.skip if skips else oob_modes.error
    descriptors = _descriptor_mode(dge_mode)
    operator = operator_of(dst_rmw_op)
    if operator is not None and descriptors is dge_modes.hwdge:
        fail("nisa.dma_copy with dst_rmw_op and dge_mode.hwdge", "NKI-BETA1-UNSUPPORTED",
             "the descriptors of an accumulating transfer are made by software: leave dge_mode out",
             "nisa.dma_compute")  # fmt: skip
    for box in mask_boxes(mask, target.shape):
        written = target.region(box)
        same_rank = len(source.shape) == len(target.shape)
        data = (
            cut(source, target.shape, box) if same_rank else fitted(source.region(), written.shape)
        )
        if operator is None:
            dma_copy(written, data, oob_mode=mode, dge_mode=descriptors)
        elif target.rows is None:
            dma_compute(written, [written, data], operator, oob_mode=mode)
        else:
            _accumulate_rows(target, source, box, operator, mode)


_DESCRIPTOR_MODES = ("none", "swdge", "hwdge", "unknown")
"""Numbers of ``nisa.dge_mode`` in beta 1 (SDK 2.23 to 2.26); the current language has others."""


def _descriptor_mode(mode: Value) -> dge_modes:
    """Return who makes the descriptors, from a member or its number in beta 1."""
    if mode is None:
        return dge_modes.unknown
    if isinstance(mode, dge_modes):
        return mode
    if not is_integer(mode) or not 0 <= mode < len(_DESCRIPTOR_MODES):
        fail(f"nisa.dma_copy with dge_mode={mode!r}", "NKI-ENUM", "use a member of nisa.dge_mode",
             "nisa.dma_copy (beta 1)", NkiTypeError)  # fmt: skip
    return dge_modes[_DESCRIPTOR_MODES[mode]]


def _accumulate_rows(
    target: Tile, source: Tile, box: Box, operator: OperatorLike, mode: oob_modes
) -> None:
    """Add one row after the other: a transfer of several rows would lose all but one of equal ones."""
    for row in range(*box[0]):
        strip = ((row, row + 1), *box[1:])
        written = target.region(strip)
        dma_compute(written, [written, cut(source, target.shape, strip)], operator, oob_mode=mode)


def _tensor(value: Value) -> Tile:
    if isinstance(value, Tile):
        return value
    return require_tile(value, "nisa.dma_copy", on_chip=False)


def transpose_by_dma(src: Value, axes: AxisLike = None, dtype: ElementLike = None) -> Tile:
    """The transpose of a tensor, by DMA."""
    source = _tensor(src)
    rank = len(source.shape)
    order = tuple(axes) if axes is not None else tuple(range(rank - 1, -1, -1))
    shape = tuple(source.shape[axis] for axis in order)

    def write(target: Tile, keep: bool) -> None:
        dst = target.region()
        turned = dst if dst.dtype == source.dtype else new_tile(dst.shape, source.dtype).base
        if axes is None or rank == 2:
            dma_transposed(dst=turned, src=source.region())
        else:
            dma_transposed(dst=turned, src=source.region(), axes=order)
        if turned is not dst:
            tensor_copy(dst, turned)

    return produce(shape, dtype or source.dtype, write, buffers=_SBUF)


def shuffle(src: Value, dst: Value, shuffle_mask: Value, mask: MaskLike = None) -> None:
    """Exchange partitions within groups of 32."""
    target = require_tile(dst, "nisa.nc_stream_shuffle")
    source = require_tile(src, "nisa.nc_stream_shuffle")
    require_session().newest = None
    if mask is not None and mask_boxes(mask, target.shape) != mask_boxes(None, target.shape):
        fail("nisa.nc_stream_shuffle with a mask", "NKI-BETA1-UNSUPPORTED",
             "shorten the index of both tiles", "nisa.nc_stream_shuffle (beta 1)")  # fmt: skip
    if source.base.storage is target.base.storage:  # in place: the instruction reads first
        moved = new_tile(source.shape, source.dtype)
        tensor_copy(moved.base, source.region())
        source = moved
    stream_shuffle(target.region(), source.region(), list(shuffle_mask))


def dropout(data: Value, prob: Value, mask: MaskLike = None, dtype: ElementLike = None) -> Tile:
    """Elements replaced by zero with a probability; the others are not scaled."""
    tile = require_tile(data, "nisa.dropout")

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            rate = prob
            if isinstance(prob, Tile):
                rate = prob.region((box[0], (0, 1)))
            random.dropout(dst, read(tile, box), rate)

        run_masked(target, mask, keep, issue)

    result = produce(tile.shape, dtype or tile_kind(tile), write)
    if require_session().builder.eager:  # issued again, it would draw other numbers
        require_session().newest = None
    return result
