"""Orders of a graph's nodes for fusion.

A unit is closed as soon as another unit reads one of its values, so fusion depends on the order in
which it visits nodes. In the usual order, that of the results, a loss that is reduced to one number
closes the unit of its softmax before the gradient can join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from neff.compiler.graph.blocks import Block
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.rows import source_of
from neff.compiler.graph.types import HELD
from neff.compiler.graph.views import VIEWS
from neff.compiler.lowering.tiles.operations import ELEMENTWISE
from neff.compiler.units.fuse import Unit, is_column_sum

__all__ = ["MAX_SHARE", "bytes_between", "can_reorder", "closers_late", "closes_units"]

MAX_SHARE = 0.9
"""The second order is used only if it moves at most this share of the bytes of the first."""


_PURE_OPCODES = (
    ELEMENTWISE
    | VIEWS
    | frozenset(
        {"concatenate", "constant", "convolution", "cumulative", "dot", "gather", "iota", "pad",
         "parameter", "pool", "rearranged-row", "reduce", "sorted", "topk"}
    )
)  # fmt: skip
"""Operations without state, whose place among each other is free: no loops, updates in place, kernels
or collectives.
"""


def can_reorder(block: Block) -> bool:
    """Return True if the nodes of a block depend on each other by their operands only."""
    return not block.loops and all(node.opcode in _PURE_OPCODES for node in block.nodes)


def closes_units(node: Node) -> bool:
    """Return True for a node that reads a value from outside of the unit that computes it."""
    if node.opcode in ELEMENTWISE:
        return any(is_column_sum(_stored_value(operand)) for operand in node.operands)
    if node.opcode == "reduce":
        return not (is_column_sum(node) or _reduces_rows(node))
    return node.opcode not in VIEWS and bool(node.operands)


def _reduces_rows(node: Node) -> bool:
    wide = [dim for dim, extent in enumerate(node.operands[0].shape) if extent != 1]
    reduced = [dim for dim in wide if dim in node.attributes["dimensions"]]
    return wide[len(wide) - len(reduced) :] == reduced and len(reduced) < len(wide)


def closers_late(nodes: Sequence[Node], closes: Callable[[Node], bool]) -> list[Node]:
    """Return the nodes, operands first, with nodes that close units as late as possible.

    Args:
        nodes: the nodes, operands first.
        closes: returns True for a node that is a kernel of its own or completes after all rows.
    """
    position = {id(node): number for number, node in enumerate(nodes)}
    missing: list[int] = []
    readers: list[list[int]] = [[] for _ in nodes]
    for number, node in enumerate(nodes):
        operands = {position[id(operand)] for operand in node.operands if id(operand) in position}
        missing.append(len(operands))
        for operand in operands:
            readers[operand].append(number)
    joining: list[int] = []
    closing: list[int] = []

    def ready(number: int) -> None:
        heappush(closing if closes(nodes[number]) else joining, number)

    for number, count in enumerate(missing):
        if not count:
            ready(number)
    ordered: list[Node] = []
    while joining or closing:
        number = heappop(joining or closing)
        ordered.append(nodes[number])
        for reader in readers[number]:
            missing[reader] -= 1
            if not missing[reader]:
                ready(reader)
    return ordered


def bytes_between(units: Sequence[Unit]) -> int:
    """Return the bytes that units write to HBM for each other, and read from there."""
    owner = {id(node): number for number, unit in enumerate(units) for node in unit.nodes}
    stored: dict[int, int] = {}
    loaded = 0
    for number, unit in enumerate(units):
        loaded_ids: set[int] = set()
        for node in unit.nodes:
            for operand in node.operands:
                source = _stored_value(operand)
                maker = owner.get(id(source))
                if maker == number or id(source) in loaded_ids or source.opcode == "constant":
                    continue
                loaded_ids.add(id(source))
                size = source.size * HELD[source.element.name].tile.itemsize
                loaded += size
                if maker is not None:
                    stored[id(source)] = size
    return loaded + sum(stored.values())


def _stored_value(node: Node) -> Node:
    """Return the value that is in HBM for a view of it."""
    source, _ = source_of(node)
    while source.opcode in VIEWS and source.operands:
        source = source.operands[0]
    return source
