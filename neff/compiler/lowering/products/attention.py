"""Attention with its scores on chip: the kernel of the node ``attention``.

The kernel works on groups of up to 512 queries, which all read the same keys and values::

    scores         (128 queries, keys)    one product for each tile of 128 queries
    exponentials   the same, with the row's maximum subtracted and its sum taken along
    transposed     (128 keys, blocks of keys, 512 queries)
    result         (columns, 512 queries) summed in PSUM over the blocks, transposed, divided

Keys outside of the band are not multiplied: each tile reads the blocks that one of its queries
sees, and only blocks on the border of the band are masked. Long rows come in spans of keys: the
maximum, the sum and the result of a tile are then corrected by ``exp(old maximum - new maximum)``
(online softmax), so that no value of the scores goes to HBM.

The data flow: :func:`attention` makes a :class:`Spec` from the node; :class:`_Kernel` walks the
groups of queries; :class:`_Group` computes one of them, tile by tile (:class:`_Tile`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product as indices

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.bands import Band
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.products.attention_spec import (
    F32,
    GROUP_ROWS,
    TILE_ROWS,
    Later,
    Spec,
    offset_of,
    operand_type,
)
from neff.compiler.lowering.tiles.emitter import Tile, Value
from neff.compiler.lowering.tiles.operands import Matrix, blocks, transpose_into
from neff.compiler.lowering.tiles.task import Port, Task, core_share, window
from nki_lang.base.dtypes import BY_NAME, DType

__all__ = ["attention"]

_BANK_COLUMNS = 512
_CHUNK_COLUMNS = 1024
"""Scores of a row that are in PSUM at a time."""

_MASKED_SCORE = -3.0e38
"""Replaces masked scores; the exponential of its distance to any other score is 0."""


_SMALLER = (
    ("spans of 1024 keys to fit", 1024, True),
    ("keys in spans of 2048", 2048, False),
    ("keys in spans of 512", 512, False),
)
"""Forms of the kernel that need less SBUF each time: name, keys of a span, keys stay in SBUF."""

_TILES_TO_SUM = 6
"""Tiles that are issued between a group's exponentials and their product with the values."""

_TILES_TO_STORE = 2
"""Tiles between a group's last sum and its division; the sum is added one tile later."""


def attention(lowerer: Lowerer, node: Node) -> None:
    """Compute ``softmax(scale * q k^T, masked by a band) v``."""
    q, k, v = (lowerer.port(lowerer.view(operand)) for operand in node.operands)
    fields = node.attributes
    statistics: Port | None = None
    if fields.get("statistics"):
        views = [
            lowerer.result_home(node, 0, node.shape, held_as(node).tile),
            lowerer.result_home(node, 1, (*node.shape[:-1], 2), F32),
        ]
        lowerer.results[id(node)] = views
        out, statistics = map(lowerer.port, views)
    else:
        out = lowerer.port(lowerer.home(node))
    dtype = operand_type(lowerer, node, *node.operands[:2])
    value_dtype = operand_type(lowerer, node, node.operands[2])
    spec = Spec(
        q, k, v, out, fields["batch"], fields["scale"], Band(fields["low"], fields["high"]),
        dtype, value_dtype, lowerer.parts.target.generation >= 3, statistics=statistics,
    )  # fmt: skip
    smaller = [
        (title, partial(attention_task, replace(spec, span=span, is_resident=is_resident)))
        for title, span, is_resident in _SMALLER
    ]
    lowerer.call_best([("", partial(attention_task, spec))], node, smaller)


def attention_task(spec: Spec) -> Task:
    """Return the kernel."""
    reads = list(dict.fromkeys(port.view.buffer for port in (spec.q, spec.k, spec.v)))

    def body(tensors: dict[str, Tile]) -> None:
        _Kernel(spec, tensors).run()

    writes = [port.view.buffer for port in (spec.out, spec.statistics) if port is not None]
    return Task("attention", reads, writes, body, divides=True)


Item = tuple[tuple[int, ...], int]
"""The index in batch and group, and the first query, of a group of queries."""


@dataclass(slots=True)
class _Keys:
    """Keys and values of a batch index in SBUF.

    Attributes:
        index: the batch index.
        span: the keys.
        keys: (depth, keys) for each 128 of the depth.
        values: (128 keys, columns) for each block of keys.
    """

    index: tuple[int, ...]
    span: range
    keys: list[Tile]
    values: list[Tile]


class _Kernel:
    """The walk over groups of queries."""

    def __init__(self, spec: Spec, tensors: dict[str, Tile]) -> None:
        self.spec, self.tensors = spec, tensors
        self.later = Later()
        self._loaded: list[_Keys] = []
        self._masks: dict[tuple[int, int], Tile] = {}

    def run(self) -> None:
        """Compute all groups; the operands of each are loaded while the one before is computed."""
        extents = self.spec.q.view.shape[:-2]
        items: list[Item] = [
            (index, first)
            for index in indices(*map(range, extents))
            for first in range(0, self.spec.queries, GROUP_ROWS)
        ]
        groups = [_Group(self, *item) for item in core_share(items)]
        for group, following in zip(groups, [*groups[1:], None], strict=True):
            group.load()
            if following is not None:
                following.load()
            group.run()
        self.later.finish()

    def keys(self, index: tuple[int, ...], span: range) -> _Keys:
        """Return keys and values of an index, loaded once for all neighbors that read them.

        Args:
            index: the index in batch and group.
            span: the keys that are read now; all of them are loaded if they are resident.
        """
        index, spec = index[: self.spec.batch], self.spec
        span = range(spec.keys) if spec.is_resident else span
        for loaded in self._loaded:
            if (loaded.index, loaded.span) == (index, span):
                return loaded
        keys = self.across(spec.k, index, span.start, len(span), spec.dtype)
        loaded = _Keys(index, span, keys, self._values(index, span))
        self._loaded = [*self._loaded[-1:], loaded]
        return loaded

    def across(
        self, port: Port, index: tuple[int, ...], first: int, count: int, dtype: DType
    ) -> list[Tile]:
        """Return rows of queries or keys with the depth on partitions."""
        view = port.view
        down, along = view.strides[-1], view.strides[-2]
        matrix = Matrix(port, view.shape[-1], count, down, along, dtype, self.spec.exact)
        start = offset_of(port, index) + first * along
        return blocks(self.tensors[view.buffer], matrix, start, 0, count)

    def mask(self, distance: int, rows: int, columns: int) -> Tile:
        """Return the bytes that are 1 inside of the band, (queries, keys).

        Args:
            distance: the first query less the first key.
            rows, columns: number of queries and keys.
        """
        key = (distance, columns)
        tile = self._masks.get(key)
        if tile is None:
            ones = nl.ndarray((TILE_ROWS, columns), dtype=F32, buffer=nl.sbuf)
            nisa.memset(ones, 1.0)
            band = self.spec.band
            for limit, sign in ((band.low, 1), (band.high, -1)):
                if limit is not None:
                    nisa.affine_select(
                        ones, [[-sign, columns]], sign, ones, 0.0,
                        cmp_op=nl.greater_equal, offset=sign * (distance - limit),
                    )  # fmt: skip
            tile = nl.ndarray(ones.shape, dtype=BY_NAME["uint8"], buffer=nl.sbuf)
            nisa.tensor_copy(tile, ones)
            self._masks[key] = tile
        return tile[0:rows]

    def _values(self, index: tuple[int, ...], span: range) -> list[Tile]:
        spec, view = self.spec, self.spec.v.view
        along, down = view.strides[-1], view.strides[-2]
        matrix = Matrix(spec.v, len(span), spec.columns, down, along, spec.value_dtype, spec.exact)
        start = offset_of(spec.v, index) + span.start * down
        return blocks(self.tensors[view.buffer], matrix, start, 0, spec.columns)


@dataclass(slots=True)
class _Tile:
    """128 queries of a group: what is known of them after the spans so far.

    Attributes:
        first, count: the queries.
        column: where they begin in the group.
        bias: ``-scale * maximum`` of the scores, (queries, 1).
        total: sums of the exponentials, (queries, 1).
        result: sums of the values by exponentials, (queries, columns).
    """

    first: int
    count: int
    column: int
    bias: Value = None
    total: Value = None
    result: Value = None

    @property
    def queries(self) -> range:
        """Return the queries."""
        return range(self.first, self.first + self.count)


@dataclass(frozen=True, slots=True)
class _Part:
    """A tile with the keys of a span that it sees.

    Attributes:
        tile: the tile.
        keys: the keys, from the first of a block.
        correction: exp(old maximum - new maximum), (queries, 1); None in a tile's first span.
    """

    tile: _Tile
    keys: range
    correction: Tile | None


@dataclass(frozen=True, slots=True)
class _Sums:
    """The product of the exponentials of a span and its values, which is computed later.

    Attributes:
        parts: the tiles that see a key of the span.
        transposed: their exponentials, (128 keys, blocks of keys, queries).
        span: the keys.
        loaded: the values.
        is_last: no later span follows.
    """

    parts: list[_Part]
    transposed: Tile
    span: range
    loaded: _Keys
    is_last: bool


class _Group:
    """The work on one group of queries."""

    def __init__(self, kernel: _Kernel, index: tuple[int, ...], first: int) -> None:
        self._kernel, self._spec, self._index = kernel, kernel.spec, index
        self._first = first
        self._queries: list[Tile] = []
        self._count = min(GROUP_ROWS, self._spec.queries - first)
        self._tiles = [
            _Tile(first + column, min(TILE_ROWS, self._count - column), column)
            for column in range(0, self._count, TILE_ROWS)
        ]
        self._seen = {tile.column: self._blocks_of(tile) for tile in self._tiles}

    def _blocks_of(self, tile: _Tile) -> range:
        """Return the keys that a tile reads: blocks of 128, one of which a query sees."""
        keys = self._spec.band.keys(tile.queries, self._spec.keys)
        start = keys.start // TILE_ROWS * TILE_ROWS
        stop = min(self._spec.keys, -(-keys.stop // TILE_ROWS) * TILE_ROWS)
        return range(start, stop)

    @property
    def spans(self) -> list[range]:
        """Return the spans of keys that at least one tile reads."""
        start = min(keys.start for keys in self._seen.values())
        stop = max(keys.stop for keys in self._seen.values())
        step = self._spec.span
        return [range(first, min(first + step, stop)) for first in range(start, stop, step)]

    def load(self) -> None:
        """Load the queries and the first keys if that was not done before."""
        if not self._queries:
            kernel, spec = self._kernel, self._spec
            kernel.keys(self._index, self.spans[0])
            self._queries = kernel.across(spec.q, self._index, self._first, self._count, spec.dtype)

    def run(self) -> None:
        """Compute and store, span by span of the keys."""
        spec, kernel = self._spec, self._kernel
        spans = self.spans
        for number, span in enumerate(spans):
            loaded = kernel.keys(self._index, span)
            if number + 1 < len(spans):
                kernel.keys(self._index, spans[number + 1])
            block_count = -(-len(span) // TILE_ROWS)
            shape = (TILE_ROWS, block_count, self._count)
            transposed = nl.ndarray(shape, dtype=spec.value_dtype, buffer=nl.sbuf)
            parts: list[_Part] = []
            for tile in self._tiles:
                tile_keys = self._seen[tile.column]
                keys = range(max(span.start, tile_keys.start), min(span.stop, tile_keys.stop))
                if keys:
                    exponentials, correction = self._exponentials(tile, keys, loaded)
                    block = (keys.start - span.start) // TILE_ROWS
                    self._transpose(tile, exponentials, transposed[:, block:block_count])
                    parts.append(_Part(tile, keys, correction))
                    kernel.later.step()
            sums = _Sums(parts, transposed, span, loaded, span is spans[-1])
            kernel.later.after(_TILES_TO_SUM, partial(self._sum, sums))

    def _exponentials(self, tile: _Tile, keys: range, loaded: _Keys) -> tuple[Tile, Tile | None]:
        """Return the exponentials of a tile's scores with some keys, (queries, keys), and the
        correction of what was summed before.
        """
        spec, rows = self._spec, tile.count
        scores = nl.ndarray((rows, len(keys)), dtype=F32, buffer=nl.sbuf)
        maxima: list[Tile] = []
        for first in range(keys.start, keys.stop, _CHUNK_COLUMNS):
            chunk = range(first, min(first + _CHUNK_COLUMNS, keys.stop))
            products = self._product(tile, chunk, loaded)
            for run, is_full in self._pieces(tile, chunk):
                columns = slice(run.start - keys.start, run.stop - keys.start)
                source = products[:, run.start - first : run.stop - first]
                maxima.append(self._take(tile, run, source, scores[:, columns], is_full))
        bias, correction = self._bias(tile, maxima)
        exponentials = nl.ndarray(scores.shape, dtype=spec.value_dtype, buffer=nl.sbuf)
        total = nl.ndarray((rows, 1), dtype=F32, buffer=nl.sbuf)
        nisa.activation_reduce(
            exponentials, nl.exp, scores, nl.add, total, bias=bias, scale=spec.scale
        )
        if correction is not None:
            summed = nl.ndarray((rows, 1), dtype=F32, buffer=nl.sbuf)
            nisa.scalar_tensor_tensor(summed, tile.total, nl.multiply, correction, nl.add, total)
            total = summed
        tile.total = total
        return exponentials, correction

    def _take(self, tile: _Tile, keys: range, source: Tile, target: Tile, is_full: bool) -> Tile:
        """Copy scores from PSUM, masked, and return their maxima, (queries, 1)."""
        greatest = nl.ndarray((tile.count, 1), dtype=F32, buffer=nl.sbuf)
        if is_full:
            nisa.tensor_scalar_reduce(target, source, nl.multiply, 1.0, nl.maximum, greatest)
            return greatest
        mask = self._kernel.mask(tile.first - keys.start, tile.count, len(keys))
        nisa.select_reduce(
            target, mask, source, _MASKED_SCORE, greatest, nisa.reduce_cmd.reset_reduce, nl.maximum
        )
        return greatest

    def _pieces(self, tile: _Tile, keys: range) -> list[tuple[range, bool]]:
        """Return runs of keys that are inside of the band, or on its border."""
        runs: list[tuple[range, bool]] = []
        for first in range(keys.start, keys.stop, TILE_ROWS):
            block = range(first, min(first + TILE_ROWS, keys.stop))
            is_full = self._spec.band.contains(tile.queries, block)
            if runs and runs[-1][1] == is_full:
                runs[-1] = (range(runs[-1][0].start, block.stop), is_full)
            else:
                runs.append((block, is_full))
        return runs

    def _product(self, tile: _Tile, keys: range, loaded: _Keys) -> Tile:
        """Return products of a tile's queries with keys, in PSUM."""
        total = nl.ndarray((tile.count, len(keys)), dtype=F32, buffer=nl.psum)
        for first in range(0, len(keys), _BANK_COLUMNS):
            columns = slice(first, min(first + _BANK_COLUMNS, len(keys)))
            first_key = keys.start - loaded.span.start
            source = slice(first_key + columns.start, first_key + columns.stop)
            for number, (left, right) in enumerate(zip(self._queries, loaded.keys, strict=True)):
                stationary = left[:, tile.column : tile.column + tile.count]
                nisa.nc_matmul(
                    total[:, columns], stationary, right[:, source], accumulate=number > 0
                )
        return total

    def _bias(self, tile: _Tile, maxima: list[Tile]) -> tuple[Tile, Tile | None]:
        """Return ``-scale * maximum``, and the correction of what was summed before."""
        shape, spec = (tile.count, 1), self._spec
        greatest = maxima[0]
        for maximum in maxima[1:]:
            joint = nl.ndarray(shape, dtype=F32, buffer=nl.sbuf)
            nisa.tensor_tensor(joint, greatest, maximum, nl.maximum)
            greatest = joint
        before, correction = tile.bias, None
        bias = nl.ndarray(shape, dtype=F32, buffer=nl.sbuf)
        if before is None:
            nisa.tensor_scalar(bias, greatest, nl.multiply, -spec.scale)
        else:
            nisa.scalar_tensor_tensor(bias, greatest, nl.multiply, -spec.scale, nl.minimum, before)
            correction = nl.ndarray(shape, dtype=F32, buffer=nl.sbuf)
            nisa.activation(correction, nl.exp, before, bias=bias, scale=-1.0)
        tile.bias = bias
        return bias, correction

    def _transpose(self, tile: _Tile, source: Tile, target: Tile) -> None:
        """Put the exponentials of a tile into its columns of the transposed ones."""
        full_blocks, remainder = divmod(source.shape[1], TILE_ROWS)
        columns = slice(tile.column, tile.column + tile.count)
        if source.dtype.itemsize == 2:
            if full_blocks:
                full_columns = source[:, 0 : full_blocks * TILE_ROWS]
                shape = (tile.count, full_blocks, TILE_ROWS)
                nisa.dma_transpose(target[:, 0:full_blocks, columns], full_columns.reshape(shape))
            if remainder:
                remainder_columns = source[:, full_blocks * TILE_ROWS : source.shape[1]]
                nisa.dma_transpose(target[0:remainder, full_blocks, columns], remainder_columns)
            return
        for first in range(0, source.shape[1], TILE_ROWS):
            block = source[:, first : min(first + TILE_ROWS, source.shape[1])]
            block_target = target[0 : block.shape[1], first // TILE_ROWS, columns]
            if not self._spec.exact:
                transpose_into(block_target, block, exact=False)
                continue
            bank = nl.ndarray((block.shape[1], tile.count), dtype=F32, buffer=nl.psum)
            transpose_into(bank, block, exact=True)
            nisa.tensor_copy(block_target, bank)

    def _sum(self, sums: _Sums) -> None:
        """Multiply the exponentials of a span by the values, and add them to the results, which
        are stored after the last span.
        """
        columns, later = self._spec.columns, self._kernel.later
        for begin in range(0, columns, TILE_ROWS):
            stop = min(begin + TILE_ROWS, columns)
            total = nl.ndarray((stop - begin, self._count), dtype=F32, buffer=nl.psum)
            begun: set[int] = set()
            for block in range(sums.transposed.shape[1]):
                first = sums.span.start + block * TILE_ROWS
                weights = sums.loaded.values[(first - sums.loaded.span.start) // TILE_ROWS]
                rows = min(TILE_ROWS, sums.span.stop - first)
                for run, is_first in _runs(sums.parts, first, begun):
                    moving = sums.transposed[0:rows, block, run]
                    nisa.nc_matmul(
                        total[:, run], weights[0:rows, begin:stop], moving,
                        accumulate=not is_first,
                    )  # fmt: skip
            in_sbuf = nl.ndarray(total.shape, dtype=F32, buffer=nl.sbuf)
            nisa.tensor_copy(in_sbuf, total)
            later.after(1, partial(self._add, sums.parts, in_sbuf, slice(begin, stop)))
        if sums.is_last:
            later.after(_TILES_TO_STORE, self._store)

    def _add(self, parts: list[_Part], sums: Tile, columns: slice) -> None:
        """Add sums of a span, (columns, queries), to the tiles' results."""
        rows = columns.stop - columns.start
        for visible in parts:
            tile = visible.tile
            source = sums[:, tile.column : tile.column + tile.count]
            region = nl.psum if self._spec.exact else nl.sbuf
            across = nl.ndarray((tile.count, rows), dtype=F32, buffer=region)
            transpose_into(across, source, exact=self._spec.exact)
            if tile.result is None:
                shape = (tile.count, self._spec.columns)
                tile.result = nl.ndarray(shape, dtype=F32, buffer=nl.sbuf)
            result = tile.result[:, columns]
            if visible.correction is None:
                nisa.tensor_copy(result, across)
            else:
                nisa.scalar_tensor_tensor(
                    result, result, nl.multiply, visible.correction, nl.add, across
                )

    def _store(self) -> None:
        """Divide the results by the sums of the exponentials, and store them."""
        out = self._spec.out
        shape = (min(TILE_ROWS, self._count), len(self._tiles), self._spec.columns)
        quotients = nl.ndarray(shape, dtype=out.dtype, buffer=nl.sbuf)
        for number, tile in enumerate(self._tiles):
            inverse = nl.ndarray((tile.count, 1), dtype=F32, buffer=nl.sbuf)
            nisa.reciprocal(inverse, tile.total)
            nisa.tensor_scalar(quotients[0 : tile.count, number], tile.result, nl.multiply, inverse)
        self._store_rows(out, quotients)
        if self._spec.statistics is not None:
            self._store_rows(self._spec.statistics, self._statistics())

    def _statistics(self) -> Tile:
        """Return ``-scale * maximum`` and the sum of the exponentials of each query."""
        shape = (min(TILE_ROWS, self._count), len(self._tiles), 2)
        statistics = nl.ndarray(shape, dtype=F32, buffer=nl.sbuf)
        for number, tile in enumerate(self._tiles):
            for column, value in enumerate((tile.bias, tile.total)):
                target = statistics[0 : tile.count, number, column : column + 1]
                nisa.tensor_copy(target, value)
        return statistics

    def _store_rows(self, port: Port, source: Tile) -> None:
        """Store a tile (128 queries, tiles, columns)."""
        down, along = port.view.strides[-2:]
        start = offset_of(port, self._index) + self._first * down
        full = self._count // TILE_ROWS
        tensor = self._kernel.tensors[port.view.buffer]
        columns = [along, source.shape[2]]
        if full:
            pattern = [[down, TILE_ROWS], [down * TILE_ROWS, full], columns]
            nisa.dma_copy(window(tensor, port, start, pattern), source[:, 0:full])
        remainder = self._count - full * TILE_ROWS
        if remainder:
            start += full * TILE_ROWS * down
            pattern = [[down, remainder], columns]
            nisa.dma_copy(window(tensor, port, start, pattern), source[0:remainder, full])


def _runs(parts: list[_Part], first: int, begun: set[int]) -> Iterator[tuple[slice, bool]]:
    """Yield runs of columns of the tiles that see a block of keys, and whether it is their first.

    Args:
        parts: the tiles.
        first: the first key of the block.
        begun: columns of tiles that saw an earlier block; the others are added.
    """
    runs: list[tuple[slice, bool]] = []
    for visible in parts:
        if first not in visible.keys:
            continue
        tile = visible.tile
        is_first, stop = tile.column not in begun, tile.column + tile.count
        begun.add(tile.column)
        if runs and runs[-1][0].stop == tile.column and runs[-1][1] == is_first:
            runs[-1] = (slice(runs[-1][0].start, stop), is_first)
        else:
            runs.append((slice(tile.column, stop), is_first))
    yield from runs
