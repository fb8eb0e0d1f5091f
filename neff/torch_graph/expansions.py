"""Operators that PyTorch's table of decompositions lacks, or writes with views that are written."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import NotImplementedType

from neff.torch_graph.pytorch import Operator, Tensor, torch

__all__ = ["EXPANSIONS"]


def _polar(absolute: Tensor, angle: Tensor) -> Tensor:
    return torch.complex(absolute * torch.cos(angle), absolute * torch.sin(angle))


def _diagonal_scatter(
    x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """Each element of the diagonal has a position of its own in the flattened tensor."""
    positions = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    positions = positions.diagonal(offset, dim1, dim2).reshape(-1)
    return x.reshape(-1).scatter(0, positions, src.to(x.dtype).reshape(-1)).reshape(x.shape)


def _differences(x1: Tensor, x2: Tensor) -> Tensor:
    return x1.unsqueeze(-2) - x2.unsqueeze(-3)


def _cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """The norm of the differences of all pairs of rows."""
    return torch.linalg.vector_norm(_differences(x1, x2), p, -1)


def _cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """Gradient of the first rows; 0 where rows coincide (aten/src/ATen/native/cpu/DistanceOpsKernel.cpp)."""
    if p == 0:
        return torch.zeros_like(x1)
    differences, distances = _differences(x1, x2), cdist.unsqueeze(-1)
    absolute = differences.abs()
    if p == 1:
        slopes = torch.sign(differences)
    elif p == math.inf:
        slopes = torch.sign(differences) * (absolute == distances)
    else:
        left_out = distances == 0 if p >= 1 else (distances == 0) | (absolute == 0)
        divisors = torch.where(left_out, torch.ones_like(distances), distances)
        bases = torch.where(left_out, torch.ones_like(absolute), absolute)
        slopes = torch.sign(differences) * (bases / divisors) ** (p - 1)
        slopes = torch.where(left_out, torch.zeros_like(slopes), slopes)
    return (grad.unsqueeze(-1) * slopes).sum(-2)


def _weight_norm_backward(
    grad_w: Tensor, saved_v: Tensor, saved_g: Tensor, saved_norms: Tensor, dim: int
) -> tuple[Tensor, Tensor] | NotImplementedType:
    """Gradients of the direction and of the length, along the dimension that the norms keep."""
    if dim not in (0, saved_v.dim() - 1):
        return NotImplemented
    dims = [axis for axis in range(saved_v.dim()) if axis != dim]
    norms, lengths = saved_norms.to(saved_v.dtype), saved_g.to(saved_v.dtype)
    products = (grad_w * saved_v).sum(dims, keepdim=True)
    products = products.reshape(norms.shape)
    direction = lengths / norms * (grad_w - saved_v * (products / norms.square()))
    return direction, (products / norms).to(saved_g.dtype)


def _shrink_backward(grad: Tensor, x: Tensor, lambd: float) -> Tensor:
    """The gradient of soft and hard shrinkage: 0 within the threshold."""
    return torch.where((x >= -lambd) & (x <= lambd), torch.zeros_like(grad), grad)


_aten = torch.ops.aten

EXPANSIONS: dict[Operator, Callable[..., object]] = {
    _aten._cdist_backward.default: _cdist_backward,
    _aten._cdist_forward.default: _cdist,
    _aten._weight_norm_interface_backward.default: _weight_norm_backward,
    _aten.diagonal_scatter.default: _diagonal_scatter,
    _aten.hardshrink_backward.default: _shrink_backward,
    _aten.polar.default: _polar,
    _aten.softshrink_backward.default: _shrink_backward,
}
"""Operator -> the function that replaces it."""
