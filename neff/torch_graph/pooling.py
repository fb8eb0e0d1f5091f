"""Average pooling with padding, a ceiled size or a divisor, which torch_xla divides wrongly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NotImplementedType

from neff.torch_graph.pytorch import Operator, Tensor, torch

__all__ = ["POOLINGS", "at_most", "filled", "window_sizes"]


def _average(rank: int) -> Callable[..., Tensor | NotImplementedType]:
    def pooled(
        x: Tensor, kernel_size: Sequence[int], stride: Sequence[int] = (),
        padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor | NotImplementedType:  # fmt: skip
        """Sum windows one dimension after the other, then divide by each window's own size."""
        if not (any(padding) or ceil_mode or divisor_override):
            return NotImplemented
        sizes = filled(kernel_size, rank)
        windows = [
            _windows(extent, size, step, pad, ceil_mode)
            for extent, size, step, pad in zip(
                x.shape[-rank:], sizes, filled(stride or sizes, rank), filled(padding, rank),
                strict=True,
            )
        ]  # fmt: skip
        sums = x
        for axis, spans in enumerate(windows, x.dim() - rank):
            slices = [sums.narrow(axis, start, stop - start).sum(axis) for start, stop in spans]
            sums = torch.stack(slices, axis)
        divisors = divisor_override or window_sizes(
            [len(spans) for spans in windows], x.shape[-rank:], sizes,
            filled(stride or sizes, rank), filled(padding, rank), count_include_pad, x,
        )  # fmt: skip
        rounding = None if x.is_floating_point() else "trunc"
        return torch.div(sums, divisors, rounding_mode=rounding).to(x.dtype)

    return pooled


def filled(values: Sequence[int], rank: int) -> list[int]:
    """A value for each dimension; a single one stands for all."""
    return list(values) * rank if len(values) == 1 else list(values)


def _windows(extent: int, size: int, step: int, pad: int, ceil_mode: bool) -> list[tuple[int, int]]:
    """Return each window's span within the tensor."""
    room = extent + 2 * pad - size
    count = (-(-room // step) if ceil_mode else room // step) + 1
    if ceil_mode and (count - 1) * step >= extent + pad:
        count -= 1
    starts = [number * step - pad for number in range(count)]
    stops = [min(start + size, extent + pad) for start in starts]
    return [
        (max(start, 0), max(min(stop, extent), max(start, 0)))
        for start, stop in zip(starts, stops, strict=True)
    ]


def window_sizes(
    counts: Sequence[int], space: Sequence[int], sizes: Sequence[int], steps: Sequence[int],
    around: Sequence[int], count_include_pad: bool, like: Tensor,
) -> Tensor:  # fmt: skip
    """How many elements each window holds, with the padding or without.

    Computed from positions, since torch.export does not take ``torch.tensor`` in a decomposition.
    """
    total = torch.ones([], dtype=like.dtype, device=like.device)
    for count, extent, size, step, pad in zip(counts, space, sizes, steps, around, strict=True):
        starts = torch.arange(count, device=like.device) * step - pad
        stops = at_most(starts + size, extent + pad)
        if not count_include_pad:
            starts, stops = torch.maximum(starts, torch.zeros_like(starts)), at_most(stops, extent)
        total = total.unsqueeze(-1) * (stops - starts).to(like.dtype)
    return total


def at_most(x: Tensor, limit: int) -> Tensor:
    """Integers up to a limit; torch_xla's ``clamp`` also has the smallest int64, which no NEFF takes."""
    return torch.minimum(x, torch.full_like(x, limit))


POOLINGS: dict[Operator, Callable[..., Tensor | NotImplementedType]] = {
    torch.ops.aten.avg_pool2d.default: _average(2),
    torch.ops.aten.avg_pool3d.default: _average(3),
}
"""Operator -> the function that replaces it."""
