"""Finds the greatest elements of each row, in order, eight at a time: ``max8`` and their indices.

HLO's order is total: -NaN, -inf, ..., -0, 0, ..., inf, NaN. The engine compares float32 numbers, so it
compares *keys*: half of each value, with at least the smallest nonzero magnitude, and infinities and
NaN below the largest float. Keys are in HLO's order, except for numbers under 2^-126, whose half loses
a digit, and for NaN of one sign, which are equal. Equal keys are found from the left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.graph.views import Dim, merge
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.tiles.emitter import Constants, Emitter, Tile
from neff.compiler.lowering.tiles.operations import as_type
from neff.compiler.lowering.tiles.task import Port, Task, window
from neff.compiler.lowering.tiles.tiling import Piece, stacked, tiles
from nki_lang.base.dtypes import BY_NAME

__all__ = ["top"]

F32, U8, U32, I32 = (BY_NAME[name] for name in ("float32", "uint8", "uint32", "int32"))
_ELEMENTS_PER_ROUND = 8
_MAX_CHUNK_ELEMENTS = 8192
"""Elements of a row that are in SBUF at a time; longer rows are searched chunk by chunk."""

_MIN_MAGNITUDE = float(np.float32(2.0**-149))
_INFINITY_KEY, _NAN_KEY = 2.5e38, 3e38
"""The keys of infinity and NaN; half of any number is less."""

_PADDING_KEY = float(np.float32(-3.4e38))
"""The key of padding: less than any other."""

_SIGN_BIT = np.uint32(1 << 31)


def top(lowerer: Lowerer, node: Node) -> None:
    """Return values and indices, the node's two results.

    A second operand has the index of each element, of at most a chunk; without it elements count
    from 0.
    """
    source = lowerer.view(node.operands[0])
    results = [lowerer.scratch(node.shape, dtype) for dtype in (held_as(node).tile, I32)]
    lowerer.results[id(node)] = results
    ports = lowerer.port(source), lowerer.port(results[0]), lowerer.port(results[1])
    numbered = [lowerer.port(lowerer.view(operand)) for operand in node.operands[1:]]
    is_float = held_as(node).kind == "float"
    spec = _Spec(*ports, bool(node.attributes["largest"]), is_float, *numbered)
    reads = [port.view.buffer for port in (ports[0], *numbered)]
    writes = [port.view.buffer for port in ports[1:]]
    lowerer.call(Task("topk", reads, writes, spec.run), node)


@dataclass(frozen=True, slots=True)
class _Spec:
    source: Port
    values: Port
    places: Port
    largest: bool
    is_float: bool
    numbers: Port | None = None

    @property
    def ports(self) -> tuple[Port, ...]:
        """The operand, the two results, and the operand's indices if it has any."""
        ports = (self.source, self.values, self.places)
        return ports if self.numbers is None else (*ports, self.numbers)

    def run(self, tensors: dict[str, Tile]) -> None:
        views = [port.view for port in self.ports]
        dims = [
            Dim(extent, tuple(view.strides[dim] for view in views))
            for dim, extent in enumerate(views[0].shape[:-1])
        ]
        constants: Constants = {}
        for piece in stacked(tiles(merge(dims), 1, len(views), least=1)):
            _Rows(self, tensors, piece, constants).run()


class _Rows:
    """The search in at most 128 rows."""

    def __init__(
        self, spec: _Spec, tensors: dict[str, Tile], piece: Piece, constants: Constants
    ) -> None:
        self._spec, self._tensors, self._piece = spec, tensors, piece
        self._constants = constants
        self._rows = piece.partitions
        self._count = spec.values.view.shape[-1]

    def run(self) -> None:
        extent = self._spec.source.view.shape[-1]
        starts = range(0, extent, _MAX_CHUNK_ELEMENTS)
        chunk_results = [
            self._chunk(begin, min(_MAX_CHUNK_ELEMENTS, extent - begin)) for begin in starts
        ]
        _, values, locations = (
            chunk_results[0] if len(chunk_results) == 1 else self._best(chunk_results)
        )
        if self._spec.numbers is not None:
            locations = self._numbered(self._spec.numbers, locations)
        count = self._count
        self._store(1, values[:, 0:count])
        self._store(2, as_type(locations, I32)[:, 0:count])

    def _numbered(self, numbers: Port, locations: Tile) -> Tile:
        """Return the indices of the elements at these places of the rows."""
        extent = numbers.view.shape[-1]
        words = nl.ndarray((self._rows, extent), dtype=I32, buffer=nl.sbuf)
        columns = [numbers.view.strides[-1], extent]
        for rows, source in self._windows(3, numbers, 0, columns):
            nisa.dma_copy(words[rows], source)
        return as_type(self._gathered(words, locations), U32)

    def _store(self, number: int, tile: Tile) -> None:
        port = (self._spec.source, self._spec.values, self._spec.places)[number]
        if tile.dtype != port.dtype:
            tile = Emitter(self._rows, self._count, self._constants).copy(tile, port.dtype)
        columns = [port.view.strides[-1], self._count]
        for rows, target in self._windows(number, port, 0, columns):
            nisa.dma_copy(target, tile[rows])

    def _windows(
        self, number: int, port: Port, begin: int, columns: list[int]
    ) -> Iterator[tuple[slice, Tile]]:
        """Yield the rows in HBM, with the partitions that they have on chip.

        Args:
            number: number of the view.
            port: the view.
            begin: first element of each row.
            columns: step and number of its elements.
        """
        pattern = [self._piece.pattern(number)[0], columns]
        extent = self._piece.partition.extent
        tensor = self._tensors[port.view.buffer]
        for index, offsets in enumerate((self._piece.offsets, *self._piece.further)):
            rows = slice(index * extent, (index + 1) * extent)
            yield rows, window(tensor, port, offsets[number] + begin, pattern)

    def _chunk(self, begin: int, count: int) -> tuple[Tile, Tile, Tile]:
        """Return keys, values and indices of the greatest elements of a chunk of the rows."""
        source = self._spec.source
        wide = max(count, _ELEMENTS_PER_ROUND)
        data = nl.ndarray((self._rows, wide), dtype=F32, buffer=nl.sbuf)
        step = source.view.strides[-1]
        if wide > count:
            nisa.memset(data, 0)
        for rows, elements in self._windows(0, source, begin * step, [step, count]):
            nisa.dma_copy(data[rows, 0:count], elements)
        keys = self._keys(data)
        if wide > count:
            nisa.memset(keys[:, count:wide], _PADDING_KEY)
        best, locations = self._greatest(keys)
        values = self._gathered(data, locations)
        if begin:
            e = Emitter(self._rows, locations.shape[1], self._constants)
            locations = e.words("add", locations, np.uint32(begin), U32)
        return best, values, locations

    def _keys(self, data: Tile) -> Tile:
        e = Emitter(self._rows, data.shape[1], self._constants)
        if not self._spec.is_float:
            return e.binary("multiply", data, 1.0 if self._spec.largest else -1.0, F32)
        keys = e.activation("abs", data, F32, scale=0.5)
        nisa.tensor_scalar(keys, keys, nl.maximum, _MIN_MAGNITUDE, False, nl.minimum, _INFINITY_KEY)
        undefined = e.binary("not_equal", data, data, U8)
        nisa.tensor_copy_predicated(keys, e.filled(np.float32(_NAN_KEY), F32), undefined)
        words, bits = as_type(data, U32), as_type(keys, U32)
        sign = e.bits("bitwise_and", words, _SIGN_BIT, U32)
        if not self._spec.largest:
            sign = e.bits("bitwise_xor", sign, _SIGN_BIT, U32)
        nisa.tensor_tensor(bits, bits, sign, nl.bitwise_or)
        return keys

    def _greatest(self, keys: Tile) -> tuple[Tile, Tile]:
        """Return the keys, decreasing, and their indices, in full rounds of eight."""
        rounds = -(-min(self._count, keys.shape[1]) // _ELEMENTS_PER_ROUND)
        best = nl.ndarray((self._rows, rounds * _ELEMENTS_PER_ROUND), dtype=F32, buffer=nl.sbuf)
        locations = nl.ndarray(
            (self._rows, rounds * _ELEMENTS_PER_ROUND), dtype=U32, buffer=nl.sbuf
        )
        for number in range(rounds):
            eight = slice(number * _ELEMENTS_PER_ROUND, (number + 1) * _ELEMENTS_PER_ROUND)
            nisa.max8(best[:, eight], keys)
            nisa.nc_find_index8(locations[:, eight], keys, best[:, eight])
            if number < rounds - 1:
                nisa.nc_match_replace8(keys, keys, best[:, eight], _PADDING_KEY)
        return best, locations

    def _gathered(self, data: Tile, locations: Tile) -> Tile:
        gathered = nl.ndarray(locations.shape, dtype=data.dtype, buffer=nl.sbuf)
        nisa.nc_n_gather(gathered, data, locations)
        return gathered

    def _best(self, chunk_results: list[tuple[Tile, Tile, Tile]]) -> tuple[Tile, Tile, Tile]:
        """Return the greatest elements of several chunks; elements of an earlier chunk come
        first.
        """
        width = sum(keys.shape[1] for keys, _, _ in chunk_results)
        joined = [
            nl.ndarray((self._rows, width), dtype, buffer=nl.sbuf) for dtype in (F32, F32, U32)
        ]
        offset = 0
        for results in chunk_results:
            count = results[0].shape[1]
            for target, source in zip(joined, results, strict=True):
                nisa.tensor_copy(target[:, offset : offset + count], source)
            offset += count
        keys, values, locations = joined
        best, order = self._greatest(keys)
        return best, self._gathered(values, order), self._gathered(locations, order)
