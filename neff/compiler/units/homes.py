"""In which memory the values of a loop's body are computed: in place, where that is safe.

A part of a loop's state has one buffer. What a turn ends with is computed there at once when
nobody reads the old value any more; else it is computed beside it and copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from neff.compiler.graph.blocks import Block, Loop
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.rows import same_elements
from neff.compiler.graph.views import VIEWS
from neff.compiler.lowering.tiles.operations import ELEMENTWISE
from neff.compiler.units.fuse import Unit

__all__ = ["Old", "State", "Users", "chains", "in_place"]

UPDATES = frozenset({"dynamic-update-slice", "update-slice", "scatter"})
"""Opcodes that write over a part of their first operand."""

_LAZY = VIEWS | {"dynamic-slice"}
"""Opcodes that move nothing: the operand is read by whoever reads the result."""

_END = 1 << 60

Users = dict[int, list[Node | None]]


@dataclass(slots=True)
class State:
    """One part of the state while a body is lowered.

    Attributes:
        new: what it becomes.
        buffer: its memory; "" when ``new`` may not be computed there.
        passes: ``new`` is what is in the buffer already.
    """

    new: Node
    buffer: str
    passes: bool = False


@dataclass(frozen=True, slots=True)
class Old:
    """Values of the turn before, or arguments of a branch.

    Attributes:
        buffers: ``id`` of a node -> the buffer that it is in.
        whole_buffer: ``id`` of nodes that fill their buffer, in order.
    """

    buffers: dict[int, str]
    whole_buffer: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Read:
    """A read of an old value: the unit, the place in it, the node, and number of the operand."""

    unit: int
    place: int
    node: Node
    operand: int


def _base(node: Node) -> Node:
    while node.opcode in _LAZY:
        node = node.operands[0]
    return node


def in_place(
    block: Block,
    units: list[Unit],
    states: list[State],
    old: Old,
    users: Users,
    gate: Node | None,
) -> dict[int, str]:
    """``id`` of a node -> the buffer of the state that it is computed in.

    Args:
        block: the body.
        units: its work in order.
        states: parts of the state.
        old: the values of the turn before.
        users: who reads each node.
        gate: the condition of the next turn.
    """  # fmt: skip
    where = {id(node): (number, position)
             for number, unit in enumerate(units) for position, node in enumerate(unit.nodes)}  # fmt: skip
    results = {id(result): id(node) for node in block.nodes if node.opcode == "turn"
               for result in block.loops[id(node)].results.values()}  # fmt: skip
    where |= {key: where[owner] for key, owner in results.items()}
    reads = _reads(units, old)
    for value in (*(state.new for state in states if not state.passes), *((gate,) if gate else ())):
        buffer = old.buffers.get(id(_base(value)))
        if buffer is not None:
            reads.setdefault(buffer, []).append(_Read(_END, 0, value, 0))
    buffers: dict[int, str] = {}
    for state in states:
        if state.passes or not state.buffer:
            continue
        chain = _chain(_unshaped(state.new), where, users)
        if not chain or id(chain[0]) in buffers:
            continue
        first = chain[-1]
        if all(
            _is_before(read, first, where[id(first)], units, block, old, state.buffer)
            for read in reads.get(state.buffer, ())
        ):
            buffers |= {id(node): state.buffer for node in chain}
    return buffers


def _unshaped(node: Node) -> Node:
    while node.opcode == "reshape":
        node = node.operands[0]
    return node


def _reads(units: list[Unit], old: Old) -> dict[str, list[_Read]]:
    """The reads of each buffer's old value."""
    reads: dict[str, list[_Read]] = {}
    for number, unit in enumerate(units):
        for index, node in enumerate(unit.nodes):
            for position, operand in enumerate(node.operands):
                buffer = old.buffers.get(id(_base(operand)))
                if buffer is not None:
                    reads.setdefault(buffer, []).append(_Read(number, index, node, position))
    return reads


def _chain(node: Node, where: dict[int, tuple[int, int]], users: Users) -> list[Node]:
    """A value and, where it is an update of a value that nobody else reads, that one too."""
    chain: list[Node] = []
    while id(node) in where:
        chain.append(node)
        if node.opcode not in UPDATES or _operands(node) > 1:
            break
        before = node.operands[0]
        if before.element.name != node.element.name or len(users.get(id(before), ())) != 1:
            break
        node = before
    return chain


def _operands(node: Node) -> int:
    """How many operands an update writes over."""
    return len(node.operands) // 2 if node.opcode == "scatter" else 1


def _is_before(
    read: _Read, first: Node, location: tuple[int, int], units: list[Unit], block: Block,
    old: Old, buffer: str,
) -> bool:  # fmt: skip
    """True when the old value is read before it is written over."""
    number, position = location
    if read.unit != number:
        return read.unit < number
    unit = units[number]
    operand = read.node.operands[read.operand]
    if unit.elementwise:
        return (
            _walks_alike(unit)
            and read.place <= position
            and id(same_elements(operand)) in old.whole_buffer
        )
    if first.opcode in UPDATES:
        return read.operand == 0 and id(operand) in old.whole_buffer and _operands(first) == 1
    if read.node.opcode == "turn":
        return _hands_over(block.loops[id(read.node)], first, old, buffer)
    return False


def _walks_alike(unit: Unit) -> bool:
    """True when each tile reads the elements that it writes and no others."""
    return unit.rows is None and all(node.opcode in ELEMENTWISE for node in unit.nodes)


def _hands_over(loop: Loop, result: Node, old: Old, buffer: str) -> bool:
    """True when a loop takes the old value only as the start of what ``result`` is the end of, or
    branches only as arguments: what they may write over, they see themselves."""
    if result.opcode != "result":
        return False
    other_reads = [*loop.captured, *([loop.gate] if loop.gate is not None else [])]
    all_reads = [*loop.inits, *other_reads]
    reads = [value for value in all_reads if old.buffers.get(id(_base(value))) == buffer]
    if loop.branches:
        beside = any(value in other_reads for value in reads)
        return not beside and all(id(value) in old.whole_buffer for value in reads)
    index: int = result.attributes["index"]
    start = loop.inits[index]
    return len(reads) == 1 and reads[0] is start and id(start) in old.whole_buffer


def chains(units: list[Unit], placed: dict[int, str], users: Users) -> Iterable[tuple[Node, Node]]:
    """(value, update of it) where nobody else reads the value, the last updates first.

    Args:
        units: the work of a block.
        placed: ``id`` of nodes whose memory is chosen already.
        users: who reads each node.
    """
    where = {id(node) for unit in units for node in unit.nodes}
    for unit in reversed(units):
        node = unit.nodes[0]
        if unit.elementwise or node.opcode not in UPDATES or _operands(node) > 1:
            continue
        before = node.operands[0]
        computed = id(before) in where or before.opcode == "result"
        if computed and id(before) not in placed and len(users.get(id(before), ())) == 1:
            yield before, node
