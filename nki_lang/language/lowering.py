"""Functions on tiles that one instruction computes."""

from __future__ import annotations

from math import prod
from typing import Any

from nki_lang.base.errors import fail
from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend.builder import current
from nki_lang.frontend.objects import is_sequence
from nki_lang.frontend.operators import Operator
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.isa.activations import activation
from nki_lang.isa.elementwise import tensor_scalar, tensor_tensor
from nki_lang.isa.movement import tensor_copy
from nki_lang.isa.reductions import tensor_reduce
from nki_lang.language.creation import ndarray

__all__ = ["activate", "binary", "fresh", "reduce", "reduced_shape", "require_tile"]

_TRN3_ONLY = frozenset({"abs_max", "abs_min"})


def require_tile(value: object, what: str) -> NkiTensor:
    """A tile on chip, or an error."""
    if isinstance(value, NkiTensor) and value.on_chip:
        return value
    fail(
        f"{what} takes a tile in SBUF or PSUM, not {value!r}",
        "NKI-OPERAND",
        "bring it on chip with nl.load first" if isinstance(value, NkiTensor) else "",
        f"{what} (nki/api/nki/language)",
    )
    return None


def fresh(like: NkiTensor, dtype: Any = None) -> NkiTensor:
    """A new SBUF tile of the same shape."""
    return ndarray(like.shape, dtype or like.dtype)


def _is_vector(tile: NkiTensor, matrix: NkiTensor) -> bool:
    return tile.shape[0] == matrix.shape[0] and prod(tile.shape[1:]) == 1


def binary(op: Operator, x: Any, y: Any, dtype: object) -> NkiTensor:
    """``op(x, y)``: two tiles of one shape, or a tile with a number or one value a partition."""
    if op.name in _TRN3_ONLY and current().generation < 4:
        fail(
            f"nl.{op.name} exists on trn3 and later",
            "NKI-TARGET",
            "use nl.abs of both and nl.maximum or nl.minimum",
            f"nl.{op.name} (nki/api/nki/language)",
        )
    if not isinstance(x, NkiTensor) and not isinstance(y, NkiTensor):
        fail(f"nl.{op.public} needs a tile; it got {x!r} and {y!r}", "NKI-OPERAND",
             "pass a tile for at least one; load HBM tensors with nl.load first")  # fmt: skip
    if isinstance(x, NkiTensor) and isinstance(y, NkiTensor):
        return _two_tiles(op, require_tile(x, f"nl.{op.public}"),
                          require_tile(y, f"nl.{op.public}"), dtype)  # fmt: skip
    reverse = not isinstance(x, NkiTensor)
    tile = require_tile(y if reverse else x, f"nl.{op.public}")
    out = fresh(tile, dtype)
    tensor_scalar(out, tile, op, x if reverse else y, reverse0=reverse)
    return out


def _two_tiles(op: Operator, x: NkiTensor, y: NkiTensor, dtype: object) -> NkiTensor:
    if x.shape != y.shape:
        if _is_vector(y, x):
            return _with_vector(op, x, y, dtype, reverse=False)
        if _is_vector(x, y):
            return _with_vector(op, y, x, dtype, reverse=True)
        fail(
            f"nl.{op.public} of shapes {x.shape} and {y.shape}",
            "NKI-SHAPE",
            "shapes are equal, or one tile has one element per partition; use .broadcast",
            f"nl.{op.public} (nki/api/nki/language)",
        )
    if x.buffer is MemoryRegion.psum and y.buffer is MemoryRegion.psum:
        moved = fresh(y)
        tensor_copy(moved, y)
        y = moved
    out = fresh(x, dtype)
    tensor_tensor(out, x, y, op)
    return out


def _with_vector(
    op: Operator, tile: NkiTensor, vector: NkiTensor, dtype: object, reverse: bool
) -> NkiTensor:
    out = fresh(tile, dtype)
    wide = vector
    if vector.dtype.name != "float32" and not (vector.dtype.is_integer and tile.dtype.is_integer):
        wide = fresh(vector, "float32")
        tensor_copy(wide, vector)
    tensor_scalar(out, tile, op, wide, reverse0=reverse)
    return out


def activate(op: Operator, x: object, dtype: object) -> NkiTensor:
    """``op(x)`` on the scalar engine."""
    tile = require_tile(x, f"nl.{op.public}")
    out = fresh(tile, dtype)
    activation(out, op, tile)
    return out


def reduced_shape(tile: NkiTensor, axis: Any, keepdims: bool) -> tuple[int, ...]:
    """Shape after reducing ``axis``; at least two dimensions remain."""
    rank = len(tile.shape)
    axes = {entry % rank for entry in (axis if is_sequence(axis) else (axis,))}
    shape = tuple(
        1 if position in axes else extent
        for position, extent in enumerate(tile.shape)
        if keepdims or position not in axes
    )
    return shape if len(shape) > 1 else (*shape, 1)


def reduce(op: Operator, x: Any, axis: Any, dtype: Any, keepdims: bool) -> NkiTensor:
    """Reduction along the last free axes."""
    tile = require_tile(x, f"nl.{op.public}")
    out = ndarray(reduced_shape(tile, axis, keepdims), dtype or tile.dtype)
    tensor_reduce(out, op, tile, axis, keepdims=keepdims)
    return out
