"""Values of rows: repeated values, pending steps, and the emitter of both.

A tile of a row unit has ``rows`` rows in each partition, each of ``columns`` elements; a value with
one element for each row is a tile (partitions, rows).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.lowering.tiles.emitter import Constants, Emitter, Tile, Value
from neff.compiler.lowering.tiles.origins import issued_at
from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.base.source import SourceLocation
from nki_lang.frontend.builder import current

__all__ = ["Lazy", "RowEmitter", "Spread", "Step"]

F32 = dtype_of("float32")
_WORD_TYPES = frozenset({"int32", "uint32"})


@dataclass(slots=True)
class Spread:
    """A tile that repeats: one element for each row (``row``), or the same row everywhere
    (``column``).
    """

    tile: Value
    axis: str


@dataclass(frozen=True, slots=True)
class Step:
    """An operation with a number, or with a float32 tile of one element for each partition."""

    op: str
    operand: Value
    reverse: bool = False


@dataclass(slots=True)
class Lazy:
    """A tile and at most two steps that are not emitted yet: a reader may include them.

    ``origin`` is the location of the last step, for an instruction of its own.
    """

    base: Value
    steps: list[Step]
    dtype: DType
    tile: Value = field(default=None)
    origin: SourceLocation | None = field(default_factory=lambda: current().origin)


class RowEmitter(Emitter):
    """Emits tiles of ``rows`` x ``columns`` elements in each partition.

    Args:
        partitions, rows, columns: shape of the tiles.
        constants: constants of :class:`Emitter`.
        per_row: emits values with one element for each row; None if this emitter does.
    """

    def __init__(
        self,
        partitions: int,
        rows: int,
        columns: int,
        constants: Constants,
        per_row: Emitter | None = None,
    ) -> None:
        super().__init__(partitions, rows * columns, constants)
        self.rows, self.columns = rows, columns
        self.per_row = per_row

    def unread(self, dtype: DType) -> Tile:
        """Return a tile for a result that is never read."""
        key = ("unread", self.elements, dtype.name)
        tile = self._constants.get(key)
        if tile is None:
            shape = (128, self.elements)
            tile = self._constants[key] = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
        return tile[0 : self.partitions]

    def plain(self, value: Value) -> Value:
        """Return a value that an instruction can read: a repeated value becomes a view that
        repeats.
        """
        if not isinstance(value, Spread):
            return value
        shape = (self.partitions, self.rows, self.columns)
        tile = value.tile
        if value.axis == "row":
            if self.columns == 1:
                return tile
            return tile.reshape((*shape[:2], 1)).broadcast(2, self.columns)
        if self.rows == 1:
            return tile
        return tile.reshape((shape[0], 1, shape[2])).broadcast(1, self.rows)

    def tile(self, value: Value, dtype: DType) -> Value:
        return super().tile(self.plain(value), dtype)

    def copy(self, value: Value, dtype: DType) -> Value:
        return super().copy(self.plain(value), dtype)

    def reciprocal(self, value: Value, dtype: DType) -> Value:
        if isinstance(value, Spread) and value.axis == "row" and self.per_row is not None:
            return Spread(self.per_row.reciprocal(value.tile, dtype), "row")
        if not self.is_number(value) and self.elements >= 512:
            return self.activation("reciprocal", value, dtype)
        return super().reciprocal(value, dtype)

    def binary(self, op: str, a: Value, b: Value, dtype: DType) -> Value:
        for first, second, reverse in ((a, b, False), (b, a, True)):
            operand = self.scalar(second)
            if operand is None or self.is_number(second) or self.is_number(first):
                continue
            if dtype.name not in _WORD_TYPES and not isinstance(first, Spread):
                target = self.new(dtype)
                nisa.tensor_scalar(target, first, getattr(nl, op), operand, reverse0=reverse)
                return target
        return super().binary(op, self.plain(a), self.plain(b), dtype)

    def scalar(self, value: Value) -> Value:
        """Return the value as an operand of ``tensor_scalar``: a number, or a float32 tile; else
        None.
        """
        if self.is_number(value):
            return float(value)
        if not isinstance(value, Spread) or value.axis != "row" or self.rows != 1:
            return None
        if value.tile.dtype != F32:
            if value.tile.dtype.kind != "float":
                return None
            wide = nl.ndarray((self.partitions, 1), dtype=F32, buffer=nl.sbuf)
            nisa.tensor_copy(wide, value.tile)
            value.tile = wide
        return value.tile

    def force(self, value: Value) -> Value:
        """Return a value whose steps are done."""
        if not isinstance(value, Lazy):
            return value
        if value.tile is None:
            value.tile = self.new(value.dtype)
            first, second = [*value.steps, None][:2]
            assert first is not None
            second_step: tuple[Value, ...] = ()
            if second is not None:
                second_step = (getattr(nl, second.op), second.operand, second.reverse)
            with issued_at(value.origin):
                nisa.tensor_scalar(
                    value.tile,
                    value.base,
                    getattr(nl, first.op),
                    first.operand,
                    first.reverse,
                    *second_step,
                )
        return value.tile

    def affine(self, value: Value) -> tuple[Value, Value, Value]:
        """Return (tile, scale, bias): the steps that an activation can do before its function."""
        if isinstance(value, Lazy) and value.tile is None:
            scale_and_bias = self._folded(value.steps)
            if scale_and_bias is not None:
                return value.base, *scale_and_bias
        value = self.plain(self.force(value))
        return self.tile(value, F32), 1.0, None

    def _folded(self, steps: list[Step]) -> tuple[Value, Value] | None:
        scale: Value = 1.0
        remaining = list(steps)
        if remaining[0].op == "multiply":
            scale = remaining.pop(0).operand
        if not remaining:
            return scale, None
        (step,) = remaining if len(remaining) == 1 else (None,)
        if step is None or step.op not in ("add", "subtract"):
            return None
        if step.op == "add":
            return scale, step.operand
        if not step.reverse:
            return scale, self.negative(step.operand)
        return (-scale, step.operand) if isinstance(scale, float) else None

    def negative(self, operand: Value) -> Value:
        """Return the negated operand of a step."""
        if isinstance(operand, float):
            return -operand
        key = ("negative", operand.name if hasattr(operand, "name") else id(operand))
        negated = self._constants.get(key)
        if negated is None or negated[0] is not operand:
            tile = nl.ndarray((self.partitions, 1), dtype=F32, buffer=nl.sbuf)
            nisa.tensor_scalar(tile, operand, nl.multiply, -1.0)
            negated = self._constants[key] = (operand, tile)
        return negated[1]

    def bias(self, value: Value, numbers: bool) -> Value:
        """Return a bias that the target accepts: trn1 accepts tiles only."""
        if value is None or numbers or not isinstance(value, float):
            return value
        return Emitter(self.partitions, 1, self._constants).filled(np.float32(value), F32)
