"""A kernel that the compiler writes: the buffers that it reads and writes, and its body.

Every buffer is one flat tensor in HBM; views of it are access patterns. A buffer of 64-bit
numbers is accessed as 32-bit words, two for each number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import View
from neff.compiler.lowering.tiles.emitter import Tile, Value
from neff.compiler.lowering.tiles.tiling import Piece
from neff.program import Variable
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = [
    "MAX_SPARSE_STEP",
    "WORD_DTYPES",
    "Moved",
    "Port",
    "Task",
    "core_share",
    "load",
    "store",
    "window",
]

WorkItem = TypeVar("WorkItem")

WORD_DTYPES = {
    "int64": BY_NAME["int32"],
    "uint64": BY_NAME["uint32"],
    "float64": BY_NAME["uint32"],
}
"""Types of two words -> type of a word."""


MAX_SPARSE_STEP = 8
"""Up to this step from one element to the next the elements in between are loaded too."""

_MIN_SPARSE_ELEMENTS, _MAX_SPARSE_BYTES = 8, 1 << 15
"""From this many elements in a row on they are loaded so, within this limit on a partition's
bytes.
"""


@dataclass(frozen=True, slots=True)
class Port:
    """A view of a buffer with the type in which a kernel reads or writes it.

    Attributes:
        view: the elements.
        dtype: type of the buffer's elements on chip.
        wide: each element is two words, the low one first.
        double: the two words are a float64; on chip it is a float32.
    """

    view: View
    dtype: DType
    wide: bool = False
    double: bool = False

    @classmethod
    def of(cls, view: View, variable: Variable) -> Port:
        """Return the port of a view of a variable."""
        word = WORD_DTYPES.get(variable.dtype.name)
        if variable.dtype.name == "float64":
            return cls(view, BY_NAME["float32"], True, True)
        return cls(view, word or variable.dtype, word is not None)


@dataclass(slots=True)
class Task:
    """A kernel to be traced.

    Attributes:
        name: of the kernel, for people.
        reads, writes: names of the buffers.
        body: called with the kernel's tensors by buffer name.
        idioms: gets the names of those that the body used, for ``--explain``.
        divides: the body does the share of the core that it is traced for (:func:`core_share`).
    """

    name: str
    reads: list[str]
    writes: list[str]
    body: Callable[[dict[str, Tile]], None]
    idioms: set[str] = field(default_factory=set[str])
    divides: bool = False

    def renamed(self, names: Callable[[str], str]) -> Task:
        """Return the same kernel over buffers with other names, several of which may be equal."""
        renamed = {name: names(name) for name in (*self.reads, *self.writes)}
        if all(name == new_name for name, new_name in renamed.items()):
            return self

        def body(tensors: dict[str, Tile]) -> None:
            self.body({name: tensors[new_name] for name, new_name in renamed.items()})

        return Task(
            self.name, [renamed[name] for name in self.reads],
            [renamed[name] for name in self.writes], body, self.idioms, self.divides,
        )  # fmt: skip


def core_share(items: Iterable[WorkItem]) -> Sequence[WorkItem]:
    """Return the work items of the core that a kernel is traced for: a run of neighbors.

    No core gets more items than the first one.
    """
    all_items = list(items)
    share = -(-len(all_items) // nl.num_programs(0))
    first = share * nl.program_id(0)
    return all_items[first : first + share]


@dataclass(frozen=True, slots=True)
class Moved:
    """Elements that a loop adds to an offset: its register times ``step``."""

    register: Value
    step: int = 1

    def times(self, count: int) -> Moved:
        """Return the offset multiplied by ``count``."""
        return Moved(self.register, self.step * count)


def window(
    tensor: Tile,
    port: Port,
    offset: int,
    pattern: list[list[int]],
    word: int = 0,
    moved: Moved | None = None,
) -> Tile:
    """Return an access pattern of a buffer, in elements, or in words of wide elements.

    ``moved`` is added to the offset.
    """
    offset += port.view.offset
    if port.wide:
        pattern = [[2 * step, count] for step, count in pattern]
        offset = 2 * offset + word
    if moved is None:
        return tensor.ap(pattern=pattern, offset=offset)
    loop_offset = moved.register * (moved.step * (1 + port.wide))
    return tensor.ap(pattern=pattern, offset=offset, scalar_offset=loop_offset, indirect_dim=0)


def load(
    tensor: Tile, port: Port, piece: Piece, number: int, dtype: DType | None = None, word: int = 0,
    moved: Moved | None = None,
) -> Tile:  # fmt: skip
    """Return a tile (partitions, elements) of view ``number`` of a piece.

    For wide elements it is one word. A value that is the same along the free dimensions is loaded once
    for each partition. ``moved`` is added to the piece's offset.
    """
    pattern = piece.pattern(number)
    rows, elements = piece.partition.extent, piece.elements
    same = elements > 1 and not any(step for step, _ in pattern[1:])
    if same:
        pattern = [pattern[0], [1, 1]]
    elif _is_sparse(port, piece, number):
        return _loaded_whole(tensor, port, piece, number, dtype, moved)
    shape = (piece.partitions, 1 if same else elements)
    tile = nl.ndarray(shape, dtype=dtype or port.dtype, buffer=nl.sbuf)
    for index, offsets in enumerate((piece.offsets, *piece.further)):
        target = tile[index * rows : (index + 1) * rows]
        nisa.dma_copy(target, window(tensor, port, offsets[number], pattern, word, moved))
    return tile.broadcast(1, elements) if same else tile


def _is_sparse(port: Port, piece: Piece, number: int) -> bool:
    """Return True if elements are a small step apart: transfers of each are slower than of all
    between.
    """
    step, count = piece.pattern(number)[-1]
    fits = piece.elements * step * port.dtype.itemsize <= _MAX_SPARSE_BYTES
    return 2 <= step <= MAX_SPARSE_STEP and count >= _MIN_SPARSE_ELEMENTS and fits and not port.wide


def _loaded_whole(
    tensor: Tile, port: Port, piece: Piece, number: int, dtype: DType | None, moved: Moved | None
) -> Tile:
    """Load elements with the gaps between them, and return a view of the elements."""
    *outer, (step, count) = piece.pattern(number)
    rows, wide = piece.partition.extent, piece.elements * step
    tile = nl.ndarray((piece.partitions, wide), dtype=dtype or port.dtype, buffer=nl.sbuf)
    tile_pattern = [[1, (count - 1) * step + 1]]
    size = count * step
    for _, extent in reversed(outer[1:]):
        tile_pattern.insert(0, [size, extent])
        size *= extent
    pattern = [*outer, [1, tile_pattern[-1][1]]]
    for index, offsets in enumerate((piece.offsets, *piece.further)):
        target = tile[index * rows : (index + 1) * rows].ap(
            pattern=[[wide, rows], *tile_pattern], offset=0
        )
        nisa.dma_copy(target, window(tensor, port, offsets[number], pattern, moved=moved))
    return tile[:, ::step]


def store(tensor: Tile, port: Port, piece: Piece, number: int, tile: Tile, word: int = 0) -> None:
    """Write a tile to view ``number`` of a piece; one word of wide elements."""
    pattern, rows = piece.pattern(number), piece.partition.extent
    for index, offsets in enumerate((piece.offsets, *piece.further)):
        source = tile[index * rows : (index + 1) * rows]
        nisa.dma_copy(window(tensor, port, offsets[number], pattern, word), source)
