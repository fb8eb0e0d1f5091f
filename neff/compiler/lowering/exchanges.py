"""Copies in HBM that exchange which dimension stands next in memory: blocks transposed on chip.

A transfer that walks either side across moves one element at a time. Here both sides have rows: blocks
are loaded as they lie, transposed by the tensor engine (on trn1 by the vector engine), and stored as they
will lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import Dim
from neff.compiler.lowering.emitter import Tile
from neff.compiler.lowering.operands import turned_into
from neff.compiler.lowering.task import Port, Task, window
from neff.compiler.lowering.tiling import PARTITIONS, affordable, nest

__all__ = ["Exchange", "exchange_of", "exchange_task"]

_BANK = 2048
"""Bytes of a PSUM bank in each partition."""

_LOADED = 512
"""Elements of a row that are loaded at once."""

_FEWEST = 16
"""Elements of either dimension from which on it pays."""

_SMALLEST = 1 << 15
"""Elements of a copy from which on it pays."""

_TYPES = frozenset({"float32", "bfloat16", "float16"})


@dataclass(frozen=True, slots=True)
class Exchange:
    """A copy; both sides walk ``rows``, ``columns`` and ``loops``.

    Attributes:
        source, target: of one type.
        rows: the dimension that stands next in the target; steps of (source, target).
        columns: the one that stands next in the source.
        loops: the others.
    """

    source: Port
    target: Port
    rows: Dim
    columns: Dim
    loops: tuple[Dim, ...]


def exchange_of(source: Port, target: Port) -> Exchange | None:
    """The copy as an exchange; None where it is no such copy, or not worth it."""
    if source.dtype != target.dtype or source.dtype.name not in _TYPES or source.wide:
        return None
    dims = nest([source.view, target.view])
    columns = next((dim for dim in dims if dim.steps[0] == 1), None)
    rows = next((dim for dim in dims if dim.steps[1] == 1), None)
    if columns is None or rows is None or rows is columns:
        return None
    if any(0 in dim.steps for dim in dims):  # a value that repeats: there is little to load
        return None
    if min(rows.extent, columns.extent) < _FEWEST or source.view.size < _SMALLEST:
        return None
    loops = tuple(dim for dim in dims if dim is not rows and dim is not columns)
    return Exchange(source, target, rows, columns, loops)


def exchange_task(name: str, spec: Exchange, *, exact: bool) -> Task:
    """The kernel of such a copy.

    Args:
        name: for people.
        spec: what is copied.
        exact: the tensor engine transposes bit for bit.
    """

    def body(tensors: dict[str, Tile]) -> None:
        together = _BANK // spec.source.dtype.itemsize
        blocks = -(-spec.rows.extent // PARTITIONS) * -(-spec.columns.extent // PARTITIONS)
        affordable(prod(dim.extent for dim in spec.loops) * blocks)
        for where in product(*(range(dim.extent) for dim in spec.loops)):
            starts = [
                sum(index * dim.steps[side] for index, dim in zip(where, spec.loops, strict=True))
                for side in (0, 1)
            ]
            for row in range(0, spec.rows.extent, together):
                for column in range(0, spec.columns.extent, _LOADED):
                    rows = row, min(together, spec.rows.extent - row)
                    columns = column, min(_LOADED, spec.columns.extent - column)
                    _block(spec, tensors, (starts[0], starts[1]), rows, columns, exact)

    return Task(name, [spec.source.view.buffer], [spec.target.view.buffer], body)


def _block(
    spec: Exchange, tensors: dict[str, Tile], starts: tuple[int, int], rows: tuple[int, int],
    columns: tuple[int, int], exact: bool,
) -> None:  # fmt: skip
    """Rows of one PSUM bank, and some columns of them."""
    dtype, (along, _), (_, down) = spec.source.dtype, spec.rows.steps, spec.columns.steps
    parts: list[Tile] = []
    for first in range(0, rows[1], PARTITIONS):
        count = min(PARTITIONS, rows[1] - first)
        tile = nl.ndarray((count, columns[1]), dtype=dtype, buffer=nl.sbuf)
        at = starts[0] + (rows[0] + first) * along + columns[0]
        pattern = [[along, count], [1, columns[1]]]
        source = window(tensors[spec.source.view.buffer], spec.source, at, pattern)
        nisa.dma_copy(tile, source)
        parts.append(tile)
    for first in range(0, columns[1], PARTITIONS):
        count = min(PARTITIONS, columns[1] - first)
        shape = (count, rows[1])
        made = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
        bank = nl.ndarray(shape, dtype=dtype, buffer=nl.psum) if exact else made
        for number, part in enumerate(parts):
            begin = number * PARTITIONS
            place = bank[:, begin : begin + part.shape[0]]
            turned_into(place, part[:, first : first + count], exact=exact)
        if exact:
            nisa.tensor_copy(made, bank)
        at = starts[1] + rows[0] + (columns[0] + first) * down
        target = window(
            tensors[spec.target.view.buffer], spec.target, at, [[down, count], [1, rows[1]]]
        )
        nisa.dma_copy(target, made)
