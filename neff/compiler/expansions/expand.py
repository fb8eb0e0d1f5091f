"""Expands compound opcodes into graphs of simple ones: batch normalization, and windows.

``torch_xla`` writes layer normalisation this way too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from neff.compiler.expansions.decompositions import cholesky, triangular_solve
from neff.compiler.expansions.windows import convolution, reduce_window
from neff.compiler.graph.nodes import Node

__all__ = ["EXPANSIONS"]


@dataclass(frozen=True, slots=True)
class _Maker:
    """Creates the nodes of the expansion of ``node``.

    Attributes:
        node: the compound operation.
        like: the operand in whose shape the nodes are computed.
        feature: dimension of the features.
    """

    node: Node
    like: Node
    feature: int

    def make(self, opcode: str, *operands: Node, **fields: Any) -> Node:
        """Return an elementwise node, or a broadcast, in the shape of ``like``."""
        like = self.like
        return Node(
            opcode, operands, like.shape, like.element, fields, self.node.name, self.node.place
        )

    def spread(self, value: Node) -> Node:
        """Broadcast a value for each feature to the shape of ``like``."""
        return self.make("broadcast", value, dimensions=(self.feature,))

    def number(self, value: float) -> Node:
        """Broadcast a number to the shape of ``like``."""
        dtype = self.like.element.dtype
        constant = Node("constant", (), (), self.like.element, {"value": np.asarray(value, dtype)})
        return self.make("broadcast", constant, dimensions=())

    def total(self, value: Node) -> Node:
        """Return the sum over all dimensions but the features."""
        like = self.like
        zero = Node("constant", (), (), like.element, {"value": np.asarray(0, like.element.dtype)})
        dims = tuple(dim for dim in range(len(like.shape)) if dim != self.feature)
        fields = {"dimensions": dims, "applied": "add"}
        return Node(
            "reduce", (value, zero), (like.shape[self.feature],), like.element, fields,
            self.node.name, self.node.place,
        )  # fmt: skip

    def mean(self, value: Node) -> Node:
        """Return the mean over all dimensions but the features, for each feature."""
        total = self.total(value)
        count = self.like.size // max(1, self.like.shape[self.feature])
        share = np.asarray(1 / max(1, count), self.like.element.dtype)
        factor = Node("constant", (), (), total.element, {"value": share})
        factor = total.like("broadcast", factor, dimensions=())
        return total.like("multiply", total, factor)

    def scale_of(self, variance: Node) -> Node:
        """Return ``1 / sqrt(variance + epsilon)`` in the shape of ``like``."""
        epsilon = self.number(self.node.attributes["epsilon"])
        return self.make("rsqrt", self.make("add", self.spread(variance), epsilon))


def _training(node: Node) -> tuple[Node, ...]:
    operand, scale, offset = node.operands
    m = _Maker(node, operand, node.attributes["feature"])
    mean = m.mean(operand)
    centred = m.make("subtract", operand, m.spread(mean))
    variance = m.mean(m.make("multiply", centred, centred))
    normal = m.make("multiply", centred, m.scale_of(variance))
    scaled = m.make("multiply", normal, m.spread(scale))
    return m.make("add", scaled, m.spread(offset)), mean, variance


def _inference(node: Node) -> tuple[Node, ...]:
    operand, scale, offset, mean, variance = node.operands
    m = _Maker(node, operand, node.attributes["feature"])
    centred = m.make("subtract", operand, m.spread(mean))
    normal = m.make("multiply", centred, m.scale_of(variance))
    return (m.make("add", m.make("multiply", normal, m.spread(scale)), m.spread(offset)),)


def _gradient(node: Node) -> tuple[Node, ...]:
    operand, scale, mean, variance, gradient = node.operands
    m = _Maker(node, operand, node.attributes["feature"])
    factor = m.scale_of(variance)
    normal = m.make("multiply", m.make("subtract", operand, m.spread(mean)), factor)
    weighted = m.make("multiply", gradient, normal)
    slope, shift = m.mean(weighted), m.mean(gradient)
    inner = m.make("subtract", gradient, m.spread(shift))
    inner = m.make("subtract", inner, m.make("multiply", normal, m.spread(slope)))
    outer = m.make("multiply", m.spread(scale), factor)
    return m.make("multiply", outer, inner), m.total(weighted), m.total(gradient)


EXPANSIONS: dict[str, Callable[[Node], tuple[Node, ...]]] = {
    "cholesky": lambda node: (cholesky(node),),
    "batch-norm-grad": _gradient,
    "batch-norm-inference": _inference,
    "batch-norm-training": _training,
    "convolution": lambda node: (convolution(node),),
    "reduce-window": lambda node: (reduce_window(node),),
    "triangular-solve": lambda node: (triangular_solve(node),),
}
"""Compound opcode -> function that returns its results as nodes."""
