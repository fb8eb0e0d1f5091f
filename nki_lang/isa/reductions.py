"""Reductions, selections with reductions, and statistics.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from nki_lang.frontend.operators import Operator, maximum
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
    op: Operator,
    data: NkiTensor,
    axis: int | tuple[int, ...],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """Reduce the last free axes of ``data``.

    Args:
        dst: tile written, in SBUF or PSUM.
        op: an operator of nki.language, such as nl.add.
        data: tile read, in SBUF or PSUM.
        axis: the axes to reduce: the last free ones; 0 is the partition dimension.
        negate: negate the result.
        keepdims: no effect: the result has the shape of dst.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-BITVEC,
            NKI-AXIS.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op is one of abs_max, abs_min, add, bitwise_and, bitwise_or, bitwise_xor, logical_and,
            logical_or, logical_xor, maximum, minimum, multiply, subtract (NKI-OPERATOR).
        all operators are arithmetic, or all are bitwise and all tiles are integers
            (NKI-BITVEC).
        axis is one or several integers, the last free dimensions of data; dst has the rest;
            bitwise results are not negated (NKI-AXIS).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.tensor_reduce (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=a, axis=1)
    """
    return issue(
        TABLE["tensor_reduce"], (dst, op, data, axis, negate, keepdims), Engine.unknown, name
    )


def tensor_partition_reduce(
    dst: NkiTensor, op: Operator, data: NkiTensor, name: str | None = None
) -> NkiInstruction:
    """Reduce over the partitions (GpSimd).

    Args:
        dst: tile written of one partition, in SBUF.
        op: an operator of nki.language, such as nl.add.
        data: tile read, in SBUF.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-BITVEC,
            NKI-SHAPE.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op is one of add, average, bitwise_and, bitwise_or, maximum (NKI-OPERATOR).
        all operators are arithmetic, or all are bitwise and all tiles are integers
            (NKI-BITVEC).
        dst has one partition, and the elements per partition of data (NKI-SHAPE).

    Engines: GpSimd on trn1, trn2, trn3.
    Source: nisa.tensor_partition_reduce (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        row = nl.ndarray((1, 512), nl.float32, buffer=nl.sbuf)
        nisa.tensor_partition_reduce(dst=row, op=nl.maximum, data=a)
    """
    return issue(TABLE["tensor_partition_reduce"], (dst, op, data), Engine.unknown, name)


def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Operator,
    op1: Operator,
    imm0: float | NkiTensor,
    imm1: float | NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> NkiInstruction:
    """Cumulative ``op1`` over ``src <op0> imm0`` along the free axis.

    Args:
        dst: tile written, in SBUF or PSUM, of bfloat16, float16, float32, float8_e4m3,
            float8_e4m3fn, float8_e5m2, int16, int8, uint16, uint8.
        src: tile read, in SBUF or PSUM, of bfloat16, float16, float32, float8_e4m3,
            float8_e4m3fn, float8_e5m2, int16, int8, uint16, uint8.
        op0: an operator of nki.language, such as nl.add.
        op1: an operator of nki.language, such as nl.add.
        imm0: a number, or a tile read, in SBUF or PSUM.
        imm1: a number, or a tile read, in SBUF or PSUM; None for none.
        reduce_cmd: what happens to the accumulation registers of the engine.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-REDUCE.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op0 is one of abs_max, abs_min, add, divide, equal, fmod, greater, greater_equal, less,
            less_equal, logical_and, logical_or, logical_xor, maximum, minimum, mod, multiply,
            not_equal, power, subtract (NKI-OPERATOR).
        op1 is one of add, maximum, minimum, multiply, subtract (NKI-OPERATOR).
        dst, src have the same partitions and the same elements per partition (NKI-SHAPE).
        imm0 is a number or a tile of shape (src.shape[0], 1) (NKI-VECTOR-OPERAND).
        imm1 is a number or a tile of shape (src.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_cmd is reset_reduce, reduce, load_reduce (NKI-REDUCE).
        load_reduce takes imm1, float32 (NKI-REDUCE).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.tensor_scalar_cumulative (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.tensor_scalar_cumulative(dst=out, src=a, op0=nl.multiply, op1=nl.add, imm0=1.0)
    """
    return issue(
        TABLE["tensor_scalar_cumulative"],
        (dst, src, op0, op1, imm0, imm1, reduce_cmd),
        Engine.unknown,
        name,
    )


def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Operator,
    operand0: float | NkiTensor,
    reduce_op: Operator,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: float | NkiTensor | None = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = data <op0> operand0`` and its reduction over the free axis.

    Args:
        dst: tile written, in SBUF or PSUM.
        data: tile read, in SBUF or PSUM.
        op0: an operator of nki.language, such as nl.add.
        operand0: a number, or a tile read, in SBUF or PSUM; None for none.
        reduce_op: an operator of nki.language, such as nl.add.
        reduce_res: tile written, in SBUF or PSUM; None for none.
        reverse0: exchange the sides of op0.
        reduce_cmd: what happens to the accumulation registers of the engine.
        reduce_init: a number, or a tile read, in SBUF or PSUM; None for none.
        reduce_res_negate: negate the reduction.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-REVERSE, NKI-REDUCE.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op0 is one of abs, abs_max, abs_min, add, bypass, copy, divide, equal, fmod, greater,
            greater_equal, less, less_equal, logical_and, logical_not, logical_or, logical_xor,
            maximum, minimum, mod, multiply, not_equal, power, reciprocal, relu, rsqrt, square,
            subtract (NKI-OPERATOR).
        reduce_op is one of add, maximum, minimum, multiply (NKI-OPERATOR).
        dst, data have the same partitions and the same elements per partition (NKI-SHAPE).
        operand0 is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        an operator of two takes its operand, a unary one None or 0; bitwise operators take
            integers; nothing is given for a stage without operator (NKI-OPERAND).
        reverse0 is not supported yet: exchange the operands, or negate (NKI-REVERSE).
        reduce_cmd is reset_reduce, reduce, load_reduce (NKI-REDUCE).
        reduce_res is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_init goes with reduce_cmd=load_reduce and only with it (NKI-REDUCE).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.tensor_scalar_reduce (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar_reduce(dst=out, data=a, op0=nl.multiply, operand0=2.0,
                                  reduce_op=nl.add, reduce_res=total)
    """
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
    comp_op0: Operator,
    comp_op1: Operator,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_res: NkiTensor | None = None,
    reduce_op: Operator = maximum,
    range_start: int = 0,
    on_false_value: float = _LOWEST,
    name: str | None = None,
) -> NkiInstruction:
    """Keep elements whose index lies between two bounds, with a running maximum (trn2).

    ``on_false_value`` must be the lowest float32, which is its default.

    Args:
        dst: tile written, in SBUF or PSUM.
        on_true_tile: tile read, in SBUF or PSUM.
        comp_op0: an operator of nki.language, such as nl.equal.
        comp_op1: an operator of nki.language, such as nl.equal.
        bound0: tile read, in SBUF or PSUM, of float32.
        bound1: tile read, in SBUF or PSUM, of float32.
        reduce_cmd: what happens to the accumulation registers of the engine.
        reduce_res: tile written, in SBUF or PSUM; None for none.
        reduce_op: an operator of nki.language, such as nl.maximum.
        range_start: the index of the first column.
        on_false_value: the number for elements that are not selected.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-RANGE-SELECT, NKI-VALUE.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        comp_op0 is one of equal, greater, greater_equal, less, less_equal (NKI-OPERATOR).
        comp_op1 is one of equal, greater, greater_equal, less, less_equal (NKI-OPERATOR).
        reduce_op is one of maximum (NKI-OPERATOR).
        dst, on_true_tile have the same partitions and the same elements per partition
            (NKI-SHAPE).
        bound0 is a number or a tile of shape (on_true_tile.shape[0], 1) (NKI-VECTOR-OPERAND).
        bound1 is a number or a tile of shape (on_true_tile.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_res is a number or a tile of shape (on_true_tile.shape[0], 1)
            (NKI-VECTOR-OPERAND).
        on_false_value is the lowest float32 (-3.4028235e+38) (NKI-RANGE-SELECT).
        range_start is an integer, and range_start plus the columns stays below 2**24
            (NKI-VALUE).
        on_true_tile: a floating point tile (NKI-DTYPE).

    Engines: Vector on trn2, trn3.
    Source: nisa.range_select (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        largest = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        end = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        start = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.memset(start, 0.0)
        nisa.memset(end, 100.0)
        nisa.range_select(dst=out, on_true_tile=a, comp_op0=nl.greater_equal, comp_op1=nl.less,
                          bound0=start, bound1=end, reduce_res=largest)
    """
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
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_op: Operator = maximum,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = where(predicate, on_true, on_false)`` with an optional running maximum.

    Args:
        dst: tile written, in SBUF or PSUM.
        predicate: tile read, in SBUF or PSUM, of int16, int8, uint16, uint8.
        on_true: tile read, in SBUF or PSUM, of bfloat16, float16, float32, float8_e4m3,
            float8_e4m3fn, float8_e5m2, int16, int8, uint16, uint8.
        on_false: a number, or a tile read, in SBUF or PSUM.
        reduce_res: tile written, in SBUF or PSUM; None for none.
        reduce_cmd: what happens to the accumulation registers of the engine.
        reduce_op: an operator of nki.language, such as nl.maximum.
        reverse_pred: select where the predicate is zero.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-BOTH-PSUM, NKI-OPERATOR, NKI-REDUCE.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        dst, on_true, predicate have the same partitions and the same elements per partition
            (NKI-SHAPE).
        on_false is a number or a tile of shape (on_true.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_res is a number or a tile of shape (on_true.shape[0], 1) (NKI-VECTOR-OPERAND).
        copy one of them to SBUF first (NKI-BOTH-PSUM).
        reduce_op is one of maximum (NKI-OPERATOR).
        reduce_res: a floating point tile (NKI-DTYPE).
        reduce_cmd is idle, reset_reduce, reduce (NKI-REDUCE).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.select_reduce (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        mask = nl.ndarray(a.shape, nl.uint8, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=mask, data=a, op0=nl.greater, operand0=0.0)
        nisa.select_reduce(dst=out, predicate=mask, on_true=a, on_false=0.0)
    """
    return issue(
        TABLE["select_reduce"],
        (dst, predicate, on_true, on_false, reduce_res, reduce_cmd, reduce_op, reverse_pred),
        Engine.unknown,
        name,
    )


def bn_stats(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Count, mean and variance times count of even and of odd elements (six per partition).

    Args:
        dst: tile written with 6 elements in a partition, in SBUF or PSUM.
        data: tile read, in SBUF or PSUM.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-BN.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        data has at most 512 elements per partition, dst six and the same partitions (NKI-BN).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.bn_stats (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        statistics = nl.ndarray((128, 6), nl.float32, buffer=nl.sbuf)
        nisa.bn_stats(dst=statistics, data=a)
    """
    return issue(TABLE["bn_stats"], (dst, data), Engine.unknown, name)


def bn_aggr(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """Mean and variance from the results of ``bn_stats``.

    Args:
        dst: tile written with 2 elements in a partition: mean and variance, in SBUF or PSUM.
        data: tile read, in SBUF or PSUM.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-BN.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        data has a multiple of three elements per partition, dst two and the same partitions
            (NKI-BN).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.bn_aggr (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF::

        statistics = nl.ndarray((128, 6), nl.float32, buffer=nl.sbuf)
        moments = nl.ndarray((128, 2), nl.float32, buffer=nl.sbuf)
        nisa.bn_stats(dst=statistics, data=a)
        nisa.bn_aggr(dst=moments, data=statistics)
    """
    return issue(TABLE["bn_aggr"], (dst, data), Engine.unknown, name)
