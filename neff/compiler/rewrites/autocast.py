"""``--auto-cast``: the float32 operations that are computed in a smaller type.

With ``matmult`` only products read their operands in the smaller type. With ``all`` the values
between parameters and results are stored in the smaller type.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.graph.nodes import Graph, Node
from neff.compiler.graph.views import VIEWS
from neff.compiler.lowering.tiles.operations import ELEMENTWISE
from neff.options import CompileOptions

__all__ = ["Casting", "cast_everything", "downcast"]

_STORED_TYPES = {"bf16": "bf16", "fp16": "f16", "fp8_e4m3": "bf16", "tf32": "f32"}
"""Option -> type in which values are stored. fp8 is for the operands of products only; other values
of such a program are bf16. tf32 is a format of products only.
"""

_CAST_OPCODES = ELEMENTWISE | VIEWS | {"dot", "convolution", "reduce", "concatenate", "pad"}


@dataclass(frozen=True, slots=True)
class Casting:
    """The options ``--auto-cast`` and ``--auto-cast-type``.

    Attributes:
        everything: type for all float32 operations; "" keeps float32.
        dots: type in which a dot reads float32 operands; "" keeps float32.
    """

    everything: str = ""
    dots: str = ""

    @classmethod
    def of(cls, options: CompileOptions) -> Casting:
        """Return the casting that the compiler options select."""
        kind = options.auto_cast_type
        return {"none": cls(), "matmult": cls("", kind), "all": cls(kind, kind)}[options.auto_cast]


def cast_everything(graph: Graph, kind: str) -> Graph:
    """Return the graph with float32 operations in the type that ``--auto-cast-type`` names."""
    element = _STORED_TYPES[kind]
    if element == "f32":
        return graph
    return _Caster(element).run(graph)


def downcast(graph: Graph) -> Graph:
    """Return the graph with float64 computed in float32; parameters and results keep their type."""
    single = BY_NAME["f32"]
    replacements: dict[int, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        operands = tuple(replacements[id(operand)] for operand in node.operands)
        narrow = node.element.name == "f64" and node.opcode != "parameter"
        cast = replace(node, operands=operands, attributes=dict(node.attributes))
        if node.opcode == "parameter":
            cast = node
        if narrow:
            cast.element = single
            if "value" in cast.attributes:
                cast.attributes["value"] = node.attributes["value"].astype(np.float32)
        nodes.append(cast)
        if node.opcode == "parameter" and node.element.name == "f64":
            cast = cast.like("convert", cast, element="f32")
            nodes.append(cast)
        replacements[id(node)] = cast
    results: list[Node] = []
    for node in graph.results:
        cast = replacements[id(node)]
        if node.element.name == "f64":
            cast = cast.like("convert", cast, element="f64")
            nodes.append(cast)
        results.append(cast)
    return replace(graph, nodes=nodes, results=results)


class _Caster:
    def __init__(self, element: str) -> None:
        self._small = BY_NAME[element]
        self._nodes: list[Node] = []
        self._replacements: dict[int, Node] = {}
        self._casts: dict[tuple[int, str], Node] = {}

    def run(self, graph: Graph) -> Graph:
        for node in graph.nodes:
            self._replacements[id(node)] = self._rewritten(node)
            self._nodes.append(self._replacements[id(node)])
        results = [
            self._as(self._replacements[id(node)], node.element.name) for node in graph.results
        ]
        parameters = [self._replacements[id(node)] for node in graph.parameters]
        return replace(graph, parameters=parameters, nodes=self._nodes, results=results)

    def _rewritten(self, node: Node) -> Node:
        """Return the node over rewritten operands, in the small type if it is a float32
        operation.
        """
        operands = [self._replacements[id(operand)] for operand in node.operands]
        cast = node.element.name == "f32" and node.opcode in _CAST_OPCODES
        if node.opcode in ("compare", "is-finite") or cast:
            operands = [
                self._as(operand, self._small.name) if operand.element.name == "f32" else operand
                for operand in operands
            ]
        else:
            operands = [
                self._as(operand, old.element.name)
                for operand, old in zip(operands, node.operands, strict=True)
            ]
        element = self._small if cast else node.element
        operand = replace(node, operands=tuple(operands), element=element)
        operand.attributes = dict(node.attributes)
        return operand

    def _as(self, node: Node, element: str) -> Node:
        if node.element.name == element or node.element.name not in ("f32", self._small.name):
            return node
        key = (id(node), element)
        if key not in self._casts:
            cast = node.like("convert", node, element=element)
            self._casts[key] = cast
            self._nodes.append(cast)
        return self._casts[key]
