"""Rows sorted in SBUF by Batcher's odd-even merges (AFIPS 1968): rows on partitions, pairs beside pairs.

What is compared is a pair of float32 numbers without equals in a row: the key's upper 24 bits, and its
lower 8 with the element's place behind them, below 2^24. So the order is exact and stable. Places say
at the end where each operand's elements come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import Dim, View, merge, row_major
from neff.compiler.lowering.emitter import Constants, Emitter, Tile
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.rows import interleaved
from neff.compiler.lowering.task import Port, Task, own_part, window
from neff.compiler.lowering.tiling import PARTITIONS, Piece, tiles
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["sorted_rows"]

F32, U8, U32, I32 = (BY_NAME[name] for name in ("float32", "uint8", "uint32", "int32"))
_LAST = 1e9
"""The upper part of what is no element: beyond any key's."""

_WIDE = 2048
"""Elements of a partition in one tile, where rows are shorter."""

_AT_ONCE = 4
_ELEMENTS = 8192
"""Tiles that are sorted at once, and the elements of a partition that they have together: what one
engine compares and another moves is of several."""


def sorted_rows(lowerer: Lowerer, node: Node) -> None:
    """The node's operands but the two parts of the key, each row in the key's order."""
    shape = node.operands[0].shape
    rows = View("", shape, row_major(shape))
    ports = [lowerer.port(lowerer.straight(lowerer.view(one), rows, node)) for one in node.operands]
    made = [lowerer.scratch(shape, held_as(one).tile) for one in node.operands[2:]]
    lowerer.results[id(node)] = made
    targets = [lowerer.port(view) for view in made]
    spec = _Spec(ports, targets)
    reads = list(dict.fromkeys(port.view.buffer for port in ports))
    writes = [port.view.buffer for port in targets]
    lowerer.call(Task("sort", reads, writes, spec.run, divides=True), node)


@dataclass(frozen=True, slots=True)
class _Spec:
    """The key's upper and lower part, then what is sorted; and where that goes."""

    sources: list[Port]
    targets: list[Port]

    @property
    def extent(self) -> int:
        """Elements of a row."""
        return self.sources[0].view.shape[-1]

    @property
    def length(self) -> int:
        """The same, as a power of two."""
        return 1 << (self.extent - 1).bit_length()

    def run(self, tensors: dict[str, Tile]) -> None:
        views = [port.view for port in (*self.sources, *self.targets)]
        rows = views[0].shape[0]
        together = max(1, min(_WIDE // self.length, rows // (2 * PARTITIONS)))
        together = 1 << (together.bit_length() - 1)
        dims = merge([Dim(rows, tuple(view.strides[0] for view in views))])
        pieces = own_part(tiles(dims, together, len(views), least=1))
        depth = max(1, min(_AT_ONCE, _ELEMENTS // (together * self.length)))
        constants: Constants = {}
        counts: dict[int, Tile] = {}
        interleaved((_Rows(self, tensors, one, constants, counts).run() for one in pieces), depth)


class _Rows:
    """A tile of rows: ``together`` in each of at most 128 partitions."""

    def __init__(
        self, spec: _Spec, tensors: dict[str, Tile], piece: Piece, constants: Constants,
        counts: dict[int, Tile],
    ) -> None:  # fmt: skip
        self._spec, self._tensors, self._piece = spec, tensors, piece
        self._constants, self._counts = constants, counts
        self._partitions, self._together = piece.partition.extent, piece.elements
        self._elements = 1 << (self._together * spec.length - 1).bit_length()

    def run(self) -> Iterator[None]:
        """Load, sort, store; pauses behind each step."""
        upper, places = self._load(0, _LAST), self._placed(self._load(1, 0))
        yield
        block = 1
        while block < self._spec.length:
            apart = block
            while apart:
                self._step(upper, places, block, apart)
                yield
                apart //= 2
            block *= 2
        e = Emitter(self._partitions, self._elements, self._constants)
        where = e.bits("bitwise_and", e.copy(places, U32), self._elements - 1, U32)
        for number, target in enumerate(self._spec.targets, len(self._spec.sources)):
            data = self._load(number - len(self._spec.targets), 0)
            made = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
            nisa.nc_n_gather(made, data, where)
            nisa.dma_copy(self._window(number, target), self._inside(made))
            yield

    def _window(self, number: int, port: Port) -> Tile:
        head, *free = self._piece.pattern(number)
        pattern = [head, *free[-1:], [port.view.strides[-1], self._spec.extent]]
        tensor = self._tensors[port.view.buffer]
        return window(tensor, port, self._piece.offsets[number], pattern)

    def _inside(self, tile: Tile) -> Tile:
        """The elements that there are, without those that fill rows up: (partitions, rows, extent)."""
        wide, length = tile.shape[1], self._spec.length
        pattern = [[wide, self._partitions], [length, self._together], [1, self._spec.extent]]
        return tile.ap(pattern=pattern, offset=0)

    def _load(self, number: int, rest: float) -> Tile:
        """A tile of an operand, ``rest`` where it has no element."""
        port = self._spec.sources[number]
        tile = nl.ndarray((self._partitions, self._elements), dtype=port.dtype, buffer=nl.sbuf)
        if self._together * self._spec.extent < self._elements:
            nisa.memset(tile, rest)
        nisa.dma_copy(self._inside(tile), self._window(number % len(self._spec.sources), port))
        return tile

    def _placed(self, lower: Tile) -> Tile:
        """The lower part with the elements' places behind it: no two of a partition are equal."""
        e = Emitter(self._partitions, self._elements, self._constants)
        count = self._counts.get(self._elements)
        if count is None:
            count = nl.ndarray((PARTITIONS, self._elements), dtype=F32, buffer=nl.sbuf)
            nisa.iota(count, [[1, self._elements]], offset=0, channel_multiplier=0)
            self._counts[self._elements] = count
        return e.fused(lower, "multiply", self._elements, "add", count[0 : self._partitions])

    def _step(self, upper: Tile, places: Tile, block: int, apart: int) -> None:
        """Pairs whose second part comes first change places.

        Args:
            block: elements that are in order already; two such are merged.
            apart: of a pair.
        """
        (low, high), (first, second) = (self._pairs(one, block, apart) for one in (upper, places))
        e = _Shaped(low.shape, self._constants)
        below = e.binary("less", high, low, U8)
        not_above = e.binary("less_equal", high, low, U8)
        earlier = e.binary("less", second, first, U8)
        nisa.tensor_copy_predicated(below, not_above, earlier)
        least = e.binary("minimum", low, high, F32)
        nisa.tensor_tensor(high, low, high, nl.maximum)
        nisa.tensor_copy(low, least)
        kept = e.copy(first, F32)
        nisa.tensor_copy_predicated(first, second, below)
        nisa.tensor_copy_predicated(second, kept, below)

    def _pairs(self, tile: Tile, block: int, apart: int) -> tuple[Tile, Tile]:
        """First and second elements, of shape (partitions, blocks, runs, apart)."""
        runs = 1 if apart == block else block // apart - 1
        begin = 0 if apart == block else apart
        blocks = self._elements // (2 * block)
        pattern = [
            [self._elements, self._partitions], [2 * block, blocks], [2 * apart, runs], [1, apart],
        ]  # fmt: skip
        return tile.ap(pattern=pattern, offset=begin), tile.ap(
            pattern=pattern, offset=begin + apart
        )


class _Shaped(Emitter):
    """An emitter whose new tiles have the shape of what they are made of."""

    def __init__(self, shape: tuple[int, ...], constants: Constants) -> None:
        super().__init__(shape[0], int(np.prod(shape[1:])), constants)
        self._shape = shape

    def new(self, dtype: DType) -> Tile:
        """A fresh tile."""
        return nl.ndarray(self._shape, dtype=dtype, buffer=nl.sbuf)
