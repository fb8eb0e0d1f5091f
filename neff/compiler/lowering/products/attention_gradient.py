"""The gradient of attention with its scores on chip: the kernel of ``attention-gradient``.

The kernel walks chunks of 512 keys, and for each the tiles of 128 queries that see one of them. It
computes the scores again from the row's maximum and sum, which the attention stored::

    p   = exp(scale * q k^T - maximum) / sum        (128 queries, keys)
    ds  = p * (do v^T - d), d = sum of do * out     the same
    dv += p^T do, dk += ds^T q                      (columns or depth, keys) in PSUM
    dq += ds k                                      (depth, queries) in SBUF; reads ds transposed

Keys outside of the band are not multiplied, block by block. Gradients of the keys of a chunk are
complete after the last query; those of a group of query heads are added up in SBUF.

The data flow: :func:`attention_gradient` makes a :class:`GradientSpec` from the node; :class:`_Kernel`
walks batch and group; :class:`_Chunk` computes the tiles of a chunk of keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product as indices

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.graph.bands import Band
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import HELD
from neff.compiler.lowering.lowerer import Lowerer
from neff.compiler.lowering.products.attention_spec import (
    F32,
    GROUP_ROWS,
    TILE_ROWS,
    Later,
    offset_of,
    operand_type,
)
from neff.compiler.lowering.tiles.emitter import Tile
from neff.compiler.lowering.tiles.operands import Matrix, blocks, transpose_into
from neff.compiler.lowering.tiles.task import Port, Task, core_share, window
from nki_lang.base.dtypes import DType

__all__ = ["GradientSpec", "attention_gradient", "gradient_task"]

_CHUNK_KEYS = 512
"""Keys of a chunk: the columns of one product instruction, a bank of PSUM."""

_TILES_TO_SUM = 2
"""Tiles that are issued between the products of a tile and those that read its exponentials."""

_GROUPS_IN_FLIGHT = 3
"""Groups of queries that are in SBUF if not all of an index are."""


@dataclass(frozen=True, slots=True)
class GradientSpec:
    """The gradient of attention for every batch index and group index.

    Attributes:
        q, k, v, do, out: (batch..., group..., queries, depth), (batch..., keys, depth),
            (batch..., keys, columns), (batch..., group..., queries, columns) twice.
        statistics: (batch..., group..., queries, 2), from the attention.
        dq, dk, dv: as q, k and v; None for gradients that are not needed.
        factors: factors of dq, dk and dv.
        batch: number of batch dimensions.
        scale: factor of the scores, positive.
        band: the pairs of queries and keys that count.
        dtype: type in which the tensor engine reads everything.
        exact: the tensor engine transposes bit for bit.
        is_resident: all queries of an index are in SBUF.
    """

    q: Port
    k: Port
    v: Port
    do: Port
    out: Port
    statistics: Port
    dq: Port | None
    dk: Port | None
    dv: Port | None
    factors: tuple[float, float, float]
    batch: int
    scale: float
    band: Band
    dtype: DType
    exact: bool
    is_resident: bool = True

    @property
    def reads(self) -> tuple[Port, ...]:
        """Return the operands."""
        return self.q, self.k, self.v, self.do, self.out, self.statistics

    @property
    def queries(self) -> int:
        """Return the number of queries of an index."""
        return self.q.view.shape[-2]

    @property
    def keys(self) -> int:
        """Return the number of keys."""
        return self.k.view.shape[-2]

    @property
    def depth(self) -> int:
        """Return the depth of queries and keys."""
        return self.k.view.shape[-1]

    @property
    def columns(self) -> int:
        """Return the columns of the values."""
        return self.v.view.shape[-1]


_ROLES = ("dq", "dk", "dv")
_LIKE = {"dq": 0, "dk": 1, "dv": 2}
"""Gradient -> the operand of its shape."""


def attention_gradient(lowerer: Lowerer, node: Node) -> None:
    """Compute the gradients of an attention that the node names."""
    ports = [lowerer.port(lowerer.view(operand)) for operand in node.operands]
    fields = node.attributes
    used: dict[str, tuple[float, str]] = fields["results"]
    targets: dict[str, Port] = {}
    for index, (role, (_, element)) in enumerate(used.items()):
        shape = node.operands[_LIKE[role]].shape
        view = lowerer.result_home(node, index, shape, HELD[element].tile)
        lowerer.results.setdefault(id(node), []).append(view)
        targets[role] = lowerer.port(view)
    dtypes = {
        operand_type(lowerer, node, *pair) for pair in (node.operands[:2], node.operands[2:4])
    }
    dq, dk, dv = (used[role][0] if role in used else 1.0 for role in _ROLES)
    q, k, v, do, out, statistics = ports
    spec = GradientSpec(
        q, k, v, do, out, statistics, targets.get("dq"), targets.get("dk"), targets.get("dv"),
        (dq, dk, dv), fields["batch"], fields["scale"], Band(fields["low"], fields["high"]),
        dtypes.pop() if len(dtypes) == 1 else F32, lowerer.parts.target.generation >= 3,
    )  # fmt: skip
    smaller = [("queries in groups", partial(gradient_task, replace(spec, is_resident=False)))]
    lowerer.call_best([("", partial(gradient_task, spec))], node, smaller)


def gradient_task(spec: GradientSpec) -> Task:
    """Return the kernel."""
    reads = list(dict.fromkeys(port.view.buffer for port in spec.reads))
    writes = [port.view.buffer for port in (spec.dq, spec.dk, spec.dv) if port is not None]

    def body(tensors: dict[str, Tile]) -> None:
        _Kernel(spec, tensors).run()

    return Task("attention_gradient", reads, writes, body, divides=True)


Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A run of queries, or of keys, in SBUF.

    Attributes:
        across: (depth, count) of q or k.
        value_across: (columns, count) of do or v.
        down: (128 rows, depth) of q or k for each 128 of them.
        value_down: (128 rows, columns) of do for each 128 of them; none for keys.
        bias: ``-scale * maximum - log(sum)``, (128, tiles); queries only.
        mean: d, (128, tiles); queries only.
    """

    across: Tile
    value_across: Tile
    down: list[Tile]
    value_down: list[Tile] = field(default_factory=list[Tile])
    bias: Tile | None = None
    mean: Tile | None = None


class _Kernel:
    """The walk over batch, group and chunks of keys."""

    def __init__(self, spec: GradientSpec, tensors: dict[str, Tile]) -> None:
        self.spec, self.tensors = spec, tensors
        self.later = Later()
        self._queries: dict[tuple[Index, int], _Rows] = {}
        self._keys: dict[tuple[Index, int], _Rows] = {}
        self._limit = max(2, -(-spec.queries // GROUP_ROWS)) + 1
        if not spec.is_resident:
            self._limit = _GROUPS_IN_FLIGHT

    def run(self) -> None:
        """Compute the gradients of all indices."""
        spec = self.spec
        extents = spec.q.view.shape[:-2]
        groups = list(indices(*map(range, extents[spec.batch :])))
        for index in core_share(indices(*map(range, extents[: spec.batch]))):
            sums: dict[int, tuple[Tile, Tile]] = {}
            for group in groups:
                self._head(index, (*index, *group), sums, is_last=group == groups[-1])
        self.later.finish()

    def _head(
        self, index: Index, head: Index, sums: dict[int, tuple[Tile, Tile]], *, is_last: bool
    ) -> None:
        """Compute one query head.

        Args:
            index: the batch index.
            head: the index in batch and group.
            sums: first key of a chunk -> gradients of its keys and values from earlier heads.
            is_last: the gradients of keys and values are complete.
        """
        spec = self.spec
        shape = (spec.depth, spec.queries)
        total = nl.ndarray(shape, dtype=F32, buffer=nl.sbuf) if spec.dq is not None else None
        begun: set[int] = set()
        for first in range(0, spec.keys, _CHUNK_KEYS):
            keys = range(first, min(first + _CHUNK_KEYS, spec.keys))
            chunk = _Chunk(self, head, keys, self.keys(index, keys), total, begun)
            chunk.run()
            self.later.after(
                _TILES_TO_SUM + 1, partial(self._finish_keys, index, chunk, sums, is_last)
            )
        if total is not None:
            self.later.after(_TILES_TO_SUM + 4, partial(self._finish_queries, head, total, begun))

    def _finish_keys(
        self, index: Index, chunk: _Chunk, sums: dict[int, tuple[Tile, Tile]], is_last: bool
    ) -> None:
        """Add the gradients of a chunk of keys to those of earlier heads, or store them."""
        spec, first = self.spec, chunk.keys.start
        before = sums.get(first)
        totals = chunk.sums(before)
        if not is_last:
            sums[first] = totals
            return
        pairs = ((spec.dk, spec.factors[1]), (spec.dv, spec.factors[2]))
        for (port, factor), total in zip(pairs, totals, strict=True):
            if port is not None:
                self._store(port, index, chunk.keys, total, factor)

    def _finish_queries(self, head: Index, total: Tile, begun: set[int]) -> None:
        spec = self.spec
        assert spec.dq is not None
        for first in range(0, spec.queries, GROUP_ROWS):
            rows = range(first, min(first + GROUP_ROWS, spec.queries))
            for start in range(first, rows.stop, TILE_ROWS):
                if start not in begun:
                    nisa.memset(total[:, start : min(start + TILE_ROWS, rows.stop)], 0.0)
            self._store(spec.dq, head, rows, total[:, rows.start : rows.stop], spec.factors[0])

    def _store(self, port: Port, index: Index, rows: range, source: Tile, factor: float) -> None:
        """Transpose (columns, rows) and store it as rows, multiplied by a factor."""
        columns, exact = source.shape[0], self.spec.exact
        tile_count = -(-len(rows) // TILE_ROWS)
        shape = (min(TILE_ROWS, len(rows)), tile_count, columns)
        target = nl.ndarray(shape, dtype=port.dtype, buffer=nl.sbuf)
        for number in range(tile_count):
            first = number * TILE_ROWS
            block = source[:, first : min(first + TILE_ROWS, len(rows))]
            region = nl.psum if exact else nl.sbuf
            across = nl.ndarray((block.shape[1], columns), dtype=F32, buffer=region)
            transpose_into(across, block, exact=exact)
            nisa.tensor_scalar(target[0 : block.shape[1], number], across, nl.multiply, factor)
        down, along = port.view.strides[-2:]
        start = offset_of(port, index) + rows.start * down
        full, remainder = divmod(len(rows), TILE_ROWS)
        tensor = self.tensors[port.view.buffer]
        if full:
            pattern = [[down, TILE_ROWS], [down * TILE_ROWS, full], [along, columns]]
            nisa.dma_copy(window(tensor, port, start, pattern), target[:, 0:full])
        if remainder:
            start += full * TILE_ROWS * down
            pattern = [[down, remainder], [along, columns]]
            nisa.dma_copy(window(tensor, port, start, pattern), target[0:remainder, full])

    def keys(self, index: Index, keys: range) -> _Rows:
        """Return keys and values of a chunk."""
        key = index, keys.start
        loaded = self._keys.get(key)
        if loaded is None:
            spec = self.spec
            loaded = _Rows(
                self._across(spec.k, index, keys), self._across(spec.v, index, keys),
                self._down(spec.k, index, keys),
            )  # fmt: skip
            self._keys[key] = loaded
            while len(self._keys) > 2:
                del self._keys[next(iter(self._keys))]
        return loaded

    def queries(self, head: Index, queries: range) -> _Rows:
        """Return a group of queries, with what is computed once for each."""
        key = head, queries.start
        loaded = self._queries.get(key)
        if loaded is None:
            loaded = self._load_queries(head, queries)
            self._queries[key] = loaded
            while len(self._queries) > self._limit:
                del self._queries[next(iter(self._queries))]
        return loaded

    def _load_queries(self, head: Index, queries: range) -> _Rows:
        spec = self.spec
        rows = min(TILE_ROWS, len(queries))
        tiles = -(-len(queries) // TILE_ROWS)
        slopes = self._down(spec.do, head, queries)
        results = self._down(spec.out, head, queries)
        statistics = self._down(spec.statistics, head, queries, F32)
        bias = nl.ndarray((rows, tiles), dtype=F32, buffer=nl.sbuf)
        mean = nl.ndarray((rows, tiles), dtype=F32, buffer=nl.sbuf)
        for number, (slope, result, pair) in enumerate(
            zip(slopes, results, statistics, strict=True)
        ):
            count = slope.shape[0]
            products = nl.ndarray((count, spec.columns), dtype=F32, buffer=nl.sbuf)
            nisa.tensor_tensor(products, slope, result, nl.multiply)
            nisa.tensor_reduce(mean[0:count, number : number + 1], nl.add, products, 1)
            logarithm = nl.ndarray((count, 1), dtype=F32, buffer=nl.sbuf)
            nisa.activation(logarithm, nl.log, pair[:, 1:2])
            target = bias[0:count, number : number + 1]
            nisa.tensor_tensor(target, pair[:, 0:1], logarithm, nl.subtract)
        return _Rows(
            self._across(spec.q, head, queries), self._across(spec.do, head, queries),
            self._down(spec.q, head, queries), slopes, bias, mean,
        )  # fmt: skip

    def _across(self, port: Port, index: Index, rows: range) -> Tile:
        """Return rows with their columns on partitions."""
        view, spec = port.view, self.spec
        down, along = view.strides[-1], view.strides[-2]
        matrix = Matrix(port, view.shape[-1], len(rows), down, along, spec.dtype, spec.exact)
        start = offset_of(port, index) + rows.start * along
        (tile,) = blocks(self.tensors[view.buffer], matrix, start, 0, len(rows))
        return tile

    def _down(
        self, port: Port, index: Index, rows: range, dtype: DType | None = None
    ) -> list[Tile]:
        """Return rows on partitions, 128 at a time."""
        view, spec = port.view, self.spec
        along, down = view.strides[-1], view.strides[-2]
        matrix = Matrix(
            port, len(rows), view.shape[-1], down, along, dtype or spec.dtype, spec.exact
        )
        start = offset_of(port, index) + rows.start * down
        return blocks(self.tensors[view.buffer], matrix, start, 0, view.shape[-1])


@dataclass(frozen=True, slots=True)
class _Tile:
    """128 queries with the keys of a chunk that they see.

    Attributes:
        first, count: the queries.
        column: where they begin in their group.
        keys: the keys, whole blocks of 128.
    """

    first: int
    count: int
    column: int
    keys: range

    @property
    def queries(self) -> range:
        """Return the queries."""
        return range(self.first, self.first + self.count)


class _Chunk:
    """The work on a chunk of keys for one query head."""

    def __init__(
        self, kernel: _Kernel, head: Index, keys: range, loaded: _Rows, total: Tile | None,
        begun: set[int],
    ) -> None:  # fmt: skip
        self._kernel, self._spec, self._head = kernel, kernel.spec, head
        self.keys, self._loaded = keys, loaded
        self._total, self._total_begun = total, begun
        self._sums: list[Tile | None] = [None, None]
        self._begun: set[int] = set()

    def run(self) -> None:
        """Issue the products of all tiles; those that sum come a few tiles later."""
        spec, kernel = self._spec, self._kernel
        groups: list[tuple[range, list[_Tile]]] = []
        for first in range(0, spec.queries, GROUP_ROWS):
            queries = range(first, min(first + GROUP_ROWS, spec.queries))
            tiles = self._tiles(queries)
            if tiles:
                groups.append((queries, tiles))
        for number, (queries, tiles) in enumerate(groups):
            rows = kernel.queries(self._head, queries)
            if number + 1 < len(groups):
                kernel.queries(self._head, groups[number + 1][0])
            transposed = None
            if self._total is not None:
                shape = (TILE_ROWS, -(-len(self.keys) // TILE_ROWS), len(queries))
                transposed = nl.ndarray(shape, dtype=spec.dtype, buffer=nl.sbuf)
            for tile in tiles:
                self._tile(tile, rows, transposed)
                kernel.later.step()
            if transposed is not None:
                job = partial(self._add_queries, tiles, transposed)
                kernel.later.after(_TILES_TO_SUM + 1, job)

    def _tiles(self, queries: range) -> list[_Tile]:
        """Return the tiles of a group that see a key of the chunk."""
        tiles: list[_Tile] = []
        for first in range(queries.start, queries.stop, TILE_ROWS):
            rows = range(first, min(first + TILE_ROWS, queries.stop))
            visible = self._spec.band.keys(rows, self._spec.keys)
            start = max(visible.start // TILE_ROWS * TILE_ROWS, self.keys.start)
            stop = min(-(-visible.stop // TILE_ROWS) * TILE_ROWS, self.keys.stop)
            if start < stop:
                column = first - queries.start
                tiles.append(_Tile(first, len(rows), column, range(start, stop)))
        return tiles

    def _tile(self, tile: _Tile, rows: _Rows, transposed: Tile | None) -> None:
        """Compute p and ds of a tile, and issue the sums that read them later."""
        spec, loaded = self._spec, self._loaded
        number = tile.column // TILE_ROWS
        assert rows.bias is not None
        assert rows.mean is not None
        scores = self._product(tile, rows.across, loaded.across)
        p = nl.ndarray(scores.shape, dtype=spec.dtype, buffer=nl.sbuf)
        bias = rows.bias[0 : tile.count, number : number + 1]
        nisa.activation(p, nl.exp, scores, bias=bias, scale=spec.scale)
        self._mask(tile, p)
        ds: Tile | None = None
        if spec.dq is not None or spec.dk is not None:
            slopes = self._product(tile, rows.value_across, loaded.value_across)
            ds = nl.ndarray(scores.shape, dtype=spec.dtype, buffer=nl.sbuf)
            mean = rows.mean[0 : tile.count, number : number + 1]
            nisa.scalar_tensor_tensor(ds, slopes, nl.subtract, mean, nl.multiply, p)
        if ds is not None and transposed is not None:
            self._transpose(tile, ds, transposed)
        job = partial(self._add_keys, tile, rows, p, ds)
        self._kernel.later.after(_TILES_TO_SUM, job)

    def _product(self, tile: _Tile, left: Tile, right: Tile) -> Tile:
        """Return products of the tile's queries and its keys, in PSUM."""
        total = nl.ndarray((tile.count, len(tile.keys)), dtype=F32, buffer=nl.psum)
        first = tile.keys.start - self.keys.start
        stationary = left[:, tile.column : tile.column + tile.count]
        nisa.nc_matmul(total, stationary, right[:, first : first + len(tile.keys)])
        return total

    def _mask(self, tile: _Tile, p: Tile) -> None:
        """Set the exponentials outside of the band to zero, in the blocks on its border."""
        band = self._spec.band
        for first in range(tile.keys.start, tile.keys.stop, TILE_ROWS):
            block = range(first, min(first + TILE_ROWS, tile.keys.stop))
            if band.contains(tile.queries, block):
                continue
            source = p[:, first - tile.keys.start : block.stop - tile.keys.start]
            for limit, sign in ((band.low, 1), (band.high, -1)):
                if limit is None or Band(*_side(limit, sign)).contains(tile.queries, block):
                    continue
                nisa.affine_select(
                    source, [[-sign, len(block)]], sign, source, 0.0,
                    cmp_op=nl.greater_equal, offset=sign * (tile.first - first - limit),
                )  # fmt: skip

    def _transpose(self, tile: _Tile, ds: Tile, transposed: Tile) -> None:
        """Put the gradient of the scores into the tile's columns of the transposed ones."""
        block = (tile.keys.start - self.keys.start) // TILE_ROWS
        columns = slice(tile.column, tile.column + tile.count)
        full, remainder = divmod(len(tile.keys), TILE_ROWS)
        if ds.dtype.itemsize == 2:
            if full:
                source = ds[:, 0 : full * TILE_ROWS].reshape((tile.count, full, TILE_ROWS))
                nisa.dma_transpose(transposed[:, block : block + full, columns], source)
            if remainder:
                source = ds[:, full * TILE_ROWS : len(tile.keys)]
                nisa.dma_transpose(transposed[0:remainder, block + full, columns], source)
            return
        for number, first in enumerate(range(0, len(tile.keys), TILE_ROWS)):
            source = ds[:, first : min(first + TILE_ROWS, len(tile.keys))]
            target = transposed[0 : source.shape[1], block + number, columns]
            if not self._spec.exact:
                transpose_into(target, source, exact=False)
                continue
            bank = nl.ndarray((source.shape[1], tile.count), dtype=F32, buffer=nl.psum)
            transpose_into(bank, source, exact=True)
            nisa.tensor_copy(target, bank)

    def _add_keys(self, tile: _Tile, rows: _Rows, p: Tile, ds: Tile | None) -> None:
        """Add a tile to the gradients of the keys and values of the chunk, in PSUM."""
        spec, number = self._spec, tile.column // TILE_ROWS
        sources = (
            (ds, rows.down[number]) if spec.dk is not None else None,
            (p, rows.value_down[number]) if spec.dv is not None else None,
        )
        runs = self._runs(tile)
        for side, pair in enumerate(sources):
            if pair is None:
                continue
            moving, stationary = pair
            assert moving is not None
            total = self._sums[side]
            if total is None:
                shape = (stationary.shape[1], len(self.keys))
                total = self._sums[side] = nl.ndarray(shape, dtype=F32, buffer=nl.psum)
            for run, is_first in runs:
                columns = slice(run.start - self.keys.start, run.stop - self.keys.start)
                source = moving[:, run.start - tile.keys.start : run.stop - tile.keys.start]
                nisa.nc_matmul(total[:, columns], stationary, source, accumulate=not is_first)

    def _runs(self, tile: _Tile) -> list[tuple[range, bool]]:
        """Return runs of the tile's keys, and whether it is the first tile that sees them."""
        runs: list[tuple[range, bool]] = []
        for first in range(tile.keys.start, tile.keys.stop, TILE_ROWS):
            stop, is_first = min(first + TILE_ROWS, tile.keys.stop), first not in self._begun
            self._begun.add(first)
            if runs and runs[-1][1] == is_first:
                runs[-1] = (range(runs[-1][0].start, stop), is_first)
            else:
                runs.append((range(first, stop), is_first))
        return runs

    def _add_queries(self, tiles: list[_Tile], transposed: Tile) -> None:
        """Add the products of a group's transposed ds and the keys to the gradient of queries."""
        spec, total = self._spec, self._total
        assert total is not None
        for run in _neighbors(tiles, self._total_begun):
            begin, width = run[0].column, sum(tile.count for tile in run)
            sums = nl.ndarray((spec.depth, width), dtype=F32, buffer=nl.psum)
            begun: set[int] = set()
            for block, start in enumerate(range(self.keys.start, self.keys.stop, TILE_ROWS)):
                count = min(TILE_ROWS, self.keys.stop - start)
                seeing = [tile for tile in run if start in tile.keys]
                for tiles_at_once in _neighbors(seeing, begun):
                    first, last = tiles_at_once[0], tiles_at_once[-1]
                    columns = slice(first.column, last.column + last.count)
                    nisa.nc_matmul(
                        sums[:, columns.start - begin : columns.stop - begin],
                        self._loaded.down[block][0:count], transposed[0:count, block, columns],
                        accumulate=first.first in begun,
                    )  # fmt: skip
                begun.update(tile.first for tile in seeing)
            target = total[:, run[0].first : run[0].first + width]
            if run[0].first in self._total_begun:
                nisa.tensor_tensor(target, target, sums, nl.add)
            else:
                nisa.tensor_copy(target, sums)
            self._total_begun.update(tile.first for tile in run)

    def sums(self, before: tuple[Tile, Tile] | None) -> tuple[Tile, Tile]:
        """Return the gradients of keys and values, with those of earlier heads, in SBUF."""
        spec = self._spec
        totals: list[Tile] = []
        for side, width in enumerate((spec.depth, spec.columns)):
            source = self._sums[side]
            target = nl.ndarray((width, len(self.keys)), dtype=F32, buffer=nl.sbuf)
            starts = range(self.keys.start, self.keys.stop, TILE_ROWS)
            unseen = [start for start in starts if start not in self._begun]
            if source is None or unseen:
                nisa.memset(target, 0.0)
            if source is not None:
                self._copy_seen(source, target, unseen)
            if before is not None:
                nisa.tensor_tensor(target, target, before[side], nl.add)
            totals.append(target)
        return totals[0], totals[1]

    def _copy_seen(self, source: Tile, target: Tile, unseen: list[int]) -> None:
        if not unseen:
            nisa.tensor_copy(target, source)
            return
        for start in range(self.keys.start, self.keys.stop, TILE_ROWS):
            if start not in unseen:
                first = start - self.keys.start
                columns = slice(first, min(first + TILE_ROWS, len(self.keys)))
                nisa.tensor_copy(target[:, columns], source[:, columns])


def _side(limit: int, sign: int) -> tuple[int | None, int | None]:
    return (limit, None) if sign > 0 else (None, limit)


def _neighbors(tiles: list[_Tile], begun: set[int]) -> list[list[_Tile]]:
    """Return runs of neighboring tiles that all have begun, or all have not."""
    runs: list[list[_Tile]] = []
    for tile in tiles:
        last = runs[-1][-1] if runs else None
        is_same = last is not None and (last.first in begun) == (tile.first in begun)
        if last is not None and is_same and last.column + last.count == tile.column:
            runs[-1].append(tile)
        else:
            runs.append([tile])
    return runs
