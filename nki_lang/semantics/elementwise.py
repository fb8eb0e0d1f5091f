"""Element by element: ``tensor_tensor``, ``tensor_scalar``, ``reciprocal``, ``memset``, ...

Arithmetic happens in float32 except where the GpSimd Engine uses native integers; bit operators
see bit patterns (isa stub, tensor_tensor and tensor_scalar).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from nki_lang.base.dtypes import Array
from nki_lang.base.memory import MemoryRegion
from nki_lang.ir.types import Access, Engine
from nki_lang.semantics.numbers import (
    aligned,
    convert,
    is_array,
    kept_apart,
    per_partition,
    single,
    store,
)
from nki_lang.semantics.operators import Operator, operator_of
from nki_lang.semantics.table import semantics

__all__ = ["apply", "bit_operand", "scaled"]


_F32 = np.dtype(np.float32)
_NATIVE = frozenset({np.dtype(np.int32), np.dtype(np.uint32)})


@semantics(elementwise=True)
def tensor_tensor(
    dst: Array,
    data1: Array,
    data2: Array,
    op: str,
    accesses: Mapping[str, Any],
    engine: Engine,
) -> None:
    """``dst = data1 <op> data2``."""
    operator = operator_of(op)
    if data1.shape != dst.shape or data2.shape != dst.shape:
        data1, data2 = _same_shape(dst, data1), _same_shape(dst, data2)
    if data1.dtype == data2.dtype == dst.dtype == _F32 and dst.shape == data1.shape == data2.shape:
        operator.function(data1, data2, out=dst)
    elif operator.bits:
        store_bits(dst, operator.function(data1, data2.astype(data1.dtype, copy=False)))
    elif _native_integers(dst, data1, data2, accesses, engine):
        # Both are 32 bits wide: the difference of signs only changes how bits are read.
        left, right = _common_integers(data1, data2)
        store_bits(dst, np.asarray(operator.function(left, right)))
    else:
        store(dst, operator.function(single(data1), single(data2)))


def _same_shape(dst: Array, value: Array) -> Array:
    return value.reshape(dst.shape) if value.size == dst.size else value


def _common_integers(left: Array, right: Array) -> tuple[Array, Array]:
    if left.dtype == right.dtype:
        return left, right
    return left.view(np.int32), right.view(np.int32)


def _native_integers(
    dst: Array, data1: Array, data2: Array, accesses: Mapping[str, Any], engine: Engine
) -> bool:
    """GpSimd computes 32-bit integers natively by default unless PSUM takes part."""
    if not (dst.dtype in _NATIVE and data1.dtype in _NATIVE and data2.dtype in _NATIVE):
        return False
    if engine is Engine.vector:
        return False
    return not any(
        isinstance(access, Access) and access.tensor.buffer is MemoryRegion.psum
        for access in accesses.values()
    )


@semantics(elementwise=True)
def tensor_scalar(
    dst: Array,
    data: Array,
    op0: str,
    operand0: Any,
    reverse0: bool = False,
    op1: str | None = None,
    operand1: Any = None,
    reverse1: bool = False,
) -> None:
    """``dst = (data <op0> operand0) <op1> operand1``; operands broadcast along the free axes."""
    first = operator_of(op0)
    second = operator_of(op1) if op1 is not None else None
    if first.bits or (second is not None and second.bits):
        _bit_scalar(dst, data, (first, operand0, reverse0), (second, operand1, reverse1))
        return
    if data.dtype == _F32 == dst.dtype and data.shape == dst.shape:
        operand1 = kept_apart(operand1, dst)
        scaled(data, first, operand0, reverse0, out=dst)
        if second is not None:
            scaled(dst, second, operand1, reverse1, out=dst)
        return
    value = scaled(single(data), first, operand0, reverse0)
    if second is not None:
        value = scaled(value, second, operand1, reverse1)
    store(dst, value)


def scaled(
    data: Array, operator: Operator, operand: Any, reverse: bool, out: Array | None = None
) -> Array:
    """``data <op> operand`` in float32, the operand broadcast along the free axes."""
    if operator.unary:
        return operator.function(data, out=out)
    return apply(
        operator, data, per_partition(0.0 if operand is None else operand, data), reverse, out
    )


def apply(
    operator: Operator, left: Any, right: Any, reverse: bool = False, out: Array | None = None
) -> Array:
    """One binary operator, optionally with its operands exchanged."""
    if reverse:
        left, right = right, left
    return operator.function(left, right, out=out)


def _bit_scalar(
    dst: Array,
    data: Array,
    first: tuple[Operator, Any, bool],
    second: tuple[Operator | None, Any, bool],
) -> None:
    value = data
    for operator, operand, reverse in (first, second):
        if operator is None:
            continue
        if operator.unary:
            value = operator.function(value)
        else:
            value = apply(operator, value, bit_operand(operand, value), reverse)
    store_bits(dst, value)


def bit_operand(operand: Any, like: Array) -> Array:
    """An operand of a bit operator as bit pattern of ``like``'s type."""
    kind = like.dtype
    if not is_array(operand):
        return _bit_pattern(int(operand), kind)
    if operand.ndim and operand.size == operand.shape[0]:
        operand = operand.reshape(operand.shape[0], *(1,) * (like.ndim - 1))
    if operand.dtype.kind not in "iub":
        operand = convert(operand, kind)
    return operand.astype(kind, copy=False)


@functools.lru_cache(maxsize=1024)
def _bit_pattern(number: int, kind: np.dtype[np.generic]) -> Array:
    """Return the low bits of a number as an element of ``kind``."""
    mask = (1 << (8 * kind.itemsize)) - 1
    pattern = np.asarray(number & mask, f"u{kind.itemsize}").view(kind)
    pattern.setflags(write=False)
    return pattern


def store_bits(dst: Array, value: Array) -> None:
    """Write integers as bit patterns; a float destination gets their value."""
    if value.shape != dst.shape:
        value = value.reshape(dst.shape)
    if dst.dtype.kind in "iu":
        dst[...] = value.astype(dst.dtype, copy=False)
    else:
        store(dst, value)


@semantics(elementwise=True)
def scalar_tensor_tensor(
    dst: Array,
    data: Array,
    op0: str,
    operand0: Any,
    op1: str,
    operand1: Array,
    reverse0: bool = False,
    reverse1: bool = False,
) -> None:
    """``dst = (data <op0> operand0) <op1> operand1`` with a tile as the second operand."""
    value = scaled(single(data), operator_of(op0), operand0, reverse0)
    second = single(aligned(operand1, value.shape))
    store(dst, apply(operator_of(op1), value, second, reverse1))


@semantics(elementwise=True)
def reciprocal(dst: Array, data: Array) -> None:
    """``dst = 1 / data``."""
    if data.dtype == _F32 == dst.dtype and data.shape == dst.shape:
        np.divide(np.float32(1), data, out=dst)
        return
    store(dst, np.float32(1) / single(data))


@semantics(elementwise=True)
def memset(dst: Array, value: Any) -> None:
    """``dst = value``; integers are written exactly, bit patterns above the sign included."""
    number: Any = value
    if isinstance(value, (int, np.integer)) and dst.dtype.kind in "iu":
        width = 8 * dst.dtype.itemsize
        if -(1 << (width - 1)) <= value < (1 << width):
            dst.fill(
                np.asarray(int(number) & ((1 << width) - 1), f"u{dst.dtype.itemsize}").view(
                    dst.dtype
                )[()]
            )
            return
    dst[...] = convert(np.asarray(value, np.float32), dst.dtype)
