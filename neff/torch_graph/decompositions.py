"""Decompositions of operators without a lowering of their own: PyTorch's, and those of this project."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module

from neff.torch_graph.gradients import GRADIENTS
from neff.torch_graph.pytorch import Operator, Tree, torch
from neff.torch_graph.replacements import REPLACEMENTS
from neff.torch_graph.rows import LOWERED_OPERATORS

__all__ = ["decomposition_table", "export_table"]


@cache
def decomposition_table() -> dict[Operator, Callable[..., Tree]]:
    """Operator -> a function of other operators, for all that are not lowered themselves.

    A replacement of this project may return ``NotImplemented``; then the operator stays.
    """
    import_module("torch._refs")
    table: dict[Operator, Callable[..., Tree]] = {}
    for operator, function in import_module("torch._decomp").decomposition_table.items():
        is_operator = isinstance(operator, torch._ops.OpOverload)
        if is_operator and str(operator) not in LOWERED_OPERATORS and not _is_random(operator):
            table[operator] = function
    table.update(REPLACEMENTS)
    table.update(GRADIENTS)
    return table


@cache
def export_table() -> dict[Operator, Callable[..., Tree]]:
    """:func:`decomposition_table` with the operators that torch.export would leave whole."""
    composite = torch.export.default_decompositions().materialize()
    table = {key: value for key, value in composite.items() if str(key) not in LOWERED_OPERATORS}
    return {**table, **decomposition_table()}


def _is_random(operator: Operator) -> bool:
    return torch.Tag.nondeterministic_seeded in operator.tags
