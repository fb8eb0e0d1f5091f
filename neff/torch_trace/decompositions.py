"""Operators that torch_xla computes on the CPU, written with operators that it lowers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from neff.torch_graph.pytorch import Operator, Tree

__all__ = ["decomposition_of"]


@cache
def _table() -> dict[Operator, Callable[..., Tree]]:
    return dict(import_module("torch._decomp").decomposition_table)


def decomposition_of(func: Operator) -> Callable[..., Tree] | None:
    """A function of other operators that computes the same, or None."""
    return _table().get(func)
