"""Layers of a computation: nodes, and the places of values that cross a layer on their way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Layers", "layers_of"]

_ROOM = 1500
"""Places of crossing values that any drawing may have; beyond, twice its nodes."""


@dataclass(frozen=True, slots=True)
class Layers:
    """Vertices: the nodes by their numbers, then places of crossing values.

    Attributes:
        level: the layer of each vertex.
        rows: the vertices of each layer.
        above, below: each vertex's neighbours in the layers next to it.
        near: for each (operand, user) the places between them, from above.
        far: (operand, user) pairs that go up, or further than there is room for.
    """

    level: list[int]
    rows: list[list[int]]
    above: list[list[int]]
    below: list[list[int]]
    near: dict[tuple[int, int], list[int]]
    far: list[tuple[int, int]]


def layers_of(operands: Sequence[Sequence[int]]) -> Layers:
    """Layers for nodes with these operands; one that does not stand before its user is far."""
    before = [[n for n in needed if n < position] for position, needed in enumerate(operands)]
    users: list[list[int]] = [[] for _ in operands]
    for position, needed in enumerate(before):
        for operand in dict.fromkeys(needed):
            users[operand].append(position)
    level = _levels(before, users)
    reach = _reach(users, level)
    far = [
        (operand, position)
        for position, needed in enumerate(operands)
        for operand in dict.fromkeys(needed)
        if operand >= position or level[position] - level[operand] > reach
    ]
    above: list[list[int]] = [[] for _ in operands]
    below: list[list[int]] = [[] for _ in operands]
    near: dict[tuple[int, int], list[int]] = {}
    for operand, needing in enumerate(users):
        chain: list[int] = []
        for user in sorted(needing, key=level.__getitem__):
            span = level[user] - level[operand]
            if span > reach:
                break
            while len(chain) < span - 1:
                _join(above, below, chain[-1] if chain else operand, len(level))
                chain.append(len(level))
                level.append(level[operand] + len(chain))
            near[operand, user] = chain[: span - 1]
            _join(above, below, chain[span - 2] if span > 1 else operand, user)
    rows: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for vertex, number in enumerate(level):
        rows[number].append(vertex)
    return Layers(level, rows, above, below, near, far)


def _join(above: list[list[int]], below: list[list[int]], upper: int, lower: int) -> None:
    if lower == len(above):
        above.append([])
        below.append([])
    below[upper].append(lower)
    above[lower].append(upper)


def _levels(before: list[list[int]], users: list[list[int]]) -> list[int]:
    level = [0] * len(before)
    for location, needed in enumerate(before):
        level[location] = max((level[n] + 1 for n in needed), default=0)
    chain = [False] * len(before)
    for location, needed in enumerate(before):
        chain[location] = all(chain[n] for n in needed) and len(set(needed)) <= 1
    for location in reversed(range(len(before))):
        if chain[location] and users[location]:
            level[location] = max(level[location], min(level[user] for user in users[location]) - 1)
    return level


def _reach(users: list[list[int]], level: list[int]) -> int:
    """The most layers that an edge may span, so that there is room for all places on the way."""
    room = max(_ROOM, 2 * len(users))
    needed: dict[int, int] = {}  # span: values of which one more place is needed to span it
    for operand, needing in enumerate(users):
        last = 1
        for span in sorted({level[user] - level[operand] for user in needing}):
            needed[span] = needed.get(span, 0) + span - last
            last = span
    reach = 1
    for span in sorted(needed):
        room -= needed[span]
        if room < 0:
            break
        reach = span
    return reach
