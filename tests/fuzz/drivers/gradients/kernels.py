"""Kernels of the programs, and the operations of torch that do the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
import torch

__all__ = ["Unusable", "Watch", "equivalents", "kernels"]


def _loaded(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def _stored(tile, x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def scaled(x):
    tile = _loaded(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
    return _stored(tile, x)


@nki.jit
def multiplied(x, y):
    tile = _loaded(x)
    nisa.tensor_tensor(tile, tile, _loaded(y), nl.multiply)
    return _stored(tile, x)


@nki.jit
def triple_(x):
    tile = _loaded(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 3.0)
    nisa.dma_copy(dst=x, src=tile)
    return x


@nki.jit
def negate_(x):
    tile = _loaded(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, -1.0)
    nisa.dma_copy(dst=x, src=tile)


@nki.jit
def raise_(x):
    """Writes its argument and returns another tensor."""
    tile = _loaded(x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(out, tile, nl.multiply, 5.0)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nisa.dma_copy(dst=x, src=tile)
    return _stored(out, x)


@nki.jit
def sum_to(x, y, out):
    tile = _loaded(x)
    nisa.tensor_tensor(tile, tile, _loaded(y), nl.add)
    nisa.dma_copy(dst=out, src=tile)


@nki.jit
def accumulate_(x, y):
    """Adds ``y`` to ``x`` and returns it beside a new tensor."""
    left, right = _loaded(x), _loaded(y)
    nisa.tensor_tensor(left, left, right, nl.add)
    nisa.dma_copy(dst=x, src=left)
    return x, _stored(right, y)


@nki.jit
def swap_(x, y):
    left, right = _loaded(x), _loaded(y)
    nisa.dma_copy(dst=x, src=right)
    nisa.dma_copy(dst=y, src=left)
    return y, x


def _raise(x: torch.Tensor) -> torch.Tensor:
    raised = (x * 5.0).contiguous()
    x.add_(1.0)
    return raised


def _accumulate(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    copied = y.clone(memory_format=torch.contiguous_format)
    return x.add_(copied), copied


def _swap(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    left, right = x.clone(), y.clone()
    x.copy_(right)
    y.copy_(left)
    return y, x


def _negate(x: torch.Tensor) -> None:
    x.neg_()


def _sum_to(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x + y)


_TABLE: dict[str, tuple[Any, Callable[..., Any], tuple[int, ...]]] = {
    "scaled": (scaled, lambda x: (x * 3.0).contiguous(), ()),
    "multiplied": (multiplied, lambda x, y: (x * y).contiguous(), ()),
    "triple_": (triple_, lambda x: x.mul_(3.0), (0,)),
    "negate_": (negate_, _negate, (0,)),
    "raise_": (raise_, _raise, (0,)),
    "sum_to": (sum_to, _sum_to, (2,)),
    "accumulate_": (accumulate_, _accumulate, (0,)),
    "swap_": (swap_, _swap, (0, 1)),
}
"""Kernel, operations of torch, positions of the arguments that it writes. Results of kernels are
contiguous, whatever their arguments are."""


@dataclass
class Watch:
    """Properties of the equivalents' calls, which decide what the kernels may refuse.

    Attributes:
        differentiated: one had an argument that requires a gradient, in grad mode.
        shared: one wrote two arguments that share memory, or an expanded one.
    """

    differentiated: bool = False
    shared: bool = False


class Unusable(Exception):
    """A program has a line whose meaning is nobody's."""


def kernels(*, simulated: bool = False) -> SimpleNamespace:
    """The kernels by name."""
    table = {name: kernel for name, (kernel, _, _) in _TABLE.items()}
    if simulated:
        table = {name: nki.simulate(kernel) for name, kernel in table.items()}
    return SimpleNamespace(**table)


def equivalents(watch: Watch) -> SimpleNamespace:
    """The operations of torch by name; ``watch`` is told of their calls."""

    def watched(function: Callable[..., Any], written: tuple[int, ...]) -> Any:
        def call(*args: torch.Tensor) -> Any:
            if any(
                tensor.dim() == 0 or tensor.numel() == 0 or tensor.shape != args[0].shape
                for tensor in args
            ):
                raise Unusable  # kernels take none of these
            if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in args):
                watch.differentiated = True
            storages = [args[index].untyped_storage().data_ptr() for index in written]
            watch.shared |= len(set(storages)) < len(storages)
            watch.shared |= any(0 in args[index].stride() for index in written)
            return function(*args)

        return call

    return SimpleNamespace(
        **{name: watched(same, written) for name, (_, same, written) in _TABLE.items()}
    )
