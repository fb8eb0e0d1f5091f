"""Interleaves the instructions of several tiles, so that no engine waits for the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as

__all__ = ["interleaved", "takes_turns"]

_MIN_INTEGER_SUMS = 16
"""Integer sums from which on a unit is a chain in which two engines take turns."""


def takes_turns(nodes: Sequence[Node]) -> bool:
    """Return True if GpSimd and the vector engine take turns in a unit, as for random bits.

    Integers are added on GpSimd, and their bits shifted on the vector engine. In a chain of both, one of
    the two engines always waits, unless several tiles are interleaved.
    """
    sums = (
        node.opcode in ("add", "subtract", "multiply") and held_as(node).kind == "word"
        for node in nodes
    )
    return sum(sums) >= _MIN_INTEGER_SUMS


def interleaved(blocks: Iterator[Iterator[None]], depth: int) -> None:
    """Run generators, ``depth`` at a time, each one step later than the one that began before
    it.
    """
    under_way: list[Iterator[None]] = []
    has_more = True
    while has_more or under_way:
        if has_more and len(under_way) < depth:
            block = next(blocks, None)
            if block is None:
                has_more = False
            else:
                under_way.insert(0, block)
        under_way = [block for block in under_way if next(block, block) is not block]
