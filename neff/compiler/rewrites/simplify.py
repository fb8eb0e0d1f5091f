"""Simplifies a graph: merges equal nodes, and rewrites idioms to operations of the engines."""

from __future__ import annotations

from typing import Any

import numpy as np

from neff.compiler.graph.nodes import Graph, Node, derived
from neff.compiler.graph.rows import same_elements, squeezed
from neff.compiler.lowering.tiles.operations import ELEMENTWISE
from neff.compiler.record import Record, Rewrite
from neff.compiler.rewrites.rules import rewritten
from nki_lang.base.dtypes import Array

__all__ = ["live", "simplified"]

_MAX_COMPARED_ELEMENTS = 4096
"""Limit on the elements of constants that are compared; larger ones cost more time than they
save.
"""

_UNMERGED_OPCODES = frozenset(
    {"parameter", "kernel", "result", "loop", "turn", "carried", "counter"}
)


_COMMUTATIVE = frozenset({"add", "multiply", "and", "or", "xor"})
"""Operations that are equal in both orders of their operands."""


def simplified(graph: Graph, level: int = 2, record: Record | None = None) -> Graph:
    """Return a graph with the same results; changed nodes are copies.

    Args:
        graph: the graph; it is not changed.
        level: ``optlevel``, which selects the rules.
        record: receives the rewrites.
    """
    replacements: dict[int, Node] = {}
    merged: dict[Any, Node] = {}
    values: dict[int, Node] = {}
    uses = dict.fromkeys(map(id, graph.nodes), 0)
    for operand in (
        *graph.results,
        *(operand for node in graph.nodes for operand in node.operands),
    ):
        uses[id(operand)] += 1
    for node in graph.nodes:
        replacement = _with(node, tuple(replacements[id(operand)] for operand in node.operands))
        if node.opcode not in _UNMERGED_OPCODES:
            replacement, rule = rewritten(replacement, uses, level)
            if rule and record is not None:
                record.rewrites.append(Rewrite(rule, node.name, node.place))
            replacement = (
                _all_merged(replacement, merged, values) if rule else _merged(replacement, merged)
            )
            uses[id(replacement)] = uses.get(id(replacement), 0) + uses[id(node)] * (
                replacement is not node
            )
        replacements[id(node)] = replacement
        values[id(replacement)] = replacement
    results = [replacements[id(node)] for node in graph.results]
    return Graph(
        graph.name,
        graph.parameters,
        live(results, graph.parameters),
        results,
        graph.returns_tuple,
        graph.attributes,
        graph.pairs,
    )


def _all_merged(node: Node, merged: dict[Any, Node], values: dict[int, Node]) -> Node:
    """Return :func:`_merged` of a node and of its operands that a rule made.

    ``values`` has the nodes that are there, by ``id``; it keeps them alive.
    """
    if id(node) in values:
        return node
    operands = tuple(_all_merged(operand, merged, values) for operand in node.operands)
    result = _merged(_with(node, operands), merged)
    values[id(result)] = result
    return result


def _merged(node: Node, merged: dict[Any, Node]) -> Node:
    """Return the first node of equal value, as a reshape if its shape has other ones."""
    key = _key(node)
    if key is None:
        return node
    equal = merged.setdefault(key, node)
    if equal.shape == node.shape:
        return equal
    reshaped = derived(node, "reshape", (equal,), node.shape)
    return merged.setdefault((*key, node.shape), reshaped)


def _with(node: Node, operands: tuple[Node, ...]) -> Node:
    if all(new is old for new, old in zip(operands, node.operands, strict=True)):
        return node
    fields = node.opcode, operands, node.shape, node.element, node.attributes
    return Node(*fields, node.name, node.place)


def _key(node: Node) -> Any:
    """Return a key that is equal for nodes of equal value; None for a node that is never merged.

    Dimensions of one element do not matter to elementwise operations: a mean is often there twice, with
    and without them.
    """
    fields: list[Any] = []
    for name, value in sorted(node.attributes.items()):
        if name == "value":
            array: Array = value
            if array.size > _MAX_COMPARED_ELEMENTS:
                return None
            fields.append((array.dtype.str, array.shape, array.tobytes()))
        else:
            fields.append((name, value))
    operands: tuple[Any, ...] = tuple(id(operand) for operand in node.operands)
    shape = node.shape
    if node.opcode in ELEMENTWISE:
        operands, shape = tuple(map(_value_key, node.operands)), squeezed(shape)
        if node.opcode in _COMMUTATIVE:
            operands = tuple(sorted(operands, key=hash))
    elif node.opcode == "broadcast":
        (operand,) = node.operands
        wide = [dim for dim, n in enumerate(operand.shape) if n != 1]
        operands = (_value_key(operand),)
        dims: tuple[int, ...] = node.attributes["dimensions"]
        fields = [tuple(dims[dim] for dim in wide)]
    key = (node.opcode, operands, shape, node.element.name, *fields)
    try:
        hash(key)
    except TypeError:  # computations of scatters and lists: such nodes are rarely equal
        return None
    return key


def _value_key(node: Node) -> Any:
    """Return a key that is equal for nodes of the same elements, whatever ones their shape has."""
    number = node.splat
    if number is not None and node.size:
        return node.element.name, np.asarray(number).tobytes()
    return id(same_elements(node))


def live(results: list[Node], parameters: list[Node]) -> list[Node]:
    """Return the nodes that the results need, operands first, in order of creation."""
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
