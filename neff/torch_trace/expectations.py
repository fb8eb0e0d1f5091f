"""Shapes and dtypes that PyTorch itself gives the results of an operator."""

from __future__ import annotations

from neff.torch_graph.pytorch import Operator, Tensor, Tree, pytree, torch

__all__ = ["as_expected", "expected_results"]


def expected_results(
    func: Operator, args: tuple[Tree, ...], kwargs: dict[str, Tree]
) -> list[Tree] | None:
    """The results for tensors without data; None where they depend on data."""
    try:
        args, kwargs = pytree.tree_map_only(torch.Tensor, _without_data, (args, kwargs))
        if "device" in kwargs:
            kwargs = {**kwargs, "device": "meta"}
        leaves: list[Tree] = pytree.tree_leaves(func(*args, **kwargs))
    except Exception:  # every operator has its own reasons
        return None
    return leaves


def as_expected(results: Tree, expected: list[Tree] | None) -> Tree:
    """The results if they are like those expected, else ``NotImplemented``.

    Results without elements, which torch_xla sometimes fills, are made empty.
    """
    if expected is None:
        return results
    leaves, structure = pytree.tree_flatten(results)
    if len(leaves) != len(expected):
        return NotImplemented
    for number, (leaf, like) in enumerate(zip(leaves, expected, strict=True)):
        if not isinstance(leaf, torch.Tensor) or not isinstance(like, torch.Tensor):
            continue
        if not like.numel() and leaf.shape != like.shape:
            leaves[number] = torch.empty(like.shape, dtype=like.dtype, device=leaf.device)
        elif leaf.shape != like.shape or leaf.dtype != like.dtype:
            return NotImplemented
    return pytree.tree_unflatten(leaves, structure)


def _without_data(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")
