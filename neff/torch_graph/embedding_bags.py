"""Embedding bags: sums, means and maxima of an embedding's rows, with their gradients.

The positions of the first elements of the bags are values, so that each element finds its bag by
comparing its position with them (aten/src/ATen/native/EmbeddingBag.cpp has the semantics).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import NotImplementedType

from neff.torch_graph.pytorch import Operator, Tensor, torch

__all__ = ["EMBEDDING_BAGS"]

SUM, MEAN, MAX = 0, 1, 2
"""PyTorch's numbers of the modes."""

MAX_PAIRS = 1 << 20
"""More pairs of an element and a bag are refused: each is compared."""

_Result = Tensor | tuple[Tensor, ...] | NotImplementedType


def _bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False,
    mode: int = SUM, sparse: bool = False, per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False, padding_idx: int = -1,
) -> _Result:  # fmt: skip
    """The results, each element's bag, the sizes of the bags, and the rows of the maxima."""
    bags = offsets.shape[0] - 1 if include_last_offset else offsets.shape[0]
    width = weight.shape[1]
    pairs = indices.shape[0] * bags * (width if mode == MAX else 1)
    if sparse or pairs > MAX_PAIRS or not indices.shape[0] or not bags:
        return NotImplemented
    positions = torch.arange(indices.shape[0], device=weight.device)
    started = positions.unsqueeze(1) >= offsets[:bags].unsqueeze(0)
    offset2bag = started.sum(1) - 1
    counts = indices != padding_idx
    if include_last_offset:
        counts = counts & (positions < offsets[bags])
    sizes = torch.zeros(bags, dtype=torch.int64, device=weight.device)
    sizes = sizes.index_add(0, offset2bag, counts.to(torch.int64))
    rows = weight.index_select(0, indices)
    if mode == MAX:
        values, chosen = _maxima(rows, offset2bag, counts, sizes)
        return values, offset2bag, sizes, indices[chosen]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    rows = torch.where(counts.unsqueeze(1), rows, torch.zeros_like(rows))
    values = weight.new_zeros(bags, width).index_add(0, offset2bag, rows)
    if mode == MEAN:
        values = values / sizes.clamp(min=1).unsqueeze(1).to(values.dtype)
    # The gradient reads from here which elements have none.
    return values, torch.where(counts, offset2bag, -1), sizes, sizes


def _maxima(
    rows: Tensor, offset2bag: Tensor, counts: Tensor, sizes: Tensor
) -> tuple[Tensor, Tensor]:
    """The largest of each bag in each column, and its element; 0 for empty bags."""
    numbers = torch.arange(sizes.shape[0], device=rows.device)
    belongs = (offset2bag.unsqueeze(0) == numbers.unsqueeze(1)) & counts.unsqueeze(0)
    candidates = torch.where(
        belongs.unsqueeze(2), rows.unsqueeze(0), torch.full_like(rows.unsqueeze(0), -math.inf)
    )
    values, chosen = candidates.max(1)
    return torch.where(sizes.unsqueeze(1) > 0, values, torch.zeros_like(values)), chosen


def _backward(
    grad: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, bag_size: Tensor,
    maximum_indices: Tensor, num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool,
    per_sample_weights: Tensor | None, padding_idx: int = -1,
) -> _Result:  # fmt: skip
    """The gradient of the embedding."""
    if sparse:
        return NotImplemented
    return _dense_backward(
        grad, indices, offset2bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq,
        mode, per_sample_weights, padding_idx,
    )  # fmt: skip


def _dense_backward(
    grad: Tensor, indices: Tensor, offset2bag: Tensor, bag_size: Tensor, maximum_indices: Tensor,
    num_weights: int, scale_grad_by_freq: bool, mode: int, per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> _Result:  # fmt: skip
    if scale_grad_by_freq:
        return NotImplemented  # PyTorch divides by the frequencies of other elements
    zeros = grad.new_zeros(num_weights, grad.shape[1])
    if mode == MAX:
        filled = (bag_size > 0).unsqueeze(1)
        return zeros.scatter_add(
            0, maximum_indices, torch.where(filled, grad, torch.zeros_like(grad))
        )
    rows = _rows_of(grad, offset2bag)
    if mode == MEAN:
        sizes = bag_size.clamp(min=1).to(grad.dtype)
        rows = rows / sizes.index_select(0, offset2bag.clamp(min=0)).unsqueeze(1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(1)
    return zeros.index_add(0, indices, rows)


def _rows_of(grad: Tensor, offset2bag: Tensor) -> Tensor:
    """The gradient of each element's bag; 0 for elements that are in no bag."""
    rows = grad.index_select(0, offset2bag.clamp(min=0))
    return torch.where((offset2bag >= 0).unsqueeze(1), rows, torch.zeros_like(rows))


def _weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int,
    padding_idx: int = -1,
) -> _Result:  # fmt: skip
    """The gradient of each element's weight."""
    return (_rows_of(grad, offset2bag) * weight.index_select(0, indices)).sum(1)


_aten = torch.ops.aten

EMBEDDING_BAGS: dict[Operator, Callable[..., _Result]] = {
    _aten._embedding_bag.default: _bag,
    _aten._embedding_bag_backward.default: _backward,
    _aten._embedding_bag_dense_backward.default: _dense_backward,
    _aten._embedding_bag_forward_only.default: _bag,
    _aten._embedding_bag_per_sample_weights_backward.default: _weights_backward,
}
"""Operator -> the function that replaces it."""
