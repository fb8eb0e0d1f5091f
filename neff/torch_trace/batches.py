"""Arguments of any batch size, cut into batches of the size that a model was traced for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from neff.torch_graph.pytorch import Tensor, Tree, pytree, torch

__all__ = ["Batches", "batches_of", "joined", "kind_of"]


@dataclass(frozen=True, slots=True)
class Batches:
    """Arguments for several runs.

    Attributes:
        leaves: the flattened arguments of each run; the last ones are filled with zeros.
        count: rows of the arguments altogether.
        size: rows of a run.
    """

    leaves: tuple[tuple[Tree, ...], ...]
    count: int
    size: int


def kind_of(leaf: Tree) -> object:
    """The properties that a call's argument shares with the example: a tensor's shape and dtype, or the
    value."""
    return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else (leaf,)


def batches_of(leaves: Sequence[Tree], examples: Sequence[object]) -> Batches | None:
    """Cut arguments along dimension 0; None if anything else differs from the examples."""
    counts: set[int] = set()
    sizes: set[int] = set()
    for leaf, example in zip(leaves, examples, strict=True):
        if not isinstance(leaf, torch.Tensor):
            if kind_of(leaf) != example:
                return None
            continue
        shape, dtype = cast("tuple[tuple[int, ...], Tree]", example)
        if not shape or leaf.dtype != dtype or tuple(leaf.shape[1:]) != shape[1:]:
            return None
        counts.add(leaf.shape[0])
        sizes.add(shape[0])
    if len(counts) != 1 or len(sizes) != 1 or 0 in sizes or 0 in counts:
        return None
    (count,), (size,) = counts, sizes
    starts = range(0, count, size)
    runs = tuple(tuple(_rows(leaf, start, size) for leaf in leaves) for start in starts)
    return Batches(runs, count, size)


def _rows(leaf: Tree, start: int, size: int) -> Tree:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    tensor: Tree = leaf
    rows = tensor[start : start + size]
    missing = size - rows.shape[0]
    if not missing:
        return rows
    filler: Tensor = torch.zeros([missing, *rows.shape[1:]], dtype=rows.dtype)
    return torch.cat([rows, filler])


def joined(results: Sequence[Tree], batches: Batches) -> Tree:
    """The results of all runs along dimension 0, without the rows that were filled in.

    Raises:
        ValueError: a result has no batch dimension of the examples' size.
    """
    flat = [pytree.tree_flatten(result) for result in results]
    columns = list(zip(*(leaves for leaves, _ in flat), strict=True))
    if any(not column[0].dim() or column[0].shape[0] != batches.size for column in columns):
        raise ValueError(
            f"dynamic_batch needs results whose dimension 0 is the batch of {batches.size}; return "
            "each row's values, without sums over the batch"
        )
    tensors = [torch.cat(column)[: batches.count] for column in columns]
    return pytree.tree_unflatten(tensors, flat[0][1])
