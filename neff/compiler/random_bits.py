"""``rng-bit-generator`` as integer arithmetic: Philox 4x32-10 and Threefry 2x32.

The algorithms are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011);
how the state becomes key and counter is XLA's (found by comparing results). The engines have
32-bit words: of a 64-bit seed or counter the low word counts, the high one is taken for zero.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from hlo_tools.evaluate.random import halved
from hlo_tools.types.element_types import BY_NAME, ElementType
from neff.compiler.graph import Node, sliced, uncovered

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
        state: u64[2], seed and counter.
        algorithm: number of HLO's ``RandomAlgorithm``; 0 and 2 are Philox.
        element: type of the bits.

    Raises:
        NeffCompileError: ``NEFF-OP``; the state or the bits are of another type.
    """
    if state.shape != (2,) or state.element.name != "u64" or element is not _U32:
        raise uncovered(node, "of random bits only u32 from a state of u64[2] are covered")
    shape = node.shape or (1,)
    if algorithm == _THREEFRY:
        split, part = halved(shape)
    else:
        shape, split, part = (prod(shape),), 0, (-(-prod(shape) // 4),)
    words = _Words(node, prod(part))
    seed, counter = (_word(words, state, index) for index in (0, 1))
    numbers = words.add(counter, words.node("iota", (), dimensions=(0,)))
    made = (_threefry if algorithm == _THREEFRY else _philox)(words, seed, numbers)
    bits = words.node("reshape", (_interleaved(words, made, split, part, shape),), node.shape)
    moved = np.asarray([0, prod(part)], np.uint64)
    step = words.node("constant", (), (2,), state.element, value=moved)
    return words.node("add", (state, step), (2,), state.element), bits


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


def _word(words: _Words, state: Node, index: int) -> Node:
    """The low word of an element of the state, everywhere."""
    fields = {"starts": (index,), "limits": (index + 1,), "strides": (1,)}
    one = words.node("slice", (state,), (1,), state.element, **fields)
    scalar = words.node("reshape", (words.node("convert", (one,), (1,)),), ())
    return words.node("broadcast", (scalar,), dimensions=())


def _philox(words: _Words, seed: Node, counter: Node) -> list[Node]:
    zero = words.of(0)
    state, key = [counter, zero, seed, zero], [seed, zero]
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


def _threefry(words: _Words, seed: Node, counter: Node) -> list[Node]:
    keys = [seed, words.of(0), words.xor(seed, _PARITY)]
    one, two = words.add(counter, keys[0]), keys[1]
    for turn in range(5):
        for by in _ROTATIONS[turn % 2]:
            one = words.add(one, two)
            two = words.xor(words.rotated(two, by), one)
        one = words.add(one, keys[(turn + 1) % 3])
        two = words.add(words.add(two, keys[(turn + 2) % 3]), turn + 1)
    return [one, two]
