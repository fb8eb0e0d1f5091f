"""Operators that neither these packages nor PyTorch's table of decompositions writes with others.

Each function takes the operator's arguments and returns its result, or ``NotImplemented`` for
arguments that it does not cover.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import NotImplementedType

from neff.torch_graph.pooling import POOLINGS, at_most
from neff.torch_graph.pytorch import Operator, Tensor, torch

__all__ = ["REPLACEMENTS"]

MAX_SCAN_LENGTH = 1024
"""Longer scans are refused: they take a square of elements."""

_Result = Tensor | tuple[Tensor, ...] | NotImplementedType

_LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894, -176.61502916214059906584551354,
    12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip
"""Coefficients for g = 7, as in XLA's client library (xla/hlo/builder/lib/math.cc)."""


def _lgamma(x: Tensor) -> _Result:
    """Lanczos' approximation, reflected below one half."""
    if x.dtype not in (torch.float32, torch.float64):
        return NotImplemented
    reflected = x < 0.5
    z = torch.where(reflected, -x, x - 1)
    total = torch.full_like(z, 0.99999999999980993227684700473478)
    for number, coefficient in enumerate(_LANCZOS):
        total = total + coefficient / (z + (number + 1))
    # log(z + 7.5) without the rounding of the sum.
    logarithm = math.log(7.5) + torch.log1p(z / 7.5)
    value = (
        (z + 0.5 - (z + 7.5) / logarithm) * logarithm + 0.5 * math.log(2 * math.pi) + total.log()
    )
    distance = x.abs() - x.abs().floor()
    distance = torch.where(distance > 0.5, 1 - distance, distance)
    sine = torch.log(torch.sin(math.pi * distance))
    below = torch.where(torch.isfinite(sine), math.log(math.pi) - sine - value, -sine)
    return torch.where(
        torch.isinf(x), torch.full_like(x, math.inf), torch.where(reflected, below, value)
    )


def _median_of_dim(x: Tensor, dim: int, keepdim: bool = False) -> _Result:
    """The lower median of a dimension, with its position; NaN where there is one."""
    if not x.dim() or not x.shape[dim]:
        return NotImplemented
    values, positions = _medians(x, dim)
    return (values, positions) if keepdim else (values.squeeze(dim), positions.squeeze(dim))


def _median(x: Tensor) -> _Result:
    if not x.numel():
        return NotImplemented
    return _medians(x.reshape(-1), 0)[0].reshape(())


def _medians(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    values, positions = torch.sort(x, dim=dim, stable=True)
    middle = torch.full_like(values.narrow(dim, 0, 1), (x.shape[dim] - 1) // 2, dtype=torch.int64)
    if x.is_floating_point():
        # NaN comes last: the first of them is as many places before the end as there are.
        count = torch.isnan(x).sum(dim, keepdim=True)
        middle = torch.where(count > 0, x.shape[dim] - count, middle)
    return values.gather(dim, middle), positions.gather(dim, middle)


def _searchsorted(
    sequence: Tensor, values: Tensor, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None,
) -> _Result:  # fmt: skip
    """How many elements are less (or not greater, from the right); NaN is after all of them."""
    if sorter is not None:
        sequence = sequence.gather(-1, sorter)
    if values.numel() * sequence.shape[-1] > MAX_SCAN_LENGTH * MAX_SCAN_LENGTH:
        return NotImplemented
    sought = values.unsqueeze(-1)
    rows = sequence.unsqueeze(-2) if sequence.dim() > 1 else sequence
    reached = rows > sought if right or side == "right" else rows >= sought
    return (~reached).sum(-1).to(torch.int32 if out_int32 else torch.int64)


def _bucketize(
    values: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> _Result:
    return _searchsorted(boundaries, values, out_int32=out_int32, right=right)


def _logcumsumexp(x: Tensor, dim: int) -> _Result:
    """The logarithm of sums of exponentials up to each element, each with its own maximum."""
    if not x.is_floating_point() or not x.dim() or x.shape[dim] > MAX_SCAN_LENGTH:
        return NotImplemented
    moved = x.movedim(dim, -1)
    length = moved.shape[-1]
    steps = torch.arange(length, device=x.device)
    before = steps.unsqueeze(0) <= steps.unsqueeze(1)
    rows = torch.where(before, moved.unsqueeze(-2), torch.full_like(moved.unsqueeze(-2), -math.inf))
    return torch.logsumexp(rows, -1).movedim(-1, dim)


def _index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> _Result:
    """A mask selects where one value, or one for each trailing element, is put."""
    masks = [index for index in indices if index is not None]
    if len(masks) != 1 or masks[0].dtype != torch.bool:
        return NotImplemented
    mask, start = masks[0], next(n for n, index in enumerate(indices) if index is not None)
    trailing = x.dim() - start - mask.dim()
    if not mask.dim() or (values.numel() != 1 and (start or values.dim() > trailing)):
        return NotImplemented
    mask = mask.reshape(*mask.shape, *([1] * trailing))
    values = values.to(x.dtype) if values.numel() != 1 else values.to(x.dtype).reshape(())
    return torch.where(mask, x + values if accumulate else values, x)


def _scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> _Result:
    """Means, as sums and counts."""
    if reduce != "mean" or not x.is_floating_point():
        return NotImplemented
    source = src[tuple(slice(extent) for extent in index.shape)] if index.dim() else src
    zeros = torch.zeros_like(x)
    counts = zeros.scatter_add(dim, index, torch.ones_like(source))
    sums = zeros.scatter_add(dim, index, source)
    if include_self:
        return (x + sums) / (counts + 1)
    return torch.where(counts > 0, sums / counts, x)


def _adaptive_max_pool2d(x: Tensor, output_size: Sequence[int]) -> _Result:
    """Windows gathered by row and column; shorter ones are filled with the smallest value."""
    if not x.is_floating_point() or not x.numel() or 0 in output_size:
        return NotImplemented
    height, width = x.shape[-2:]
    rows, inside_rows = _windows(height, output_size[0], x)
    columns, inside_columns = _windows(width, output_size[1], x)
    shape = (*rows.shape, *columns.shape)
    windows = x.index_select(-2, rows.reshape(-1)).index_select(-1, columns.reshape(-1))
    windows = windows.reshape(*x.shape[:-2], *shape)
    inside = inside_rows[:, :, None, None] & inside_columns[None, None]
    windows = torch.where(inside, windows, torch.full_like(windows, -math.inf))
    positions = (rows[:, :, None, None] * width + columns[None, None]).expand(shape)
    flat = windows.transpose(-3, -2).flatten(-2)
    values, chosen = flat.max(-1)
    positions = positions.transpose(1, 2).flatten(-2).expand(flat.shape)
    return values, positions.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


def _windows(extent: int, count: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of each window, and which of them are within it."""
    numbers = torch.arange(count, device=like.device).unsqueeze(1)
    starts, ends = numbers * extent // count, ((numbers + 1) * extent + count - 1) // count
    longest = max(-(-(n + 1) * extent // count) - n * extent // count for n in range(count))
    positions = starts + torch.arange(longest, device=like.device)
    return at_most(positions, extent - 1), positions < ends


def _table() -> dict[Operator, Callable[..., _Result]]:
    aten = torch.ops.aten
    return {
        **POOLINGS,
        aten.adaptive_max_pool2d.default: _adaptive_max_pool2d,
        aten.bucketize.Tensor: _bucketize,
        aten.index_put.default: _index_put,
        aten.lgamma.default: _lgamma,
        aten.logcumsumexp.default: _logcumsumexp,
        aten.median.default: _median,
        aten.median.dim: _median_of_dim,
        aten.scatter_reduce.two: _scatter_reduce,
        aten.searchsorted.Tensor: _searchsorted,
    }


REPLACEMENTS = _table()
"""Operator -> the function that replaces it."""
