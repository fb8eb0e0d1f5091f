"""The products of a unit over rows: their operands, and how many extents are batch dimensions."""

from __future__ import annotations

from dataclasses import dataclass

from neff.compiler.graph.nodes import Node
from neff.compiler.lowering.tiles.task import Port
from nki_lang.base.dtypes import DType

__all__ = ["RowProduct", "batch_extents"]


@dataclass(frozen=True, slots=True)
class RowProduct:
    """A product of a unit: ``left`` has the unit's rows, ``right`` is the same for all of a batch.

    Attributes:
        left: the left operand, (batch..., rows, depth); None if a member computes it.
        right: the right operand, (batch..., depth, columns).
        dtype: type in which the tensor engine reads both.
        batch: number of the unit's extents that are batch dimensions.
    """

    left: Port | None
    right: Port
    dtype: DType
    batch: int


def batch_extents(node: Node) -> int:
    """Return the number of a product's extents, without ones, that are batch dimensions."""
    left = node.operands[0]
    batch: tuple[int, ...] = node.attributes["lhs_batch"]
    return sum(left.shape[dim] != 1 for dim in batch)
