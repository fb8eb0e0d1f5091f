"""The data of a unit over rows, and the room that its tiles take in SBUF."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np

from neff.compiler.assembly.budget import Budget
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.lowering.rows.over_rows import OverRows
from neff.compiler.lowering.rows.reaches import Reach
from neff.compiler.lowering.rows.row_products import RowProduct
from neff.compiler.lowering.tiles.interleaving import takes_turns
from neff.compiler.lowering.tiles.operands import PSUM_COLUMNS
from neff.compiler.lowering.tiles.task import Port
from neff.compiler.lowering.tiles.tiling import PARTITIONS
from nki_lang.base.targets import Target

__all__ = ["DMA_DIMENSIONS", "MAX_MOVING_COLUMNS", "RowGroup", "column_block", "fits"]

DMA_DIMENSIONS = 5
"""Dimensions of a DMA (arch guide trainium_inferentia2, access patterns)."""

MAX_MOVING_COLUMNS = 512
"""Columns of one product instruction: a bank of PSUM."""

_MAX_TEMPORARIES = 6
"""Tiles that the rule of an operation may need besides its operands."""


@dataclass(slots=True)
class RowGroup:
    """The data of a unit over rows, for its kernel.

    Attributes:
        nodes: the nodes, operands first.
        rows: the extents that all values share, without ones.
        inputs: ``id`` of an operand -> its port, or its number.
        outputs: stored nodes, each with its port.
        sources: ``id`` of an operand -> (``id`` of a member or input, ``same`` or ``row``).
        products: ``id`` of the node -> its product.
        sums: ``id`` of the nodes that are sums over all rows.
        over: ``id`` of the products that contract the rows.
        contractions: ``id`` of such a product -> its data.
        block: columns of a tile if rows are cut into blocks, else 0.
    """

    nodes: list[Node]
    rows: tuple[int, ...]
    inputs: dict[int, Port | np.generic]
    outputs: list[tuple[Node, Port]]
    sources: dict[int, tuple[int, str]]
    products: dict[int, RowProduct] = field(default_factory=dict[int, RowProduct])
    sums: frozenset[int] = frozenset()
    over: frozenset[int] = frozenset()
    contractions: dict[int, OverRows] = field(default_factory=dict[int, OverRows])
    block: int = 0

    def columns(self, shape: tuple[int, ...]) -> int:
        """Return the elements of a value's row; 1 for a row value."""
        return prod(shape) // max(1, prod(self.rows))

    @property
    def batch(self) -> int:
        """Return the number of the rows' extents that are batch dimensions of a product."""
        products = (*self.products.values(), *self.contractions.values())
        return max((product.batch for product in products), default=0)

    @property
    def widest(self) -> int:
        """Return the elements of the longest row."""
        return max(self.columns(node.shape) for node in self._values())

    def _values(self) -> Iterator[Node]:
        for node in self.nodes:
            if id(node) not in self.sums | self.over:
                yield node
            if node.opcode in ("reduce", "dot"):
                yield from self._read_by_rows(node)[: 2 if id(node) in self.over else 1]

    def fits_one_dma(self, port: Port, max_dims: int | None = None) -> bool:
        """Return True if one transfer can load rows of a port: within the limit on dimensions."""
        return len(Reach(self.rows, port).columns) <= (max_dims or DMA_DIMENSIONS - 1)

    def alive(self) -> int:
        """Return the largest number of bytes of a partition that one row of a tile occupies.

        Numbers count as rows, except in a unit of integers, whose many numbers would leave no room to
        interleave its tiles.
        """
        exact = takes_turns(self.nodes)
        last: dict[int, int] = {}
        size: dict[int, int] = {}
        for number, node in enumerate(self.nodes):
            for operand in self._read_by_rows(node):
                key = self.sources[id(operand)][0]
                last[key] = number
                size.setdefault(key, self._cut(operand.shape) * held_as(operand).tile.itemsize)
                if exact and not isinstance(self.inputs.get(key), Port | None):
                    size[key] = 0
            columns = 0 if id(node) in self.sums | self.over else self._cut(node.shape)
            size[id(node)] = columns * held_as(node).tile.itemsize
            last.setdefault(id(node), number)
        live: set[int] = set()
        max_bytes = 0
        for number, node in enumerate(self.nodes):
            live |= {self.sources[id(operand)][0] for operand in self._read_by_rows(node)} | {
                id(node)
            }
            max_bytes = max(max_bytes, sum(size[key] for key in live))
            live = {key for key in live if last.get(key, -1) > number}
        simple = _NO_TEMPORARY_OPCODES | (_BIT_OPCODES if exact else frozenset[str]())
        if any(node.opcode not in simple and self.columns(node.shape) > 1 for node in self.nodes):
            max_bytes += _MAX_TEMPORARIES * 4 * min(self.widest, self.block or self.widest)
        return max_bytes

    def _read_by_rows(self, node: Node) -> tuple[Node, ...]:
        """Return the operands of which a tile has its own rows."""
        is_right_whole = node.opcode == "dot" and id(node) not in self.over
        return node.operands[:1] if is_right_whole else node.operands

    def _cut(self, shape: tuple[int, ...]) -> int:
        """Return the elements of a value's row in a block of columns."""
        return min(self.columns(shape), self.block or self.columns(shape))


def column_block(group: RowGroup, blocked: int) -> int:
    """Return the columns of a tile if the right operand does not fit: a multiple of a bank.

    Args:
        group: a group with one product.
        blocked: bytes of each partition for the right operand's columns.
    """
    (product,) = group.products.values()
    depth = product.right.view.shape[-2]
    rows = -(-depth // PARTITIONS) * product.dtype.itemsize
    return (
        max(1, min(PSUM_COLUMNS // MAX_MOVING_COLUMNS, blocked // (rows * MAX_MOVING_COLUMNS)))
        * MAX_MOVING_COLUMNS
    )


_NO_TEMPORARY_OPCODES = frozenset(
    {"add", "subtract", "multiply", "divide", "maximum", "minimum", "negate", "exponential",
     "tanh", "log", "logistic", "sqrt", "rsqrt", "erf", "abs", "and", "or", "xor", "not", "select",
     "clamp", "convert", "compare", "reduce", "dot", "gelu", "gelu-tanh", "silu", "rearranged-row"}
)  # fmt: skip


_BIT_OPCODES = frozenset({"bitcast-convert", "shift-left", "shift-right-logical"})
"""Operations by a number that need no temporary tile."""


def fits(group: RowGroup, target: Target, resident: int = 0) -> bool:
    """Return True if tiles of full rows fit into SBUF, with ``resident`` bytes of a partition in
    use.
    """
    return group.alive() <= Budget(target).working_bytes(resident)
