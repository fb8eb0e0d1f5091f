"""The scalar engine.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from typing import Any

from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.enums import reduce_cmd
from nki_lang.isa.issue import NkiInstruction, issue
from nki_lang.isa.table import TABLE

__all__ = ["activate2", "activation", "activation_reduce"]


def activation(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: float | NkiTensor | None = None,
    scale: float | NkiTensor = 1.0,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = op(data * scale + bias)``, and optionally the sum over the free axis."""
    return issue(
        TABLE["activation"],
        (dst, op, data, bias, scale, reduce_op, reduce_res, reduce_cmd),
        Engine.unknown,
        name,
    )


def activation_reduce(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor,
    bias: float | NkiTensor | None = None,
    scale: float | NkiTensor = 1.0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = op(data * scale + bias)`` and ``reduce_res = reduce_op(dst)`` over the free axis."""
    return issue(
        TABLE["activation_reduce"],
        (dst, op, data, reduce_op, reduce_res, bias, scale),
        Engine.unknown,
        name,
    )


def activate2(
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    imm0: float | NkiTensor,
    imm1: float | NkiTensor,
    op0: Any,
    op1: Any,
    relu_param: float | NkiTensor = 0.0,
    reverse0: Any = False,
    reverse1: Any = False,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = reduce_cmd.idle,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = op((data <op0> imm0) <op1> imm1)`` with an optional reduction (trn3)."""
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
        Engine.unknown,
        name,
    )
