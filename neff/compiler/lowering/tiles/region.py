"""Applies a computation of scalars to tiles: a scatter's computation for each element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neff.compiler.graph.nodes import Node, uncovered
from neff.compiler.graph.types import held_as, narrow_constant
from neff.compiler.graph.views import VIEWS
from neff.compiler.lowering.tiles.emitter import Emitter, Value
from neff.compiler.lowering.tiles.operations import OPERATIONS

__all__ = ["Region"]


@dataclass(frozen=True, slots=True)
class Region:
    """Scalar nodes from parameters to results.

    Attributes:
        parameters: nodes that are replaced by tiles.
        results: the computed nodes.
    """

    parameters: tuple[Node, ...]
    results: tuple[Node, ...]

    def on_tiles(self, emitter: Emitter, tiles: Sequence[Value]) -> list[Value]:
        """Return the results for a tile for each parameter.

        Raises:
            NeffCompileError: ``NEFF-OP``; an operation is not elementwise.
        """
        values: dict[int, Value] = {
            id(node): tile for node, tile in zip(self.parameters, tiles, strict=True)
        }
        return [self._value(emitter, node, values) for node in self.results]

    def _value(self, emitter: Emitter, node: Node, values: dict[int, Value]) -> Value:
        if id(node) not in values:
            values[id(node)] = self._computed(emitter, node, values)
        return values[id(node)]

    def _computed(self, emitter: Emitter, node: Node, values_of: dict[int, Value]) -> Value:
        splat = node.splat
        if splat is not None:
            return narrow_constant(node, np.asarray(splat)).reshape(-1)[0]
        values = [self._value(emitter, operand, values_of) for operand in node.operands]
        if node.opcode in VIEWS:
            return values[0]
        rule = OPERATIONS.get(node.opcode)
        if rule is None or any(held_as(array).kind == "double" for array in (node, *node.operands)):
            raise uncovered(node)
        return rule(emitter, node, *values)
