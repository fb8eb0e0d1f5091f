"""Emits arithmetic on tiles, for the lowerings of elementwise operations.

A value is a tile in SBUF or a number that all elements have. Floats are computed by the
engines in float32 and rounded to the tile's type; 32-bit integers are computed exactly, on
GpSimd; predicates are bytes that hold 0 or 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.frontend.operators import Operator
from nki_lang.frontend.tensor import NkiTensor

__all__ = ["Constants", "Emitter", "Number", "Tile", "Value"]

Tile = NkiTensor
"""A tensor of the kernel language, or a view of one."""

Number = np.generic | float
"""A number that all elements of a value have."""

Value = Any
"""A tile of shape (partitions, elements), or a NumPy scalar."""

Constants = dict[object, Value]
"""Tiles of constants that exist already, by bytes and type."""

_WORD_TYPES = frozenset({"int32", "uint32"})
_MAX_EXACT_INTEGER = 1 << 24
"""Integers below it are exact in float32, the type of numbers in instructions."""

_OPERATORS: dict[str, Operator] = {}


def _operator(name: str) -> Operator:
    operator = _OPERATORS.get(name)
    if operator is None:
        operator = _OPERATORS[name] = getattr(nl, name)
    return operator


class Emitter:
    """Emits instructions for tiles of one shape.

    Args:
        partitions, elements: shape of the tiles.
        constants: tiles of constants that exist already; the pieces of a kernel share them, so that
            each constant is written once.
    """

    def __init__(self, partitions: int, elements: int, constants: Constants) -> None:
        self.partitions = partitions
        self.elements = elements
        self._constants = constants

    def new(self, dtype: DType) -> Tile:
        """Return a fresh tile."""
        return nl.ndarray((self.partitions, self.elements), dtype=dtype, buffer=nl.sbuf)

    def is_number(self, value: Value) -> bool:
        """Return True for a value that is one number."""
        return isinstance(value, np.generic | int | float | bool)

    def filled(self, value: Number, dtype: DType) -> Tile:
        """Return a read-only tile that is filled with a number."""
        exact = np.asarray(value).astype(dtype.dtype)
        key = (exact.tobytes(), dtype.name)
        column = self._constants.get(key)
        if column is None:
            column = nl.ndarray((128, 1), dtype=dtype, buffer=nl.sbuf)
            nisa.memset(column, exact.item())
            self._constants[key] = column
        rows = column[0 : self.partitions]
        return rows if self.elements == 1 else rows.broadcast(1, self.elements)

    def tile(self, value: Value, dtype: DType) -> Tile:
        """Return the value as a tile, for instructions that accept no numbers."""
        return self.filled(value, dtype) if self.is_number(value) else value

    def copy(self, value: Value, dtype: DType) -> Tile:
        """Return a fresh tile with the value in another type.

        Floats are rounded to nearest even, and so are integers beyond a float's range or precision.
        """
        target = self.new(dtype)
        if self.is_number(value):
            nisa.memset(target, np.asarray(value).astype(dtype.dtype).item())
        else:
            nisa.tensor_copy(target, value)
        return target

    def binary(self, op: str, a: Value, b: Value, dtype: DType) -> Tile:
        """Compute ``a op b`` in float32, rounded to ``dtype``; exactly for words."""
        if dtype.name in _WORD_TYPES:
            return self.words(op, a, b, dtype)
        target = self.new(dtype)
        if self.is_number(a):
            if self.is_number(b):
                a = self.filled(a, dtype_of("float32"))
            else:
                nisa.tensor_scalar(target, b, _operator(op), float(a), reverse0=True)
                return target
        if self.is_number(b):
            nisa.tensor_scalar(target, a, _operator(op), float(b))
        else:
            nisa.tensor_tensor(target, a, b, _operator(op))
        return target

    def twice(
        self, a: Tile, op: str, number: float, op1: str, number1: float, *, reverse: bool = False
    ) -> Tile:
        """Compute ``(a op number) op1 number1`` in float32; first ``number op a`` if reversed."""
        target = self.new(dtype_of("float32"))
        nisa.tensor_scalar(target, a, _operator(op), number, reverse, _operator(op1), number1)
        return target

    def fused(self, a: Tile, op: str, number: float, op1: str, b: Tile) -> Tile:
        """Compute ``(a op number) op1 b`` in float32."""
        target = self.new(dtype_of("float32"))
        nisa.scalar_tensor_tensor(target, a, _operator(op), number, _operator(op1), b)
        return target

    def words(self, op: str, a: Value, b: Value, dtype: DType) -> Tile:
        """Compute ``a op b`` in 32-bit integer arithmetic (it wraps around)."""
        target = self.new(dtype)
        nisa.tensor_tensor(
            target,
            self.tile(a, dtype),
            self.tile(b, dtype),
            _operator(op),
            engine=nisa.engine.gpsimd,
        )
        return target

    def bits(self, op: str, a: Value, b: Value, dtype: DType) -> Tile:
        """Compute ``a op b`` on bit patterns; a small number needs one pass that reads one tile."""
        target = self.new(dtype)
        if self.is_number(b) and not self.is_number(a) and 0 <= int(b) < _MAX_EXACT_INTEGER:
            nisa.tensor_scalar(target, a, _operator(op), int(b))
            return target
        nisa.tensor_tensor(target, self.tile(a, dtype), self.tile(b, dtype), _operator(op))
        return target

    def activation(self, op: str, value: Value, dtype: DType, scale: float = 1.0) -> Tile:
        """Compute ``op(value * scale)`` on the scalar engine."""
        target = self.new(dtype)
        nisa.activation(target, _operator(op), self.tile(value, dtype_of("float32")), scale=scale)
        return target

    def reciprocal(self, value: Value, dtype: DType) -> Tile:
        """Compute ``1 / value``."""
        target = self.new(dtype)
        nisa.reciprocal(target, self.tile(value, dtype_of("float32")))
        return target

    def select(self, predicate: Tile, on_true: Value, on_false: Value, dtype: DType) -> Tile:
        """Select ``on_true`` where the predicate (a tile of bytes) is not 0, else ``on_false``."""
        target = self.copy(on_false, dtype)
        nisa.tensor_copy_predicated(target, self.tile(on_true, dtype), predicate)
        return target
