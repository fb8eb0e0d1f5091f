"""``--auto-cast``: which float32 operations are done in a smaller type.

With ``matmult`` only products read their operands in the smaller type. With ``all`` parameters and
results keep float32; between them values are held in the smaller type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Graph, Node
from neff.compiler.graph.views import VIEWS
from neff.compiler.lowering.operations import ELEMENTWISE
from neff.options import CompileOptions

__all__ = ["Casting", "cast_everything", "downcast"]

_ELEMENTS = {"bf16": "bf16", "fp16": "f16", "fp8_e4m3": "bf16", "tf32": "f32"}
"""Type that values are held in. fp8 is for the operands of products only; the rest of such a
program is held in bf16. tf32 is a format of products alone."""

_CAST = ELEMENTWISE | VIEWS | {"dot", "convolution", "reduce", "concatenate", "pad"}


@dataclass(frozen=True, slots=True)
class Casting:
    """The options ``--auto-cast`` and ``--auto-cast-type``.

    Attributes:
        everything: type that all float32 operations are done in, "" to leave them.
        dots: type that float32 operands of a dot are read in, "" to leave them.
    """

    everything: str = ""
    dots: str = ""

    @classmethod
    def of(cls, options: CompileOptions) -> Casting:
        """The casting that the compiler options select."""
        kind = options.auto_cast_type
        return {"none": cls(), "matmult": cls("", kind), "all": cls(kind, kind)}[options.auto_cast]


def cast_everything(graph: Graph, kind: str) -> Graph:
    """The graph with float32 operations in the type that ``--auto-cast-type`` names."""
    element = _ELEMENTS[kind]
    if element == "f32":
        return graph
    return _Caster(element).run(graph)


def downcast(graph: Graph) -> Graph:
    """The graph with float64 computed in float32; parameters and results keep their type."""
    single = BY_NAME["f32"]
    made: dict[int, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        operands = tuple(made[id(operand)] for operand in node.operands)
        narrow = node.element.name == "f64" and node.opcode != "parameter"
        found = replace(node, operands=operands, attributes=dict(node.attributes))
        if node.opcode == "parameter":
            found = node
        if narrow:
            found.element = single
            if "value" in found.attributes:
                found.attributes["value"] = node.attributes["value"].astype(np.float32)
        nodes.append(found)
        if node.opcode == "parameter" and node.element.name == "f64":
            found = found.like("convert", found, element="f32")
            nodes.append(found)
        made[id(node)] = found
    results: list[Node] = []
    for node in graph.results:
        found = made[id(node)]
        if node.element.name == "f64":
            found = found.like("convert", found, element="f64")
            nodes.append(found)
        results.append(found)
    return replace(graph, nodes=nodes, results=results)


class _Caster:
    def __init__(self, element: str) -> None:
        self._small = BY_NAME[element]
        self._nodes: list[Node] = []
        self._made: dict[int, Node] = {}
        self._casts: dict[tuple[int, str], Node] = {}

    def run(self, graph: Graph) -> Graph:
        for node in graph.nodes:
            self._made[id(node)] = self._rewritten(node)
            self._nodes.append(self._made[id(node)])
        results = [self._as(self._made[id(node)], node.element.name) for node in graph.results]
        parameters = [self._made[id(node)] for node in graph.parameters]
        return replace(graph, parameters=parameters, nodes=self._nodes, results=results)

    def _rewritten(self, node: Node) -> Node:
        """The node over rewritten operands, in the small type if it is a float32 operation."""
        operands = [self._made[id(operand)] for operand in node.operands]
        cast = node.element.name == "f32" and node.opcode in _CAST
        if node.opcode in ("compare", "is-finite") or cast:
            operands = [
                self._as(made, self._small.name) if made.element.name == "f32" else made
                for made in operands
            ]
        else:
            operands = [
                self._as(made, old.element.name)
                for made, old in zip(operands, node.operands, strict=True)
            ]
        element = self._small if cast else node.element
        made = replace(node, operands=tuple(operands), element=element)
        made.attributes = dict(node.attributes)
        return made

    def _as(self, node: Node, element: str) -> Node:
        if node.element.name == element or node.element.name not in ("f32", self._small.name):
            return node
        key = (id(node), element)
        if key not in self._casts:
            made = node.like("convert", node, element=element)
            self._casts[key] = made
            self._nodes.append(made)
        return self._casts[key]
