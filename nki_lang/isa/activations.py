"""The scalar engine.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from nki_lang.frontend.operators import Operator
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.enums import engine, reduce_cmd
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.table import TABLE

__all__ = ["activate2", "activation", "activation_reduce"]


def _unless_default(engine: Engine) -> Engine:
    """Return the engine, or unknown for Scalar, the only one that these instructions had in 0.6."""
    return Engine.unknown if engine is Engine.scalar else engine


def activation(
    dst: NkiTensor,
    op: Operator,
    data: NkiTensor,
    bias: float | NkiTensor | None = None,
    scale: float | NkiTensor = 1.0,
    reduce_op: Operator | None = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    engine: Engine = engine.scalar,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = op(data * scale + bias)``, and optionally the sum over the free axis.

    Args:
        dst: tile written, in SBUF or PSUM.
        op: an operator of nki.language, such as nl.exp.
        data: tile read, in SBUF or PSUM.
        bias: a number, or a tile read, in SBUF or PSUM; None for none.
        scale: a number, or a tile read, in SBUF or PSUM.
        reduce_op: an operator of nki.language, such as nl.add; None for none.
        reduce_res: tile written, in SBUF or PSUM; None for none.
        reduce_cmd: what happens to the accumulation registers of the engine.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-BIAS, NKI-REDUCE.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op is one of abs, arctan, copy, erf, erf_dx, exp, gelu, gelu_apprx_sigmoid,
            gelu_apprx_sigmoid_dx, gelu_apprx_tanh, gelu_dx, log, mish, prelu, reciprocal, relu,
            rsqrt, sigmoid, sign, silu, silu_dx, sin, softplus, sqrt, square, tanh
            (NKI-OPERATOR).
        dst, data have the same partitions and the same elements per partition (NKI-SHAPE).
        scale is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        bias is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_res is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_op is one of add (NKI-OPERATOR).
        on trn1 bias is a tile of shape (data.shape[0], 1) (NKI-BIAS).
        bias has any dtype but tfloat32; trn1 sets none for nl.reciprocal (NKI-BIAS).
        reduce_op goes with a reduce_cmd, and reduce_res with a reduction (NKI-REDUCE).

    Engines: Scalar on trn1, trn2, trn3.
    Source: nisa.activation (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.activation(dst=out, op=nl.exp, data=a, scale=0.5)
    """
    return issue(
        TABLE["activation"],
        (dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd),
        _unless_default(engine),
        name,
    )


def activation_reduce(
    dst: NkiTensor,
    op: Operator,
    data: NkiTensor,
    reduce_op: Operator,
    reduce_res: NkiTensor,
    bias: float | NkiTensor | None = None,
    scale: float | NkiTensor = 1.0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = op(data * scale + bias)`` and ``reduce_res = reduce_op(dst)`` over the free axis.

    Args:
        dst: tile written, in SBUF or PSUM.
        op: an operator of nki.language, such as nl.exp.
        data: tile read, in SBUF or PSUM.
        reduce_op: an operator of nki.language, such as nl.add.
        reduce_res: tile written, in SBUF or PSUM; None for none.
        bias: a number, or a tile read, in SBUF or PSUM; None for none.
        scale: a number, or a tile read, in SBUF or PSUM.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-REDUCE, NKI-BIAS.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op is one of abs, arctan, copy, erf, erf_dx, exp, gelu, gelu_apprx_sigmoid,
            gelu_apprx_sigmoid_dx, gelu_apprx_tanh, gelu_dx, log, mish, prelu, reciprocal, relu,
            rsqrt, sigmoid, sign, silu, silu_dx, sin, softplus, sqrt, square, tanh
            (NKI-OPERATOR).
        dst, data have the same partitions and the same elements per partition (NKI-SHAPE).
        scale is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        bias is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_res is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_op is nl.add on trn1, later also maximum or minimum, on trn3 abs_max or abs_min
            (NKI-REDUCE).
        on trn1 bias is a tile of shape (data.shape[0], 1) (NKI-BIAS).
        bias has any dtype but tfloat32; trn1 sets none for nl.reciprocal (NKI-BIAS).

    Engines: Scalar on trn1, trn2, trn3.
    Source: nisa.activation_reduce (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(dst=out, op=nl.exp, data=a, reduce_op=nl.add, reduce_res=total)
    """
    return issue(
        TABLE["activation_reduce"],
        (dst, op, data, reduce_op, reduce_res, bias, scale),
        Engine.unknown,
        name,
    )


def activate2(
    dst: NkiTensor,
    op: Operator,
    data: NkiTensor,
    imm0: float | NkiTensor,
    imm1: float | NkiTensor,
    op0: Operator,
    op1: Operator,
    relu_param: float | NkiTensor = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Operator | None = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    engine: Engine = engine.scalar,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = op((data <op0> imm0) <op1> imm1)`` with an optional reduction (trn3).

    Args:
        dst: tile written, in SBUF or PSUM.
        op: an operator of nki.language, such as nl.exp.
        data: tile read, in SBUF or PSUM.
        imm0: a number, or a tile read, in SBUF or PSUM.
        imm1: a number, or a tile read, in SBUF or PSUM.
        op0: an operator of nki.language, such as nl.add; None for none.
        op1: an operator of nki.language, such as nl.add; None for none.
        relu_param: a number, or a tile read, in SBUF or PSUM.
        reverse0: exchange the sides of op0.
        reverse1: exchange the sides of op1.
        reduce_op: an operator of nki.language, such as nl.add; None for none.
        reduce_res: tile written, in SBUF or PSUM; None for none.
        reduce_cmd: what happens to the accumulation registers of the engine.
        engine: the engine that runs it; unknown lets the compiler choose.
        name: a label, for schedules and profiles.

    Returns:
        NkiInstruction: the instruction made, for depends_on; the result is in what is written.

    Raises:
        NkiValidationError: a rule is broken; its code is one of NKI-OUTSIDE, NKI-OPERAND,
            NKI-BUFFER, NKI-DTYPE, NKI-PARTITION, NKI-START-PARTITION, NKI-OPERATOR, NKI-SHAPE,
            NKI-VECTOR-OPERAND, NKI-REDUCE.

    Rules:
        x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx (NKI-DTYPE).
        op is one of abs, arctan, copy, erf, erf_dx, exp, gelu, gelu_apprx_sigmoid,
            gelu_apprx_sigmoid_dx, gelu_apprx_tanh, gelu_dx, log, mish, prelu, reciprocal, relu,
            rsqrt, sigmoid, sign, silu, silu_dx, sin, softplus, sqrt, square, tanh
            (NKI-OPERATOR).
        dst, data have the same partitions and the same elements per partition (NKI-SHAPE).
        (op0, op1) is one of the six documented pairs (NKI-OPERATOR).
        with two operators both are given, or only the first (NKI-OPERAND).
        imm0 is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        imm1 is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        relu_param is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_res is a number or a tile of shape (data.shape[0], 1) (NKI-VECTOR-OPERAND).
        reduce_op is one of abs_max, abs_min, add, maximum, minimum (NKI-OPERATOR).
        reduce_op goes with a reduce_cmd, and reduce_res with a reduction (NKI-REDUCE).

    Engines: Scalar on trn3.
    Source: nisa.activate2 (nki/api/nki/isa, NKI 0.6.0).

    Example, given a and b (128, 512) float32 tiles in SBUF; out a (128, 512) float32 tile::

        nisa.activate2(dst=out, op=nl.exp, data=a, imm0=0.5, imm1=1.0, op0=nl.multiply, op1=nl.add)
    """
    return issue(
        TABLE["activate2"],
        (
            dst,
            op,
            data,
            imm0,
            imm1,
            op0,
            op1,
            relu_param,
            reverse0,
            reverse1,
            reduce_op,
            reduce_res,
            reduce_cmd,
        ),
        _unless_default(engine),
        name,
    )
