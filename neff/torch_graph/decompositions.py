"""Decompositions of operators without a lowering of their own: PyTorch's, and those of this project."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from importlib import import_module

from neff.torch_graph.attention import FUSED_ATTENTION
from neff.torch_graph.embedding_bags import EMBEDDING_BAGS
from neff.torch_graph.expansions import EXPANSIONS
from neff.torch_graph.gradients import GRADIENTS
from neff.torch_graph.pytorch import Operator, Tree, torch
from neff.torch_graph.recurrent import RECURRENT
from neff.torch_graph.replacements import REPLACEMENTS
from neff.torch_graph.rows import LOWERED_OPERATORS

__all__ = ["decomposition_table", "export_table"]

_WITH_ALIASES = (
    torch.ops.aten.meshgrid.default, torch.ops.aten.meshgrid.indexing, torch.ops.aten.prelu.default,
)  # fmt: skip
"""PyTorch's table writes these with ``prims.broadcast_in_dim``, whose result is a view: torch.export
cannot make a functional graph of that. Without the table they become other operators of aten."""


@cache
def decomposition_table() -> dict[Operator, Callable[..., Tree]]:
    """Operator -> a function of other operators, for all that are not lowered themselves.

    A replacement of this project may return ``NotImplemented``; then the operator stays.
    """
    import_module("torch._refs")
    table: dict[Operator, Callable[..., Tree]] = {}
    for operator, function in import_module("torch._decomp").decomposition_table.items():
        is_operator = isinstance(operator, torch._ops.OpOverload)
        is_left_out = str(operator) in LOWERED_OPERATORS or operator in _WITH_ALIASES
        if not is_operator or is_left_out or _is_random(operator):
            continue
        if not _takes_reduction_names(operator, function):
            table[operator] = function
    for replacements in (
        REPLACEMENTS, GRADIENTS, EXPANSIONS, FUSED_ATTENTION, RECURRENT, EMBEDDING_BAGS,
    ):  # fmt: skip
        table.update(replacements)
    return table


@cache
def export_table() -> dict[Operator, Callable[..., Tree]]:
    """:func:`decomposition_table` with the operators that torch.export would leave whole."""
    composite = torch.export.default_decompositions().materialize()
    table = {key: value for key, value in composite.items() if str(key) not in LOWERED_OPERATORS}
    return {**table, **decomposition_table()}


def _is_random(operator: Operator) -> bool:
    return torch.Tag.nondeterministic_seeded in operator.tags


def _takes_reduction_names(operator: Operator, function: Callable[..., Tree]) -> bool:
    """Return True for a function of ``reduction="mean"``, when the operator passes a number.

    PyTorch lists some such functions (of ``nll_loss`` and two other losses in torch 2.9): they
    take each number for the mean, or raise an error. Without them the operators become others.
    """
    if all(argument.name != "reduction" for argument in operator._schema.arguments):
        return False
    parameter = inspect.signature(function).parameters.get("reduction")
    return parameter is not None and parameter.annotation in (str, "str")
