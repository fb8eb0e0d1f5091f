"""Reductions along free axes, and functions composed of them."""

from __future__ import annotations

from math import prod

from nki_lang.base.errors import fail
from nki_lang.beta1 import elementwise
from nki_lang.beta1.mask import Box, mask_boxes
from nki_lang.beta1.operands import operator_of, read, require_tile, tile_kind
from nki_lang.beta1.results import new_tile, produce
from nki_lang.beta1.tile import Tile
from nki_lang.beta1.values import AxisLike, ElementLike, MaskLike, Value
from nki_lang.frontend import operators as op
from nki_lang.frontend.objects import is_sequence
from nki_lang.frontend.tensor import NkiTensor
from nki_lang.isa.activations import activation
from nki_lang.isa.elementwise import tensor_scalar
from nki_lang.isa.reductions import tensor_reduce

__all__ = ["mean", "reduce", "rms_norm", "softmax", "var"]


def _axes(tile: Tile, axis: AxisLike, function: str) -> tuple[int, ...]:
    """Return the reduced axes in ascending order; the partition axis is none of them."""
    listed: tuple[Value, ...] = (
        tuple(axis) if is_sequence(axis) or isinstance(axis, range) else (axis,)
    )
    rank = len(tile.shape)
    axes = sorted({int(entry) % rank for entry in listed if -rank <= int(entry) < rank})
    if len(axes) != len(listed) or not axes or axes[0] == 0:
        fail(
            f"{function} along axis {axis} of {tile!r}",
            "NKI-DIM",
            "reduce free axes, 1 and later; nisa.tensor_partition_reduce, or a product with ones,"
            " reduces partitions",
            "nki/api/nki/language (beta 1)",
        )
    return tuple(axes)


def _result_shape(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Return the shape of the result, which keeps at least two dimensions."""
    result = tuple(
        1 if axis in axes else extent
        for axis, extent in enumerate(shape)
        if keepdims or axis not in axes
    )
    return result if len(result) > 1 else (*result, 1)


def reduce(
    name: Value,
    x: Value,
    axis: AxisLike,
    dtype: ElementLike = None,
    mask: MaskLike = None,
    keepdims: bool = False,
    negate: bool = False,
    function: str = "",
) -> Tile:
    """A reduction along free axes in any order; the result keeps at least two dimensions."""
    operator = operator_of(name)
    assert operator is not None
    tile = require_tile(x, function or f"nl.{operator.public}")
    axes = _axes(tile, axis, function or f"nl.{operator.public}")
    shape = _result_shape(tile.shape, axes, keepdims)

    def write(target: Tile, keep: bool) -> None:
        def issue(dst: NkiTensor, box: Box) -> None:
            source, outer_rank = _trailing(read(tile, box), axes)
            extents, strides = _kept_only(dst, axes, keepdims)
            flat = dst.derive(extents, strides, dst.offset)
            tensor_reduce(
                flat, operator, source, tuple(range(outer_rank, len(source.shape))), negate
            )

        _run_reduced(tile, target, axes, mask, keep, keepdims, issue)

    return produce(shape, dtype or tile_kind(tile), write)


def _run_reduced(
    tile: Tile,
    target: Tile,
    axes: AxisLike,
    mask: MaskLike,
    keep: bool,
    keepdims: bool,
    issue: Value,
) -> None:
    """Issue for each box of the mask; the reduced axes have no place in the target."""
    boxes = mask_boxes(mask, tile.shape)
    if len(boxes) > 1:
        fail("a reduction is masked along two axes", "NKI-BETA1-MASK",
             "select with nisa.affine_select first, then reduce", "nki-mask (beta 1)")  # fmt: skip
    for box in boxes:
        spans = [
            (0, 1) if axis in axes else span
            for axis, span in enumerate(box)
            if keepdims or axis not in axes
        ]
        if len(spans) < 2:
            spans.append((0, 1))
        issue(target.region(tuple(spans)), box)


def _trailing(view: NkiTensor, axes: tuple[int, ...]) -> tuple[NkiTensor, int]:
    """Return the view with the reduced axes last, and the number of the others."""
    outer = tuple(axis for axis in range(len(view.shape)) if axis not in axes)
    order = outer + axes
    if order != tuple(range(len(view.shape))):
        view = view.permute(order)
    return view, len(outer)


def _kept_only(
    dst: NkiTensor, axes: tuple[int, ...], keepdims: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (shape, strides) of the target without the reduced axes, at least two."""
    positions = [
        position for position in range(len(dst.shape)) if not (keepdims and position in axes)
    ]
    shape = [dst.shape[position] for position in positions]
    strides = [dst.strides[position] for position in positions]
    if len(shape) < 2:
        shape.append(1)
        strides.append(1)
    return tuple(shape), tuple(strides)


def mean(
    x: Value,
    axis: AxisLike,
    dtype: ElementLike = None,
    mask: MaskLike = None,
    keepdims: bool = False,
) -> Tile:
    """The arithmetic mean, computed in float32; that of integers is float32."""
    tile = require_tile(x, "nl.mean")
    axes = _axes(tile, axis, "nl.mean")
    total = reduce("add", tile, axis, "float32", mask, keepdims, function="nl.mean")
    boxes = mask_boxes(mask, tile.shape)
    selected = [stop - start for start, stop in boxes[0]] if boxes else tile.shape
    count = prod(
        selected[location] for location in axes
    )  # elements outside of the mask take no part
    kind = tile_kind(tile)
    element = dtype or (kind if kind.is_float else "float32")
    return elementwise.binary("multiply", total, 1.0 / count, element)


def var(x: Value, axis: AxisLike, dtype: ElementLike = None, mask: MaskLike = None) -> Tile:
    """The variance of the population, in float32 inside."""
    tile = require_tile(x, "nl.var")
    kind = tile_kind(tile)
    center = mean(tile, axis, "float32", mask, keepdims=True)
    distance = elementwise.binary("subtract", tile, center, "float32", mask)
    squares = elementwise.unary("square", distance, "float32", mask)
    return mean(squares, axis, dtype or (kind if kind.is_float else "float32"), mask)


def softmax(
    x: Value,
    axis: AxisLike,
    dtype: ElementLike = None,
    compute_dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """``exp(x - max) / sum(exp(x - max))`` along free axes."""
    tile = require_tile(x, "nl.softmax")
    compute = compute_dtype or "float32"
    top = reduce("maximum", tile, axis, "float32", mask, True, function="nl.softmax")
    shifted = elementwise.binary("subtract", tile, top, compute, mask)
    powers = elementwise.unary("exp", shifted, compute, mask)
    total = reduce("add", powers, axis, "float32", mask, True, function="nl.softmax")
    scale = elementwise.unary("reciprocal", total, "float32")
    return elementwise.binary(
        "multiply", powers, scale, dtype or compute_dtype or tile_kind(tile), mask
    )


def rms_norm(
    x: Value,
    w: Value,
    axis: AxisLike,
    n: int,
    epsilon: float = 1e-06,
    dtype: ElementLike = None,
    compute_dtype: ElementLike = None,
    mask: MaskLike = None,
) -> Tile:
    """``x / sqrt(sum(x ** 2) / n + epsilon) * w``."""
    tile = require_tile(x, "nl.rms_norm")
    compute = compute_dtype or "float32"
    squares = elementwise.unary("square", tile, compute, mask)
    total = reduce("add", squares, axis, "float32", mask, True, function="nl.rms_norm")
    mean_square = new_tile(total.shape, "float32")
    tensor_scalar(mean_square.base, total.base, op.multiply, 1.0 / n, op1=op.add, operand1=epsilon)
    scale = new_tile(total.shape, "float32")
    activation(scale.base, op.rsqrt, mean_square.base)
    normal = elementwise.binary("multiply", tile, scale, compute, mask)
    return elementwise.binary("multiply", normal, w, dtype or tile_kind(tile), mask)
