"""Copies in HBM that change the innermost dimension: blocks are transposed on chip.

A transfer that strides over either side moves one element at a time. Here both sides have contiguous
rows: blocks are loaded in the source's order, transposed by the tensor engine (on trn1 by the vector
engine), and stored in the target's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import Dim
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.operands import transpose_into
from neff.compiler.lowering.tiles.task import Port, Task, window
from neff.compiler.lowering.tiles.tiling import PARTITIONS, affordable, nest

__all__ = ["Exchange", "exchange_of", "exchange_task"]

_BANK_BYTES = 2048
"""Bytes of a PSUM bank in each partition."""

_MAX_LOADED_ELEMENTS = 512
"""Elements of a row that are loaded at a time."""

_MIN_EXTENT = 16
"""From this extent of both dimensions on the transposition is faster."""

_MIN_ELEMENTS = 1 << 15
"""From this number of elements on the transposition is faster."""

_TYPES = frozenset({"float32", "bfloat16", "float16"})


@dataclass(frozen=True, slots=True)
class Exchange:
    """A copy; both sides have the dimensions ``rows``, ``columns`` and ``loops``.

    Attributes:
        source, target: the ports, of one type.
        rows: the innermost dimension of the target; steps of (source, target).
        columns: the innermost dimension of the source.
        loops: the other dimensions.
    """

    source: Port
    target: Port
    rows: Dim
    columns: Dim
    loops: tuple[Dim, ...]


def exchange_of(source: Port, target: Port) -> Exchange | None:
    """Return the copy as an exchange; None for any other copy, or if it is not faster."""
    if source.dtype != target.dtype or source.dtype.name not in _TYPES or source.wide:
        return None
    dims = nest([source.view, target.view])
    columns = next((dim for dim in dims if dim.steps[0] == 1), None)
    rows = next((dim for dim in dims if dim.steps[1] == 1), None)
    if columns is None or rows is None or rows is columns:
        return None
    if any(0 in dim.steps for dim in dims):  # a repeated value: little is loaded
        return None
    if min(rows.extent, columns.extent) < _MIN_EXTENT or source.view.size < _MIN_ELEMENTS:
        return None
    loops = tuple(dim for dim in dims if dim is not rows and dim is not columns)
    return Exchange(source, target, rows, columns, loops)


def exchange_task(name: str, spec: Exchange, *, exact: bool) -> Task:
    """Return the kernel of an exchange.

    Args:
        name: the name of the kernel.
        spec: the copy.
        exact: the tensor engine transposes bit for bit.
    """

    def body(tensors: dict[str, Tile]) -> None:
        rows_per_bank = _BANK_BYTES // spec.source.dtype.itemsize
        blocks = -(-spec.rows.extent // PARTITIONS) * -(-spec.columns.extent // PARTITIONS)
        affordable(prod(dim.extent for dim in spec.loops) * blocks)
        for indices in product(*(range(dim.extent) for dim in spec.loops)):
            starts = [
                sum(index * dim.steps[side] for index, dim in zip(indices, spec.loops, strict=True))
                for side in (0, 1)
            ]
            for row in range(0, spec.rows.extent, rows_per_bank):
                for column in range(0, spec.columns.extent, _MAX_LOADED_ELEMENTS):
                    rows = row, min(rows_per_bank, spec.rows.extent - row)
                    columns = column, min(_MAX_LOADED_ELEMENTS, spec.columns.extent - column)
                    _block(spec, tensors, (starts[0], starts[1]), rows, columns, exact)

    return Task(name, [spec.source.view.buffer], [spec.target.view.buffer], body)


def _block(
    spec: Exchange, tensors: dict[str, Tile], starts: tuple[int, int], rows: tuple[int, int],
    columns: tuple[int, int], exact: bool,
) -> None:  # fmt: skip
    """Copy rows of one PSUM bank, and a block of their columns."""
    dtype, (_, down) = spec.source.dtype, spec.columns.steps
    loaded = _loaded(spec, tensors[spec.source.view.buffer], starts[0], rows, columns, exact)
    for first in range(0, columns[1], PARTITIONS):
        count = min(PARTITIONS, columns[1] - first)
        shape = (count, rows[1])
        transposed = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
        bank = nl.ndarray(shape, dtype=dtype, buffer=nl.psum) if exact else transposed
        for locations, block in loaded:
            transpose_into(bank[:, locations], block[:, first : first + count], exact=exact)
        if exact:
            nisa.tensor_copy(transposed, bank)
        offset = starts[1] + rows[0] + (columns[0] + first) * down
        target = window(
            tensors[spec.target.view.buffer], spec.target, offset, [[down, count], [1, rows[1]]]
        )
        nisa.dma_copy(target, transposed)


def _loaded(
    spec: Exchange, tensor: Tile, start: int, rows: tuple[int, int], columns: tuple[int, int],
    exact: bool,
) -> list[tuple[slice, Tile]]:  # fmt: skip
    """Load rows, and return blocks of at most 128, each with the numbers of its rows.

    If each partition gets the same number of rows, these are neighbors: one transfer of long runs.
    """
    dtype, along = spec.source.dtype, spec.rows.steps[0]
    begin = start + rows[0] * along + columns[0]
    group = -(-rows[1] // PARTITIONS)
    if exact and group > 1 and rows[1] % group == 0:
        count = rows[1] // group
        tile = nl.ndarray((count, group, columns[1]), dtype=dtype, buffer=nl.sbuf)
        pattern = [[group * along, count], [along, group], [1, columns[1]]]
        nisa.dma_copy(tile, window(tensor, spec.source, begin, pattern))
        return [(slice(number, rows[1], group), tile[:, number]) for number in range(group)]
    blocks: list[tuple[slice, Tile]] = []
    for first in range(0, rows[1], PARTITIONS):
        count = min(PARTITIONS, rows[1] - first)
        tile = nl.ndarray((count, columns[1]), dtype=dtype, buffer=nl.sbuf)
        pattern = [[along, count], [1, columns[1]]]
        nisa.dma_copy(tile, window(tensor, spec.source, begin + first * along, pattern))
        blocks.append((slice(first, first + count), tile))
    return blocks
