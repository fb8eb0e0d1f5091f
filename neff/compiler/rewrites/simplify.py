"""The same graph with less to do: equal nodes once, and idioms as one operation of the engines."""

from __future__ import annotations

from typing import Any

from neff.compiler.graph.nodes import Graph, Node
from neff.compiler.record import Record, Rewrite
from neff.compiler.rewrites.rules import rewritten
from nki_lang.base.dtypes import Array

__all__ = ["live", "simplified"]

_LARGEST = 4096
"""Elements of a constant that are compared with those of others."""

_APART = frozenset({"parameter", "kernel", "result", "loop", "turn", "carried", "counter"})


def simplified(graph: Graph, level: int = 2, record: Record | None = None) -> Graph:
    """A graph with the same results; nodes that change are made anew.

    Args:
        graph: it is not changed.
        level: ``optlevel``, which says which rules there are.
        record: gets what was rewritten.
    """
    made: dict[int, Node] = {}
    known: dict[Any, Node] = {}
    uses = dict.fromkeys(map(id, graph.nodes), 0)
    for one in (*graph.results, *(operand for node in graph.nodes for operand in node.operands)):
        uses[id(one)] += 1
    for node in graph.nodes:
        found = _with(node, tuple(made[id(operand)] for operand in node.operands))
        if node.opcode not in _APART:
            found, rule = rewritten(found, uses, level)
            if rule and record is not None:
                record.rewrites.append(Rewrite(rule, node.name, node.place))
            key = _key(found)
            found = found if key is None else known.setdefault(key, found)
            uses[id(found)] = uses.get(id(found), 0) + uses[id(node)] * (found is not node)
        made[id(node)] = found
    results = [made[id(node)] for node in graph.results]
    return Graph(
        graph.name,
        graph.parameters,
        live(results, graph.parameters),
        results,
        graph.returns_tuple,
        graph.attributes,
        graph.pairs,
    )


def _with(node: Node, operands: tuple[Node, ...]) -> Node:
    if all(one is other for one, other in zip(operands, node.operands, strict=True)):
        return node
    fields = node.opcode, operands, node.shape, node.element, node.attributes
    return Node(*fields, node.name, node.place)


def _key(node: Node) -> Any:
    """Equal for nodes with equal values; None for one that is compared with no other."""
    fields: list[Any] = []
    for name, value in sorted(node.attributes.items()):
        if name == "value":
            array: Array = value
            if array.size > _LARGEST:
                return None
            fields.append((array.dtype.str, array.shape, array.tobytes()))
        else:
            fields.append((name, value))
    operands = tuple(id(operand) for operand in node.operands)
    key = (node.opcode, operands, node.shape, node.element.name, *fields)
    try:
        hash(key)
    except TypeError:  # computations of scatters and lists: such nodes are rarely equal
        return None
    return key


def live(results: list[Node], parameters: list[Node]) -> list[Node]:
    """Nodes that the results need, operands first, in the order in which they were made."""
    ordered: dict[int, Node] = {id(node): node for node in parameters}
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(results)]
    while stack:
        node, ready = stack.pop()
        if id(node) in ordered:
            continue
        if ready:
            ordered[id(node)] = node
            continue
        stack.append((node, True))
        stack.extend((operand, False) for operand in reversed(node.operands))
    return list(ordered.values())
