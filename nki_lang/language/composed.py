"""Functions on tiles that take several instructions."""

from __future__ import annotations

from math import pi
from math import prod as product
from typing import Any

from nki_lang.base.memory import MemoryRegion
from nki_lang.frontend import operators as op
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.frontend.view import refuse
from nki_lang.isa.activations import activation
from nki_lang.isa.dma import dma_copy
from nki_lang.isa.elementwise import reciprocal as reciprocal_instruction
from nki_lang.isa.elementwise import scalar_tensor_tensor, tensor_scalar, tensor_tensor
from nki_lang.isa.indexing import nc_n_gather
from nki_lang.isa.matmul import nc_matmul, nc_transpose
from nki_lang.isa.movement import memset, tensor_copy, tensor_copy_predicated
from nki_lang.isa.random import dropout as dropout_instruction
from nki_lang.isa.reductions import tensor_reduce
from nki_lang.language.creation import ndarray
from nki_lang.language.lowering import fresh, reduced_shape, require_tile

__all__ = [
    "arctan", "broadcast_to", "ceil", "cos", "dropout", "expand_dims", "floor",
    "gather_flattened", "invert", "logical_not", "matmul", "mean_of", "negative", "reciprocal",
    "rms_norm", "sin", "softmax", "tan", "transpose", "trunc", "variance", "where",
]  # fmt: skip

_EXACT = float(1 << 23)
"""Float32 numbers of this magnitude and above are integers."""


def _cast(tile: NkiTensor, dtype: object, like: NkiTensor) -> NkiTensor:
    """``tile`` in the output dtype (``dtype``, or that of ``like``)."""
    target = like.dtype if dtype is None else dtype
    if tile.dtype == target:
        return tile
    out = fresh(tile, target)
    tensor_copy(out, tile)
    return out


def reciprocal(x: object, dtype: object) -> NkiTensor:
    """``1 / x`` on the vector engine."""
    tile = require_tile(x, "nl.reciprocal")
    out = fresh(tile, dtype)
    reciprocal_instruction(out, tile)
    return out


def negative(x: object, dtype: object) -> NkiTensor:
    """``-x``."""
    tile = require_tile(x, "nl.negative")
    out = fresh(tile, dtype)
    tensor_scalar(out, tile, op.multiply, -1.0)
    return out


def invert(x: object, dtype: object) -> NkiTensor:
    """Bitwise NOT, as XOR with all ones."""
    tile = require_tile(x, "nl.invert")
    if not tile.dtype.is_integer:
        refuse(
            tile,
            "nl.invert takes integers",
            "NKI-DTYPE",
            "copy into an integer tile, or use nl.negative",
            "nl.invert",
        )
    out = fresh(tile)
    ones = -1 if tile.dtype.kind == "int" else (1 << 8 * tile.dtype.itemsize) - 1
    tensor_scalar(out, tile, op.bitwise_xor, ones)
    return _cast(out, dtype, tile)


def logical_not(x: object, dtype: object) -> NkiTensor:
    """1 where ``x`` is zero."""
    tile = require_tile(x, "nl.logical_not")
    out = fresh(tile, dtype)
    tensor_scalar(out, tile, op.equal, 0.0)
    return out


def _rounded(tile: NkiTensor) -> NkiTensor:
    """The nearest integer of each element, in float32 (by a cast to int32 and back)."""
    rounded = fresh(tile, "int32")
    tensor_copy(rounded, tile)
    out = fresh(tile, "float32")
    tensor_copy(out, rounded)
    return out


def _keep_large(out: NkiTensor, tile: NkiTensor) -> NkiTensor:
    """Elements too large for a fraction, and NaN, are their own integer part."""
    size = fresh(tile, "float32")
    activation(size, op.abs, tile)
    small = fresh(tile, "uint8")
    tensor_scalar(small, size, op.less, _EXACT)
    wide = fresh(tile, "float32")
    tensor_copy(wide, tile)
    tensor_copy_predicated(out, wide, small, reverse_pred=True)
    return out


def _stepped(x: object, name: str, dtype: Any, compare: Any, move: Any) -> NkiTensor:
    tile = require_tile(x, f"nl.{name}")
    near = _rounded(tile)
    beyond = fresh(tile, "float32")
    tensor_tensor(beyond, near, tile, compare)
    out = fresh(tile, "float32")
    tensor_tensor(out, near, beyond, move)
    return _cast(_keep_large(out, tile), dtype, tile)


def floor(x: object, dtype: object) -> NkiTensor:
    """Largest integer that is not larger: the nearest, less one where that is larger."""
    return _stepped(x, "floor", dtype, op.greater, op.subtract)


def ceil(x: object, dtype: object) -> NkiTensor:
    """Smallest integer that is not smaller."""
    return _stepped(x, "ceil", dtype, op.less, op.add)


def trunc(x: object, dtype: object) -> NkiTensor:
    """The integer part: the sign times the floor of the magnitude."""
    tile = require_tile(x, "nl.trunc")
    size = fresh(tile, "float32")
    activation(size, op.abs, tile)
    floored = floor(size, "float32")
    direction = fresh(tile, "float32")
    activation(direction, op.sign, tile)
    out = fresh(tile, "float32")
    tensor_tensor(out, floored, direction, op.multiply)
    return _cast(_keep_large(out, tile), dtype, tile)


def _reduced_angle(tile: NkiTensor, shift: float) -> NkiTensor:
    """``x + shift`` brought into [-pi, pi] by subtracting a multiple of 2 pi.

    2 pi is taken as a sum of two float32 numbers, and the shift is added last, so that the
    difference keeps its digits.
    """
    revolutions = fresh(tile, "float32")
    tensor_scalar(revolutions, tile, op.add, shift, op1=op.multiply, operand1=1.0 / (2.0 * pi))
    rounded = _rounded(revolutions)
    angle = tile
    for summand in (6.28125, 2.0 * pi - 6.28125):
        following = fresh(tile, "float32")
        scalar_tensor_tensor(following, rounded, op.multiply, -summand, op.add, angle)
        angle = following
    shifted = fresh(tile, "float32")
    tensor_scalar(shifted, angle, op.add, shift, op1=op.minimum, operand1=pi)
    clamped = fresh(tile, "float32")
    tensor_scalar(clamped, shifted, op.maximum, -pi)
    return clamped


def _sine(x: object, name: str, shift: float, dtype: object) -> NkiTensor:
    tile = require_tile(x, name)
    out = fresh(tile, dtype)
    activation(out, op.sin, _reduced_angle(tile, shift))
    return out


def sin(x: object, dtype: object) -> NkiTensor:
    """Sine of any angle."""
    return _sine(x, "nl.sin", 0.0, dtype)


def cos(x: object, dtype: object) -> NkiTensor:
    """Cosine of any angle, as the sine a quarter turn on."""
    return _sine(x, "nl.cos", pi / 2.0, dtype)


def tan(x: object, dtype: object) -> NkiTensor:
    """Sine over cosine."""
    tile = require_tile(x, "nl.tan")
    below = reciprocal(cos(tile, "float32"), "float32")
    out = fresh(tile, dtype)
    tensor_tensor(out, sin(tile, "float32"), below, op.multiply)
    return out


def arctan(x: object, dtype: object) -> NkiTensor:
    """Inverse tangent; beyond 1 as ``sign * pi/2 - arctan(1/x)``, within the engine's range."""
    tile = require_tile(x, "nl.arctan")
    inner = fresh(tile, "float32")
    tensor_scalar(inner, tile, op.minimum, 1.0, op1=op.maximum, operand1=-1.0)
    near = fresh(tile, "float32")
    activation(near, op.arctan, inner)
    size = fresh(tile, "float32")
    activation(size, op.abs, tile)
    large = fresh(tile, "float32")
    tensor_scalar(large, size, op.maximum, 1.0)
    angle = fresh(tile, "float32")
    activation(angle, op.arctan, reciprocal(large, "float32"))
    outer = fresh(tile, "float32")
    tensor_scalar(outer, angle, op.multiply, -1.0, op1=op.add, operand1=pi / 2.0)
    direction = fresh(tile, "float32")
    activation(direction, op.sign, tile)
    far = fresh(tile, "float32")
    tensor_tensor(far, outer, direction, op.multiply)
    beyond = fresh(tile, "uint8")
    tensor_scalar(beyond, size, op.greater, 1.0)
    tensor_copy_predicated(near, far, beyond)
    return _cast(near, dtype, tile)


def mean_of(x: object, axis: Any, dtype: Any, keepdims: bool) -> NkiTensor:
    """Sum over the count, in float32."""
    tile = require_tile(x, "nl.mean")
    total = ndarray(reduced_shape(tile, axis, keepdims), "float32")
    tensor_reduce(total, op.add, tile, axis, keepdims=keepdims)
    out = fresh(total, dtype or tile.dtype)
    count = tile.size // total.size
    tensor_scalar(out, total, op.multiply, 1.0 / count)
    return out


def variance(x: object, axis: object, dtype: object) -> NkiTensor:
    """Mean of the squared distances from the mean; the reduced axes stay with extent 1."""
    tile = require_tile(x, "nl.var")
    mean = mean_of(tile, axis, "float32", True)
    distance = fresh(tile, "float32")
    tensor_tensor(distance, tile, _spread(mean, tile.shape), op.subtract)
    squares = fresh(tile, "float32")
    activation(squares, op.square, distance)
    return _cast(mean_of(squares, axis, "float32", True), dtype, tile)


def _spread(tile: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    """A view of ``tile`` with its free dimensions of extent 1 repeated to ``shape``."""
    for dim in range(1, len(shape)):
        if tile.shape[dim] != shape[dim]:
            tile = tile.broadcast(dim, shape[dim])
    return tile


def softmax(x: object, axis: Any = -1, dtype: Any = None) -> NkiTensor:
    """``exp(x - max) / sum(exp(x - max))`` along the last free axes."""
    tile = require_tile(x, "nl.softmax")
    top = ndarray(reduced_shape(tile, axis, True), "float32")
    tensor_reduce(top, op.maximum, tile, axis, keepdims=True)
    shifted = fresh(tile, "float32")
    tensor_tensor(shifted, tile, _spread(top, tile.shape), op.subtract)
    powers = fresh(tile, "float32")
    activation(powers, op.exp, shifted)
    total = ndarray(top.shape, "float32")
    tensor_reduce(total, op.add, powers, axis, keepdims=True)
    out = fresh(tile, dtype)
    scale = reciprocal(total, "float32")
    tensor_tensor(out, powers, _spread(scale, tile.shape), op.multiply)
    return out


def rms_norm(
    x: object,
    w: object,
    axis: Any,
    n: int,
    epsilon: float = 1e-06,
    dtype: object = None,
    compute_dtype: object = None,
) -> NkiTensor:
    """``x / sqrt(sum(x ** 2, axis) / n + epsilon) * w``."""
    tile = require_tile(x, "nl.rms_norm")
    compute = compute_dtype or "float32"
    squares = fresh(tile, compute)
    activation(squares, op.square, tile)
    total = ndarray(reduced_shape(tile, axis, True), "float32")
    tensor_reduce(total, op.add, squares, axis, keepdims=True)
    shifted = fresh(total)
    tensor_scalar(shifted, total, op.multiply, 1.0 / n, op1=op.add, operand1=epsilon)
    scale = fresh(total)
    activation(scale, op.rsqrt, shifted)
    normal = fresh(tile, compute)
    tensor_tensor(normal, tile, _spread(scale, tile.shape), op.multiply)
    weights = require_tile(w, "nl.rms_norm")
    out = fresh(tile, dtype)
    tensor_tensor(out, normal, _spread(weights, tile.shape), op.multiply)
    return out


def where(condition: Any, x: Any, y: Any, dtype: Any = None) -> NkiTensor:
    """``x`` where the condition is not zero, else ``y``."""
    mask = require_tile(condition, "nl.where")
    like = next((value for value in (x, y) if isinstance(value, NkiTensor)), mask)
    chosen = fresh(mask, "uint8")
    tensor_scalar(chosen, mask, op.not_equal, 0.0)
    out = fresh(mask, dtype or like.dtype)
    _put(out, y)
    source = x
    if isinstance(x, NkiTensor) and x.dtype != out.dtype:
        source = fresh(x, out.dtype)
        tensor_copy(source, x)
    tensor_copy_predicated(out, source, chosen)
    return out


def _put(out: NkiTensor, value: Any) -> None:
    if isinstance(value, NkiTensor):
        tensor_copy(out, value)
    else:
        memset(out, value)


def dropout(x: object, rate: Any, dtype: Any = None) -> NkiTensor:
    """Elements of ``x`` replaced by zero with probability ``rate``."""
    tile = require_tile(x, "nl.dropout")
    out = fresh(tile)
    dropout_instruction(out, tile, rate)
    return _cast(out, dtype, tile)


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """A view with a dimension of extent 1 at ``axis``."""
    return x.expand_dim(axis)


def broadcast_to(x: Any, shape: Any, dtype: Any = None) -> NkiTensor:
    """A tile of the given shape; dimensions of extent 1 are repeated.

    Free dimensions are repeated as a view; to more partitions one transfer reads the only one
    again and again (stride 0).
    """
    tile = require_tile(x, "nl.broadcast_to")
    target_shape = tuple(shape)
    fits = len(target_shape) == len(tile.shape) and all(
        have in (1, expected) for have, expected in zip(tile.shape, target_shape, strict=True)
    )
    if not fits:
        refuse(
            tile,
            f"cannot broadcast to {target_shape}",
            "NKI-SHAPE",
            "keep the rank; only dimensions of extent 1 are repeated",
            "nl.broadcast_to",
        )
    if target_shape == tile.shape:
        return _cast(tile, dtype, tile)
    out = ndarray(target_shape, dtype or tile.dtype)
    if tile.shape[0] == target_shape[0]:
        tensor_copy(out, _spread(tile, target_shape))
        return out
    source = tile
    if tile.buffer is MemoryRegion.psum:
        source = fresh(tile)
        tensor_copy(source, tile)
    row = _spread(source, (1, *target_shape[1:]))
    repeated = row.derive(target_shape, (0, *row.strides[1:]), row.offset)
    dma_copy(out, repeated)
    return out


def transpose(x: object, dtype: Any = None) -> NkiTensor:
    """A 2-D tile with its axes swapped, in PSUM."""
    tile = require_tile(x, "nl.transpose")
    if len(tile.shape) != 2:
        refuse(
            tile,
            "nl.transpose takes two dimensions",
            "NKI-SHAPE",
            "merge the free dimensions with flatten_dims first",
            "nl.transpose",
        )
    if tile.buffer is MemoryRegion.psum:
        moved = fresh(tile)
        tensor_copy(moved, tile)
        tile = moved
    out = ndarray((tile.shape[1], tile.shape[0]), tile.dtype, MemoryRegion.psum)
    nc_transpose(out, tile)
    if dtype is None or out.dtype == dtype:
        return out
    cast = ndarray(out.shape, dtype, MemoryRegion.psum)
    tensor_copy(cast, out)
    return cast


def matmul(x: object, y: object, transpose_x: bool = False) -> NkiTensor:
    """``x @ y`` (``x.T @ y`` with ``transpose_x``), float32 in PSUM."""
    left, right = require_tile(x, "nl.matmul"), require_tile(y, "nl.matmul")
    if not transpose_x:
        turned = transpose(left)
        left = fresh(turned)
        tensor_copy(left, turned)
    columns = product(right.shape[1:])
    out = ndarray((product(left.shape[1:]), columns), "float32", MemoryRegion.psum)
    nc_matmul(out, left, right)
    return out


def gather_flattened(data: Any, indices: Any, axis: int = 0, dtype: Any = None) -> NkiTensor:
    """Elements of each partition of ``data`` by index into its flattened free dimensions."""
    source, chosen = require_tile(data, "nl.gather_flattened"), indices
    if chosen.dtype.name != "uint32":
        chosen = fresh(indices, "uint32")
        tensor_copy(chosen, indices)
    out = ndarray(chosen.shape, source.dtype)
    nc_n_gather(out, source, chosen)
    return _cast(out, dtype, source)
