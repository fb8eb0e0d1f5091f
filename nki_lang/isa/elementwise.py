"""Element-wise arithmetic.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from nki_lang.frontend.operators import Operator
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.enums import engine, reduce_cmd
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.table import TABLE

__all__ = [
    "exponential",
    "reciprocal",
    "scalar_tensor_tensor",
    "tensor_scalar",
    "tensor_tensor",
    "tensor_tensor_scan",
]


def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Operator,
    engine: Engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = data1 <op> data2``.

    Args:
        dst: tile written, in SBUF or PSUM.
        data1: tile read, in SBUF or PSUM.
        data2: tile read, in SBUF or PSUM.
        op: an operator of nki.language, such as nl.add.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-BOTH-PSUM, NKI-BITVEC, NKI-ENGINE.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op is one of abs_max, abs_min, add, bitwise_and, bitwise_or, bitwise_xor, divide, equal,
            fmod, greater, greater_equal, invert, left_shift, less, less_equal, logical_and,
            logical_or, logical_xor, maximum, minimum, mod, multiply, not_equal, power,
            right_shift, subtract (NKI-OPERATOR).
        dst, data1, data2 have the same partitions and the same elements per partition
            (NKI-SHAPE).
        copy one of them to SBUF first (NKI-BOTH-PSUM).
        all operators are arithmetic, or all are bitwise and all tiles are integers
            (NKI-BITVEC).
        nl.power runs on GpSimd, which cannot access PSUM (NKI-BUFFER).
        nl.power of two tiles runs on the GpSimd engine (NKI-ENGINE).
        the GpSimd engine cannot access PSUM; use SBUF or another engine (NKI-BUFFER).

    Engines: GpSimd or Vector on trn1, trn2, trn3.
    Source: nisa.tensor_tensor (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.tensor_tensor(dst=out, data1=a, data2=b, op=nl.add)
    """
    return issue(TABLE["tensor_tensor"], (dst, data1, data2, op), engine, name)


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Operator,
    operand0: float | NkiTensor,
    reverse0: bool = False,
    op1: Operator | None = None,
    operand1: float | NkiTensor | None = None,
    reverse1: bool = False,
    engine: Engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = (data <op0> operand0) <op1> operand1``; operands are numbers or one per partition.

    Args:
        dst: tile written, in SBUF or PSUM.
        data: tile read, in SBUF or PSUM.
        op0: an operator of nki.language, such as nl.add.
        operand0: a number, or a tile read, in SBUF or PSUM; None for none.
        reverse0: exchange the sides of op0.
        op1: an operator of nki.language, such as nl.add; None for none.
        operand1: a number, or a tile read, in SBUF or PSUM; None for none.
        reverse1: exchange the sides of op1.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-BITVEC, NKI-ENGINE.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op0 is one of abs, abs_max, abs_min, add, bitwise_and, bitwise_or, bitwise_xor, bypass,
            copy, divide, equal, fmod, greater, greater_equal, invert, left_shift, less,
            less_equal, logical_and, logical_not, logical_or, logical_xor, maximum, minimum,
            mod, multiply, not_equal, power, reciprocal, relu, right_shift, rsqrt, square,
            subtract (NKI-OPERATOR).
        op1 is one of abs, abs_max, abs_min, add, bitwise_and, bitwise_or, bitwise_xor, bypass,
            copy, divide, equal, fmod, greater, greater_equal, invert, left_shift, less,
            less_equal, logical_and, logical_not, logical_or, logical_xor, maximum, minimum,
            mod, multiply, not_equal, power, reciprocal, relu, right_shift, rsqrt, square,
            subtract (NKI-OPERATOR).
        dst, data have the same partitions and the same elements per partition (NKI-SHAPE).
        operand0 is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        operand1 is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        all operators are arithmetic, or all are bitwise and all tiles are integers
            (NKI-BITVEC).
        an operator of two takes its operand, a unary one None or 0; bitwise operators take
            integers; nothing is given for a stage without operator (NKI-OPERAND).
        operand tiles of arithmetic operators are float32 (NKI-DTYPE).
        bitwise operators run on the vector engine (NKI-ENGINE).
        the scalar engine of trn2 does multiply, add, or multiply then add (NKI-ENGINE).
        the GpSimd engine runs only nl.rsqrt (NKI-ENGINE).
        the GpSimd engine cannot access PSUM; use SBUF or another engine (NKI-BUFFER).

    Engines: GpSimd or Scalar or Vector on trn1, trn2, trn3.
    Source: nisa.tensor_scalar (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; column a (128, 1) float32 tile; out a (128, 512) float32 tile::

        nisa.tensor_scalar(dst=out, data=a, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=column)
    """
    return issue(
        TABLE["tensor_scalar"],
        (dst, data, op0, operand0, reverse0, op1, operand1, reverse1),
        engine,
        name,
    )


def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Operator,
    operand0: float | NkiTensor,
    op1: Operator,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = (data <op0> operand0) <op1> operand1`` with a tile as ``operand1``.

    Args:
        dst: tile written, in SBUF or PSUM.
        data: tile read, in SBUF or PSUM.
        op0: an operator of nki.language, such as nl.add.
        operand0: a number, or a tile read, in SBUF or PSUM.
        op1: an operator of nki.language, such as nl.add.
        operand1: tile read, in SBUF or PSUM.
        reverse0: exchange the sides of op0.
        reverse1: exchange the sides of op1.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-BOTH-PSUM.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op0 is one of abs, abs_max, abs_min, add, bypass, copy, divide, equal, fmod, greater,
            greater_equal, less, less_equal, logical_and, logical_not, logical_or, logical_xor,
            maximum, minimum, mod, multiply, not_equal, power, reciprocal, relu, rsqrt, square,
            subtract (NKI-OPERATOR).
        op1 is one of abs_max, abs_min, add, divide, equal, fmod, greater, greater_equal, less,
            less_equal, logical_and, logical_or, logical_xor, maximum, minimum, mod, multiply,
            not_equal, power, subtract (NKI-OPERATOR).
        an operator of two takes its operand, a unary one None or 0; bitwise operators take
            integers; nothing is given for a stage without operator (NKI-OPERAND).
        dst, data, operand1 have the same partitions and the same elements per partition
            (NKI-SHAPE).
        operand0 is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        copy one of them to SBUF first (NKI-BOTH-PSUM).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.scalar_tensor_tensor (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.scalar_tensor_tensor(dst=out, data=a, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=b)
    """
    return issue(
        TABLE["scalar_tensor_tensor"],
        (dst, data, op0, operand0, op1, operand1, reverse0, reverse1),
        Engine.unknown,
        name,
    )


def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: float | NkiTensor,
    op0: Operator,
    op1: Operator,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst[i] = (data0[i] <op0> dst[i-1]) <op1> data1[i]`` along the free axis.

    Args:
        dst: tile written, in SBUF or PSUM.
        data0: tile read, in SBUF or PSUM.
        data1: tile read, in SBUF or PSUM.
        initial: a number, or a tile read, in SBUF or PSUM.
        op0: an operator of nki.language, such as nl.add.
        op1: an operator of nki.language, such as nl.add.
        reverse0: exchange the sides of op0.
        reverse1: exchange the sides of op1.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-BOTH-PSUM.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op0 is one of abs_max, abs_min, add, divide, equal, fmod, greater, greater_equal, less,
            less_equal, logical_and, logical_or, logical_xor, maximum, minimum, mod, multiply,
            not_equal, power, subtract (NKI-OPERATOR).
        op1 is one of abs_max, abs_min, add, divide, equal, fmod, greater, greater_equal, less,
            less_equal, logical_and, logical_or, logical_xor, maximum, minimum, mod, multiply,
            not_equal, power, subtract (NKI-OPERATOR).
        dst, data0, data1 have the same partitions and the same elements per partition
            (NKI-SHAPE).
        initial is a number or a tile of shape (data0.shape[0], 1) (NKI-VECTOR-OPERAND).
        copy one of them to SBUF first (NKI-BOTH-PSUM).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.tensor_tensor_scan (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.tensor_tensor_scan(dst=out, data0=a, data1=b, initial=0.0, op0=nl.multiply, op1=nl.add)
    """
    return issue(
        TABLE["tensor_tensor_scan"],
        (dst, data0, data1, initial, op0, op1, reverse0, reverse1),
        Engine.unknown,
        name,
    )


def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """``dst = 1 / data``.

    Args:
        dst: tile written, in SBUF or PSUM.
        data: tile read, in SBUF or PSUM.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        dst, data have the same partitions and the same elements per partition (NKI-SHAPE).

    Engines: Vector on trn1, trn2, trn3.
    Source: nisa.reciprocal (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.reciprocal(dst=out, data=a)
    """
    return issue(TABLE["reciprocal"], (dst, data), Engine.unknown, name)


def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: float | NkiTensor = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_init: float | NkiTensor = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = exp(src - max_value)`` on the vector engine, with a running sum (trn3).

    Args:
        dst: tile written, in SBUF or PSUM, of bfloat16, float16, float32, float8_e4m3,
            float8_e4m3fn, float8_e5m2, int16, int32, int8, tfloat32, uint16, uint8.
        src: tile read, in SBUF or PSUM, of bfloat16, float16, float32, float8_e4m3,
            float8_e4m3fn, float8_e5m2, int16, int32, int8, uint16, uint32, uint8.
        max_value: a number, or a tile read, in SBUF or PSUM, of float32.
        reduce_res: tile written, in SBUF or PSUM; None for none.
        reduce_cmd: what happens to the accumulation registers of the engine.
        reduce_init: a number, or a tile read, in SBUF or PSUM, of float32; None for none.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-REDUCE, NKI-RANK.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        dst, src have the same partitions and the same elements per partition (NKI-SHAPE).
        max_value is a number or a tile of shape (src.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_res is a number or a tile of shape (src.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_init is a number or a tile of shape (src.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_init goes with reduce_cmd=load_reduce and only with it (NKI-REDUCE).
        reduce_cmd is idle, reset_reduce, reduce, load_reduce (NKI-REDUCE).
        reduce_res: a floating point tile (NKI-DTYPE).
        src, dst: at most 4 dimensions (NKI-RANK).

    Engines: Vector on trn3.
    Source: nisa.exponential (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; column a (128, 1) float32 tile; out a (128, 512) float32 tile::

        nisa.exponential(dst=out, src=a, max_value=column)
    """
    return issue(
        TABLE["exponential"],
        (dst, src, max_value, reduce_res, reduce_cmd, reduce_init),
        Engine.unknown,
        name,
    )
