"""``while`` and ``conditional`` as nodes: loops and branches of the device, or unrolled.

A loop is four kinds of nodes in the one list of the graph. ``loop`` takes the values that the state
starts with; ``carried`` is a part of the state in one turn; ``turn`` takes the state that the next
turn starts with; ``result`` of it is the state behind the last turn. What lies between is whatever
``turn`` needs that depends on ``carried`` (blocks.py); the rest is computed once, in front. A loop
that counts has no condition, and what only counts is no state but a ``counter``. A ``while`` with
a condition that depends on data has it as the first operand of ``loop`` and of ``turn``. Branches
are the same: ``carried`` is then an argument of one branch, and ``turn`` takes the results of all.
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

_UNROLLED = 512
"""Operations that the turns of an unrolled loop may become. Unrolled turns overlap and fuse; a turn
of the device costs a meeting of the engines and, for each value that it carries, HBM's latency."""

_LIGHT_UNROLLED = 4096
"""The same for bodies of small elementwise operations alone, where a turn is little but latency."""

_LIGHT = 1 << 16
"""Elements of one operation of such a body, at most: a tile of 512 columns."""

_MOST_UNROLLED = 30_000
"""The same where the device cannot loop, since the body needs what only unrolling knows."""

_INDEXED = {"dynamic-slice": 1, "dynamic-update-slice": 2}
"""Opcodes with starts, and the operand that is the first of them."""


def leaves_of(tree: Tree) -> list[Node]:
    """The nodes of a tree, in order."""
    if is_group(tree):
        return [leaf for part in tree for leaf in leaves_of(part)]
    return [tree]


def _rebuilt(tree: Tree, leaves: list[Node]) -> Tree:
    """The tree's form with other leaves; they are taken from the list."""
    if is_group(tree):
        return tuple(_rebuilt(part, leaves) for part in tree)
    return leaves.pop(0)


@dataclass(slots=True)
class While:
    """A ``while`` that is imported.

    Attributes:
        like: a node with its name and place.
        ident: unique in the module.
        body, condition: the computations, over trees of nodes.
        made: how many operations have been imported so far.
        passed: numbers of the leaves that the body passes on unchanged, as far as that is seen
            without importing it.
        elementwise: opcodes that are computed element by element.
    """

    like: Node
    ident: int
    body: Callable[[Tree], Tree]
    condition: Callable[[Tree], Tree]
    made: Callable[[], int]
    passed: frozenset[int]
    elementwise: frozenset[str]


@dataclass(slots=True)
class _Turn:
    """One turn over symbols.

    Attributes:
        loop: the node ``loop``, without operands yet.
        carried, given, new: for each leaf of the state: its node in the turn, before the loop,
            and at the end of the turn.
        operations: how many the body has.
        known: what counts, by ``id`` of its node in the turn.
        trips: turns, when they are known.
    """

    loop: Node
    carried: list[Node]
    given: list[Node]
    new: list[Node]
    operations: int
    known: dict[int, Linear] = field(default_factory=dict[int, Linear])
    trips: int | None = None


def looped(one: While, state: Tree) -> Tree:
    """The state behind the loop.

    Raises:
        NeffCompileError: ``NEFF-LOOP``; the condition is no scalar. Or what the body raises.
    """
    gate = leaves_of(one.condition(state))[0]
    if gate.value is not None and not gate.value.any():
        return state
    try:
        turn = _imported(one, state)
    except NeffCompileError:
        found = _unrolled(one, state, _MOST_UNROLLED)
        if found is None:
            raise
        return found
    most = _LIGHT_UNROLLED if _is_light(one, turn) else _UNROLLED
    if turn.trips is not None and turn.trips * turn.operations <= most:
        for _ in range(turn.trips):
            state = one.body(state)
        return state
    if turn.trips is None:
        found = _unrolled(one, state, _UNROLLED)
        if found is not None:
            return found
    if gate.shape:
        raise uncovered(
            one.like, "the condition of a loop is one for each element here", code="NEFF-LOOP"
        )
    return _rebuilt(state, _finished(one, state, turn, gate))


def _is_light(one: While, turn: _Turn) -> bool:
    """True when each turn does small elementwise operations and moves slices, and no more."""
    seen = {id(node) for node in (*turn.carried, *turn.given)}
    stack = list(turn.new)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.opcode in one.elementwise:
            size = node.size
        elif node.opcode == "dynamic-update-slice":
            size = node.operands[1].size
        elif node.opcode in _MOVED:
            size = 0
        else:
            return False
        if size > _LIGHT:
            return False
        stack += node.operands
    return True


_MOVED = VIEWS | {"dynamic-slice", "constant", "counter"}


def _unrolled(one: While, state: Tree, limit: int) -> Tree | None:
    """The state behind the last turn, when conditions are known and turns are few; else None."""
    start = one.made()
    while True:
        gate = leaves_of(one.condition(state))[0].value
        if gate is None or one.made() - start > limit:
            return None
        if not gate.any():
            return state
        before = one.made()
        state = one.body(state)
        start -= one.made() == before  # so that a loop without operations ends too


def _imported(one: While, state: Tree) -> _Turn:
    """The body over symbols: what it passes on, what counts, and how often it runs."""
    given = leaves_of(state)
    loop = derived(one.like, "loop", (), (), one.like.element, ident=one.ident)
    carried = [
        leaf if number in one.passed else derived(one.like, "carried", (loop,), leaf.shape,
                                                  leaf.element, index=number)
        for number, leaf in enumerate(given)
    ]  # fmt: skip
    start = one.made()
    new = leaves_of(one.body(_rebuilt(state, list(carried))))
    turn = _Turn(loop, carried, given, new, one.made() - start)
    same = {
        id(symbol): leaf
        for symbol, leaf, after in zip(carried, given, new, strict=True)
        if after is symbol and symbol is not leaf
    }
    if same:
        _replace(new, same, given)
        turn.carried = [same.get(id(symbol), symbol) for symbol in carried]
        turn.new = [same.get(id(after), after) for after in new]
    turn.known = _counting(turn)
    gate = leaves_of(one.condition(_rebuilt(state, list(turn.carried))))[0]
    turn.trips = trip_count(gate, turn.known)
    _check_counters(turn)
    return turn


def _counting(turn: _Turn) -> dict[int, Linear]:
    """Scalars to which every turn adds the same number."""
    known: dict[int, Linear] = {}
    for symbol, leaf, after in zip(turn.carried, turn.given, turn.new, strict=True):
        if symbol is leaf or symbol.size != 1 or symbol.element.kind not in ("int", "uint"):
            continue
        first = leaf.splat
        moved = linear(after, {id(symbol): Linear(turn.loop, 0, 1)})
        if first is not None and moved is not None and moved.loop and moved.step == 1:
            known[id(symbol)] = Linear(turn.loop, int(first), moved.start)
    return known


def _check_counters(turn: _Turn) -> None:
    """Forget those that would leave their type, or 32 bits, before the last turn."""
    if turn.trips is None:
        turn.known = {}
        return
    symbols = {id(symbol): symbol for symbol in turn.carried}
    kept: dict[int, Linear] = {}
    for key, one in turn.known.items():
        dtype = symbols[key].element.dtype
        assert dtype is not None
        limits = np.iinfo(dtype)
        last = one.start + one.step * turn.trips
        low, high = max(int(limits.min), -(1 << 31)), min(int(limits.max), (1 << 31) - 1)
        if low <= min(one.start, last) and max(one.start, last) <= high:
            kept[key] = replace(one, trips=turn.trips)
    turn.known = kept


def _finished(one: While, state: Tree, turn: _Turn, gate: Node) -> list[Node]:
    """Nodes of the loop, and what stands for each leaf behind it."""
    counters = {
        key: counter(symbol, turn.known[key], symbol.element.name, symbol.shape)
        for symbol in turn.carried
        if (key := id(symbol)) in turn.known
    }
    new = list(turn.new)
    if counters:
        _replace(new, counters, turn.given)
        new = [counters.get(id(after), after) for after in new]
    _simplify_starts(new, turn.given)
    kept = [
        number
        for number, symbol in enumerate(turn.carried)
        if symbol is not turn.given[number] and id(symbol) not in counters
    ]
    for place, number in enumerate(kept):
        turn.carried[number].attributes["index"] = place
    inits = [turn.given[number] for number in kept]
    news = [new[number] for number in kept]
    fields: dict[str, Any] = {"ident": one.ident, "trips": turn.trips, "parts": 1}
    gates: list[Node] = []
    if turn.trips is None:
        after = _rebuilt(state, list(new))
        gates = [gate, leaves_of(one.condition(after))[0]]
    turn.loop.operands = (*gates[:1], *inits)
    turn.loop.attributes.update(fields, gated=bool(gates))
    end = derived(one.like, "turn", (turn.loop, *gates[1:], *news), (), one.like.element)
    end.attributes.update(turn.loop.attributes)
    results = {
        number: derived(end, "result", (end,), leaf.shape, leaf.element, index=place)
        for place, number in enumerate(kept)
        for leaf in (turn.given[number],)
    }
    return [results.get(number) or _behind(turn, number) for number in range(len(turn.given))]


def _behind(turn: _Turn, number: int) -> Node:
    """The value behind the loop of what is passed on, or counts."""
    symbol, leaf = turn.carried[number], turn.given[number]
    one = turn.known.get(id(symbol))
    if one is None:
        return leaf
    last = Linear(None, one.start + one.step * (turn.trips or 0))
    return counter(leaf, last, leaf.element.name, leaf.shape)


def _replace(roots: list[Node], others: dict[int, Node], ends: list[Node]) -> None:
    """Put other nodes in the place of some, everywhere between ``ends`` and ``roots``."""
    seen = {id(end) for end in ends}
    stack = [root for root in roots if id(root) not in others]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if any(id(operand) in others for operand in node.operands):
            node.operands = tuple(others.get(id(operand), operand) for operand in node.operands)
        stack += node.operands


def _simplify_starts(roots: list[Node], ends: list[Node]) -> None:
    """Starts of slices that count become counters, without what computed them."""
    seen = {id(end) for end in ends}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        first = _INDEXED.get(node.opcode)
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
    one = linear(start)
    reach = one.range() if one is not None else None
    if one is None or reach is None or reach[0] < 0 or reach[1] > last:
        return start
    return counter(start, one, "s32")


# -- branches ------------------------------------------------------------------------------------

_CHEAP = 24
"""Operations of all branches together that are done whichever is taken, for a choice between
results costs less than a branch."""

_LARGE = 1 << 16
"""Elements of one operation beyond which branches are not cheap, however few they are."""

_PLAIN = VIEWS | {"carried", "constant"}


@dataclass(slots=True)
class Branches:
    """A ``conditional`` whose branch only a run knows.

    Attributes:
        like: a node with its name and place.
        ident: unique in the module.
        which: a predicate (true takes the first branch) or an index (one that is outside takes
            the last).
        arguments: one tree for each branch.
        bodies: the computations, over trees of nodes.
        elementwise: opcodes that are computed element by element.
    """

    like: Node
    ident: int
    which: Node
    arguments: list[Tree]
    bodies: list[Callable[[Tree], Tree]]
    elementwise: frozenset[str]


def branched(one: Branches) -> tuple[Tree, bool]:
    """The result of the branch that is taken, and False; or a list of the results of all, from
    which one is to be chosen, and True."""
    count = len(one.bodies)
    loop = derived(one.like, "loop", (), (), one.like.element, ident=one.ident)
    given: list[Node] = []
    results: list[Tree] = []
    for number, (body, argument) in enumerate(zip(one.bodies, one.arguments, strict=True)):
        symbols: list[Node] = []
        for leaf in leaves_of(argument):
            if leaf.splat is not None or leaf.value is not None:
                symbols.append(leaf)
                continue
            fields = {"index": len(given), "branch": number}
            given.append(leaf)
            symbols.append(
                derived(one.like, "carried", (loop,), leaf.shape, leaf.element, **fields)
            )
        results.append(body(_rebuilt(argument, symbols)))
    leaves = [leaves_of(result) for result in results]
    if one.which.shape or _is_cheap(leaves, one.elementwise):
        every = [leaf for part in leaves for leaf in part]
        symbols_of = _carried_below(every, loop)
        same = {id(node): given[index_of(node)] for node in symbols_of}
        _replace(every, same, given)
        return [
            _rebuilt(result, [same.get(id(leaf), leaf) for leaf in part])
            for result, part in zip(results, leaves, strict=True)
        ], True
    fields = {"ident": one.ident, "trips": None, "parts": count, "gated": True}
    loop.operands = (one.which, *given)
    loop.attributes.update(fields)
    flat = [leaf for part in leaves for leaf in part]
    end = derived(one.like, "turn", (loop, *flat), (), one.like.element, **fields)
    end.attributes["gated"] = False
    made = [
        derived(end, "result", (end,), leaf.shape, leaf.element, index=place)
        for place, leaf in enumerate(leaves[0])
    ]
    return _rebuilt(results[0], made), False


def index_of(node: Node) -> int:
    """Which part of a loop's state, or which argument of branches, a node is."""
    index: int = node.attributes["index"]
    return index


def _carried_below(roots: list[Node], loop: Node) -> list[Node]:
    seen: dict[int, Node] = {}
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            stack += node.operands
    return [node for node in seen.values() if node.opcode == "carried" and node.operands[0] is loop]


def _is_cheap(leaves: list[list[Node]], elementwise: frozenset[str]) -> bool:
    """True for branches of few and small operations."""
    seen: set[int] = set()
    stack = [leaf for part in leaves for leaf in part]
    operations = 0
    while stack:
        node = stack.pop()
        if id(node) in seen or node.opcode in ("carried", "loop", "parameter"):
            continue
        seen.add(id(node))
        if node.opcode not in _PLAIN:
            operations += 1
            if node.opcode not in elementwise or node.size > _LARGE or operations > _CHEAP:
                return False
        stack += node.operands
    return True
