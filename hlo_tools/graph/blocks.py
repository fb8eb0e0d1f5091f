"""Blocks of a large computation whose scopes are too many or too few to fold it by.

torch_xla gives every operation a scope of its own, so a training step of 40,000 instructions has
30,000 at its top. Such a computation is cut into blocks of consecutive instructions, and these into
smaller ones. Instructions stand after their operands, so blocks need each other in one direction
only. A cut is made where the fewest values are alive, which is between layers of a model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import PurePath

from hlo_tools.graph.model import Computation, Graph, Node

__all__ = ["MAX_UNDIVIDED_NODES", "blocks_of"]

MAX_UNDIVIDED_NODES = 400
"""A computation with more nodes and scopes at its top is cut into blocks."""
_BLOCKS = 40
"""Blocks of a computation, about; a block of so many instructions is not cut again."""


def blocks_of(graph: Graph) -> list[tuple[str, ...]]:
    """For each node the names of the blocks that it is in, from outside; mostly none."""
    block_names: list[tuple[str, ...]] = [()] * len(graph.nodes)
    for computation in graph.computations:
        nodes = graph.nodes[computation.begin : computation.end]
        tops = sum(not node.scope for node in nodes) + len({n.scope[0] for n in nodes if n.scope})
        if tops > MAX_UNDIVIDED_NODES:
            _cut(computation, nodes, block_names)
    return block_names


def _cut(
    computation: Computation, nodes: Sequence[Node], block_names: list[tuple[str, ...]]
) -> None:
    alive = _alive(computation, nodes)
    for begin, end in _ranges(0, len(nodes), alive):
        outer = _name(nodes, begin, end)
        inner = _ranges(begin, end, alive) if end - begin > 2 * _BLOCKS else []
        for position in range(begin, end):
            block_names[computation.begin + position] = (outer,)
        for first, last in inner:
            path = (outer, _name(nodes, first, last))
            for position in range(first, last):
                block_names[computation.begin + position] = path


def _alive(computation: Computation, nodes: Sequence[Node]) -> list[int]:
    """How many values are used across the cut before each node."""
    last = list(range(len(nodes)))
    for position, node in enumerate(nodes):
        for operand in node.operands:
            producer = operand - computation.begin
            last[producer] = max(last[producer], position)
    change = [0] * (len(nodes) + 2)
    for position, end in enumerate(last):
        change[position + 1] += 1
        change[end + 1] -= 1
    return list(accumulate(change))


def _ranges(begin: int, end: int, alive: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of about equal size; each cut is the best within a quarter of a block."""
    count = min(_BLOCKS, max((end - begin) // _BLOCKS, 2))
    size = (end - begin) / count
    cuts = [begin]
    for number in range(1, count):
        even_cut = begin + round(number * size)
        reach = int(size / 4)
        near = range(max(even_cut - reach, cuts[-1] + 1), min(even_cut + reach, end - 1) + 1)
        cuts.append(min(near, key=lambda cut: (alive[cut], abs(cut - even_cut)), default=even_cut))
    return list(pairwise([*cuts, end]))


def _name(nodes: Sequence[Node], begin: int, end: int) -> str:
    """The range as people count, and the source file or else the opcode that most have."""
    block = nodes[begin:end]
    kernels = [node.title for node in block if node.kernel]
    files = Counter(PurePath(node.source.rpartition(":")[0]).stem for node in block if node.source)
    opcodes = Counter(node.opcode for node in block)
    common_name = kernels[0] if kernels else (files or opcodes).most_common(1)[0][0]
    return f"{begin + 1:,}\u2013{end:,} {common_name}"
