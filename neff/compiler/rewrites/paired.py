"""Rewrites a graph so that 64-bit integers are pairs of words, and every value is exact.

This is needed if the bounds of the values do not prove that 32 bits are enough, or if the graph
uses the words (``word`` and ``pair``, from random bits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hlo_tools.types.element_types import BY_NAME
from neff.compiler.expansions import word_pairs as words
from neff.compiler.expansions.reducers import reduced
from neff.compiler.expansions.word_pairs import Pair
from neff.compiler.graph.nodes import Graph, Node, derived, uncovered
from neff.compiler.lowering.tiles.region import Region
from neff.compiler.rewrites.wide_integers import WIDE, narrow_enough

__all__ = ["with_pairs"]

_U32 = BY_NAME["u32"]

Rule = Callable[["_Splitter", Node, list["Node | Pair"]], "Node | Pair"]


def with_pairs(graph: Graph) -> Graph:
    """Return the graph with 64-bit integers as pairs where needed.

    Raises:
        NeffCompileError: ``NEFF-INT64``; an operation has no form for pairs.
    """
    if not any(node.element.name in WIDE for node in graph.nodes):
        return graph
    if not any(node.opcode in ("word", "pair") for node in graph.nodes) and narrow_enough(graph):
        return graph
    return _Splitter().run(graph)


class _Splitter:
    def __init__(self) -> None:
        self._replacements: dict[int, Node | Pair] = {}
        self._nodes: list[Node] = []

    def run(self, graph: Graph) -> Graph:
        """Return the graph over words; inputs and outputs keep their types."""
        for node in graph.nodes:
            self._replacements[id(node)] = self.split(node)
        results = [self._result(node) for node in graph.results]
        nodes = _ordered(results, graph.parameters)
        return replace(graph, nodes=nodes, results=results, pairs=True)

    def split(self, node: Node) -> Node | Pair:
        """Return the node over its operands' replacements."""
        operands = [self._replacements[id(operand)] for operand in node.operands]
        rule = _RULES.get(node.opcode)
        if rule is not None and (
            _is_wide(node) or any(type(operand) is Pair for operand in operands)
        ):
            return rule(self, node, operands)
        if _is_wide(node) or any(type(operand) is Pair for operand in operands):
            raise uncovered(node, f"{node.opcode} of 64-bit integers", code="NEFF-INT64")
        narrow = [operand for operand in operands if isinstance(operand, Node)]
        if all(new is old for new, old in zip(narrow, node.operands, strict=True)):
            return node
        return replace(node, operands=tuple(narrow), attributes=dict(node.attributes))

    def region(self, region: Region) -> Region:
        """Split a scatter's computation: a 64-bit scalar becomes two words, low words first."""
        inside = _Splitter()
        parameters: list[Pair | Node] = []
        for scalar in region.parameters:
            parameter: Pair | Node = scalar
            if _is_wide(scalar):
                parameter = Pair(*(derived(scalar, "parameter", (), (), _U32) for _ in range(2)))
            inside._replacements[id(scalar)] = parameter
            parameters.append(parameter)
        for node in _ordered(list(region.results), list(region.parameters)):
            if id(node) not in inside._replacements:
                inside._replacements[id(node)] = inside.split(node)
        results = [inside._replacements[id(scalar)] for scalar in region.results]
        return Region(tuple(_flat(parameters)), tuple(_flat(results)))

    def _result(self, node: Node) -> Node:
        replacement = self._replacements[id(node)]
        if isinstance(replacement, Node):
            return replacement
        return paired(node, replacement)


def paired(like: Node, pair: Pair) -> Node:
    """Return a pair as 64-bit elements, which only leave the program."""
    parts = tuple(_as(word, _word_type(like)) for word in pair)
    return derived(like, "pair", parts, like.shape, like.element)


def _word_type(node: Node) -> str:
    return "s32" if node.element.name == "s64" else "u32"


def _as(word: Node, element: str) -> Node:
    return (
        word
        if word.element.name == element
        else word.like("bitcast-convert", word, element=element)
    )


def _is_wide(node: Node) -> bool:
    return node.element.name in WIDE


def _is_signed(node: Node) -> bool:
    return node.element.name == "s64"


def _flat(values: Sequence[Node | Pair]) -> list[Node]:
    lows = [operand.low if isinstance(operand, Pair) else operand for operand in values]
    highs = [operand.high for operand in values if isinstance(operand, Pair)]
    return lows + highs


def _ordered(results: list[Node], parameters: list[Node]) -> list[Node]:
    """Return all nodes that the results need, operands first."""
    ordered: dict[int, Node] = {id(node): node for node in parameters}
    stack = [(node, False) for node in reversed(results)]
    while stack:
        node, ready = stack.pop()
        if id(node) in ordered:
            continue
        if ready:
            ordered[id(node)] = node
            continue
        stack.append((node, True))
        stack += [(operand, False) for operand in reversed(node.operands)]
    return list(ordered.values())


# -- rules ----------------------------------------------------------------------------------------


def _pairs(operands: Sequence[Node | Pair]) -> list[Pair]:
    return [operand for operand in operands if isinstance(operand, Pair)]


def _index(operand: Node | Pair, node: Node) -> Node:
    return words.to_index(operand, _is_signed(node)) if isinstance(operand, Pair) else operand


def _each_word(shared: int) -> Rule:
    """Return a rule that computes the low words and the high words separately.

    From operand ``shared`` on, operands are indices, the same for both words; so are predicates.
    """

    def rule(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node | Pair:
        count = len(operands) if shared < 0 else shared
        tail = [
            _index(operand, old)
            for operand, old in zip(operands[count:], node.operands[count:], strict=True)
        ]
        if not _is_wide(node):
            narrow = [operand for operand in operands[:count] if isinstance(operand, Node)]
            return replace(node, operands=(*narrow, *tail), attributes=dict(node.attributes))
        words_of_result = [
            replace(
                node, operands=(*(_word(operand, word) for operand in operands[:count]), *tail),
                element=_U32, attributes=dict(node.attributes),
            )
            for word in (0, 1)
        ]  # fmt: skip
        return Pair(*words_of_result)

    return rule


def _word(operand: Node | Pair, word: int) -> Node:
    return operand[word] if isinstance(operand, Pair) else operand


def _parameter(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    kind = BY_NAME[_word_type(node)]
    low, high = (derived(node, "word", (node,), node.shape, kind, word=word) for word in (0, 1))
    return Pair(_as(low, "u32"), _as(high, "u32"))


def _iota(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    low = replace(node, element=_U32, attributes=dict(node.attributes))
    return Pair(low, words.full(low, 0))


def _constant(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    pair = words.constant(node, node.attributes["value"])
    for word in pair:
        word.attributes.update({k: v for k, v in node.attributes.items() if k != "value"})
    return pair


def _convert(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node | Pair:
    (operand,) = operands
    kind = node.element
    if isinstance(operand, Node):
        if operand.element.name == "f64":
            raise uncovered(node, "float64 to 64-bit integers", code="NEFF-F64")
        return words.from_float(operand, _is_signed(node)) if operand.element.kind == "float" else (
            words.from_word(operand)
        )  # fmt: skip
    if _is_wide(node):
        return operand
    if kind.name == "f64":
        raise uncovered(node, "64-bit integers to float64", code="NEFF-F64")
    if kind.kind == "float":
        converted = words.to_float(operand, _is_signed(node.operands[0]))
        return (
            converted
            if kind.name == "f32"
            else converted.like("convert", converted, element=kind.name)
        )
    if kind.kind == "pred":
        zero = words.number(operand.low, 0)
        return words.compared(operand, "NE", zero, signed=False)
    return (
        operand.low
        if kind.name == "u32"
        else operand.low.like("convert", operand.low, element=kind.name)
    )


def _bitcast(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node | Pair:
    (operand,) = operands
    if isinstance(operand, Node) or not _is_wide(node):
        raise uncovered(node, "the bits of float64", code="NEFF-F64")
    return operand


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
    """Reduce neighbours in pairs, both words together."""
    value, start = _pairs(operands)
    applied, signed = node.attributes["applied"], _is_signed(node)

    def combine(arguments: list[Node], shape: tuple[int, ...]) -> list[Node]:
        a, b = Pair(*arguments[:2]), Pair(*arguments[2:])
        if applied in _BITS:
            return [left.like(applied, left, right) for left, right in zip(a, b, strict=True)]
        return list(_BINARY[applied](a, b, signed))

    return Pair(*reduced(node, list(value), list(start), node.attributes["dimensions"], combine))


def _scatter(splitter: _Splitter, node: Node, operands: list[Node | Pair]) -> Node | Pair:
    """Scatter the two words as separate operands."""
    count = len(operands) // 2
    indices = _index(operands[count], node.operands[count])
    if not any(isinstance(operand, Pair) for operand in (*operands[:count], *operands[-count:])):
        narrow = [operand for operand in operands if isinstance(operand, Node)]
        narrow[count:count] = [indices] if isinstance(operands[count], Pair) else []
        return replace(node, operands=tuple(narrow), attributes=dict(node.attributes))
    if count > 1:
        raise uncovered(node, "a scatter of several 64-bit operands", code="NEFF-INT64")
    flat = (*_flat([operands[0]]), indices, *_flat([operands[-1]]))
    scatter = replace(node, operands=flat, element=_U32, attributes=dict(node.attributes))
    region = splitter.region(node.attributes["region"])
    old_low, new_low, old_high, new_high = region.parameters
    parameters = (old_low, old_high, new_low, new_high)
    scatter.attributes["region"] = Region(parameters, region.results)
    return Pair(
        *(derived(scatter, "result", (scatter,), node.shape, _U32, index=index) for index in (0, 1))
    )


def _loop(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node:
    """Replace the state's integers by their low words, and append the high words."""
    first = int(node.attributes["gated"])
    loop = replace(node, operands=(*_words_of(operands[:first]), *_flat(operands[first:])))
    loop.attributes = dict(node.attributes, high=_high_places(operands[first:]))
    return loop


def _turn(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node:
    first, parts = 1 + int(node.attributes["gated"]), node.attributes["parts"]
    count = (len(operands) - first) // parts
    chunks = [
        operands[first + index * count : first + (index + 1) * count] for index in range(parts)
    ]
    flat = [word for chunk in chunks for word in _flat(chunk)]
    iteration = replace(node, operands=(*_words_of(operands[:first]), *flat))
    iteration.attributes = dict(node.attributes, high=_high_places(chunks[0]))
    return iteration


def _words_of(operands: Sequence[Node | Pair]) -> list[Node]:
    """Return the nodes; for pairs the low words (an index of branches never has 64 bits)."""
    return [operand.low if isinstance(operand, Pair) else operand for operand in operands]


def _high_places(state: Sequence[Node | Pair]) -> dict[int, int]:
    """Return index of a low word -> index of its high word."""
    wide_indices = [index for index, operand in enumerate(state) if isinstance(operand, Pair)]
    return {index: len(state) + number for number, index in enumerate(wide_indices)}


def _loop_element(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    """Split an element of a loop's state."""
    (loop,) = operands
    assert isinstance(loop, Node)
    if loop.opcode not in ("loop", "turn"):
        raise uncovered(node, "a result of 64-bit integers", code="NEFF-INT64")
    index: int = node.attributes["index"]
    positions = (index, loop.attributes["high"][index])
    return Pair(
        *(
            derived(node, node.opcode, (loop,), node.shape, _U32,
                    **{**node.attributes, "index": position})
            for position in positions
        )
    )  # fmt: skip


def _counter(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    (loop,) = operands
    assert isinstance(loop, Node)
    return words.from_word(derived(node, "counter", (loop,), node.shape, BY_NAME["s32"],
                                   **node.attributes))  # fmt: skip


def _word_of_pair(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Node:
    """Return a word that the graph uses."""
    word: int = node.attributes["word"]
    return _pairs(operands)[0][word]


def _pair_of_words(_: _Splitter, node: Node, operands: list[Node | Pair]) -> Pair:
    low, high = (operand for operand in operands if isinstance(operand, Node))
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
    "carried": _loop_element,
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
    "pair": _pair_of_words,
    "parameter": _parameter,
    "popcnt": _unary(words.ones),
    "reduce": _reduce,
    "result": _loop_element,
    "scatter": _scatter,
    "sign": lambda _, node, operands: words.sign(_pairs(operands)[0], _is_signed(node)),
    "turn": _turn,
    "word": _word_of_pair,
}  # fmt: skip
"""Opcode -> rule for nodes of, or over, 64-bit integers."""
