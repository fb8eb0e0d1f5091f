"""Scalar registers: 32-bit signed integers that wrap (isa stub, register_*)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.ir.types import Register
from nki_lang.semantics.state import EngineState
from nki_lang.semantics.table import semantics

__all__ = ["REGISTER_OPS", "wrap"]


def wrap(value: int) -> int:
    """The signed 32-bit integer with the same low bits."""
    return ((int(value) + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)


def _value(source: Any, state: EngineState) -> int:
    if isinstance(source, Register):
        return state.registers[source.name]
    if isinstance(source, np.ndarray):
        return int(source.reshape(-1)[0])
    return int(source)


@semantics(raw=True)
def register_alloc(dst: Register, state: EngineState, x: Any = None) -> None:
    """A new register with value ``x`` (0 without one)."""
    state.registers[dst.name] = wrap(_value(x, state)) if x is not None else 0


@semantics(raw=True)
def register_move(dst: Register, src: Any, state: EngineState) -> None:
    """``dst = src``."""
    state.registers[dst.name] = wrap(_value(src, state))


@semantics(raw=True)
def register_load(dst: Register, src: Array, state: EngineState) -> None:
    """``dst`` = the one element of ``src``."""
    state.registers[dst.name] = wrap(_value(src, state))


@semantics(raw=True)
def register_store(dst: Array, src: Any, state: EngineState) -> None:
    """The one element of ``dst`` = ``src``."""
    dst[...] = np.asarray(_value(src, state)).astype(dst.dtype)


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise ZeroDivisionError("a register is divided by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


REGISTER_OPS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _quotient,
    "floor_divide": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "maximum": max,
    "minimum": min,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: a << (b & 31),
    "right_shift": lambda a, b: a >> (b & 31),
    "equal": lambda a, b: int(a == b),
    "not_equal": lambda a, b: int(a != b),
    "less": lambda a, b: int(a < b),
    "less_equal": lambda a, b: int(a <= b),
    "greater": lambda a, b: int(a > b),
    "greater_equal": lambda a, b: int(a >= b),
    "logical_and": lambda a, b: int(bool(a) and bool(b)),
    "logical_or": lambda a, b: int(bool(a) or bool(b)),
}
"""Operators of ``register_alu``, before the result wraps."""


@semantics(raw=True)
def register_alu(dst: Register, op: str, src0: Any, src1: Any, state: EngineState) -> None:
    """``dst = src0 <op> src1`` on 32-bit signed integers."""
    result = REGISTER_OPS[op](_value(src0, state), _value(src1, state))
    state.registers[dst.name] = wrap(result)
