"""Elementwise neighbours become one group, so that what is between them stays in SBUF.

A node joins the group of an operand when both have the same shape and nothing outside the group
has read it yet. A group that somebody outside has read is closed, so no path ever leaves a group
and comes back, and the group can run at the place of its last member.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from neff.compiler.graph import Graph, Node
from neff.compiler.lowering.operations import OPERATIONS
from neff.compiler.views import VIEWS

__all__ = ["ELEMENTWISE", "Unit", "fuse"]

ELEMENTWISE = frozenset(OPERATIONS)
"""Opcodes that are computed element by element."""

_GROUP_LIMIT = 160
"""Nodes of one group at most."""


@dataclass(slots=True, eq=False)
class Unit:
    """What one kernel computes: a group of elementwise nodes, or one other node."""

    nodes: list[Node]
    last: int
    elementwise: bool
    is_open: bool = True
    merged: Unit | None = None


@dataclass(slots=True)
class _Fuser:
    units: list[Unit] = field(default_factory=list[Unit])
    owner: dict[int, Unit] = field(default_factory=dict[int, Unit])

    def unit_of(self, node: Node) -> Unit | None:
        unit = self.owner.get(id(node))
        while unit is not None and unit.merged is not None:
            unit = unit.merged
        return unit

    def close(self, node: Node) -> None:
        """Somebody outside reads this value: its group takes nobody more."""
        while node.opcode in VIEWS:
            node = node.operands[0]
        unit = self.unit_of(node)
        if unit is not None:
            unit.is_open = False

    def add_group_member(self, node: Node, position: int) -> None:
        shape = _squeezed(node.shape)
        joined: Unit | None = None
        outside: list[Node] = []
        for operand in node.operands:
            source = same_elements(operand)
            unit = self.unit_of(source)
            fits = unit is not None and unit.elementwise and _squeezed(source.shape) == shape
            if not fits or unit is None or not unit.is_open or len(unit.nodes) >= _GROUP_LIMIT:
                outside.append(operand)
            elif joined is None or joined is unit:
                joined = unit
            else:
                joined = _merge(joined, unit)
        for operand in outside:
            self.close(operand)
        if joined is None or not joined.is_open:
            joined = Unit([], position, True)
            self.units.append(joined)
            for operand in node.operands:
                self.close(operand)
        joined.nodes.append(node)
        joined.last = position
        self.owner[id(node)] = joined


def _merge(first: Unit, second: Unit) -> Unit:
    first.nodes += second.nodes
    first.last = max(first.last, second.last)
    second.nodes = []
    second.merged = first
    return first


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The extents that are not one."""
    return tuple(extent for extent in shape if extent != 1)


def same_elements(node: Node) -> Node:
    """What the value is when reshapes and broadcasts that only add or drop ones are left out."""
    while node.opcode in ("reshape", "broadcast") and node.operands:
        source = node.operands[0]
        if _squeezed(source.shape) != _squeezed(node.shape):
            return node
        node = source
    return node


def fuse(graph: Graph) -> list[Unit]:
    """The graph's work in an order in which everything comes after what it reads.

    Parameters, constants and views are in no unit.
    """
    fuser = _Fuser()
    order = {id(node): position for position, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        if node.opcode in VIEWS or node.opcode in ("parameter", "constant", "result"):
            continue
        position = order[id(node)]
        if node.opcode in ELEMENTWISE:
            fuser.add_group_member(node, position)
            continue
        for operand in node.operands:
            fuser.close(operand)
        unit = Unit([node], position, False, False)
        fuser.units.append(unit)
        fuser.owner[id(node)] = unit
    return sorted((unit for unit in fuser.units if unit.nodes), key=lambda unit: unit.last)
