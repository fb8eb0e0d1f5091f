"""Gradients of pooling and of padding with edges, written with operators that are lowered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from neff.torch_graph.pooling import filled, window_sizes
from neff.torch_graph.pytorch import Operator, Tensor, torch

__all__ = ["POOLING_GRADIENTS"]


def _max_pool(rank: int) -> Callable[..., Tensor]:
    def backward(gradient: Tensor, x: Tensor, *arguments: object) -> Tensor:
        """Each gradient is added at the place of its window's maximum: the last argument."""
        indices = cast("Tensor", arguments[-1])
        lead = list(x.shape[: x.dim() - rank])
        flat = torch.zeros(
            [*lead, math.prod(x.shape[x.dim() - rank :])], dtype=x.dtype, device=x.device
        )
        return flat.scatter_add(
            -1, indices.reshape([*lead, -1]), gradient.reshape([*lead, -1])
        ).reshape(x.shape)

    return backward


def _average_pool(rank: int) -> Callable[..., Tensor]:
    def backward(
        gradient: Tensor, x: Tensor, kernel_size: Sequence[int], stride: Sequence[int],
        padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
        divisor_override: int | None,
    ) -> Tensor:  # fmt: skip
        """Divide by each window's size, then a transposed convolution with windows of ones."""
        sizes, around = filled(kernel_size, rank), filled(padding, rank)
        steps = filled(stride or sizes, rank)
        space = x.shape[x.dim() - rank :]
        divisors: Tensor | int = divisor_override or window_sizes(
            gradient.shape[gradient.dim() - rank :], space, sizes, steps, around,
            count_include_pad, x,
        )  # fmt: skip
        shares = gradient / divisors
        images = shares.reshape(-1, 1, *shares.shape[shares.dim() - rank :])
        window = torch.ones([1, 1, *sizes], dtype=x.dtype, device=x.device)
        zeros = [0] * rank
        total = torch.ops.aten.convolution(
            images, window, None, steps, zeros, [1] * rank, True, zeros, 1
        )
        for axis, (extent, pad) in enumerate(zip(space, around, strict=True), 2):
            total = total.narrow(axis, pad, min(extent, total.shape[axis] - pad))
            missing = list(total.shape)
            missing[axis] = extent - total.shape[axis]
            if missing[axis]:
                total = torch.cat([total, total.new_zeros(missing)], axis)
        return total.reshape(x.shape)

    return backward


def _adaptive_average_pool(rank: int) -> Callable[..., Tensor]:
    def backward(gradient: Tensor, x: Tensor) -> Tensor:
        """One product for each dimension, with the share that each window has of an element."""
        total = gradient
        for axis in range(x.dim() - rank, x.dim()):
            extent, count = x.shape[axis], gradient.shape[axis]
            numbers = torch.arange(count, device=x.device).unsqueeze(1)
            locations = torch.arange(extent, device=x.device)
            starts, stops = numbers * extent // count, ((numbers + 1) * extent + count - 1) // count
            shares = ((locations >= starts) & (locations < stops)) / (stops - starts).to(x.dtype)
            total = (total.movedim(axis, -1) @ shares).movedim(-1, axis)
        return total

    return backward


def _edge_padding(gradient: Tensor, x: Tensor, padding: Sequence[int]) -> Tensor:
    """The gradients of what was padded are added to the edge's."""
    for number in range(len(padding) // 2):
        axis = x.dim() - 1 - number
        before, after = padding[2 * number], padding[2 * number + 1]
        extent = gradient.shape[axis]
        if min(before, after) < 0:
            return NotImplemented
        first = gradient.narrow(axis, 0, before + 1).sum(axis, keepdim=True)
        last = gradient.narrow(axis, extent - after - 1, after + 1).sum(axis, keepdim=True)
        if x.shape[axis] == 1:
            gradient = gradient.sum(axis, keepdim=True)
            continue
        middle = gradient.narrow(axis, before + 1, x.shape[axis] - 2)
        gradient = torch.cat([first, middle, last], axis)
    return gradient


_aten = torch.ops.aten

POOLING_GRADIENTS: dict[Operator, Callable[..., Tensor]] = {
    _aten._adaptive_avg_pool2d_backward.default: _adaptive_average_pool(2),
    _aten._adaptive_avg_pool3d_backward.default: _adaptive_average_pool(3),
    _aten.adaptive_max_pool2d_backward.default: _max_pool(2),
    _aten.adaptive_max_pool3d_backward.default: _max_pool(3),
    _aten.avg_pool2d_backward.default: _average_pool(2),
    _aten.avg_pool3d_backward.default: _average_pool(3),
    _aten.max_pool2d_with_indices_backward.default: _max_pool(2),
    _aten.max_pool3d_with_indices_backward.default: _max_pool(3),
    _aten.replication_pad1d_backward.default: _edge_padding,
    _aten.replication_pad2d_backward.default: _edge_padding,
    _aten.replication_pad3d_backward.default: _edge_padding,
}
"""Operator -> the function that replaces it."""
