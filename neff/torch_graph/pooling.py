"""Average pooling with padding, a ceiled size or a divisor, which torch_xla divides wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from types import NotImplementedType

from neff.torch_graph.pytorch import Operator, Tensor, torch

__all__ = ["POOLINGS"]


def _average(rank: int) -> Callable[..., Tensor | NotImplementedType]:
    def pooled(
        x: Tensor, kernel_size: Sequence[int], stride: Sequence[int] = (),
        padding: Sequence[int] = (0,), ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor | NotImplementedType:  # fmt: skip
        """Sum windows one dimension after the other, then divide by each window's own size."""
        if not (any(padding) or ceil_mode or divisor_override):
            return NotImplemented
        sizes = _filled(kernel_size, rank)
        windows = [
            _windows(extent, size, step, pad, ceil_mode)
            for extent, size, step, pad in zip(
                x.shape[-rank:], sizes, _filled(stride or sizes, rank), _filled(padding, rank),
                strict=True,
            )
        ]  # fmt: skip
        sums = x
        for axis, (spans, _) in enumerate(windows, x.dim() - rank):
            slices = [sums.narrow(axis, start, stop - start).sum(axis) for start, stop in spans]
            sums = torch.stack(slices, axis)
        counts = [
            divisor_override or math.prod(extents)
            for extents in product(*(
                padded if count_include_pad else [stop - start for start, stop in spans]
                for spans, padded in windows
            ))
        ]  # fmt: skip
        divisors = torch.tensor(counts, dtype=x.dtype, device=x.device)
        divisors = divisors.reshape(sums.shape[-rank:])
        rounding = None if x.is_floating_point() else "trunc"
        return torch.div(sums, divisors, rounding_mode=rounding).to(x.dtype)

    return pooled


def _filled(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * rank if len(values) == 1 else list(values)


def _windows(
    extent: int, size: int, step: int, pad: int, ceil_mode: bool
) -> tuple[list[tuple[int, int]], list[int]]:
    """Return each window's span within the tensor, and its extent with padding."""
    room = extent + 2 * pad - size
    count = (-(-room // step) if ceil_mode else room // step) + 1
    if ceil_mode and (count - 1) * step >= extent + pad:
        count -= 1
    starts = [number * step - pad for number in range(count)]
    stops = [min(start + size, extent + pad) for start in starts]
    spans = [
        (max(start, 0), max(min(stop, extent), max(start, 0)))
        for start, stop in zip(starts, stops, strict=True)
    ]
    return spans, [stop - start for start, stop in zip(starts, stops, strict=True)]


POOLINGS: dict[Operator, Callable[..., Tensor | NotImplementedType]] = {
    torch.ops.aten.avg_pool2d.default: _average(2),
    torch.ops.aten.avg_pool3d.default: _average(3),
}
"""Operator -> the function that replaces it."""
