"""Convolutions as nkipy names them (``nkipy.core.tensor_apis``), traced or computed with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo_tools.trace.array import TracedArray
from hlo_tools.trace.functions.arguments import nodes_of, xp
from hlo_tools.trace.graph import Array, Operand

__all__ = ["conv2d", "conv3d"]

Extents = tuple[int, ...]


def conv2d(
    input: Operand,
    weight: Operand,
    bias: Operand = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    out: Any = None,
    dtype: Any = None,
) -> Any:
    """A convolution over two dimensions, as PyTorch's.

    Args:
        input: (batch, channels, height, width).
        weight: (output channels, channels / groups, kernel height, kernel width).
        bias: one number for each output channel.
        stride, padding, dilation: one number, or one for each dimension.
        groups: channels are divided into as many groups, each with its own weights.
        out, dtype: taken and ignored, as in nkipy.

    Raises:
        ValueError: shapes or options do not fit each other.
    """
    return _convolution("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Operand,
    weight: Operand,
    bias: Operand = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    out: Any = None,
    dtype: Any = None,
) -> Any:
    """:func:`conv2d` over three dimensions: (batch, channels, depth, height, width)."""
    return _convolution("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _convolution(
    name: str, rank: int, input: Operand, weight: Operand, bias: Operand,
    stride: Any, padding: Any, dilation: Any, groups: int,
) -> Any:  # fmt: skip
    steps = _each(name, "stride", stride, rank, least=1)
    around = _each(name, "padding", padding, rank, least=0)
    spread = _each(name, "dilation", dilation, rank, least=1)
    _check_shapes(name, rank, input.shape, weight.shape, groups)
    extents = tuple(
        (size + 2 * pad - gap * (kernel - 1) - 1) // step + 1
        for size, pad, gap, kernel, step in zip(
            input.shape[2:], around, spread, weight.shape[2:], steps, strict=True
        )
    )
    if min(extents) < 1:
        raise ValueError(
            f"{name}: a kernel of {weight.shape[2:]} with dilation {spread} does not fit in an "
            f"input of {input.shape[2:]} with padding {around}"
        )
    is_traced = any(isinstance(array, TracedArray) for array in (input, weight))
    work = _traced if is_traced else _computed
    result = work(input, weight, extents, steps, around, spread, groups)
    if bias is None:
        return result
    return (result + xp.reshape(bias, (1, -1, *(1,) * rank))).astype(result.dtype)


def _each(name: str, what: str, value: int | Sequence[int], rank: int, *, least: int) -> Extents:
    """One number for each dimension."""
    numbers = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(numbers) != rank or min(numbers) < least:
        raise ValueError(
            f"{name}: {what} must be one number or {rank}, each at least {least}; got {value}"
        )
    return numbers


def _check_shapes(name: str, rank: int, data: Extents, weight: Extents, groups: int) -> None:
    if len(data) != rank + 2 or len(weight) != rank + 2:
        raise ValueError(
            f"{name}: input and weight need {rank + 2} dimensions; their shapes are {data} and "
            f"{weight}"
        )
    if groups < 1 or weight[0] % groups or data[1] != weight[1] * groups:
        raise ValueError(
            f"{name}: an input with {data[1]} channels and a weight of {weight} do not fit with "
            f"groups={groups}: the weight needs {data[1]} / groups channels, and a number of "
            "output channels that groups divides"
        )


def _traced(
    input: Operand, weight: Operand, extents: Extents, steps: Extents, around: Extents, spread: Extents,
    groups: int,
) -> TracedArray:  # fmt: skip
    data, kernel = nodes_of((input, weight))
    space = list(range(2, len(data.shape)))
    window = [
        {
            "size": size, "stride": step, "padding_low": pad, "padding_high": pad,
            "window_dilation": gap, "base_dilation": 1,
        }
        for size, step, pad, gap in zip(kernel.shape[2:], steps, around, spread, strict=True)
    ]  # fmt: skip
    numbers = {
        "input_batch_dimension": 0,
        "input_feature_dimension": 1,
        "input_spatial_dimensions": space,
        "kernel_output_feature_dimension": 0,
        "kernel_input_feature_dimension": 1,
        "kernel_spatial_dimensions": space,
        "output_batch_dimension": 0,
        "output_feature_dimension": 1,
        "output_spatial_dimensions": space,
    }
    node = data.graph.emit(
        "convolution", (data.shape[0], kernel.shape[0], *extents), data.dtype, (data, kernel),
        window={"dimensions": window},
        convolution_dimension_numbers=numbers,
        feature_group_count=groups,
        batch_group_count=1,
    )  # fmt: skip
    return TracedArray(node)


def _computed(
    input: Array, weight: Array, extents: Extents, steps: Extents,
    around: Extents, spread: Extents, groups: int,
) -> Array:  # fmt: skip
    dtype = np.result_type(input, weight)
    wide = np.float32 if dtype.itemsize <= 2 and dtype.kind not in "biu" else dtype
    rank = len(extents)
    padded = np.pad(input.astype(wide), ((0, 0), (0, 0), *((pad, pad) for pad in around)))
    reach = tuple(gap * (size - 1) + 1 for gap, size in zip(spread, weight.shape[2:], strict=True))
    axes = tuple(range(2, 2 + rank))
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=axes)
    chosen = tuple(slice(None, None, step) for step in (*steps, *spread))
    windows = windows[(slice(None), slice(None), *chosen)]
    inner = tuple(range(2 + rank, 2 + 2 * rank))
    products = [
        np.tensordot(group_windows, group_weight.astype(wide), axes=((1, *inner), (1, *axes)))
        for group_windows, group_weight in zip(
            np.split(windows, groups, axis=1), np.split(weight, groups), strict=True
        )
    ]
    return np.moveaxis(np.concatenate(products, axis=-1), -1, 1).astype(dtype)
