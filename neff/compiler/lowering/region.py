"""A computation of scalars, done on tiles: what a scatter applies to each element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neff.compiler.graph.nodes import Node, uncovered
from neff.compiler.graph.types import held_as, narrow_constant
from neff.compiler.graph.views import VIEWS
from neff.compiler.lowering.emitter import Emitter, Value
from neff.compiler.lowering.operations import OPERATIONS

__all__ = ["Region"]


@dataclass(frozen=True, slots=True)
class Region:
    """Scalar nodes from parameters to results.

    Attributes:
        parameters: stand for the tiles that it is given.
        results: what it computes.
    """

    parameters: tuple[Node, ...]
    results: tuple[Node, ...]

    def on_tiles(self, emitter: Emitter, tiles: Sequence[Value]) -> list[Value]:
        """The results for one tile a parameter.

        Raises:
            NeffCompileError: ``NEFF-OP``; it has an operation that is not element by element.
        """
        known: dict[int, Value] = {
            id(node): tile for node, tile in zip(self.parameters, tiles, strict=True)
        }
        return [self._value(emitter, node, known) for node in self.results]

    def _value(self, emitter: Emitter, node: Node, known: dict[int, Value]) -> Value:
        if id(node) not in known:
            known[id(node)] = self._computed(emitter, node, known)
        return known[id(node)]

    def _computed(self, emitter: Emitter, node: Node, known: dict[int, Value]) -> Value:
        splat = node.splat
        if splat is not None:
            return narrow_constant(node, np.asarray(splat)).reshape(-1)[0]
        values = [self._value(emitter, operand, known) for operand in node.operands]
        if node.opcode in VIEWS:
            return values[0]
        rule = OPERATIONS.get(node.opcode)
        if rule is None or any(held_as(one).kind == "double" for one in (node, *node.operands)):
            raise uncovered(node)
        return rule(emitter, node, *values)
