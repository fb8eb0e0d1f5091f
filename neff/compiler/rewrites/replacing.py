"""Puts values in the place of nodes of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from neff.compiler.graph.nodes import Graph, Node
from neff.compiler.rewrites.simplify import live

__all__ = ["replaced"]


def replaced(graph: Graph, replacements: Mapping[int, Node]) -> tuple[Graph, dict[int, Node]]:
    """Return the graph with values in the place of nodes, and the copy of each live node.

    Args:
        graph: the graph; it is not changed.
        replacements: ``id`` of a node -> the value in its place. Its operands are nodes of the graph
            or of other replacements; they are replaced, too.

    Returns:
        The graph; and ``id`` of a node -> the node in its place, for what the results need.
    """
    copies: dict[int, Node] = {id(node): node for node in graph.parameters}
    stack = list(reversed(graph.results))
    while stack:
        node = stack[-1]
        if id(node) in copies:
            stack.pop()
            continue
        target = replacements.get(id(node))
        needed = node.operands if target is None else (target,)
        missing = [operand for operand in needed if id(operand) not in copies]
        if missing:
            stack += reversed(missing)
            continue
        stack.pop()
        if target is not None:
            copies[id(node)] = copies[id(target)]
            continue
        operands = tuple(copies[id(operand)] for operand in node.operands)
        is_same = all(new is old for new, old in zip(operands, node.operands, strict=True))
        copies[id(node)] = node if is_same else replace(node, operands=operands)
    results = [copies[id(node)] for node in graph.results]
    nodes = live(results, graph.parameters)
    return replace(graph, nodes=nodes, results=results), copies
