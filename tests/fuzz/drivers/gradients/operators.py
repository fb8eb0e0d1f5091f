"""Ways to put kernels into autograd: functions with a backward, operators, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

__all__ = ["SILENT", "checkpoints", "functions", "operators"]


def functions(K: SimpleNamespace) -> SimpleNamespace:
    """Functions of autograd whose forward calls kernels."""

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return K.scaled(x)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0] * 3.0

    class Multiplied(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
            ctx.save_for_backward(x, y)
            return K.multiplied(x, y)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            x, y = ctx.saved_tensors
            return gradients[0] * y, gradients[0] * x

    class Triple_(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            ctx.mark_dirty(x)
            K.triple_(x)
            return x

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0] * 3.0

    class SumTo(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Any:
            ctx.mark_dirty(out)
            K.sum_to(x, y, out)
            return out

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0], gradients[0], None

    return SimpleNamespace(
        scaled=Scaled.apply, multiplied=Multiplied.apply, triple_=Triple_.apply, sum_to=SumTo.apply
    )


def checkpoints(F: SimpleNamespace) -> SimpleNamespace:
    """Functions whose forward is computed again for the gradient."""

    def again(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: checkpoint(function, *args, use_reentrant=False)

    return SimpleNamespace(
        scaled=again(lambda x: torch.sin(F.scaled(x * 0.5))),
        triple_=again(lambda x: torch.sin(F.triple_(x * 0.5))),
        multiplied=again(lambda x, y: F.multiplied(torch.sin(x), y) * x),
    )


SILENT = (
    "silent", "silent_view", "silent_detached", "silent_part", "silent_array", "silent_second",
    "silent_list",
)  # fmt: skip
"""Operators that write what they do not declare: what follows is nobody's, so they are refused."""


def operators(K: SimpleNamespace, define: Callable[..., Any]) -> SimpleNamespace:
    """Custom operators; ``define(name, mutates_args=...)`` registers one."""
    by_name: dict[str, Any] = {}

    def operator(*changed: str) -> Callable[[Callable[..., Any]], Any]:
        def register(function: Callable[..., Any]) -> Any:
            by_name[function.__name__] = define(function.__name__, mutates_args=changed)(function)
            return by_name[function.__name__]

        return register

    @operator()
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return K.scaled(x)

    scaled.register_autograd(lambda ctx, gradient: gradient * 3.0)

    @operator()
    def own(x: torch.Tensor) -> torch.Tensor:
        return K.triple_(x.clone())

    own.register_autograd(lambda ctx, gradient: gradient * 3.0)

    @operator("x")
    def triple_(x: torch.Tensor) -> None:
        K.triple_(x)

    @operator("x")
    def part_(x: torch.Tensor) -> None:
        K.negate_(x[1:])

    @operator("x")
    def detached_(x: torch.Tensor) -> torch.Tensor:
        return K.raise_(x.detach().unsqueeze(0))

    @operator("x")
    def accumulate_(x: torch.Tensor, y: torch.Tensor) -> None:
        K.sum_to(x, y, x)

    @operator("out")
    def sum_to(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
        K.sum_to(x, y, out)

    _undeclared(K, operator)
    return SimpleNamespace(**by_name)


def _undeclared(K: SimpleNamespace, operator: Callable[..., Any]) -> None:
    @operator()
    def silent(x: torch.Tensor) -> torch.Tensor:
        K.triple_(x)
        return x + 0

    @operator()
    def silent_view(x: torch.Tensor) -> torch.Tensor:
        K.negate_(x.unsqueeze(0))
        return x + 0

    @operator()
    def silent_detached(x: torch.Tensor) -> torch.Tensor:
        K.raise_(x.detach())
        return x + 0

    @operator()
    def silent_part(x: torch.Tensor) -> torch.Tensor:
        K.triple_(x[1:])
        return x + 0

    @operator()
    def silent_array(x: torch.Tensor) -> torch.Tensor:
        K.triple_(torch.from_numpy(x.detach().numpy()))
        return x + 0

    @operator("x")
    def silent_second(x: torch.Tensor, y: torch.Tensor) -> None:
        K.sum_to(x, y, y)

    @operator()
    def silent_list(x: list[torch.Tensor]) -> torch.Tensor:
        K.triple_(x[-1])
        return x[0] + 0
