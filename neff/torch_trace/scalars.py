"""Operators along a dimension of a scalar tensor, which PyTorch runs as on one element.

torch_xla refuses most of them or returns another shape.
"""

from __future__ import annotations

from neff.torch_graph.pytorch import Operator, Tensor, Tree, pytree, torch
from neff.torch_trace.expectations import expected_results

__all__ = ["takes_scalars_as_vectors", "vectors_of"]

_DIMENSIONS = frozenset({"dim", "dims"})


def takes_scalars_as_vectors(
    func: Operator, args: tuple[Tree, ...], kwargs: dict[str, Tree]
) -> bool:
    """Return True for an operator along a dimension whose first operand and results are scalars."""
    if not args or not isinstance(args[0], torch.Tensor) or args[0].dim():
        return False
    schema = func._schema
    if not any(argument.name in _DIMENSIONS for argument in schema.arguments):
        return False
    if any(result.alias_info is not None for result in schema.returns):
        return False
    expected = expected_results(func, args, kwargs)
    return bool(expected) and all(isinstance(t, torch.Tensor) and not t.dim() for t in expected)


def vectors_of(tree: Tree) -> Tree:
    """Return the tensors of a tree with scalars as tensors of one element."""
    return pytree.tree_map_only(torch.Tensor, _vector_of, tree)


def _vector_of(tensor: Tensor) -> Tensor:
    return tensor if tensor.dim() else tensor.reshape(1)
