"""Moves a gather of few elements in front of the elementwise operations that compute its operand.

Cross entropy picks one logarithm of a probability for each row, ``(x - log_sum)[label]``. Computed as
``x[label] - log_sum``, the whole array of differences does not go to HBM.
"""

from __future__ import annotations

from collections.abc import Sequence

from neff.compiler.graph.nodes import Node, derived, sliced
from neff.compiler.lowering.tiles.operations import ELEMENTWISE

__all__ = ["gather_of_operands"]

Uses = dict[int, int]
"""Number of readers of each node, by ``id``."""

_MIN_RATIO = 16
"""The operand has at least this many times the elements of the result; else nothing is saved."""

_MAX_STEPS = 16
"""Limit on the elementwise operations that are computed of gathered elements."""


def gather_of_operands(node: Node, uses: Uses) -> Node | None:
    """Gather the operands of elementwise operations instead of their result.

    Each gathered element is alone (``sizes`` of 1), so all operations see the same elements as before. At
    most one array is gathered; the others repeat, as a row's sum does, or are numbers.
    """
    operand = node.operands[0]
    if (
        operand.opcode not in ELEMENTWISE
        or node.attributes["offset_dims"]
        or any(extent != 1 for extent in node.attributes["sizes"])
        or node.size * _MIN_RATIO > operand.size
    ):
        return None
    mover = _Mover(node)
    replacement = mover.gathered(operand)
    return replacement if mover.is_cheap else None


class _Mover:
    """Gathers the operands of one gather's operand."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._gathered: dict[int, Node] = {}
        self._steps = self._arrays = 0

    @property
    def is_cheap(self) -> bool:
        """Return True if at most one array was gathered, in few steps."""
        return self._arrays <= 1 and self._steps <= _MAX_STEPS

    def gathered(self, value: Node) -> Node:
        """Return the elements of an array of the operand's shape that the gather reads."""
        done = self._gathered.get(id(value))
        if done is None:
            done = self._gathered[id(value)] = self._elements(value)
        return done

    def _elements(self, value: Node) -> Node:
        node = self._node
        if value.opcode == "broadcast":
            return self._of_repeated(value)
        if value.opcode in ELEMENTWISE and self._steps < _MAX_STEPS:
            self._steps += 1
            operands = [self.gathered(operand) for operand in value.operands]
            return derived(
                value, value.opcode, operands, node.shape, value.element, **value.attributes
            )
        self._arrays += 1
        return derived(
            node, "gather", (value, node.operands[1]), node.shape, value.element, **node.attributes
        )

    def _of_repeated(self, value: Node) -> Node:
        """Return the elements of a broadcast: those of its operand, gathered along its dimensions."""
        node, fields = self._node, self._node.attributes
        (source,) = value.operands
        source_dims: tuple[int, ...] = value.attributes["dimensions"]
        batching, start_batching = fields["operand_batching"], fields["start_batching"]
        pairs = [
            pair for pair in zip(batching, start_batching, strict=True) if pair[0] in source_dims
        ]
        starts = [dim for dim in fields["start_map"] if dim in source_dims]
        if not starts:
            positions = [_result_dimension(node, batch) for _, batch in pairs]
            order = [source_dims.index(dim) for dim, _ in pairs]
            if order == list(range(len(source_dims))) and positions == sorted(positions):
                return derived(
                    value, "broadcast", (source,), node.shape, dimensions=tuple(positions)
                )
        return derived(
            node, "gather", (source, self._indices(starts)), node.shape, source.element,
            offset_dims=(), collapsed=tuple(source_dims.index(dim) for dim in sorted(starts)),
            start_map=tuple(source_dims.index(dim) for dim in starts), index_vector=fields["index_vector"],
            operand_batching=tuple(source_dims.index(dim) for dim, _ in pairs),
            start_batching=tuple(batch for _, batch in pairs), sizes=(1,) * len(source_dims),
        )  # fmt: skip

    def _indices(self, starts: Sequence[int]) -> Node:
        """Return the indices along some of the operand's dimensions."""
        node, fields = self._node, self._node.attributes
        indices, vector = node.operands[1], fields["index_vector"]
        if len(starts) == len(fields["start_map"]):
            return indices
        columns = [
            sliced(node, indices, vector, number, number + 1)
            for number, dim in enumerate(fields["start_map"])
            if dim in starts
        ]
        if len(columns) == 1:
            return columns[0]
        shape = list(indices.shape)
        shape[vector] = len(columns)
        return derived(node, "concatenate", columns, shape, dimensions=(vector,))


def _result_dimension(node: Node, index_dimension: int) -> int:
    """Return the dimension of the result that a dimension of the indices becomes."""
    return index_dimension - (index_dimension > node.attributes["index_vector"])
