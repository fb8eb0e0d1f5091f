"""Gradients of convolutions, pooling and grid sampling, written with operators that are lowered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from neff.torch_graph.pooling_gradients import POOLING_GRADIENTS
from neff.torch_graph.pytorch import Operator, Tensor, torch
from neff.torch_graph.sampling_gradients import SAMPLING_GRADIENTS

__all__ = ["GRADIENTS"]

_aten = torch.ops.aten


def _convolution_backward(
    gradient: Tensor, x: Tensor, weight: Tensor, bias_sizes: Sequence[int] | None,
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int, output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Gradients of the input, the weight and the bias; a convolution each."""
    rank = x.dim() - 2
    steps, around, gaps = (
        list(values) * rank if len(values) == 1 else list(values)
        for values in (stride, padding, dilation)
    )
    zeros = [0] * rank
    input_gradient = weight_gradient = None
    if output_mask[0]:
        beyond = zeros
        if not transposed:
            beyond = [
                size - ((extent - 1) * step - 2 * pad + gap * (taps - 1) + 1)
                for size, extent, step, pad, gap, taps in zip(
                    x.shape[2:], gradient.shape[2:], steps, around, gaps, weight.shape[2:],
                    strict=True,
                )
            ]  # fmt: skip
        input_gradient = _aten.convolution(
            gradient, weight, None, steps, around, gaps, not transposed, beyond, groups
        )
    if output_mask[1]:
        source, result = (gradient, x) if transposed else (x, gradient)
        weight_gradient = _weight_gradient(source, result, weight, steps, around, gaps, groups)
    bias_gradient = gradient.sum([0, *range(2, rank + 2)]) if output_mask[2] else None
    return input_gradient, weight_gradient, bias_gradient


def _weight_gradient(
    source: Tensor, gradient: Tensor, weight: Tensor, steps: list[int], around: list[int],
    gaps: list[int], groups: int,
) -> Tensor:  # fmt: skip
    """A convolution in which the batch is the channels, and strides and dilations change places."""
    batch, channels, *space = source.shape
    grouped = source.reshape(batch, groups, channels // groups, *space)
    images = (
        grouped.movedim(2, 0).transpose(1, 2).reshape(channels // groups, groups * batch, *space)
    )
    zeros = [0] * len(space)
    products = _aten.convolution(
        images, gradient.transpose(0, 1), None, gaps, around, steps, False, zeros, groups
    )
    for axis, taps in enumerate(weight.shape[2:], 2):
        products = products.narrow(axis, 0, taps)
    return products.transpose(0, 1).contiguous()


GRADIENTS: dict[Operator, Callable[..., object]] = {
    **POOLING_GRADIENTS,
    **SAMPLING_GRADIENTS,
    _aten.convolution_backward.default: _convolution_backward,
}
"""Operator -> the function that replaces it."""
