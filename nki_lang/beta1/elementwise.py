"""Element-wise functions: one or two tiles, or a tile and a number, with broadcasting and masks."""

from __future__ import annotations

from math import prod

import numpy as np

from nki_lang.base.dtypes import DType, dtype_of
from nki_lang.base.errors import fail
from nki_lang.base.memory import MemoryRegion
from nki_lang.beta1.mask import Box
from nki_lang.beta1.movement import broadcast, copy
from nki_lang.beta1.operands import (
    common_shape,
    cut,
    off_psum,
    operator_of,
    promote,
    read,
    require_tile,
    tile_kind,
)
from nki_lang.beta1.results import produce, run_masked
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import ElementLike, MaskLike, ShapeLike, Value
from nki_lang.frontend import operators as op
from nki_lang.frontend.operators import Operator
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.isa.activations import activation
from nki_lang.isa.elementwise import reciprocal, tensor_scalar, tensor_tensor
from nki_lang.isa.movement import memset, tensor_copy, tensor_copy_predicated
from nki_lang.language import composed

__all__ = ["binary", "unary", "where"]

_COMPARISONS = frozenset(
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
     "logical_and", "logical_or", "logical_xor"}
)  # fmt: skip
_BITWISE = frozenset(
    {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert"}
)
_ACTIVATIONS = frozenset(
    {"exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "relu", "gelu", "gelu_apprx_sigmoid",
     "gelu_apprx_tanh", "gelu_dx", "silu", "silu_dx", "softplus", "mish", "erf", "erf_dx",
     "square", "abs", "sign"}
)  # fmt: skip
_SCALAR_FUNCTIONS = {"mod": np.mod, "fmod": np.fmod}


def _operator(name: str) -> Operator:
    operator = operator_of(name)
    assert operator is not None
    return operator


def _is_number(value: Value) -> bool:
    return isinstance(value, (bool, int, float, np.generic))


def binary(
    name: str, x: Value, y: Value, dtype: ElementLike = None, mask: MaskLike = None
) -> Value:
    """``op(x, y)``: tiles that broadcast, or a tile and a number.

    The result has the promoted type of both; that of a comparison is uint8, 0 or 1.
    """
    if _is_number(x) and _is_number(y):
        return getattr(np, name)(x, y).item()
    function = f"nl.{name}"
    tiles = [value if _is_number(value) else require_tile(value, function) for value in (x, y)]
    shape = common_shape([t.shape for t in tiles if isinstance(t, Tile)], function)
    if dtype is None:
        dtype = _result_dtype(name, tiles)
    operator = _operator(name)
    left, right = (_on_partitions(value, shape) for value in tiles)
    if not isinstance(right, Tile) or (isinstance(left, Tile) and _is_vector(right, left, shape)):
        return _with_scalar(operator, left, right, shape, dtype, mask, reverse=False)
    if not isinstance(left, Tile) or _is_vector(left, right, shape):
        return _with_scalar(operator, right, left, shape, dtype, mask, reverse=True)
    return _two_tiles(operator, left, right, shape, dtype, mask)


def _result_dtype(name: str, operands: list[Value]) -> DType:
    """Return the promoted type; a quotient of integers is float32, as in NumPy."""
    if name in _COMPARISONS:
        return dtype_of("uint8")
    kind = promote(*operands)
    return dtype_of("float32") if name == "divide" and kind.is_integer else kind


def _on_partitions(value: Value, shape: tuple[int, ...]) -> Value:
    """Repeat a tile of one partition on all of them."""
    if isinstance(value, Tile) and value.shape[0] == 1 and shape[0] > 1:
        return broadcast(value, (shape[0], *value.shape[1:]))
    return value


def _is_vector(vector: Tile, tile: Tile, shape: tuple[int, ...]) -> bool:
    """Return True for float32 values, one for each partition, that tensor_scalar takes."""
    return (
        vector.dtype.name == "float32"
        and prod(vector.shape[1:]) == 1
        and prod(tile.shape) == prod(shape)
    )


def _with_scalar(
    operator: Operator,
    tile: Tile,
    value: Value,
    shape: ShapeLike,
    dtype: ElementLike,
    mask: MaskLike,
    reverse: bool,
) -> Tile:
    number = value
    if _is_number(value):
        number = np.asarray(value).item()
        if operator.name in _BITWISE and not isinstance(number, int):
            fail(f"nl.{operator.public} with {value!r}", "NKI-OPERAND", "pass an integer")

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            operand = number
            if isinstance(number, Tile):
                operand = cut(number, (shape[0], 1), (box[0], (0, 1)))
            tensor_scalar(dst, cut(tile, shape, box), operator, operand, reverse)

        run_masked(target, mask, keep, issue)

    return produce(shape, dtype, write)


def _two_tiles(
    operator: Operator, x: Tile, y: Tile, shape: ShapeLike, dtype: ElementLike, mask: MaskLike
) -> Tile:
    if x.buffer is MemoryRegion.psum and (y.buffer is MemoryRegion.psum or operator is op.power):
        x = off_psum(x)
    if operator is op.power:
        y = off_psum(y)

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            tensor_tensor(dst, cut(x, shape, box), cut(y, shape, box), operator)

        run_masked(target, mask, keep, issue)

    return produce(shape, dtype, write)


def unary(name: str, x: Value, dtype: ElementLike = None, mask: MaskLike = None) -> Value:
    """``op(x)``, element-wise; the result has the type of the tile unless ``dtype`` is given."""
    if _is_number(x):
        return getattr(np, name)(x).item()
    tile = require_tile(x, f"nl.{name}")
    if name == "copy":
        return copy(tile, dtype=dtype, mask=mask)
    if dtype is None:
        dtype = "uint8" if name == "logical_not" else tile_kind(tile)
    operator = _operator(name)

    def write(target: Tile, keep: bool) -> None:
        run_masked(
            target, mask, keep, lambda dst, box: _issue_unary(name, operator, dst, read(tile, box))
        )

    return produce(tile.shape, dtype, write)


def _issue_unary(name: str, operator: Operator, dst: NkiTensor, src: NkiTensor) -> None:
    if name in _ACTIVATIONS:
        activation(dst, operator, src)
    elif name == "reciprocal":
        reciprocal(dst, src)
    elif name == "negative":
        tensor_scalar(dst, src, op.multiply, -1.0)
    else:
        tensor_copy(dst, getattr(composed, name)(src, dst.dtype))


def where(
    condition: Value, x: Value, y: Value, dtype: ElementLike = None, mask: MaskLike = None
) -> Tile:
    """``x`` where the condition is not zero, else ``y``; all of them broadcast."""
    chosen = require_tile(condition, "nl.where")
    values = [v if _is_number(v) else require_tile(v, "nl.where") for v in (x, y)]
    shape = common_shape([t.shape for t in (chosen, *values) if isinstance(t, Tile)], "nl.where")
    element = promote(*values) if dtype is None else dtype
    chosen, left, right = (_on_partitions(value, shape) for value in (chosen, *values))

    def write(target: Tile, keep: bool) -> None:
        run_masked(
            target, mask, keep, lambda dst, box: _issue_where(dst, box, shape, chosen, left, right)
        )

    return produce(shape, element, write)


def _issue_where(
    dst: NkiTensor, box: Box, shape: tuple[int, ...], chosen: Tile, left: Value, right: Value
) -> None:
    bits = composed.fresh(dst, "uint8")
    tensor_scalar(bits, cut(chosen, shape, box), op.not_equal, 0.0)
    result = composed.fresh(dst)
    for value, reverse in ((left, False), (right, True)):
        source = composed.fresh(dst)
        if isinstance(value, Tile):
            tensor_copy(source, cut(value, shape, box))
        else:
            memset(source, np.asarray(value).item())
        if reverse:
            tensor_copy_predicated(result, source, bits, True)
        else:
            tensor_copy(result, source)
    tensor_copy(dst, result)
