"""Element-wise arithmetic.

The rules of each instruction are in its row of :mod:`nki_lang.isa.table`.
"""

from __future__ import annotations

from typing import Any

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
    op: Any,
    engine: Engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = data1 <op> data2``."""
    return issue(TABLE["tensor_tensor"], (dst, data1, data2, op), engine, name)


def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: float | NkiTensor,
    reverse0: Any = False,
    op1: Any = None,
    operand1: float | NkiTensor | None = None,
    reverse1: Any = False,
    engine: Engine = engine.unknown,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = (data <op0> operand0) <op1> operand1``; operands are numbers or one per partition."""
    return issue(
        TABLE["tensor_scalar"],
        (dst, data, op0, operand0, reverse0, op1, operand1, reverse1),
        engine,
        name,
    )


def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: float | NkiTensor,
    op1: Any,
    operand1: NkiTensor,
    reverse0: Any = False,
    reverse1: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = (data <op0> operand0) <op1> operand1`` with a tile as ``operand1``."""
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
    op0: Any,
    op1: Any,
    reverse0: Any = False,
    reverse1: Any = False,
    name: str | None = None,
) -> NkiInstruction:
    """``dst[i] = (data0[i] <op0> dst[i-1]) <op1> data1[i]`` along the free axis."""
    return issue(
        TABLE["tensor_tensor_scan"],
        (dst, data0, data1, initial, op0, op1, reverse0, reverse1),
        Engine.unknown,
        name,
    )


def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> NkiInstruction:
    """``dst = 1 / data``."""
    return issue(TABLE["reciprocal"], (dst, data), Engine.unknown, name)


def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: float | NkiTensor = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: Any = reduce_cmd.idle,
    reduce_init: float | NkiTensor = 0.0,
    name: str | None = None,
) -> NkiInstruction:
    """``dst = exp(src - max_value)`` on the vector engine, with a running sum (trn3)."""
    return issue(
        TABLE["exponential"],
        (dst, src, max_value, reduce_res, reduce_cmd, reduce_init),
        Engine.unknown,
        name,
    )
