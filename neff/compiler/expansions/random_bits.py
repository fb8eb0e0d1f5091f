"""Expands ``rng-bit-generator`` to integer arithmetic: Philox 4x32-10 and Threefry 2x32.

The algorithms are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011);
XLA defines how the state becomes key and counter (derived by comparing results). The engines have
32-bit words: a 64-bit seed or counter is a pair of words.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hlo_tools.evaluate.random import halved
from hlo_tools.types.element_types import BY_NAME, ElementType
from neff.compiler.expansions.word_pairs import Pair, add, compared, number
from neff.compiler.graph.nodes import Node, sliced, uncovered

__all__ = ["random_bits"]

_U32 = BY_NAME["u32"]
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_THREEFRY = 1


class _Words:
    """Arithmetic on arrays of 32-bit words."""

    def __init__(self, like: Node, count: int) -> None:
        self._like, self._shape = like, (count,)

    def node(
        self,
        opcode: str,
        operands: tuple[Node, ...],
        shape: tuple[int, ...] | None = None,
        element: ElementType = _U32,
        **fields: Any,
    ) -> Node:
        shape = self._shape if shape is None else shape
        return Node(opcode, operands, shape, element, fields, self._like.name, self._like.place)

    def of(self, value: Node | int) -> Node:
        if isinstance(value, Node):
            return value
        scalar = self.node("constant", (), (), value=np.asarray(value & 0xFFFFFFFF, np.uint32))
        return self.node("broadcast", (scalar,), dimensions=())

    def do(self, opcode: str, a: Node | int, b: Node | int) -> Node:
        return self.node(opcode, (self.of(a), self.of(b)))

    def add(self, a: Node | int, b: Node | int) -> Node:
        return self.do("add", a, b)

    def xor(self, a: Node | int, b: Node | int) -> Node:
        return self.do("xor", a, b)

    def right(self, word: Node, by: int) -> Node:
        return self.do("shift-right-logical", word, by)

    def rotated(self, word: Node, by: int) -> Node:
        return self.do("or", self.do("shift-left", word, by), self.right(word, 32 - by))

    def product(self, word: Node, factor: int) -> tuple[Node, Node]:
        """Return high and low word of a product, by halves of words."""
        low, high = self.do("and", word, 0xFFFF), self.right(word, 16)
        factor_low, factor_high = factor & 0xFFFF, factor >> 16
        first = self.right(self.do("multiply", low, factor_low), 16)
        second = self.add(self.do("multiply", high, factor_low), first)
        third = self.add(self.do("multiply", low, factor_high), self.do("and", second, 0xFFFF))
        top = self.add(self.do("multiply", high, factor_high), self.right(second, 16))
        return self.add(top, self.right(third, 16)), self.do("multiply", word, factor)


def random_bits(node: Node, state: Node, algorithm: int, element: ElementType) -> tuple[Node, Node]:
    """Return (the next state, the bits) of a generator.

    Args:
        node: a node of the shape of the bits.
        state: u64[2] or, for Philox, u64[3]: seed and counter.
        algorithm: number of HLO's ``RandomAlgorithm``; 0 and 2 are Philox.
        element: type of the bits.

    Raises:
        NeffCompileError: ``NEFF-OP``; the state or the bits are of another type.
    """
    threefry = algorithm == _THREEFRY
    sizes = ((2,),) if threefry else ((2,), (3,))
    if state.shape not in sizes or state.element.name != "u64" or element.itemsize not in _UNSIGNED:
        raise uncovered(node, "random bits from a state that XLA does not define")
    wide = element.itemsize == 8
    shape = node.shape or (1,)
    if threefry and not wide:
        split, lane_shape = halved(shape)
    else:
        shape, split = (prod(shape),), 0
        lane_shape = shape if threefry else (-(-shape[0] * (2 if wide else 1) // 4),)
    words = _Words(node, prod(lane_shape))
    state_elements = [_element(words, state, index) for index in range(state.shape[0])]
    counts = Pair(words.node("iota", (), dimensions=(0,)), words.of(0))
    seed, counters = state_elements[0], add(state_elements[1], counts)
    after = [seed, add(state_elements[1], number(words.of(0), prod(lane_shape)))]
    if threefry:
        lane_words = _threefry(words, seed, counters)
    else:
        top = state_elements[2] if len(state_elements) == 3 else seed
        lane_words = _philox(
            words, seed, [*counters, *_carried(words, top, counters, state_elements[1])]
        )
        after += (
            [_carried(words, top, after[1], state_elements[1])] if len(state_elements) == 3 else []
        )
    lanes = [lane_words[0::2], lane_words[1::2]] if wide else [lane_words]
    lane_bits = [
        words.node(
            "reshape", (_interleaved(words, lane_list, split, lane_shape, shape),), node.shape
        )
        for lane_list in lanes
    ]
    bits = (
        words.node("pair", tuple(lane_bits), node.shape, BY_NAME["u64"]) if wide else lane_bits[0]
    )
    return _state(words, after, state), _as_type(bits, element)


_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def _as_type(bits: Node, element: ElementType) -> Node:
    """Return the low bits of words as another type."""
    name = _UNSIGNED[element.itemsize]
    narrow = bits if bits.element.name == name else bits.like("convert", bits, element=name)
    return narrow if element.name == name else narrow.like(
        "bitcast-convert", narrow, element=element.name
    )  # fmt: skip


def _carried(words: _Words, top: Pair, counters: Pair, start: Pair) -> Pair:
    """Return the upper half of 128-bit counters: incremented where the lower half wrapped
    around.
    """
    over = compared(counters, "LT", start, signed=False)
    carry = Pair(over.like("convert", over, element="u32"), words.of(0))
    return add(top, carry)


def _state(words: _Words, parts: list[Pair], state: Node) -> Node:
    """Return the first element of each pair, as a new state."""
    columns = [
        tuple(sliced(word, word, 0, 0, 1) if word.shape[0] else word for word in column)
        for column in zip(*parts, strict=True)
    ]
    words_of_state = [
        words.node("concatenate", column, state.shape, dimensions=(0,)) for column in columns
    ]
    return words.node("pair", tuple(words_of_state), state.shape, state.element)


def _interleaved(
    words: _Words,
    lanes_made: list[Node],
    split: int,
    lane_shape: tuple[int, ...],
    shape: tuple[int, ...],
) -> Node:
    """Interleave the lanes, each of shape ``lane_shape``, along a dimension; cut to ``shape``."""
    before, after, lane_count = lane_shape[: split + 1], lane_shape[split + 1 :], len(lanes_made)
    columns = tuple(words.node("reshape", (lane,), (*before, 1, *after)) for lane in lanes_made)
    extents = (*before, lane_count, *after)
    table = words.node("concatenate", columns, extents, dimensions=(split + 1,))
    extents = (*lane_shape[:split], lane_shape[split] * lane_count, *after)
    table = words.node("reshape", (table,), extents)
    return sliced(table, table, split, 0, shape[split])


def _element(words: _Words, state: Node, index: int) -> Pair:
    """Broadcast both words of an element of the state."""
    words_of_element: list[Node] = []
    for word in (0, 1):
        all_words = words.node("word", (state,), state.shape, word=word)
        scalar = words.node("reshape", (sliced(all_words, all_words, 0, index, index + 1),), ())
        words_of_element.append(words.node("broadcast", (scalar,), dimensions=()))
    return Pair(*words_of_element)


def _philox(words: _Words, seed: Pair, state: list[Node]) -> list[Node]:
    key: list[Node] = list(seed)
    for iteration in range(10):
        if iteration:
            key = [words.add(word, step) for word, step in zip(key, _STEPS, strict=True)]
        high0, low0 = words.product(state[0], _MULTIPLIERS[0])
        high1, low1 = words.product(state[2], _MULTIPLIERS[1])
        state = [
            words.xor(words.xor(high1, state[1]), key[0]), low1,
            words.xor(words.xor(high0, state[3]), key[1]), low0,
        ]  # fmt: skip
    return state


def _threefry(words: _Words, seed: Pair, counter: Pair) -> list[Node]:
    keys = [seed.low, seed.high, words.xor(words.xor(seed.low, seed.high), _PARITY)]
    low, high = words.add(counter.low, keys[0]), words.add(counter.high, keys[1])
    for iteration in range(5):
        for by in _ROTATIONS[iteration % 2]:
            low = words.add(low, high)
            high = words.xor(words.rotated(high, by), low)
        low = words.add(low, keys[(iteration + 1) % 3])
        high = words.add(words.add(high, keys[(iteration + 2) % 3]), iteration + 1)
    return [low, high]
