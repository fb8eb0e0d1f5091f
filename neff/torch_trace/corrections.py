"""Operators that torch_xla 2.9 lowers to wrong values, written with operators that it lowers right.

Seen in the sweep of PyTorch's own samples: norms of infinite order return 1, and the pieces of
``unsafe_split`` along any dimension but the first hold other elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NotImplementedType

from neff.torch_graph.pytorch import Operator, Tensor, torch

__all__ = ["CORRECTIONS"]


def _norm(
    x: Tensor,
    p: float | None = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor | NotImplementedType:
    """The vector norm over dimensions; over all of them if none are listed."""
    if not x.dtype.is_floating_point:
        return NotImplemented
    order = 2 if p is None else p
    return torch.linalg.vector_norm(
        x, order, dim=tuple(dim or ()) or None, keepdim=keepdim, dtype=dtype
    )


def _unsafe_split(x: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    extent = x.shape[dim]
    if not split_size:
        return _unsafe_split_with_sizes(x, [0], dim)
    starts = range(0, extent, split_size) if extent else (0,)
    return _unsafe_split_with_sizes(x, [min(split_size, extent - n) for n in starts], dim)


def _unsafe_split_with_sizes(
    x: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    # Indices instead of views: views of a tensor that is no view itself are read as contiguous.
    pieces: list[Tensor] = []
    start = 0
    for size in split_sizes:
        positions = torch.arange(start, start + size, device=x.device)
        pieces.append(x.index_select(dim, positions))
        start += size
    return tuple(pieces)


def _table() -> dict[Operator, Callable[..., Tensor | tuple[Tensor, ...] | NotImplementedType]]:
    aten = torch.ops.aten
    return {
        aten.norm.Scalar: _norm,
        aten.norm.ScalarOpt_dim: _norm,
        aten.norm.ScalarOpt_dim_dtype: _norm,
        aten.norm.ScalarOpt_dtype: _norm,
        aten.unsafe_split.Tensor: _unsafe_split,
        aten.unsafe_split_with_sizes.default: _unsafe_split_with_sizes,
    }


CORRECTIONS = _table()
"""Operator -> the function that replaces it."""
