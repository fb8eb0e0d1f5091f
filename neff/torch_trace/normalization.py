"""Batch normalization with the statistics that PyTorch's operators for the CPU return and write.

torch_xla keeps the biased variance where PyTorch keeps the unbiased one, and its results in
evaluation have another shape.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NotImplementedType

from neff.torch_graph.pytorch import Operator, Tensor, torch

__all__ = ["NORMALIZATIONS", "UPDATES"]

_aten = torch.ops.aten


def _batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None,
    variance: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the three results, then, in training, a new value of each running statistic."""
    if mean is None or variance is None:
        return _aten._native_batch_norm_legit.no_stats(x, weight, bias, training, momentum, eps)
    results: tuple[Tensor, ...] = _aten._native_batch_norm_legit_functional(
        x, weight, bias, mean, variance, training, momentum, eps
    )
    return results if training else results[:3]


def _functional(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor,
    training: bool, momentum: float, eps: float,
) -> tuple[Tensor, ...] | NotImplementedType:  # fmt: skip
    """In evaluation, PyTorch saves no statistics of the batch."""
    if training:
        return NotImplemented
    return (*_without_training(x, weight, bias, mean, variance, momentum, eps), mean, variance)


def _without_training(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor,
    momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    shape = [1, x.shape[1], *[1] * (x.dim() - 2)]
    factor = torch.rsqrt(variance + eps)
    result = (x - mean.reshape(shape)) * factor.reshape(shape)
    if weight is not None:
        result = result * weight.reshape(shape)
    if bias is not None:
        result = result + bias.reshape(shape)
    empty = torch.empty(0, dtype=mean.dtype, device=x.device)
    return result.to(x.dtype), empty, empty.clone()


def _without_update(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor | None,
    variance: Tensor | None, momentum: float, eps: float,
) -> tuple[Tensor, ...] | NotImplementedType:  # fmt: skip
    if mean is None or variance is None:
        return NotImplemented
    reserve = torch.empty(0, dtype=torch.uint8, device=x.device)
    return (*_without_training(x, weight, bias, mean, variance, momentum, eps), reserve)


UPDATES: dict[Operator, Callable[..., tuple[Tensor, ...]]] = {
    _aten.native_batch_norm.default: _batch_norm
}
"""Operator -> a function of its arguments that returns its results, then what it writes, if it does."""

NORMALIZATIONS: dict[Operator, Callable[..., tuple[Tensor, ...] | NotImplementedType]] = {
    _aten._batch_norm_no_update.default: _without_update,
    _aten._native_batch_norm_legit_functional.default: _functional,
    _aten._native_batch_norm_legit_no_training.default: _without_training,
}
"""Operator -> the function that replaces it."""
