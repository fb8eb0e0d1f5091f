"""Rules for numbers, vectors and reduction registers that accompany a tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsFloat, SupportsIndex

import numpy as np

from nki_lang.frontend.registers import VirtualRegister
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.ir import Engine
from nki_lang.isa.call import CheckedCall
from nki_lang.isa.enums import nc_version, reduce_cmd
from nki_lang.isa.rules import BITVEC, UNARY, custom, free_elements
from nki_lang.isa.spec import Constraint

__all__ = ["commands", "floats", "integers", "not_packed", "ranks", "same_partitions", "scalars"]

_FREE = frozenset({"copy", "bypass", "logical_not"})
_UNARY = (UNARY | {"invert"}) - _FREE
_SINCE_TRN3 = frozenset({"square", "relu"})


def scalars(*stages: tuple[str, str, str]) -> Constraint:
    """(operator, operand, reverse) of each stage: what goes with what."""

    def check(call: CheckedCall) -> str:
        for op, operand, reverse in stages:
            wrong = _stage(call, op, operand, reverse)
            if wrong:
                return wrong
        return ""

    rule = (
        "an operator of two takes its operand, a unary one None or 0; bitwise operators take"
        " integers; nothing is given for a stage without operator"
    )
    return Constraint("NKI-OPERAND", rule, "nisa.tensor_scalar", check)


def _stage(call: CheckedCall, op: str, operand: str, reverse: str) -> str:
    name, value = call.operator(op), call[operand]
    if not name:
        if value is not None or call.values.get(reverse):
            return f"{op}=None with {call.describe(operand)}, {reverse}={call.values.get(reverse)}"
        return ""
    if name in _SINCE_TRN3 and call.generation < nc_version.gen4:
        return f"{op}=nl.{name} exists on trn3 and later; use nisa.activation"
    if name in _UNARY and not (value is None or (not _is_tile(value) and value == 0)):
        return f"{op}=nl.{name} takes no operand, but {call.describe(operand)}"
    if name in _UNARY or name in _FREE:
        return ""
    if value is None:
        return f"{op}=nl.{name} without {operand}"
    kind = value.dtype.is_integer if isinstance(value, NkiTensor) else type(value) is int
    if name in BITVEC and not kind:
        return f"{op}=nl.{name} with {call.describe(operand)}"
    return ""


def _is_tile(value: object) -> bool:
    return isinstance(value, NkiTensor)


def commands(*allowed: str) -> Constraint:
    """The commands to the reduction registers that an instruction has."""

    def check(call: CheckedCall) -> str:
        command = call["reduce_cmd"]
        return "" if command.name in allowed else f"reduce_cmd={command.name}"

    rule = f"reduce_cmd is {', '.join(allowed)}"
    return Constraint("NKI-REDUCE", rule, "Accumulator behavior of the instruction", check)


def _kinds(
    code: str, rule: str, names: tuple[str, ...], is_allowed: Callable[[Any], bool]
) -> Constraint:
    def check(call: CheckedCall) -> str:
        for name in names:
            value = call[name]
            if _is_tile(value) and not is_allowed(value.dtype):
                return call.describe(name)
        return ""

    return Constraint(code, rule, "Data types of the instruction", check)


def floats(*names: str) -> Constraint:
    """Tiles of floating point numbers."""
    rule = f"{', '.join(names)}: a floating point tile"
    return _kinds("NKI-DTYPE", rule, names, lambda dtype: dtype.is_float and dtype.lane is None)


@custom("NKI-DTYPE", "x4 dtypes hold packed values; compute on them with nisa.nc_matmul_mx",
        "nki.api.shared, Supported Data Types, footnote 2")  # fmt: skip
def not_packed(call: CheckedCall) -> str:
    for name, tensor in call.tensors():
        if tensor.dtype.kind == "packed":
            return call.describe(name)
    return ""


def integers(*names: str) -> Constraint:
    """Numbers that are integers, or registers."""

    def check(call: CheckedCall) -> str:
        for name in names:
            value = call[name]
            if not isinstance(value, VirtualRegister) and not isinstance(value, SupportsIndex):
                return f"{name}={value!r}"
        return ""

    rule = f"{', '.join(names)}: an integer"
    return Constraint("NKI-VALUE", rule, "Parameters of the instruction", check)


def ranks(limit: int, *names: str) -> Constraint:
    """At most so many dimensions."""

    def check(call: CheckedCall) -> str:
        for name in names:
            if _is_tile(call[name]) and len(call[name].shape) > limit:
                return call.describe(name)
        return ""

    rule = f"{', '.join(names)}: at most {limit} dimensions"
    return Constraint("NKI-RANK", rule, "Constraints of the instruction", check)


def same_partitions(first: str, *other_names: str) -> Constraint:
    """Equal partitions."""

    def check(call: CheckedCall) -> str:
        for name in other_names:
            if _is_tile(call[name]) and call[name].shape[0] != call[first].shape[0]:
                return f"partitions differ: {call.describe(first)}, {call.describe(name)}"
        return ""

    rule = f"{', '.join((first, *other_names))} have the same partitions"
    return Constraint("NKI-SHAPE", rule, "Layout of the instruction", check)


@custom("NKI-OPERAND", "with two operators both are given, or only the first", "nisa.activate2")
def second_needs_first(call: CheckedCall) -> str:
    if call["op1"] is not None and call["op0"] is None:
        return f"{call.describe('op1')} without op0"
    for number in "01":
        if call[f"reverse{number}"] and call[f"op{number}"] is None:
            return f"reverse{number}=True without op{number}"
    left, right = call.dtype("imm0"), call.dtype("imm1")
    if left and right and left != right:
        return f"dtypes differ: {call.describe('imm0')}, {call.describe('imm1')}"
    return ""


@custom("NKI-REDUCE", "load_reduce takes imm1, float32", "nisa.tensor_scalar_cumulative")
def cumulative_start(call: CheckedCall) -> str:
    if call["reduce_cmd"] is reduce_cmd.load_reduce and call["imm1"] is None:
        return "reduce_cmd=load_reduce without imm1"
    for name in ("imm0", "imm1"):
        if call.dtype(name) not in ("", "float32"):
            return call.describe(name)
    return ""


@custom("NKI-VALUE", "range_start is an integer, and range_start plus the columns stays below 2**24",
        "nisa.range_select, Constraints")  # fmt: skip
def exact_indices(call: CheckedCall) -> str:
    start = call["range_start"]
    if isinstance(start, bool) or not isinstance(start, SupportsIndex):
        return f"range_start={start!r}"
    if int(start) + free_elements(call["on_true_tile"]) > 1 << 24:
        return f"range_start={start!r} with {call.describe('on_true_tile')}"
    return ""


@custom("NKI-DROPOUT", "prob is 0 to 1; a tile of it is floating point, float32 for integer data",
        "nisa.dropout")  # fmt: skip
def probability(call: CheckedCall) -> str:
    value = call["prob"]
    if not _is_tile(value):
        return "" if 0 <= value <= 1 else f"prob={value!r}"
    allowed = (
        value.dtype.name == "float32" if call["data"].dtype.is_integer else value.dtype.is_float
    )
    return "" if allowed else f"{call.describe('prob')} for {call.describe('data')}"


@custom("NKI-VALUE", "value is a number", "nisa.memset")
def memset_value(call: CheckedCall) -> str:
    value = call["value"]
    number = isinstance(value, SupportsFloat) and not _is_tile(value)
    return "" if number and not isinstance(value, VirtualRegister) else f"value={value!r}"


@custom("NKI-ENGINE", "the GpSimd engine runs only nl.rsqrt", "nisa.tensor_scalar, engine")
def gpsimd_rsqrt(call: CheckedCall) -> str:
    if call.engine is not Engine.gpsimd or call.operator("op0") == "rsqrt":
        return ""
    return f"op0=nl.{call.operator('op0')} on engine=gpsimd"


@custom("NKI-ENGINE", "nl.power of two tiles runs on the GpSimd engine", "nisa.tensor_tensor, op")
def power_engine(call: CheckedCall) -> str:
    if call.operator("op") == "power" and call.engine is Engine.vector:
        return "op=nl.power on engine=vector"
    return ""


@custom("NKI-BIAS", "bias has any dtype but tfloat32; trn1 sets none for nl.reciprocal",
        "nisa.activation, Data types; nki.api.shared, nki-engine-sel")  # fmt: skip
def bias_dtype(call: CheckedCall) -> str:
    if call.dtype("bias") == "tfloat32":
        return call.describe("bias")
    gen2 = call.generation == nc_version.gen2
    if gen2 and call.operator("op") == "reciprocal" and call["bias"] is not None:
        return f"op=nl.reciprocal with {call.describe('bias')} on trn1"
    return ""


@custom("NKI-REVERSE", "reverse0 is not supported yet: exchange the operands, or negate",
        "nisa.tensor_scalar_reduce, reverse0")  # fmt: skip
def no_reverse(call: CheckedCall) -> str:
    return "reverse0=True" if call["reverse0"] else ""


@custom("NKI-ACCUMULATE", "accumulate is True, False or None", "nisa.nc_matmul, Accumulation mode")
def accumulate_flag(call: CheckedCall) -> str:
    value = call["accumulate"]
    flag = value is None or (isinstance(value, (bool, int, np.bool_)) and value in (0, 1))
    return "" if flag else f"accumulate={value!r}"
