"""Which nodes each loop runs in every turn: the graph's one list as nested blocks.

What depends on a part of a loop's state belongs to the loop; what does not is computed once, in
front of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from neff.compiler.graph.nodes import Node

__all__ = ["Block", "Loop", "blocks_of", "without_dead_state"]

_OUTSIDE: frozenset[tuple[int, int]] = frozenset()
_SYMBOLS = frozenset({"carried", "counter"})
_MARKS = _SYMBOLS | {"loop"}

_Scope = frozenset[tuple[int, int]]
"""(``id`` of the loop, number of its branch) of every loop that a node is in."""


@dataclass(slots=True, eq=False)
class Loop:
    """A loop, or branches, as one step of the block around it.

    Attributes:
        start: the node ``loop``.
        end: the node ``turn``.
        bodies: one; for branches one of each.
        carried: the state's nodes in one turn; the arguments of branches.
        counters: what counts.
        results: number of a part of the state -> the node of its value behind the loop.
        captured: what the bodies read that is computed around the loop.
    """

    start: Node
    end: Node
    bodies: list[Block] = field(default_factory=list["Block"])
    carried: list[Node] = field(default_factory=list[Node])
    counters: list[Node] = field(default_factory=list[Node])
    results: dict[int, Node] = field(default_factory=dict[int, Node])
    captured: list[Node] = field(default_factory=list[Node])

    @property
    def ident(self) -> int:
        """Unique in the module."""
        ident: int = self.start.attributes["ident"]
        return ident

    @property
    def trips(self) -> int | None:
        """Turns, when they are known."""
        trips: int | None = self.start.attributes["trips"]
        return trips

    @property
    def branches(self) -> bool:
        """True for branches."""
        return bool(self.start.attributes["gated"] and not self.end.attributes["gated"])

    @property
    def gate(self) -> Node | None:
        """The condition of the first turn, or what chooses the branch."""
        return self.start.operands[0] if self.start.attributes["gated"] else None

    @property
    def inits(self) -> tuple[Node, ...]:
        """The initial state of a loop; the arguments of branches."""
        return self.start.operands[int(self.start.attributes["gated"]) :]

    @property
    def next_gate(self) -> Node | None:
        """The condition of the next turn."""
        return self.end.operands[1] if self.end.attributes["gated"] else None

    def new(self, branch: int = 0) -> tuple[Node, ...]:
        """Return the state after one iteration, or the results of a branch."""
        first = 1 + int(self.end.attributes["gated"])
        count = (len(self.end.operands) - first) // self.end.attributes["parts"]
        return self.end.operands[first + branch * count : first + (branch + 1) * count]


@dataclass(slots=True)
class Block:
    """Nodes in order; a loop stands there as a node ``turn``.

    Attributes:
        nodes: as above. The operands of ``turn`` are here what the loop reads from around it.
        loops: ``id`` of such a node -> the loop.
    """

    nodes: list[Node] = field(default_factory=list[Node])
    loops: dict[int, Loop] = field(default_factory=dict[int, Loop])


def blocks_of(nodes: Iterable[Node]) -> Block:
    """The outermost block of a graph's nodes."""
    ordered = list(nodes)
    scopes, depths = _scopes(ordered)
    loops: dict[int, Loop] = {}
    inside: dict[tuple[int, int], Block] = {}
    outermost = Block()
    for node in ordered:
        if node.opcode == "turn":
            start = node.operands[0]
            new_loop = loops[id(start)] = Loop(start, node)
            new_loop.bodies = [Block() for _ in range(node.attributes["parts"])]
            inside |= {(id(start), number): body for number, body in enumerate(new_loop.bodies)}
    for node in ordered:
        if node.opcode in _SYMBOLS:
            owner = loops[id(node.operands[0])]
            (owner.counters if node.opcode == "counter" else owner.carried).append(node)
        elif node.opcode == "result" and node.operands[0].opcode == "turn":
            loops[id(node.operands[0].operands[0])].results[node.attributes["index"]] = node
        if node.opcode in _MARKS:
            continue
        scope = scopes[id(node)]
        around = max(scope, key=lambda key: depths[key[0]]) if scope else None
        block = inside[around] if around else outermost
        if node.opcode == "turn":
            loop = loops[id(node.operands[0])]
            node = replace(node, operands=_read(loop), attributes=dict(node.attributes))
            block.loops[id(node)] = loop
        block.nodes.append(node)
    return outermost


def _scopes(nodes: list[Node]) -> tuple[dict[int, _Scope], dict[int, int]]:
    """The loops that each node depends on, and how deep each loop is, by ``id``."""
    scopes: dict[int, _Scope] = {}
    around: dict[int, _Scope] = {}
    for node in nodes:
        scope = _OUTSIDE.union(*(scopes[id(operand)] for operand in node.operands))
        if node.opcode in _SYMBOLS:
            scope |= {(id(node.operands[0]), node.attributes.get("branch", 0))}
        elif node.opcode == "turn":
            loop = id(node.operands[0])
            scope = frozenset(key for key in scope if key[0] != loop)
            around[loop] = scope
        scopes[id(node)] = scope
    return scopes, _depths(around)


def _depths(around: dict[int, _Scope]) -> dict[int, int]:
    """How deep each loop is.

    A loop may depend on the loop around it alone, and that one on a third: the longest chain
    counts.

    Args:
        around: ``id`` of a loop -> the loops that it depends on.
    """
    depths: dict[int, int] = {}

    def depth(loop: int) -> int:
        if loop not in depths:
            depths[loop] = 1 + max((depth(outer) for outer, _ in around[loop]), default=0)
        return depths[loop]

    for loop in around:
        depth(loop)
    return depths


def _read(loop: Loop) -> tuple[Node, ...]:
    """Return the outer values that a loop reads, each once.

    The state and the counters of outer loops are among them.
    """
    captured: dict[int, Node] = {}
    inside = {id(node) for body in loop.bodies for node in body.nodes}
    inside |= {id(node) for node in (*loop.carried, *loop.counters)}
    ends = [node for branch in range(len(loop.bodies)) for node in loop.new(branch)]
    ends += [loop.next_gate] if loop.next_gate is not None else []
    used = [
        *ends,
        *(operand for body in loop.bodies for node in body.nodes for operand in node.operands),
    ]
    for node in used:
        if id(node) not in inside and node.opcode not in ("loop", "turn"):
            captured.setdefault(id(node), node)
    loop.captured = list(captured.values())
    return tuple({id(node): node for node in (*loop.start.operands, *loop.captured)}.values())


def without_dead_state(results: list[Node], nodes: list[Node]) -> None:
    """Drop parts of loops' states, and arguments and results of branches, that nothing reads.

    Args:
        results: of the graph.
        nodes: of the graph; the nodes of loops are changed.
    """
    loops = {id(node.operands[0]): Loop(node.operands[0], node)
             for node in nodes if node.opcode == "turn"}  # fmt: skip
    if not loops:
        return
    needs = {key: _Needs(loop) for key, loop in loops.items()}
    visited: set[int] = set()
    stack = list(results)
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if node.opcode == "result" and node.operands[0].opcode == "turn":
            stack += needs[id(node.operands[0].operands[0])].result(node.attributes["index"])
        elif node.opcode == "carried":
            stack += needs[id(node.operands[0])].carried(node.attributes["index"])
        elif node.opcode != "counter":
            stack += node.operands
    for node in nodes:
        if node.opcode == "result" and node.operands[0].opcode == "turn":
            _renumber(node, needs[id(node.operands[0].operands[0])].ends)
        elif node.opcode == "carried":
            _renumber(node, needs[id(node.operands[0])].starts)
    for need in needs.values():
        need.drop()


class _Needs:
    """Which parts of one loop's state are read."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.ends: set[int] = set()
        self.starts: set[int] = set() if loop.branches else self.ends

    def result(self, index: int) -> list[Node]:
        """Return the values that a result of the loop needs."""
        if index in self.ends:
            return []
        self.ends.add(index)
        loop = self._loop
        needed = [loop.new(branch)[index] for branch in range(loop.end.attributes["parts"])]
        needed += [] if loop.branches else [loop.inits[index]]
        return [*needed, *(gate for gate in (loop.gate, loop.next_gate) if gate is not None)]

    def carried(self, index: int) -> list[Node]:
        """Return the values that a part of the state, or an argument of a branch, needs."""
        if not self._loop.branches:
            return self.result(index)
        self.starts.add(index)
        return [self._loop.inits[index]]

    def drop(self) -> None:
        """Take what is not needed out of the nodes."""
        loop = self._loop
        inits, parts = loop.inits, loop.end.attributes["parts"]
        news = [loop.new(branch)[index] for branch in range(parts) for index in sorted(self.ends)]
        first = 1 + int(loop.end.attributes["gated"])
        loop.end.operands = (*loop.end.operands[:first], *news)
        gates = loop.start.operands[: int(loop.start.attributes["gated"])]
        loop.start.operands = (*gates, *(inits[index] for index in sorted(self.starts)))


def _renumber(node: Node, live_indices: set[int]) -> None:
    if node.attributes["index"] in live_indices:
        node.attributes["index"] = sorted(live_indices).index(node.attributes["index"])
