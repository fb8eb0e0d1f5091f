"""Imports ``while`` and ``conditional`` as nodes: loops and branches of the device, or unrolled.

A loop is four kinds of nodes in the graph. ``loop`` takes the initial state; ``carried`` is an
element of the state in an iteration; ``turn`` takes the state of the next iteration; its ``result``
is the state after the last iteration. The body is whatever ``turn`` needs that depends on
``carried`` (blocks.py); the other operands are computed once, before the loop. A loop with a known
trip count has no condition, and a value that only counts is no state but a ``counter``. A ``while``
whose condition depends on data has it as the first operand of ``loop`` and of ``turn``. Branches
use the same nodes: ``carried`` is an argument of a branch, and ``turn`` takes all results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from neff.compiler.graph.counters import Linear, counter, linear, trip_count
from neff.compiler.graph.nodes import Node, derived, uncovered
from neff.compiler.graph.views import VIEWS
from neff.errors import NeffCompileError
from nki_lang.ir import is_group

__all__ = ["Branches", "Tree", "While", "branched", "index_of", "leaves_of", "looped"]

Tree = Any
"""A node, or a tuple of trees."""

_MAX_UNROLLED_OPERATIONS = 512
"""Limit on the operations of an unrolled loop. Unrolled iterations overlap and fuse; an iteration
on the device costs a meeting of the engines and HBM's latency for each carried value.
"""

_MAX_UNROLLED_LIGHT_OPERATIONS = 4096
"""The same limit for bodies of small elementwise operations, whose iterations are mostly
latency.
"""

_MAX_LIGHT_ELEMENTS = 1 << 16
"""Limit on the elements of an operation of such a body: a tile of 512 columns."""

_MAX_FORCED_OPERATIONS = 30_000
"""The same limit where the device cannot loop, since the body needs values that only unrolling
knows.
"""

_FIRST_START_OPERANDS = {"dynamic-slice": 1, "dynamic-update-slice": 2}
"""Opcode with start indices -> the number of its first start operand."""


def leaves_of(tree: Tree) -> list[Node]:
    """Return the nodes of a tree, in order."""
    if is_group(tree):
        return [leaf for subtree in tree for leaf in leaves_of(subtree)]
    return [tree]


def _rebuilt(tree: Tree, leaves: list[Node]) -> Tree:
    """Return the tree's form with other leaves; they are removed from the list."""
    if is_group(tree):
        return tuple(_rebuilt(subtree, leaves) for subtree in tree)
    return leaves.pop(0)


@dataclass(slots=True)
class While:
    """A ``while`` to import.

    Attributes:
        like: a node with its name and place.
        ident: unique in the module.
        body, condition: the computations, over trees of nodes.
        imported_nodes: returns the number of operations imported so far.
        unchanged: numbers of the leaves that the body obviously returns unchanged.
        elementwise: opcodes of elementwise operations.
    """

    like: Node
    ident: int
    body: Callable[[Tree], Tree]
    condition: Callable[[Tree], Tree]
    imported_nodes: Callable[[], int]
    unchanged: frozenset[int]
    elementwise: frozenset[str]


@dataclass(slots=True)
class _Iteration:
    """An iteration over symbols for the state.

    Attributes:
        loop: the node ``loop``, still without operands.
        carried, initial, new: for each leaf of the state: its node in the iteration, before the
            loop, and at the end of the iteration.
        operations: number of operations in the body.
        counting: values that count, by ``id`` of their node in the iteration.
        trips: number of iterations if known.
    """

    loop: Node
    carried: list[Node]
    initial: list[Node]
    new: list[Node]
    operations: int
    counting: dict[int, Linear] = field(default_factory=dict[int, Linear])
    trips: int | None = None


def looped(loop: While, state: Tree) -> Tree:
    """Return the state after the loop.

    Raises:
        NeffCompileError: ``NEFF-LOOP``; the condition is no scalar. Errors of the body pass through.
    """
    gate = leaves_of(loop.condition(state))[0]
    if gate.value is not None and not gate.value.any():
        return state
    try:
        iteration = _imported(loop, state)
    except NeffCompileError:
        unrolled = _unrolled(loop, state, _MAX_FORCED_OPERATIONS)
        if unrolled is None:
            raise
        return unrolled
    limit = (
        _MAX_UNROLLED_LIGHT_OPERATIONS if _is_light(loop, iteration) else _MAX_UNROLLED_OPERATIONS
    )
    if iteration.trips is not None and iteration.trips * iteration.operations <= limit:
        for _ in range(iteration.trips):
            state = loop.body(state)
        return state
    if iteration.trips is None:
        unrolled = _unrolled(loop, state, _MAX_UNROLLED_OPERATIONS)
        if unrolled is not None:
            return unrolled
    if gate.shape:
        raise uncovered(loop.like, "the condition of this loop is an array", code="NEFF-LOOP")
    return _rebuilt(state, _finished(loop, state, iteration, gate))


def _is_light(loop: While, iteration: _Iteration) -> bool:
    """Return True if an iteration does small elementwise operations and moves slices only."""
    visited = {id(node) for node in (*iteration.carried, *iteration.initial)}
    stack = list(iteration.new)
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if node.opcode in loop.elementwise:
            size = node.size
        elif node.opcode == "dynamic-update-slice":
            size = node.operands[1].size
        elif node.opcode in _MOVING_OPCODES:
            size = 0
        else:
            return False
        if size > _MAX_LIGHT_ELEMENTS:
            return False
        stack += node.operands
    return True


_MOVING_OPCODES = VIEWS | {"dynamic-slice", "constant", "counter"}


def _unrolled(loop: While, state: Tree, limit: int) -> Tree | None:
    """Return the state after the last iteration if all conditions are known within the limit, else
    None.
    """
    start = loop.imported_nodes()
    while True:
        gate = leaves_of(loop.condition(state))[0].value
        if gate is None or loop.imported_nodes() - start > limit:
            return None
        if not gate.any():
            return state
        before = loop.imported_nodes()
        state = loop.body(state)
        start -= (
            loop.imported_nodes() == before
        )  # an empty iteration counts too, so that the loop ends


def _imported(source: While, state: Tree) -> _Iteration:
    """Import the body over symbols; find unchanged leaves, counters and the trip count."""
    initial = leaves_of(state)
    loop = derived(source.like, "loop", (), (), source.like.element, ident=source.ident)
    carried = [
        leaf if number in source.unchanged else derived(source.like, "carried", (loop,), leaf.shape,
                                                  leaf.element, index=number)
        for number, leaf in enumerate(initial)
    ]  # fmt: skip
    start = source.imported_nodes()
    new = leaves_of(source.body(_rebuilt(state, list(carried))))
    iteration = _Iteration(loop, carried, initial, new, source.imported_nodes() - start)
    same = {
        id(symbol): leaf
        for symbol, leaf, after in zip(carried, initial, new, strict=True)
        if after is symbol and symbol is not leaf
    }
    if same:
        _replace(new, same, initial)
        iteration.carried = [same.get(id(symbol), symbol) for symbol in carried]
        iteration.new = [same.get(id(after), after) for after in new]
    iteration.counting = _counting(iteration)
    gate = leaves_of(source.condition(_rebuilt(state, list(iteration.carried))))[0]
    iteration.trips = trip_count(gate, iteration.counting)
    _check_counters(iteration)
    return iteration


def _counting(iteration: _Iteration) -> dict[int, Linear]:
    """Return the scalars to which every iteration adds the same number."""
    counters: dict[int, Linear] = {}
    for symbol, leaf, after in zip(
        iteration.carried, iteration.initial, iteration.new, strict=True
    ):
        if symbol is leaf or symbol.size != 1 or symbol.element.kind not in ("int", "uint"):
            continue
        first = leaf.splat
        moved = linear(after, {id(symbol): Linear(iteration.loop, 0, 1)})
        if first is not None and moved is not None and moved.loop and moved.step == 1:
            counters[id(symbol)] = Linear(iteration.loop, int(first), moved.start)
    return counters


def _check_counters(iteration: _Iteration) -> None:
    """Drop counters that would leave their type, or 32 bits, before the last iteration."""
    if iteration.trips is None:
        iteration.counting = {}
        return
    symbols = {id(symbol): symbol for symbol in iteration.carried}
    counters: dict[int, Linear] = {}
    for key, count in iteration.counting.items():
        dtype = symbols[key].element.dtype
        assert dtype is not None
        limits = np.iinfo(dtype)
        last = count.start + count.step * iteration.trips
        low, high = max(int(limits.min), -(1 << 31)), min(int(limits.max), (1 << 31) - 1)
        if low <= min(count.start, last) and max(count.start, last) <= high:
            counters[key] = replace(count, trips=iteration.trips)
    iteration.counting = counters


def _finished(source: While, state: Tree, iteration: _Iteration, gate: Node) -> list[Node]:
    """Return a node for each leaf after the loop, and complete the nodes of the loop."""
    counters = {
        key: counter(symbol, iteration.counting[key], symbol.element.name, symbol.shape)
        for symbol in iteration.carried
        if (key := id(symbol)) in iteration.counting
    }
    new = list(iteration.new)
    if counters:
        _replace(new, counters, iteration.initial)
        new = [counters.get(id(after), after) for after in new]
    _simplify_starts(new, iteration.initial)
    numbers = [
        number
        for number, symbol in enumerate(iteration.carried)
        if symbol is not iteration.initial[number] and id(symbol) not in counters
    ]
    for index, number in enumerate(numbers):
        iteration.carried[number].attributes["index"] = index
    inits = [iteration.initial[number] for number in numbers]
    news = [new[number] for number in numbers]
    fields: dict[str, Any] = {"ident": source.ident, "trips": iteration.trips, "parts": 1}
    gates: list[Node] = []
    if iteration.trips is None:
        after = _rebuilt(state, list(new))
        gates = [gate, leaves_of(source.condition(after))[0]]
    iteration.loop.operands = (*gates[:1], *inits)
    iteration.loop.attributes.update(fields, gated=bool(gates))
    end = derived(source.like, "turn", (iteration.loop, *gates[1:], *news), (), source.like.element)
    end.attributes.update(iteration.loop.attributes)
    results = {
        number: derived(end, "result", (end,), leaf.shape, leaf.element, index=index)
        for index, number in enumerate(numbers)
        for leaf in (iteration.initial[number],)
    }
    return [
        results.get(number) or _after_loop(iteration, number)
        for number in range(len(iteration.initial))
    ]


def _after_loop(iteration: _Iteration, number: int) -> Node:
    """Return the value after the loop of a leaf that is unchanged, or counts."""
    symbol, leaf = iteration.carried[number], iteration.initial[number]
    count = iteration.counting.get(id(symbol))
    if count is None:
        return leaf
    last = Linear(None, count.start + count.step * (iteration.trips or 0))
    return counter(leaf, last, leaf.element.name, leaf.shape)


def _replace(roots: list[Node], substitutes: dict[int, Node], ends: list[Node]) -> None:
    """Substitute nodes in the subgraph from ``ends`` to ``roots``."""
    visited = {id(end) for end in ends}
    stack = [root for root in roots if id(root) not in substitutes]
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if any(id(operand) in substitutes for operand in node.operands):
            node.operands = tuple(
                substitutes.get(id(operand), operand) for operand in node.operands
            )
        stack += node.operands


def _simplify_starts(roots: list[Node], ends: list[Node]) -> None:
    """Replace start indices that count by counters, and drop their computation."""
    visited = {id(end) for end in ends}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        first = _FIRST_START_OPERANDS.get(node.opcode)
        if first is not None:
            sizes = node.operands[1].shape if first == 2 else node.attributes["sizes"]
            starts = [
                _start(start, extent - size)
                for start, extent, size in zip(
                    node.operands[first:], node.operands[0].shape, sizes, strict=True
                )
            ]
            node.operands = (*node.operands[:first], *starts)
        stack += node.operands


def _start(start: Node, last: int) -> Node:
    if start.opcode == "counter" or start.splat is not None:
        return start
    count = linear(start)
    reach = count.range() if count is not None else None
    if count is None or reach is None or reach[0] < 0 or reach[1] > last:
        return start
    return counter(start, count, "s32")


# -- branches ------------------------------------------------------------------------------------

_MAX_CHEAP_OPERATIONS = 24
"""Limit on the operations of all branches together that are computed whichever is taken: up to it a
choice between results costs less than a branch.
"""

_MAX_CHEAP_ELEMENTS = 1 << 16
"""Limit on the elements of an operation; larger ones are never cheap."""

_FREE_OPCODES = VIEWS | {"carried", "constant"}


@dataclass(slots=True)
class Branches:
    """A ``conditional`` whose branch is known at run time only.

    Attributes:
        like: a node with its name and place.
        ident: unique in the module.
        which: a predicate (true takes the first branch) or an index (an index out of range takes
            the last branch).
        arguments: a tree for each branch.
        bodies: the computations, over trees of nodes.
        elementwise: opcodes of elementwise operations.
    """

    like: Node
    ident: int
    which: Node
    arguments: list[Tree]
    bodies: list[Callable[[Tree], Tree]]
    elementwise: frozenset[str]


def branched(source: Branches) -> tuple[Tree, bool]:
    """Return the results of a conditional.

    Returns:
        The result of the branch that is taken, and False; or the results of all branches, from which
        the caller chooses, and True.
    """
    count = len(source.bodies)
    loop = derived(source.like, "loop", (), (), source.like.element, ident=source.ident)
    arguments_read: list[Node] = []
    results: list[Tree] = []
    for number, (body, argument) in enumerate(zip(source.bodies, source.arguments, strict=True)):
        symbols: list[Node] = []
        for leaf in leaves_of(argument):
            if leaf.splat is not None or leaf.value is not None:
                symbols.append(leaf)
                continue
            fields = {"index": len(arguments_read), "branch": number}
            arguments_read.append(leaf)
            symbols.append(
                derived(source.like, "carried", (loop,), leaf.shape, leaf.element, **fields)
            )
        results.append(body(_rebuilt(argument, symbols)))
    leaves = [leaves_of(result) for result in results]
    if source.which.shape or _is_cheap(leaves, source.elementwise):
        every = [leaf for branch_leaves in leaves for leaf in branch_leaves]
        symbols_of = _carried_below(every, loop)
        same = {id(node): arguments_read[index_of(node)] for node in symbols_of}
        _replace(every, same, arguments_read)
        return [
            _rebuilt(result, [same.get(id(leaf), leaf) for leaf in branch_leaves])
            for result, branch_leaves in zip(results, leaves, strict=True)
        ], True
    fields = {"ident": source.ident, "trips": None, "parts": count, "gated": True}
    loop.operands = (source.which, *arguments_read)
    loop.attributes.update(fields)
    flat = [leaf for branch_leaves in leaves for leaf in branch_leaves]
    end = derived(source.like, "turn", (loop, *flat), (), source.like.element, **fields)
    end.attributes["gated"] = False
    outputs = [
        derived(end, "result", (end,), leaf.shape, leaf.element, index=index)
        for index, leaf in enumerate(leaves[0])
    ]
    return _rebuilt(results[0], outputs), False


def index_of(node: Node) -> int:
    """Return the number of a carried node in a loop's state or among a branch's arguments."""
    index: int = node.attributes["index"]
    return index


def _carried_below(roots: list[Node], loop: Node) -> list[Node]:
    visited: dict[int, Node] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) not in visited:
            visited[id(node)] = node
            stack += node.operands
    return [
        node for node in visited.values() if node.opcode == "carried" and node.operands[0] is loop
    ]


def _is_cheap(leaves: list[list[Node]], elementwise: frozenset[str]) -> bool:
    """Return True for branches of few and small operations."""
    visited: set[int] = set()
    stack = [leaf for branch_leaves in leaves for leaf in branch_leaves]
    operations = 0
    while stack:
        node = stack.pop()
        if id(node) in visited or node.opcode in ("carried", "loop", "parameter"):
            continue
        visited.add(id(node))
        if node.opcode not in _FREE_OPCODES:
            operations += 1
            if (
                node.opcode not in elementwise
                or node.size > _MAX_CHEAP_ELEMENTS
                or operations > _MAX_CHEAP_OPERATIONS
            ):
                return False
        stack += node.operands
    return True
