"""The Scalar Engine's pipeline: scale, bias, activation function, reduction registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.semantics.accumulators import started
from nki_lang.semantics.elementwise import scaled
from nki_lang.semantics.functions import ACTIVATIONS
from nki_lang.semantics.numbers import kept_apart, per_partition, single, store
from nki_lang.semantics.operators import operator_of
from nki_lang.semantics.reduction import reduce_free
from nki_lang.semantics.state import EngineState
from nki_lang.semantics.table import semantics

__all__: list[str] = []

_F32 = np.dtype(np.float32)


@semantics("dst", "reduce_res", parallel=True, aligned=("dst",))
def activation(
    dst: Array,
    op: str,
    data: Array,
    state: EngineState,
    bias: object = None,
    scale: object = 1.0,
    reduce_op: str | None = None,
    reduce_res: Array | None = None,
    reduce_cmd: str = "idle",
) -> None:
    """``dst = op(data * scale + bias)``, and the registers by ``reduce_cmd``."""
    if reduce_res is None and reduce_cmd == "idle" and _plainly(dst, op, data, bias, scale):
        return
    value = _activated(op, _scale_and_bias(data, scale, bias))
    _finish(state, dst, value, reduce_op, reduce_cmd, reduce_res)


def _plainly(dst: Array, op: str, data: Array, bias: Any, scale: Any) -> bool:
    """The common case without temporaries: float32 in and out, a NumPy function."""
    function = ACTIVATIONS.get(op)
    if not isinstance(function, np.ufunc) or not data.dtype == dst.dtype == _F32:
        return False
    if data.shape != dst.shape:
        return False
    source, bias = data, kept_apart(bias, dst)
    if isinstance(scale, np.ndarray) or scale != 1.0:
        source = np.multiply(source, per_partition(scale, data), out=dst)
    if bias is not None and (isinstance(bias, np.ndarray) or bias != 0.0):
        source = np.add(source, per_partition(bias, data), out=dst)
    function(source, out=dst)
    return True


def _scale_and_bias(data: Array, scale: Any, bias: Any) -> Array:
    value = single(data)
    if isinstance(scale, np.ndarray) or scale != 1.0:
        value = value * per_partition(scale, value)
    if bias is not None and (isinstance(bias, np.ndarray) or bias != 0.0):
        value = value + per_partition(bias, value)
    return value


def _activated(op: str, value: Array, parameter: object = 0.0) -> Array:
    if op == "prelu":
        return np.where(value >= 0, value, value * per_partition(parameter, value))
    return ACTIVATIONS[op](value)


def _finish(
    state: EngineState,
    dst: Array,
    value: Array,
    reduce_op: str | None,
    command: str,
    result: Array | None,
) -> None:
    """Reduce into the registers, write the tile, then read the registers out."""
    operator = operator_of(reduce_op or "add")
    registers = started(state.scalar_accumulator, operator, command, None, state.target.partitions)
    lanes = value.shape[0]
    if command in ("reduce", "reset_reduce"):
        registers[:lanes] = operator.function(registers[:lanes], reduce_free(operator, value))
    state.scalar_accumulator = registers
    store(dst, value)
    if result is not None:
        store(result, registers[:lanes])


@semantics("dst", "reduce_res", parallel=True, aligned=("dst",))
def activation_reduce(
    dst: Array,
    op: str,
    data: Array,
    reduce_op: str,
    state: EngineState,
    reduce_res: Array | None = None,
    bias: object = None,
    scale: object = 1.0,
) -> None:
    """``activation`` with the registers reset, reduced into, and read out."""
    value = _activated(op, _scale_and_bias(data, scale, bias))
    _finish(state, dst, value, reduce_op, "reset_reduce", reduce_res)


@semantics("dst", "reduce_res", parallel=True, aligned=("dst",))
def activate2(
    dst: Array,
    op: str,
    data: Array,
    imm0: object,
    imm1: object,
    op0: str | None,
    op1: str | None,
    state: EngineState,
    relu_param: object = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: str | None = None,
    reduce_res: Array | None = None,
    reduce_cmd: str = "idle",
) -> None:
    """``dst = op((data <op0> imm0) <op1> imm1)``, and the registers by ``reduce_cmd``."""
    value = single(data)
    for name, operand, reverse in ((op0, imm0, reverse0), (op1, imm1, reverse1)):
        if name is not None and name != "bypass":
            value = scaled(value, operator_of(name), operand, reverse)
    value = _activated(op, value, relu_param)
    _finish(state, dst, value, reduce_op, reduce_cmd, reduce_res)
