"""A graph as the JSON that Model Explorer reads (its ``graph_builder`` classes, written out)."""

from __future__ import annotations

import json
from typing import Any

from hlo_tools.graph.model import Graph, Node

__all__ = ["render_explorer"]


def render_explorer(graph: Graph) -> str:
    """One graph for each computation, the entry first; calls are sub-graphs."""
    names = [computation.name for computation in graph.computations]
    graphs = [
        {
            "id": computation.name,
            "nodes": [
                _node(number, graph.nodes[number], graph, names)
                for number in range(computation.begin, computation.end)
            ],
        }
        for computation in graph.computations
    ]
    return json.dumps({"label": graph.name, "graphs": graphs}, ensure_ascii=False) + "\n"


def _node(number: int, node: Node, graph: Graph, names: list[str]) -> dict[str, Any]:
    attributes = [("name", f"%{node.name}"), *node.attributes, *node.kernel]
    if node.source:
        attributes.append(("source", node.source))
    fields: dict[str, Any] = {
        "id": str(number),
        "label": node.title,
        "namespace": "/".join(scope.replace("/", "_") for scope in node.scope),
        "attrs": [{"key": key, "value": text} for key, text in attributes],
        "incomingEdges": [
            {
                "sourceNodeId": str(operand),
                "sourceNodeOutputId": "0",
                "targetNodeInputId": str(slot),
            }
            for slot, operand in enumerate(node.operands)
        ],
        "outputsMetadata": [
            {"id": "0", "attrs": [{"key": "tensor_shape", "value": node.shape}]},
        ],
    }
    if node.calls:
        fields["subgraphIds"] = [names[called] for called in node.calls]
    return fields
