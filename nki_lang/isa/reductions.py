"""Reductions, selections with reductions, and statistics.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from typing import Any

from nki_lang.frontend.operators import maximum
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.enums import reduce_cmd
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.table import TABLE

__all__ = [
    "bn_aggr",
    "bn_stats",
    "range_select",
    "select_reduce",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
]

_LOWEST = -3.4028234663852886e38


def tensor_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    axis: Any,
    negate: Any = False,
    keepdims: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """Reduce the last free axes of ``data``."""
    return issue(
        TABLE["tensor_reduce"], (dst, op, data, axis, negate, keepdims), Engine.unknown, name
    )


def tensor_partition_reduce(
    dst: NkiTensor, op: Any, data: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Reduce over the partitions (GpSimd)."""
    return issue(TABLE["tensor_partition_reduce"], (dst, op, data), Engine.unknown, name)


def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Any,
    op1: Any,
    imm0: float | NkiTensor,
    imm1: float | NkiTensor | None = None,
    reduce_cmd: Any = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """Cumulative ``op1`` over ``src <op0> imm0`` along the free axis."""
    return issue(
        TABLE["tensor_scalar_cumulative"],
        (dst, src, op0, op1, imm0, imm1, reduce_cmd),
        Engine.unknown,
        name,
    )


def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: float | NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor | None = None,
    reverse0: Any = False,
    reduce_cmd: Any = reduce_cmd.reset_reduce,
    reduce_init: float | NkiTensor | None = None,
    reduce_res_negate: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = data <op0> operand0`` and its reduction over the free axis."""
    return issue(
        TABLE["tensor_scalar_reduce"],
        (
            dst,
            data,
            op0,
            operand0,
            reduce_op,
            reduce_res,
            reverse0,
            reduce_cmd,
            reduce_init,
            reduce_res_negate,
        ),
        Engine.unknown,
        name,
    )


def range_select(
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Any,
    comp_op1: Any,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: Any = reduce_cmd.reset_reduce,
    reduce_res: NkiTensor | None = None,
    reduce_op: Any = maximum,
    range_start: Any = 0,
    on_false_value: Any = _LOWEST,
    name: str | None = None,
) -> NkiInstruction:
    """Keep elements whose index lies between two bounds, with a running maximum (trn2).

    ``on_false_value`` must be the lowest float32, which is its default."""
    return issue(
        TABLE["range_select"],
        (
            dst,
            on_true_tile,
            comp_op0,
            comp_op1,
            bound0,
            bound1,
            reduce_cmd,
            reduce_res,
            reduce_op,
            range_start,
            on_false_value,
        ),
        Engine.unknown,
        name,
    )


def select_reduce(
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: float | NkiTensor,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = reduce_cmd.idle,
    reduce_op: Any = maximum,
    reverse_pred: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = where(predicate, on_true, on_false)`` with an optional running maximum."""
    return issue(
        TABLE["select_reduce"],
        (dst, predicate, on_true, on_false, reduce_res, reduce_cmd, reduce_op, reverse_pred),
        Engine.unknown,
        name,
    )


def bn_stats(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Count, mean and variance times count of even and of odd elements (six per partition)."""
    return issue(TABLE["bn_stats"], (dst, data), Engine.unknown, name)


def bn_aggr(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Mean and variance from the results of ``bn_stats``."""
    return issue(TABLE["bn_aggr"], (dst, data), Engine.unknown, name)
