"""The gradients of ``grid_sample`` in two dimensions, which PyTorch's table lacks.

Positions, their limits and the slopes of both follow aten/src/ATen/native/GridSamplerUtils.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NotImplementedType

from neff.torch_graph.pytorch import Operator, Tensor, torch

__all__ = ["SAMPLING_GRADIENTS"]

BILINEAR, NEAREST = 0, 1
ZEROS, BORDER, REFLECTION = 0, 1, 2
"""PyTorch's numbers of interpolations and of paddings."""


def _clipped(position: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Positions within a dimension, and where they depend on the position that is given."""
    inside = (position > 0) & (position < size - 1)
    return position.clamp(0, size - 1), inside.to(position.dtype)


def _reflected(position: Tensor, size: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Positions mirrored at the edges, and 1 or -1 by their direction."""
    low, high = (0, 2 * (size - 1)) if align_corners else (-1, 2 * size - 1)
    if low == high:
        return torch.zeros_like(position), torch.zeros_like(position)
    start, span = low / 2, (high - low) / 2
    distance = position - start
    direction = torch.where(distance < 0, -torch.ones_like(distance), torch.ones_like(distance))
    distance = distance.abs()
    beyond, flips = torch.fmod(distance, span), torch.floor(distance / span)
    is_even = torch.fmod(flips, 2) == 0
    mirrored = torch.where(is_even, beyond + start, span - beyond + start)
    return mirrored, torch.where(is_even, direction, -direction)


def _positions(
    coordinate: Tensor, size: int, padding_mode: int, align_corners: bool
) -> tuple[Tensor, Tensor]:
    """Positions in elements, and their slope by the coordinate."""
    if align_corners:
        position, slope = (coordinate + 1) / 2 * (size - 1), (size - 1) / 2
    else:
        position, slope = ((coordinate + 1) * size - 1) / 2, size / 2
    slopes = torch.full_like(position, slope)
    if padding_mode == REFLECTION:
        position, direction = _reflected(position, size, align_corners)
        slopes = slopes * direction
    if padding_mode != ZEROS:
        position, inside = _clipped(position, size)
        slopes = slopes * inside
    return position, slopes


def _grid_sampler_backward(
    grad: Tensor, x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int,
    align_corners: bool, output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None] | NotImplementedType:  # fmt: skip
    """Gradients of the picture and of the grid: each of the four elements around a position counts."""
    if interpolation_mode not in (BILINEAR, NEAREST) or not grad.numel() or not x.numel():
        return NotImplemented
    batch, channels, height, width = x.shape
    flat_grad = grad.flatten(2)
    column, column_slopes = _positions(grid[..., 0].flatten(1), width, padding_mode, align_corners)
    row, row_slopes = _positions(grid[..., 1].flatten(1), height, padding_mode, align_corners)
    picture, of_picture = x.flatten(2), x.new_zeros(batch, channels, height * width)
    of_column, of_row = torch.zeros_like(column), torch.zeros_like(row)
    if interpolation_mode == NEAREST:
        corners = [(row.round(), column.round(), None)]
    else:
        corners = [
            (row.floor() + down, column.floor() + right, (down, right))
            for down in (0, 1)
            for right in (0, 1)
        ]
    for corner_row, corner_column, side in corners:
        inside = (corner_row >= 0) & (corner_row < height)
        inside = inside & (corner_column >= 0) & (corner_column < width)
        places = corner_row.clamp(0, height - 1) * width + corner_column.clamp(0, width - 1)
        places = places.to(torch.int64).unsqueeze(1).expand_as(flat_grad)
        counted = torch.where(inside.unsqueeze(1), flat_grad, torch.zeros_like(flat_grad))
        if side is None:
            of_picture = of_picture.scatter_add(2, places, counted)
            continue
        down, right = 1 - (row - corner_row).abs(), 1 - (column - corner_column).abs()
        of_picture = of_picture.scatter_add(2, places, counted * (down * right).unsqueeze(1))
        products = (picture.gather(2, places) * counted).sum(1)
        of_row = of_row + products * right * (2 * side[0] - 1)
        of_column = of_column + products * down * (2 * side[1] - 1)
    slopes = torch.stack([of_column * column_slopes, of_row * row_slopes], -1)
    return of_picture.reshape(x.shape) if output_mask[0] else None, slopes.reshape(grid.shape)


SAMPLING_GRADIENTS: dict[Operator, Callable[..., object]] = {
    torch.ops.aten.grid_sampler_2d_backward.default: _grid_sampler_backward,
}
"""Operator -> the function that replaces it."""
