"""Operands of instructions: shapes aligned, dtypes promoted, tiles moved where engines reach them."""

from __future__ import annotations

from math import prod

import numpy as np

from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.base.errors import fail
from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1.mask import Box, whole_box
from nki_lang.beta1.results import new_tile, starts_well
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import ElementLike, Value
from nki_lang.frontend.operators import BY_NAME, Operator
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.frontend.view import View
from nki_lang.isa.dma import dma_copy
from nki_lang.isa.movement import tensor_copy
from nki_lang.language.creation import ndarray

__all__ = [
    "common_shape", "cut", "fitted", "is_numpy_number", "off_psum", "operator_of", "promote", "read",
    "require_same_dtype", "require_tile",
]  # fmt: skip

_TYPES = "nki/api/nki.api.shared.rst, nki-type-promotion (beta 1)"

_ALIASES = {
    "amax": "max", "amin": "min", "absolute": "abs", "true_divide": "divide", "remainder": "mod",
    "invert": "invert", "bitwise_not": "invert", "float_power": "power", "conjugate": "copy",
}  # fmt: skip
"""Names of NumPy's functions that the language calls otherwise."""


def operator_of(value: Value) -> Value:
    """Return the operator for a function of the language, of NumPy, or its name.

    Raises:
        NkiValidationError: code ``NKI-OPERATOR``.
    """
    if value is None or isinstance(value, Operator):
        return value
    name = value if isinstance(value, str) else getattr(value, "__name__", "")
    operator = BY_NAME.get(_ALIASES.get(name, name))
    if operator is None:
        fail(f"{value!r} is no operator", "NKI-OPERATOR", "pass a function of nl or NumPy: nl.add",
             "nki/api/nki.api.shared.rst, supported math operators (beta 1)")  # fmt: skip
    return operator


def require_same_dtype(tile: Value, dtype: ElementLike, function: str) -> None:
    """Refuse a ``dtype`` that is not the tile's: the tile exists and cannot change its type.

    Raises:
        NkiValidationError: code ``NKI-BETA1-UNSUPPORTED``; the types differ.
    """
    if dtype is not None and isinstance(tile, Tile) and dtype_of(dtype) != tile.dtype:
        fail(f"{function} with dtype={dtype_of(dtype)} and a tile of {tile.dtype}",
             "NKI-BETA1-UNSUPPORTED", "create the tile with this dtype, or leave dtype out",
             f"{function} (beta 1)")  # fmt: skip


def require_tile(value: Value, function: str, *, on_chip: bool = True) -> Tile:
    """Return a tile, or raise.

    Raises:
        NkiValidationError: code ``NKI-OPERAND``; the value is no tile, or in another memory.
    """
    if isinstance(value, Tile) and value.on_chip == on_chip:
        return value
    if isinstance(value, View):
        fail(f"{function} of NKI beta 1 got {value!r} of the current language", "NKI-BETA1-MIXED",
             "import nki, nki.language and nki.isa from one package: nki, or neuronxcc.nki")  # fmt: skip
    memory = "SBUF or PSUM" if on_chip else "HBM"
    remedy = ""
    if isinstance(value, Tile):
        remedy = "bring it on chip with nl.load first" if on_chip else "pass a tensor in HBM"
    elif hasattr(value, "blocks"):
        remedy = "a tensor with block dimensions is no tile: index the blocks first"
    fail(
        f"{function} takes a tile in {memory}, not {value!r:.100}"
        " (err_failed_to_infer_tile_from_local_tensor)",
        "NKI-OPERAND", remedy, "nki/api/nki.errors.rst",
    )  # fmt: skip
    return None


# -- shapes -----------------------------------------------------------------------------------


def _aligned(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return the shape with axes of extent 1 between the partitions and the free dimensions."""
    return (*shape[:1], *(1,) * (rank - len(shape)), *shape[1:])


def common_shape(shapes: list[tuple[int, ...]], function: str) -> tuple[int, ...]:
    """Return the broadcast shape: partitions align first, free dimensions from the last.

    Raises:
        NkiValidationError: code ``NKI-SHAPE``.
    """
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(_aligned(shape, rank)):
            if extent != 1 and result[axis] not in (1, extent):
                fail(
                    f"{function} of shapes {' and '.join(map(str, shapes))}",
                    "NKI-SHAPE",
                    "extents of one dimension are equal, or 1",
                    "nki/programming_model.rst (beta 1)",
                )
            result[axis] = max(result[axis], extent)
    return tuple(result)


def fitted(view: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    """Return the view in another shape: dimensions of extent 1 come, go, or are repeated.

    Raises:
        NkiValidationError: code ``NKI-SHAPE``.
    """
    if view.shape == shape:
        return view
    if prod(shape) == view.size:
        return _squeezed(view, shape)
    if len(view.shape) > len(shape):
        _refuse_fit(view, shape)
    aligned = _aligned(view.shape, len(shape))
    strides = (*view.strides[:1], *(0,) * (len(shape) - len(view.shape)), *view.strides[1:])
    steps: list[int] = []
    for axis, (have, expected) in enumerate(zip(aligned, shape, strict=True)):
        if have != expected and (have != 1 or (axis == 0 and view.on_chip)):
            _refuse_fit(view, shape)
        steps.append(strides[axis] if have == expected else 0)
    return view.derive(shape, tuple(steps), view.offset)


def _squeezed(view: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    pairs = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    if [n for n, _ in pairs] != [n for n in shape if n != 1]:
        if view.on_chip and view.shape[0] != shape[0]:
            _refuse_fit(view, shape)
        return view.reshape(shape)
    steps = iter(pairs)
    strides = [next(steps)[1] if extent != 1 else 0 for extent in shape]
    if view.on_chip and shape[0] == 1:
        if view.shape[0] != 1:
            _refuse_fit(view, shape)
        strides[0] = view.partition_stride
    return view.derive(shape, tuple(strides), view.offset)


def _refuse_fit(view: NkiTensor, shape: tuple[int, ...]) -> None:
    fail(
        f"a tile of shape {view.shape} where {shape} is needed"
        " (err_store_dst_shape_smaller_than_other_shape)",
        "NKI-SHAPE",
        "a source is repeated along free dimensions of extent 1; use broadcast_to for partitions",
        "nki/api/nki.errors.rst",
    )


def cut(tile: Tile, shape: tuple[int, ...], box: Box) -> NkiTensor:
    """Return the part of an operand that belongs to ``box`` of a computation of ``shape``."""
    aligned = _aligned(tile.shape, len(shape)) if len(tile.shape) <= len(shape) else ()
    if (
        any(have not in (1, expected) for have, expected in zip(aligned, shape, strict=False))
        or not aligned
    ):
        is_same_rank = len(tile.shape) == len(shape)
        if is_same_rank or tile.size != prod(shape) or box != whole_box(shape):
            _refuse_fit(tile.region(), shape)
        return fitted(reachable(tile.region()), shape)  # the same elements in another shape
    span = [(0, 1) if extent == 1 else box[axis] for axis, extent in enumerate(aligned)]
    ranges = [span[0], *span[1 + len(shape) - len(tile.shape) :]]
    return fitted(reachable(tile.region(tuple(ranges))), tuple(stop - start for start, stop in box))


def reachable(view: NkiTensor) -> NkiTensor:
    """Return the view, or a copy of it from partition 0 on if the engines cannot start there."""
    if not view.on_chip or starts_well(view) or view.buffer is not MemoryRegion.sbuf:
        return view
    moved = ndarray(view.shape, view.dtype)
    dma_copy(moved, view)
    return moved


def read(tile: Tile, box: Box) -> NkiTensor:
    """Return the part of a tile that an instruction of the compute engines reads."""
    return reachable(tile.region(box))


def off_psum(tile: Tile) -> Tile:
    """Return the tile, or a copy of it in SBUF if it is in PSUM."""
    if tile.buffer is not MemoryRegion.psum:
        return tile
    moved = new_tile(tile.shape, tile.dtype)
    tensor_copy(moved.base, tile.region())
    return moved


# -- types ------------------------------------------------------------------------------------

_SPECIAL = {
    frozenset({"float16", "bfloat16"}): "float32",
    frozenset({"float8_e4m3", "float8_e5m2"}): "bfloat16",
    frozenset({"int8", "uint8"}): "int16",
    frozenset({"int8", "uint16"}): "int32",
    frozenset({"int16", "uint16"}): "int32",
    frozenset({"int8", "uint32"}): "float32",
    frozenset({"int16", "uint32"}): "float32",
    frozenset({"int32", "uint32"}): "float32",
}


def is_numpy_number(value: Value) -> bool:
    """Return True for a scalar of NumPy, whose type is strong."""
    return isinstance(value, np.generic)


def _scalar_dtype(value: Value) -> DType:
    """Return the type of a number: Python's are uint8, int32 and float32."""
    if isinstance(value, (bool, np.bool_)):
        return dtype_of("uint8")
    if is_numpy_number(value):
        return dtype_of("float32") if value.dtype == np.float64 else dtype_of(value.dtype)
    return dtype_of("int32" if isinstance(value, int) else "float32")


def promote(*values: Value) -> DType:
    """Return the common type of tiles and numbers, by the table of beta 1."""
    kinds = [tile_kind(value) for value in values]
    result = kinds[0]
    for kind in kinds[1:]:
        result = _pair(result, kind)
    return result


def tile_kind(value: Value) -> DType:
    """Return the type of a tile or number."""
    if not isinstance(value, Tile):
        return _scalar_dtype(value)
    return dtype_of("uint8") if value.dtype.kind == "bool" else value.dtype


def _pair(left: DType, right: DType) -> DType:
    if left == right:
        return left
    special = _SPECIAL.get(frozenset({left.name, right.name}))
    if special is not None:
        return dtype_of(special)
    if left.is_float != right.is_float:
        return left if left.is_float else right
    if left.itemsize == right.itemsize:
        return dtype_of("float32") if left.is_float else left
    return left if left.itemsize > right.itemsize else right
