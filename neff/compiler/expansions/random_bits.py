"""``rng-bit-generator`` as integer arithmetic: Philox 4x32-10 and Threefry 2x32.

The algorithms are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011);
how the state becomes key and counter is XLA's (found by comparing results). The engines have
32-bit words: a 64-bit seed or counter is a pair of them.
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

    def do(self, opcode: str, one: Node | int, other: Node | int) -> Node:
        return self.node(opcode, (self.of(one), self.of(other)))

    def add(self, one: Node | int, other: Node | int) -> Node:
        return self.do("add", one, other)

    def xor(self, one: Node | int, other: Node | int) -> Node:
        return self.do("xor", one, other)

    def right(self, one: Node, by: int) -> Node:
        return self.do("shift-right-logical", one, by)

    def rotated(self, one: Node, by: int) -> Node:
        return self.do("or", self.do("shift-left", one, by), self.right(one, 32 - by))

    def product(self, one: Node, factor: int) -> tuple[Node, Node]:
        """High and low word of a product, by halves of words."""
        low, high = self.do("and", one, 0xFFFF), self.right(one, 16)
        small, large = factor & 0xFFFF, factor >> 16
        first = self.right(self.do("multiply", low, small), 16)
        second = self.add(self.do("multiply", high, small), first)
        third = self.add(self.do("multiply", low, large), self.do("and", second, 0xFFFF))
        top = self.add(self.do("multiply", high, large), self.right(second, 16))
        return self.add(top, self.right(third, 16)), self.do("multiply", one, factor)


def random_bits(node: Node, state: Node, algorithm: int, element: ElementType) -> tuple[Node, Node]:
    """(the next state, the bits) of a generator.

    Args:
        node: of the shape of the bits.
        state: u64[2] or, of Philox, u64[3]: seed and counter.
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
        split, part = halved(shape)
    else:
        shape, split = (prod(shape),), 0
        part = shape if threefry else (-(-shape[0] * (2 if wide else 1) // 4),)
    words = _Words(node, prod(part))
    parts = [_element(words, state, index) for index in range(state.shape[0])]
    counts = Pair(words.node("iota", (), dimensions=(0,)), words.of(0))
    seed, counters = parts[0], add(parts[1], counts)
    after = [seed, add(parts[1], number(words.of(0), prod(part)))]
    if threefry:
        made = _threefry(words, seed, counters)
    else:
        top = parts[2] if len(parts) == 3 else seed
        made = _philox(words, seed, [*counters, *_carried(words, top, counters, parts[1])])
        after += [_carried(words, top, after[1], parts[1])] if len(parts) == 3 else []
    lanes = [made[0::2], made[1::2]] if wide else [made]
    found = [
        words.node("reshape", (_interleaved(words, one, split, part, shape),), node.shape)
        for one in lanes
    ]
    bits = words.node("pair", tuple(found), node.shape, BY_NAME["u64"]) if wide else found[0]
    return _state(words, after, state), _of_type(bits, element)


_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


def _of_type(bits: Node, element: ElementType) -> Node:
    """The low bits of words as another type."""
    name = _UNSIGNED[element.itemsize]
    narrow = bits if bits.element.name == name else bits.like("convert", bits, element=name)
    return narrow if element.name == name else narrow.like(
        "bitcast-convert", narrow, element=element.name
    )  # fmt: skip


def _carried(words: _Words, top: Pair, counters: Pair, start: Pair) -> Pair:
    """The upper half of 128-bit counters: one more where the lower half has wrapped around."""
    over = compared(counters, "LT", start, signed=False)
    carry = Pair(over.like("convert", over, element="u32"), words.of(0))
    return add(top, carry)


def _state(words: _Words, parts: list[Pair], state: Node) -> Node:
    """The first element of each part, as a new state."""
    columns = [
        tuple(sliced(one, one, 0, 0, 1) if one.shape[0] else one for one in each)
        for each in zip(*parts, strict=True)
    ]
    made = [words.node("concatenate", each, state.shape, dimensions=(0,)) for each in columns]
    return words.node("pair", tuple(made), state.shape, state.element)


def _interleaved(
    words: _Words, made: list[Node], split: int, part: tuple[int, ...], shape: tuple[int, ...]
) -> Node:
    """The lanes, each of shape ``part``, taken in turn along a dimension; cut to ``shape``."""
    before, after, lanes = part[: split + 1], part[split + 1 :], len(made)
    columns = tuple(words.node("reshape", (each,), (*before, 1, *after)) for each in made)
    extents = (*before, lanes, *after)
    table = words.node("concatenate", columns, extents, dimensions=(split + 1,))
    extents = (*part[:split], part[split] * lanes, *after)
    table = words.node("reshape", (table,), extents)
    return sliced(table, table, split, 0, shape[split])


def _element(words: _Words, state: Node, index: int) -> Pair:
    """Both words of an element of the state, everywhere."""
    found: list[Node] = []
    for at in (0, 1):
        every = words.node("word", (state,), state.shape, word=at)
        scalar = words.node("reshape", (sliced(every, every, 0, index, index + 1),), ())
        found.append(words.node("broadcast", (scalar,), dimensions=()))
    return Pair(*found)


def _philox(words: _Words, seed: Pair, state: list[Node]) -> list[Node]:
    key: list[Node] = list(seed)
    for turn in range(10):
        if turn:
            key = [words.add(part, step) for part, step in zip(key, _STEPS, strict=True)]
        high0, low0 = words.product(state[0], _MULTIPLIERS[0])
        high1, low1 = words.product(state[2], _MULTIPLIERS[1])
        state = [
            words.xor(words.xor(high1, state[1]), key[0]), low1,
            words.xor(words.xor(high0, state[3]), key[1]), low0,
        ]  # fmt: skip
    return state


def _threefry(words: _Words, seed: Pair, counter: Pair) -> list[Node]:
    keys = [seed.low, seed.high, words.xor(words.xor(seed.low, seed.high), _PARITY)]
    one, two = words.add(counter.low, keys[0]), words.add(counter.high, keys[1])
    for turn in range(5):
        for by in _ROTATIONS[turn % 2]:
            one = words.add(one, two)
            two = words.xor(words.rotated(two, by), one)
        one = words.add(one, keys[(turn + 1) % 3])
        two = words.add(words.add(two, keys[(turn + 2) % 3]), turn + 1)
    return [one, two]
