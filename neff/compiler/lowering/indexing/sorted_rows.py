"""Rows sorted in SBUF by Batcher's odd-even merges (AFIPS 1968), with rows on partitions.

A comparison is of two float32 numbers that are unique in a row: the key's upper 24 bits, and its lower
8 bits followed by the element's index, below 2^24. So the order is exact and stable. The sorted indices
then gather each operand's elements.
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
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.tiles.emitter import Constants, Emitter, Tile
from neff.compiler.lowering.tiles.interleaving import interleaved
from neff.compiler.lowering.tiles.task import Port, Task, core_share, window
from neff.compiler.lowering.tiles.tiling import PARTITIONS, Piece, tiles
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["sorted_rows"]

F32, U8, U32, I32 = (BY_NAME[name] for name in ("float32", "uint8", "uint32", "int32"))
_PADDING_KEY = 1e9
"""The upper part of padding: beyond any key's."""

_MAX_JOINED_ELEMENTS = 2048
"""Elements of a partition in one tile, if rows are shorter."""

_MAX_TILES = 4
_MAX_ELEMENTS = 8192
"""Tiles that are sorted at a time, and limit on their elements of a partition: one engine compares
a tile while another moves the next.
"""


def sorted_rows(lowerer: Lowerer, node: Node) -> None:
    """Sort the node's operands after the two parts of the key, each row in the key's order."""
    shape = node.operands[0].shape
    rows = View("", shape, row_major(shape))
    ports = [
        lowerer.port(lowerer.straight(lowerer.view(operand), rows, node))
        for operand in node.operands
    ]
    results = [lowerer.scratch(shape, held_as(operand).tile) for operand in node.operands[2:]]
    lowerer.results[id(node)] = results
    targets = [lowerer.port(view) for view in results]
    spec = _Spec(ports, targets)
    reads = list(dict.fromkeys(port.view.buffer for port in ports))
    writes = [port.view.buffer for port in targets]
    lowerer.call(Task("sort", reads, writes, spec.run, divides=True), node)


@dataclass(frozen=True, slots=True)
class _Spec:
    """Ports: the key's upper and lower part, then the sorted operands; and the results."""

    sources: list[Port]
    targets: list[Port]

    @property
    def extent(self) -> int:
        """Return the elements of a row."""
        return self.sources[0].view.shape[-1]

    @property
    def length(self) -> int:
        """Return the elements of a row, padded to a power of two."""
        return 1 << (self.extent - 1).bit_length()

    def run(self, tensors: dict[str, Tile]) -> None:
        views = [port.view for port in (*self.sources, *self.targets)]
        rows = views[0].shape[0]
        together = max(1, min(_MAX_JOINED_ELEMENTS // self.length, rows // (2 * PARTITIONS)))
        together = 1 << (together.bit_length() - 1)
        dims = merge([Dim(rows, tuple(view.strides[0] for view in views))])
        pieces = core_share(tiles(dims, together, len(views), least=1))
        depth = max(1, min(_MAX_TILES, _MAX_ELEMENTS // (together * self.length)))
        constants: Constants = {}
        counts: dict[int, Tile] = {}
        interleaved(
            (_Rows(self, tensors, piece, constants, counts).run() for piece in pieces), depth
        )


class _Rows:
    """A tile of rows: ``together`` rows in each of at most 128 partitions."""

    def __init__(
        self, spec: _Spec, tensors: dict[str, Tile], piece: Piece, constants: Constants,
        counts: dict[int, Tile],
    ) -> None:  # fmt: skip
        self._spec, self._tensors, self._piece = spec, tensors, piece
        self._constants, self._counts = constants, counts
        self._partitions, self._together = piece.partition.extent, piece.elements
        self._elements = 1 << (self._together * spec.length - 1).bit_length()

    def run(self) -> Iterator[None]:
        """Load, sort, store; yield after each step."""
        upper, indices = self._load(0, _PADDING_KEY), self._placed(self._load(1, 0))
        yield
        block = 1
        while block < self._spec.length:
            distance = block
            while distance:
                self._step(upper, indices, block, distance)
                yield
                distance //= 2
            block *= 2
        e = Emitter(self._partitions, self._elements, self._constants)
        source_indices = e.bits("bitwise_and", e.copy(indices, U32), self._elements - 1, U32)
        for number, target in enumerate(self._spec.targets, len(self._spec.sources)):
            data = self._load(number - len(self._spec.targets), 0)
            gathered = nl.ndarray(data.shape, dtype=data.dtype, buffer=nl.sbuf)
            nisa.nc_n_gather(gathered, data, source_indices)
            nisa.dma_copy(self._window(number, target), self._inside(gathered))
            yield

    def _window(self, number: int, port: Port) -> Tile:
        head, *free = self._piece.pattern(number)
        pattern = [head, *free[-1:], [port.view.strides[-1], self._spec.extent]]
        tensor = self._tensors[port.view.buffer]
        return window(tensor, port, self._piece.offsets[number], pattern)

    def _inside(self, tile: Tile) -> Tile:
        """Return the elements without padding: (partitions, rows, extent)."""
        wide, length = tile.shape[1], self._spec.length
        pattern = [[wide, self._partitions], [length, self._together], [1, self._spec.extent]]
        return tile.ap(pattern=pattern, offset=0)

    def _load(self, number: int, padding: float) -> Tile:
        """Return a tile of an operand, filled with ``padding`` where it has no element."""
        port = self._spec.sources[number]
        tile = nl.ndarray((self._partitions, self._elements), dtype=port.dtype, buffer=nl.sbuf)
        if self._together * self._spec.extent < self._elements:
            nisa.memset(tile, padding)
        nisa.dma_copy(self._inside(tile), self._window(number % len(self._spec.sources), port))
        return tile

    def _placed(self, lower: Tile) -> Tile:
        """Return the lower part followed by the elements' indices: unique in a partition."""
        e = Emitter(self._partitions, self._elements, self._constants)
        count = self._counts.get(self._elements)
        if count is None:
            count = nl.ndarray((PARTITIONS, self._elements), dtype=F32, buffer=nl.sbuf)
            nisa.iota(count, [[1, self._elements]], offset=0, channel_multiplier=0)
            self._counts[self._elements] = count
        return e.fused(lower, "multiply", self._elements, "add", count[0 : self._partitions])

    def _step(self, upper: Tile, locations: Tile, block: int, distance: int) -> None:
        """Swap pairs whose second element comes first.

        Args:
            upper, places: the key's parts; ``places`` includes the index.
            block: elements that are sorted already; two such blocks are merged.
            distance: distance of the elements of a pair.
        """
        (low, high), (first, second) = (
            self._pairs(keys, block, distance) for keys in (upper, locations)
        )
        e = _Shaped(low.shape, self._constants)
        below = e.binary("less", high, low, U8)
        not_above = e.binary("less_equal", high, low, U8)
        earlier = e.binary("less", second, first, U8)
        nisa.tensor_copy_predicated(below, not_above, earlier)
        least = e.binary("minimum", low, high, F32)
        nisa.tensor_tensor(high, low, high, nl.maximum)
        nisa.tensor_copy(low, least)
        copy = e.copy(first, F32)
        nisa.tensor_copy_predicated(first, second, below)
        nisa.tensor_copy_predicated(second, copy, below)

    def _pairs(self, tile: Tile, block: int, distance: int) -> tuple[Tile, Tile]:
        """Return first and second elements, of shape (partitions, blocks, runs, distance)."""
        runs = 1 if distance == block else block // distance - 1
        begin = 0 if distance == block else distance
        blocks = self._elements // (2 * block)
        pattern = [
            [self._elements, self._partitions], [2 * block, blocks], [2 * distance, runs], [1, distance],
        ]  # fmt: skip
        return tile.ap(pattern=pattern, offset=begin), tile.ap(
            pattern=pattern, offset=begin + distance
        )


class _Shaped(Emitter):
    """An emitter whose new tiles have the shape of the operands."""

    def __init__(self, shape: tuple[int, ...], constants: Constants) -> None:
        super().__init__(shape[0], int(np.prod(shape[1:])), constants)
        self._shape = shape

    def new(self, dtype: DType) -> Tile:
        """Return a fresh tile."""
        return nl.ndarray(self._shape, dtype=dtype, buffer=nl.sbuf)
