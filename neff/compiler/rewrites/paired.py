"""A graph in which 64-bit integers are pairs of words: every value of theirs is exact.

Done when the bounds of the values do not show that 32 bits are enough, or when the words
themselves are asked for (``word`` and ``pair``, which random bits are made with).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.expansions import word_pairs as words
from neff.compiler.expansions.reducers import reduced
from neff.compiler.expansions.word_pairs import Pair
from neff.compiler.graph.nodes import Graph, Node, derived, uncovered
from neff.compiler.lowering.region import Region
from neff.compiler.rewrites.wide_integers import WIDE, narrow_enough

__all__ = ["with_pairs"]

_U32 = BY_NAME["u32"]

Rule = Callable[["_Splitter", Node, list["Node | Pair"]], "Node | Pair"]


def with_pairs(graph: Graph) -> Graph:
    """The graph, with 64-bit integers as pairs where that is needed.

    Raises:
        NeffCompileError: ``NEFF-INT64``; an operation that is not there for pairs.
    """
    if not any(node.element.name in WIDE for node in graph.nodes):
        return graph
    if not any(node.opcode in ("word", "pair") for node in graph.nodes) and narrow_enough(graph):
        return graph
    return _Splitter().run(graph)


class _Splitter:
    def __init__(self) -> None:
        self._made: dict[int, Node | Pair] = {}
        self._nodes: list[Node] = []

    def run(self, graph: Graph) -> Graph:
        """The graph over words; inputs and outputs keep their types."""
        for node in graph.nodes:
            self._made[id(node)] = self.split(node)
        results = [self._result(node) for node in graph.results]
        nodes = _ordered(results, graph.parameters)
        return replace(graph, nodes=nodes, results=results, pairs=True)

    def split(self, node: Node) -> Node | Pair:
        """The node over what its operands have become."""
        operands = [self._made[id(one)] for one in node.operands]
        rule = _RULES.get(node.opcode)
        if rule is not None and (_is_wide(node) or any(type(one) is Pair for one in operands)):
            return rule(self, node, operands)
        if _is_wide(node) or any(type(one) is Pair for one in operands):
            raise uncovered(node, f"{node.opcode} of 64-bit integers", code="NEFF-INT64")
        plain = [one for one in operands if isinstance(one, Node)]
        if all(new is old for new, old in zip(plain, node.operands, strict=True)):
            return node
        return replace(node, operands=tuple(plain), attributes=dict(node.attributes))

    def region(self, region: Region) -> Region:
        """A scatter's computation: of 64-bit scalars both words, the low ones first."""
        inside = _Splitter()
        parameters: list[Pair | Node] = []
        for one in region.parameters:
            made: Pair | Node = one
            if _is_wide(one):
                made = Pair(*(derived(one, "parameter", (), (), _U32) for _ in range(2)))
            inside._made[id(one)] = made
            parameters.append(made)
        for node in _ordered(list(region.results), list(region.parameters)):
            if id(node) not in inside._made:
                inside._made[id(node)] = inside.split(node)
        results = [inside._made[id(one)] for one in region.results]
        return Region(tuple(_flat(parameters)), tuple(_flat(results)))

    def _result(self, node: Node) -> Node:
        found = self._made[id(node)]
        if isinstance(found, Node):
            return found
        return paired(node, found)


def paired(like: Node, pair: Pair) -> Node:
    """A pair as 64-bit elements, which only leave the program."""
    parts = tuple(_as(one, _word_type(like)) for one in pair)
    return derived(like, "pair", parts, like.shape, like.element)


def _word_type(node: Node) -> str:
    return "s32" if node.element.name == "s64" else "u32"


def _as(one: Node, element: str) -> Node:
    return one if one.element.name == element else one.like("bitcast-convert", one, element=element)


def _is_wide(node: Node) -> bool:
    return node.element.name in WIDE


def _is_signed(node: Node) -> bool:
    return node.element.name == "s64"


def _flat(values: Sequence[Node | Pair]) -> list[Node]:
    lows = [one.low if isinstance(one, Pair) else one for one in values]
    highs = [one.high for one in values if isinstance(one, Pair)]
    return lows + highs


def _ordered(results: list[Node], parameters: list[Node]) -> list[Node]:
    """All that the results need, operands first."""
    found: dict[int, Node] = {id(node): node for node in parameters}
    stack = [(node, False) for node in reversed(results)]
    while stack:
        node, ready = stack.pop()
        if id(node) in found:
            continue
        if ready:
            found[id(node)] = node
            continue
        stack.append((node, True))
        stack += [(operand, False) for operand in reversed(node.operands)]
    return list(found.values())


# -- rules ----------------------------------------------------------------------------------------


def _pairs(operands: Sequence[Node | Pair]) -> list[Pair]:
    return [one for one in operands if isinstance(one, Pair)]


def _index(operand: Node | Pair, node: Node) -> Node:
    return words.to_index(operand, _is_signed(node)) if isinstance(operand, Pair) else operand


def _each_word(shared: int) -> Rule:
    """Done with the low words and with the high ones; from operand ``shared`` on, operands are
    indices, the same for both. Predicates are the same for both anyway."""

    def rule(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node | Pair:
        count = len(operands) if shared < 0 else shared
        tail = [
            _index(one, old)
            for one, old in zip(operands[count:], node.operands[count:], strict=True)
        ]
        if not _is_wide(node):
            plain = [one for one in operands[:count] if isinstance(one, Node)]
            return replace(node, operands=(*plain, *tail), attributes=dict(node.attributes))
        made = [
            replace(
                node, operands=(*(_word(one, at) for one in operands[:count]), *tail),
                element=_U32, attributes=dict(node.attributes),
            )
            for at in (0, 1)
        ]  # fmt: skip
        return Pair(*made)

    return rule


def _word(one: Node | Pair, at: int) -> Node:
    return one[at] if isinstance(one, Pair) else one


def _parameter(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    kind = BY_NAME[_word_type(node)]
    low, high = (derived(node, "word", (node,), node.shape, kind, word=at) for at in (0, 1))
    return Pair(_as(low, "u32"), _as(high, "u32"))


def _iota(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    low = replace(node, element=_U32, attributes=dict(node.attributes))
    return Pair(low, words.full(low, 0))


def _constant(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    made = words.constant(node, node.attributes["value"])
    for one in made:
        one.attributes.update({k: v for k, v in node.attributes.items() if k != "value"})
    return made


def _convert(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node | Pair:
    (one,) = operands
    kind = node.element
    if isinstance(one, Node):
        if one.element.name == "f64":
            raise uncovered(node, "float64 to 64-bit integers", code="NEFF-F64")
        return words.from_float(one, _is_signed(node)) if one.element.kind == "float" else (
            words.from_word(one)
        )  # fmt: skip
    if _is_wide(node):
        return one
    if kind.name == "f64":
        raise uncovered(node, "64-bit integers to float64", code="NEFF-F64")
    if kind.kind == "float":
        found = words.to_float(one, _is_signed(node.operands[0]))
        return found if kind.name == "f32" else found.like("convert", found, element=kind.name)
    if kind.kind == "pred":
        zero = words.number(one.low, 0)
        return words.compared(one, "NE", zero, signed=False)
    return one.low if kind.name == "u32" else one.low.like("convert", one.low, element=kind.name)


def _bitcast(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node | Pair:
    (one,) = operands
    if isinstance(one, Node) or not _is_wide(node):
        raise uncovered(node, "the bits of float64", code="NEFF-F64")
    return one


def _compare(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node:
    a, b = _pairs(operands)
    signed = _is_signed(node.operands[0])
    return words.compared(a, node.attributes["direction"], b, signed=signed)


def _binary(function: Callable[[Pair, Pair, bool], Pair]) -> Rule:
    def rule(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
        a, b = _pairs(operands)
        return function(a, b, _is_signed(node))

    return rule


def _unary(function: Callable[[Pair], Pair]) -> Rule:
    return lambda _, node, operands: function(_pairs(operands)[0])


def _clamp(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    low, value, high = _pairs(operands)
    signed = _is_signed(node)
    return words.extreme(words.extreme(low, value, True, signed), high, False, signed)


_BINARY: dict[str, Callable[[Pair, Pair, bool], Pair]] = {
    "add": lambda a, b, _: words.add(a, b),
    "divide": lambda a, b, signed: words.divided(a, b, signed)[0],
    "maximum": lambda a, b, signed: words.extreme(a, b, True, signed),
    "minimum": lambda a, b, signed: words.extreme(a, b, False, signed),
    "multiply": lambda a, b, _: words.multiply(a, b),
    "remainder": lambda a, b, signed: words.divided(a, b, signed)[1],
    "shift-left": lambda a, b, _: words.shift_left(a, b),
    "shift-right-arithmetic": lambda a, b, _: words.shift_right(a, b, True),
    "shift-right-logical": lambda a, b, _: words.shift_right(a, b, False),
    "subtract": lambda a, b, _: words.subtract(a, b),
}
_BITS = ("and", "or", "xor")


def _reduce(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node | Pair:
    """Neighbours in pairs, both words together."""
    value, start = _pairs(operands)
    applied, signed = node.attributes["applied"], _is_signed(node)

    def combine(arguments: list[Node], shape: tuple[int, ...]) -> list[Node]:
        a, b = Pair(*arguments[:2]), Pair(*arguments[2:])
        if applied in _BITS:
            return [one.like(applied, one, other) for one, other in zip(a, b, strict=True)]
        return list(_BINARY[applied](a, b, signed))

    return Pair(*reduced(node, list(value), list(start), node.attributes["dimensions"], combine))


def _scatter(splitter: _Splitter, node: Node, operands: list[Node | Pair]) -> Node | Pair:
    """The words are operands of their own."""
    count = len(operands) // 2
    indices = _index(operands[count], node.operands[count])
    if not any(isinstance(one, Pair) for one in (*operands[:count], *operands[-count:])):
        plain = [one for one in operands if isinstance(one, Node)]
        plain[count:count] = [indices] if isinstance(operands[count], Pair) else []
        return replace(node, operands=tuple(plain), attributes=dict(node.attributes))
    if count > 1:
        raise uncovered(node, "a scatter of several 64-bit operands", code="NEFF-INT64")
    every = (*_flat([operands[0]]), indices, *_flat([operands[-1]]))
    made = replace(node, operands=every, element=_U32, attributes=dict(node.attributes))
    region = splitter.region(node.attributes["region"])
    old_low, new_low, old_high, new_high = region.parameters
    parameters = (old_low, old_high, new_low, new_high)
    made.attributes["region"] = Region(parameters, region.results)
    return Pair(*(derived(made, "result", (made,), node.shape, _U32, index=at) for at in (0, 1)))


def _loop(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node:
    """The state has the low words where the integers were, and the high ones behind all."""
    first = int(node.attributes["gated"])
    made = replace(node, operands=(*_words_of(operands[:first]), *_flat(operands[first:])))
    made.attributes = dict(node.attributes, high=_high_places(operands[first:]))
    return made


def _turn(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node:
    first, parts = 1 + int(node.attributes["gated"]), node.attributes["parts"]
    count = (len(operands) - first) // parts
    chunks = [operands[first + at * count : first + (at + 1) * count] for at in range(parts)]
    flat = [word for chunk in chunks for word in _flat(chunk)]
    made = replace(node, operands=(*_words_of(operands[:first]), *flat))
    made.attributes = dict(node.attributes, high=_high_places(chunks[0]))
    return made


def _words_of(operands: Sequence[Node | Pair]) -> list[Node]:
    """Nodes; of pairs (an index of branches is never one of 64 bits) the low words."""
    return [one.low if isinstance(one, Pair) else one for one in operands]


def _high_places(state: Sequence[Node | Pair]) -> dict[int, int]:
    """Place of a low word -> place of the high one."""
    wide = [place for place, one in enumerate(state) if isinstance(one, Pair)]
    return {place: len(state) + number for number, place in enumerate(wide)}


def _of_loop(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    """A part of a loop's state."""
    (loop,) = operands
    assert isinstance(loop, Node)
    if loop.opcode not in ("loop", "turn"):
        raise uncovered(node, "a result of 64-bit integers", code="NEFF-INT64")
    index: int = node.attributes["index"]
    places = (index, loop.attributes["high"][index])
    return Pair(
        *(
            derived(node, node.opcode, (loop,), node.shape, _U32,
                    **{**node.attributes, "index": place})
            for place in places
        )
    )  # fmt: skip


def _counter(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    (loop,) = operands
    assert isinstance(loop, Node)
    return words.from_word(derived(node, "counter", (loop,), node.shape, BY_NAME["s32"],
                                   **node.attributes))  # fmt: skip


def _given_word(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node:
    """A word that the graph asks for."""
    word: int = node.attributes["word"]
    return _pairs(operands)[0][word]


def _given_pair(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    low, high = (one for one in operands if isinstance(one, Node))
    return Pair(low, high)


_RULES: dict[str, Rule] = {
    **{opcode: _binary(function) for opcode, function in _BINARY.items()},
    **dict.fromkeys(
        ("and", "or", "xor", "not", "select", "broadcast", "reshape", "transpose", "slice",
         "reverse", "restride", "concatenate", "pad", "update-slice", "copy", "all-gather", "all-to-all",
         "collective-permute"),
        _each_word(-1),
    ),
    "abs": lambda _, node, operands: (
        words.absolute(_pairs(operands)[0]) if _is_signed(node) else operands[0]
    ),
    "bitcast-convert": _bitcast,
    "carried": _of_loop,
    "clamp": _clamp,
    "compare": _compare,
    "constant": _constant,
    "convert": _convert,
    "count-leading-zeros": _unary(words.leading_zeros),
    "counter": _counter,
    "dynamic-slice": _each_word(1),
    "dynamic-update-slice": _each_word(2),
    "gather": _each_word(1),
    "iota": _iota,
    "loop": _loop,
    "negate": _unary(words.negate),
    "pair": _given_pair,
    "parameter": _parameter,
    "popcnt": _unary(words.ones),
    "reduce": _reduce,
    "result": _of_loop,
    "scatter": _scatter,
    "sign": lambda _, node, operands: words.sign(_pairs(operands)[0], _is_signed(node)),
    "turn": _turn,
    "word": _given_word,
}  # fmt: skip
"""Opcode -> what it becomes when it has to do with 64-bit integers."""
