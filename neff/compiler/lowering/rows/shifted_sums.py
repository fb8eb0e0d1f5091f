"""Sums of ``exp(x - maximum)`` in the pass that computes the maximum.

Each block of a long row sums ``exp(x - u)``, where ``u`` is the maximum of its own elements, limited to
finite numbers. When all blocks are done, the sums are scaled to the maximum of the whole row::

    sum = sum over blocks of  sum_of_block * exp(u_of_block - maximum)

(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). So a row that SBUF does
not hold is read once for maximum and sum.

Infinities need no branch. A block of nothing but -inf has a sum of 0 and a factor of 0, or of inf if the
whole row is -inf: 0 * inf is NaN, as is ``exp(-inf - -inf)``. A block with inf has a sum of inf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.nodes import Node
from neff.compiler.lowering.rows.row_groups import RowGroup
from neff.compiler.lowering.rows.spreads import RowEmitter, Spread
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.origins import computing
from nki_lang.base.dtypes import dtype_of

__all__ = ["Collected", "ShiftedSum", "shifted_sums"]

F32 = dtype_of("float32")
_LIMIT = float(np.finfo(np.float32).max)

_SHIFT_OPCODES = frozenset({"maximum", "select", "is-finite", "compare", "abs", "convert"})
"""Operations that leave a maximum as it is, or replace one that is not finite."""


@dataclass(frozen=True, slots=True)
class ShiftedSum:
    """A sum of exponentials.

    Attributes:
        total: the sum.
        maximum: the reduction that ``shift`` follows from.
        shift: ``id`` of the row value that is subtracted.
        row_nodes: the operations between ``maximum`` and ``shift``.
    """

    total: Node
    maximum: Node
    shift: int
    row_nodes: tuple[Node, ...]


def shifted_sums(group: RowGroup) -> list[ShiftedSum]:
    """Return the sums of a unit that the pass of their maximum can compute."""
    members = {id(node): node for node in group.nodes}
    sums = (
        _shifted_sum(group, members, node)
        for node in group.nodes
        if node.opcode == "reduce" and node.attributes["applied"] == "add"
    )
    return [item for item in sums if item is not None]


def _shifted_sum(group: RowGroup, members: dict[int, Node], total: Node) -> ShiftedSum | None:
    exponential = _member(group, members, total.operands[0], "exponential")
    if exponential is None:
        return None
    difference = _member(group, members, exponential.operands[0], "subtract")
    if difference is None:
        return None
    if {node.element.name for node in (total, exponential, difference)} != {"f32"}:
        return None
    value, _ = group.sources[id(difference.operands[0])]
    shift, _ = group.sources[id(difference.operands[1])]
    chain = _chain(group, members, shift)
    if chain is None:
        return None
    maximum, row_nodes = chain
    if group.sources[id(maximum.operands[0])] != (value, "same"):
        return None
    return ShiftedSum(total, maximum, shift, row_nodes)


def _member(group: RowGroup, members: dict[int, Node], operand: Node, opcode: str) -> Node | None:
    """Return the member that computes an operand, if it has the opcode."""
    key, axis = group.sources[id(operand)]
    node = members.get(key)
    return node if node is not None and axis == "same" and node.opcode == opcode else None


def _chain(
    group: RowGroup, members: dict[int, Node], shift: int
) -> tuple[Node, tuple[Node, ...]] | None:
    """Return the only maximum that a row value follows from, and the operations between both."""
    chain: set[int] = set()
    maxima: set[int] = set()
    pending = [shift]
    while pending:
        key = pending.pop()
        node = members.get(key)
        if key in chain or node is None:
            continue
        if node.opcode == "reduce":
            maxima.add(key)
            continue
        if node.opcode not in _SHIFT_OPCODES or group.columns(node.shape) > 1:
            return None
        chain.add(key)
        pending += [group.sources[id(operand)][0] for operand in node.operands]
    if len(maxima) != 1:
        return None
    maximum = members[maxima.pop()]
    if maximum.attributes["applied"] != "maximum" or maximum.element.name != "f32":
        return None
    return maximum, tuple(node for node in group.nodes if id(node) in chain)


class Collected:
    """The shifts and sums of a row's blocks, a column for each block.

    Args:
        partitions: rows of the tile.
        blocks: blocks of a row.
        sums: the sums.
    """

    def __init__(self, partitions: int, blocks: int, sums: Sequence[ShiftedSum]) -> None:
        self._shape = (partitions, blocks)
        self._sums = {id(item.total): item for item in sums}
        self._columns: dict[int, Tile] = {}

    def shift(self, maximum: Node, block: int, value: Tile) -> dict[int, Tile]:
        """Return the shift of each sum that subtracts a maximum, from the maximum of a block."""
        shifts: dict[int, Tile] = {}
        if any(item.maximum is maximum for item in self._sums.values()):
            column = self._column(id(maximum), block)
            nisa.tensor_scalar(column, value, nl.maximum, -_LIMIT, op1=nl.minimum, operand1=_LIMIT)
            shifts = {item.shift: column for item in self._sums.values() if item.maximum is maximum}
        return shifts

    def add(self, total: Node, block: int, value: Tile) -> bool:
        """Keep the sum of a block; return False if it is not the sum of exponentials."""
        if id(total) not in self._sums:
            return False
        nisa.tensor_copy(self._column(id(total), block), value)
        return True

    def _column(self, key: int, block: int) -> Tile:
        columns = self._columns.get(key)
        if columns is None:
            columns = self._columns[key] = nl.ndarray(self._shape, dtype=F32, buffer=nl.sbuf)
        return columns[:, block : block + 1]

    def totals(self, e: RowEmitter, shift: Callable[[ShiftedSum], Tile]) -> dict[int, Tile]:
        """Return the sums of the whole rows, by ``id``.

        Args:
            e: emits tiles with a column for each block.
            shift: returns what a sum subtracts from the elements of a whole row.
        """
        totals: dict[int, Tile] = {}
        for key, item in self._sums.items():
            row_shift = Spread(shift(item), "row")
            with computing(item.total):
                differences = e.binary("subtract", self._columns[id(item.maximum)], row_shift, F32)
                factors = e.activation("exp", differences, F32)
                scaled = e.binary("multiply", self._columns[key], factors, F32)
                totals[key] = nl.ndarray((self._shape[0], 1), dtype=F32, buffer=nl.sbuf)
                nisa.tensor_reduce(totals[key], nl.add, scaled, 1)
        return totals
