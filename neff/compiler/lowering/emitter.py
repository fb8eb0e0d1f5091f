"""Arithmetic on tiles: what the element-by-element lowerings are written in.

A value is a tile in SBUF or one number that all elements have. Floats are computed by the
engines in float32 and rounded to the tile's type; 32-bit integers are computed exactly, on
GpSimd; predicates are bytes that hold 0 or 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from nki_lang.base.dtypes import DType, dtype_of

__all__ = ["Constants", "Emitter", "Tile", "Value"]

Tile = Any
"""A tensor of the kernel language, or a view of one."""

Constants = dict[Any, Any]
"""Tiles of constants that were made before, by bytes and type."""

Value = Any
"""A tile of shape (partitions, elements), or a NumPy scalar."""

_WORDS = frozenset({"int32", "uint32"})
_EXACT = 1 << 24
"""Numbers below it are the same in float32, which instructions take them in."""

_OPS: dict[str, Any] = {}


def _op(name: str) -> Any:
    found = _OPS.get(name)
    if found is None:
        found = _OPS[name] = getattr(nl, name)
    return found


class Emitter:
    """Emits instructions for tiles of one shape.

    Args:
        partitions, elements: shape of the tiles.
        constants: tiles of constants that were made before; shared between the pieces of a
            kernel, for a constant is written once.
    """

    def __init__(self, partitions: int, elements: int, constants: dict[Any, Any]) -> None:
        self.partitions = partitions
        self.elements = elements
        self._constants = constants

    def new(self, dtype: DType) -> Any:
        """A fresh tile."""
        return nl.ndarray((self.partitions, self.elements), dtype=dtype, buffer=nl.sbuf)

    def is_number(self, value: Value) -> bool:
        """True for a value that is one number."""
        return isinstance(value, np.generic | int | float | bool)

    def filled(self, value: Any, dtype: DType) -> Any:
        """A tile of one number, to be read only."""
        exact = np.asarray(value).astype(dtype.dtype)
        key = (exact.tobytes(), dtype.name)
        column = self._constants.get(key)
        if column is None:
            column = nl.ndarray((128, 1), dtype=dtype, buffer=nl.sbuf)
            nisa.memset(column, exact.item())
            self._constants[key] = column
        part = column[0 : self.partitions]
        return part if self.elements == 1 else part.broadcast(1, self.elements)

    def tile(self, value: Value, dtype: DType) -> Any:
        """The value as a tile, for instructions that take no numbers."""
        return self.filled(value, dtype) if self.is_number(value) else value

    def copy(self, value: Value, dtype: DType) -> Any:
        """A fresh tile with the value in another type: floats are rounded to nearest even,
        integers beyond a float's range or precision too."""
        made = self.new(dtype)
        if self.is_number(value):
            nisa.memset(made, np.asarray(value).astype(dtype.dtype).item())
        else:
            nisa.tensor_copy(made, value)
        return made

    def binary(self, op: str, a: Value, b: Value, dtype: DType) -> Any:
        """``a op b`` in float32, rounded to ``dtype``; or exactly when all are words."""
        if dtype.name in _WORDS:
            return self.words(op, a, b, dtype)
        made = self.new(dtype)
        if self.is_number(a):
            if self.is_number(b):
                a = self.filled(a, dtype_of("float32"))
            else:
                nisa.tensor_scalar(made, b, _op(op), float(a), reverse0=True)
                return made
        if self.is_number(b):
            nisa.tensor_scalar(made, a, _op(op), float(b))
        else:
            nisa.tensor_tensor(made, a, b, _op(op))
        return made

    def twice(
        self, a: Any, op: str, number: float, op1: str, number1: float, *, reverse: bool = False
    ) -> Any:
        """``(a op number) op1 number1`` in float32; ``number op a`` first when reversed."""
        made = self.new(dtype_of("float32"))
        nisa.tensor_scalar(made, a, _op(op), number, reverse, _op(op1), number1)
        return made

    def fused(self, a: Any, op: str, number: float, op1: str, b: Any) -> Any:
        """``(a op number) op1 b`` in float32."""
        made = self.new(dtype_of("float32"))
        nisa.scalar_tensor_tensor(made, a, _op(op), number, _op(op1), b)
        return made

    def words(self, op: str, a: Value, b: Value, dtype: DType) -> Any:
        """``a op b`` in 32-bit integer arithmetic (it wraps around)."""
        made = self.new(dtype)
        nisa.tensor_tensor(
            made, self.tile(a, dtype), self.tile(b, dtype), _op(op), engine=nisa.engine.gpsimd
        )
        return made

    def bits(self, op: str, a: Value, b: Value, dtype: DType) -> Any:
        """``a op b`` on bit patterns; by a small number in one pass that reads one tile."""
        made = self.new(dtype)
        if self.is_number(b) and not self.is_number(a) and 0 <= int(b) < _EXACT:
            nisa.tensor_scalar(made, a, _op(op), int(b))
            return made
        nisa.tensor_tensor(made, self.tile(a, dtype), self.tile(b, dtype), _op(op))
        return made

    def activation(self, op: str, value: Value, dtype: DType, scale: float = 1.0) -> Any:
        """``op(value * scale)`` on the scalar engine."""
        made = self.new(dtype)
        nisa.activation(made, _op(op), self.tile(value, dtype_of("float32")), scale=scale)
        return made

    def reciprocal(self, value: Value, dtype: DType) -> Any:
        """``1 / value``."""
        made = self.new(dtype)
        nisa.reciprocal(made, self.tile(value, dtype_of("float32")))
        return made

    def select(self, predicate: Any, on_true: Value, on_false: Value, dtype: DType) -> Any:
        """``on_true`` where the predicate (a tile of bytes) is not 0, else ``on_false``."""
        made = self.copy(on_false, dtype)
        nisa.tensor_copy_predicated(made, self.tile(on_true, dtype), predicate)
        return made
