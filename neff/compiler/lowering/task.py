"""A kernel that the compiler writes: which buffers it reads and writes, and its body.

Every buffer is one flat tensor in HBM; views of it are access patterns. A buffer of 64-bit
numbers is seen as twice as many 32-bit words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.views import View
from neff.compiler.lowering.tiling import Piece
from neff.program import Variable
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["SPARSE", "WORDS", "Moved", "Port", "Task", "load", "own_part", "store", "window"]

Part = TypeVar("Part")

WORDS = {
    "int64": BY_NAME["int32"],
    "uint64": BY_NAME["uint32"],
    "float64": BY_NAME["uint32"],
}
"""Types of two words -> type of one."""


SPARSE = 8
"""Steps from one element to the next up to which all between are loaded, too."""

_FEW_SPARSE, _MOST_SPARSE = 8, 1 << 15
"""Elements in a row from which on they are, and bytes of a partition that it takes at most."""


@dataclass(frozen=True, slots=True)
class Port:
    """A view of a buffer, as a kernel reads or writes it.

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
        """The port of a view of a variable."""
        word = WORDS.get(variable.dtype.name)
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
        divides: the body does the part of the core that it is traced for (:func:`own_part`).
    """

    name: str
    reads: list[str]
    writes: list[str]
    body: Callable[[dict[str, Any]], None]
    idioms: set[str] = field(default_factory=set[str])
    divides: bool = False

    def renamed(self, names: Callable[[str], str]) -> Task:
        """The same kernel over buffers with other names, of which several may have one."""
        renamed = {name: names(name) for name in (*self.reads, *self.writes)}
        if all(name == other for name, other in renamed.items()):
            return self

        def body(tensors: dict[str, Any]) -> None:
            self.body({name: tensors[other] for name, other in renamed.items()})

        return Task(
            self.name, [renamed[name] for name in self.reads],
            [renamed[name] for name in self.writes], body, self.idioms, self.divides,
        )  # fmt: skip


def own_part(pieces: Iterable[Part]) -> Sequence[Part]:
    """The pieces of work of the core that a kernel is traced for: a run of neighbours.

    No core gets more than the first one.
    """
    every = list(pieces)
    share = -(-len(every) // nl.num_programs(0))
    first = share * nl.program_id(0)
    return every[first : first + share]


@dataclass(frozen=True, slots=True)
class Moved:
    """Elements that a loop adds to an offset: its register times ``step``."""

    register: Any
    step: int = 1

    def times(self, count: int) -> Moved:
        """As many times further."""
        return Moved(self.register, self.step * count)


def window(
    tensor: Any,
    port: Port,
    offset: int,
    pattern: list[list[int]],
    word: int = 0,
    moved: Moved | None = None,
) -> Any:
    """Elements of a buffer: an access pattern in elements, or in words of wide elements.

    ``moved`` is added to the offset.
    """
    offset += port.view.offset
    if port.wide:
        pattern = [[2 * step, count] for step, count in pattern]
        offset = 2 * offset + word
    if moved is None:
        return tensor.ap(pattern=pattern, offset=offset)
    further = moved.register * (moved.step * (1 + port.wide))
    return tensor.ap(pattern=pattern, offset=offset, scalar_offset=further, indirect_dim=0)


def load(
    tensor: Any, port: Port, piece: Piece, number: int, dtype: DType | None = None, word: int = 0,
    moved: Moved | None = None,
) -> Any:  # fmt: skip
    """A tile (partitions, elements) with what view ``number`` of a piece has.

    Of wide elements it is one word. A value that is the same along the free dimensions is
    loaded once for each partition. ``moved`` is added to the piece's offset.
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
    for at, offsets in enumerate((piece.offsets, *piece.further)):
        part = tile[at * rows : (at + 1) * rows]
        nisa.dma_copy(part, window(tensor, port, offsets[number], pattern, word, moved))
    return tile.broadcast(1, elements) if same else tile


def _is_sparse(port: Port, piece: Piece, number: int) -> bool:
    """True where elements stand a little apart: one transfer for each takes longer than all between."""
    step, count = piece.pattern(number)[-1]
    fits = piece.elements * step * port.dtype.itemsize <= _MOST_SPARSE
    return 2 <= step <= SPARSE and count >= _FEW_SPARSE and fits and not port.wide


def _loaded_whole(
    tensor: Any, port: Port, piece: Piece, number: int, dtype: DType | None, moved: Moved | None
) -> Any:
    """Elements that stand apart, as a view of a tile with what is between them, too."""
    *outer, (step, count) = piece.pattern(number)
    rows, wide = piece.partition.extent, piece.elements * step
    tile = nl.ndarray((piece.partitions, wide), dtype=dtype or port.dtype, buffer=nl.sbuf)
    lies = [[1, (count - 1) * step + 1]]
    size = count * step
    for _, extent in reversed(outer[1:]):
        lies.insert(0, [size, extent])
        size *= extent
    pattern = [*outer, [1, lies[-1][1]]]
    for at, offsets in enumerate((piece.offsets, *piece.further)):
        part = tile[at * rows : (at + 1) * rows].ap(pattern=[[wide, rows], *lies], offset=0)
        nisa.dma_copy(part, window(tensor, port, offsets[number], pattern, moved=moved))
    return tile[:, ::step]


def store(tensor: Any, port: Port, piece: Piece, number: int, tile: Any, word: int = 0) -> None:
    """Write a tile where view ``number`` of a piece points; of wide elements one word."""
    pattern, rows = piece.pattern(number), piece.partition.extent
    for at, offsets in enumerate((piece.offsets, *piece.further)):
        part = tile[at * rows : (at + 1) * rows]
        nisa.dma_copy(window(tensor, port, offsets[number], pattern, word), part)
