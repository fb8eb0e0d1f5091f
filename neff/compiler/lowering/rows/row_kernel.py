"""Units over rows: each tile has full rows, so reductions and their readers stay in SBUF.

The extents that all values of a unit share (``rows``) are mapped to partitions, and to several rows of
a partition if rows are short::

    partition 0:  row 0: [elements of value a] [elements of value b] [row value c]
    partition 1:  row 1: ...

After the shared extents each value has a row of its own length, or one element (a row value). Several
tiles are interleaved, each one step later than the previous one, so that no engine waits for the
reductions of its own tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from itertools import product as indices
from math import prod

import numpy as np

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.assembly.budget import Budget
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.views import Dim, merge
from neff.compiler.lowering.rows.expressions import Evaluator, Facts
from neff.compiler.lowering.rows.loads import Loads
from neff.compiler.lowering.rows.over_rows import Contraction
from neff.compiler.lowering.rows.reaches import Reach, tight
from neff.compiler.lowering.rows.right_batches import RightBatches
from neff.compiler.lowering.rows.row_groups import DMA_DIMENSIONS, MAX_MOVING_COLUMNS, RowGroup
from neff.compiler.lowering.rows.row_products import RowProduct
from neff.compiler.lowering.rows.spreads import RowEmitter, Spread
from neff.compiler.lowering.rows.stores import Stores
from neff.compiler.lowering.tiles.balance import Balance
from neff.compiler.lowering.tiles.emitter import Constants, Emitter, Tile, Value
from neff.compiler.lowering.tiles.interleaving import interleaved
from neff.compiler.lowering.tiles.operands import PSUM_COLUMNS, Matrix, blocks, transposed_blocks
from neff.compiler.lowering.tiles.origins import computing
from neff.compiler.lowering.tiles.task import Port, Task, core_share, window
from neff.compiler.lowering.tiles.tiling import PARTITIONS, Piece, affordable, tiles
from neff.compiler.plans import Tuning
from nki_lang.base.targets import Target

__all__ = ["RowKernel", "rows_task"]

_MIN_LONG_ROW_ELEMENTS = 512
"""Rows at least this long get a tile of their own: row values are then operands of instructions."""


def rows_task(name: str, group: RowGroup, target: Target, tuning: Tuning) -> Task:
    """Return the kernel of a unit over rows."""
    ports = {key: port for key, port in group.inputs.items() if isinstance(port, Port)}
    read = [*ports.values()]
    for product in group.products.values():
        read += [port for port in (product.left, product.right) if port is not None]
    reads = list(dict.fromkeys(port.view.buffer for port in read))
    writes = list(dict.fromkeys(port.view.buffer for _, port in group.outputs))
    kernel = RowKernel(group, ports, target, tuning)
    divides = not group.sums  # one core adds up all rows
    return Task(name, reads, writes, kernel.run, kernel.facts.idioms, divides=divides)


class RowKernel:
    """The kernel of a unit over rows, and how it walks its operands and results."""

    def __init__(
        self, group: RowGroup, ports: dict[int, Port], target: Target, tuning: Tuning
    ) -> None:
        self.group, self.target, self.tuning = group, target, tuning
        self.exact = target.generation >= 3  # the tensor engine's transposes
        self.block = group.block
        self.reaches = {key: Reach(group.rows, port) for key, port in ports.items()}
        summed = group.sums | group.over
        row_outputs = [(node, port) for node, port in group.outputs if id(node) not in summed]
        self.stored = [(node, Reach(group.rows, port)) for node, port in row_outputs]
        lefts = {
            key: product.left for key, product in group.products.items() if product.left is not None
        }
        self.lefts = {key: Reach(group.rows, port) for key, port in lefts.items()}
        walked = [*self.reaches.values(), *(reach for _, reach in self.stored)]
        walked += self.lefts.values()
        self.number = {id(reach): index for index, reach in enumerate(walked)}
        self.steps = [tuple(reach.steps[dim] for reach in walked) for dim in range(len(group.rows))]
        batch = group.batch
        self.dims = merge(
            [
                Dim(extent, steps)
                for extent, steps in zip(group.rows[batch:], self.steps[batch:], strict=True)
            ]
        )
        self.views = len(walked)
        stored = {id(node) for node, _ in group.outputs}
        self.facts = Facts(group.nodes, stored, group.sources, group.sums)
        self.together = self._together()

    def _together(self) -> int:
        """Return the rows of a partition in one tile."""
        columns = self.group.widest
        if (
            columns >= _MIN_LONG_ROW_ELEMENTS
            or self.group.products
            or self.group.sums
            or self.group.over
        ):
            return 1
        max_row_bytes = Budget(self.target).working_bytes() // 4
        inner = max((len(reach.columns) for reach in self.reaches.values()), default=1)
        inner = max([inner, *(len(reach.columns) for _, reach in self.stored)])
        if inner + 4 > DMA_DIMENSIONS and len(self.dims) > 1:
            return 1
        return max(1, min(self.tuning.wide // columns, max_row_bytes // max(1, self.group.alive())))

    def is_stacked(self, number: int) -> bool:
        """Return True if batches have one tile each, and a view has all rows at one step."""
        if len(self.dims) != 1 or self.dims[0].extent > PARTITIONS:
            return False
        steps = zip(self.group.rows, self.steps, strict=True)
        return len(merge([Dim(extent, (views[number],)) for extent, views in steps])) == 1

    def run(self, tensors: dict[str, Tile]) -> None:
        group = self.group
        affordable(prod(group.rows) // PARTITIONS // self.together)
        widest = max((group.columns(node.shape) for node in group.nodes), default=1)
        block = self._even(widest)
        column_starts = range(0, widest, block) if self.block else range(1)
        pieces = list(self._pieces())
        if len(column_starts) > 1:  # cores that take columns load no right operand twice
            column_starts = core_share(column_starts)
        else:
            pieces = self._own(pieces)
        tiles_in_order = [piece for piece, _ in pieces]
        stores = Stores(tensors, self._alone(), tiles_in_order)
        shared = _Shared(tensors, Balance(self.target.generation >= 3), stores)
        shared.loads = loads = self._loads(tensors, tiles_in_order)
        shared.right_batches = {
            key: RightBatches(product.right, product.dtype, 0 if self.block else product.batch)
            for key, product in group.products.items()
        }
        resident = sum(map(self._resident, group.products)) + loads.resident + stores.resident
        resident += sum(batches.resident for batches in shared.right_batches.values())
        free_bytes = Budget(self.target).working_bytes(resident)
        depth = max(
            1, min(self.tuning.at_once, free_bytes // max(1, group.alive() * self.together))
        )
        for key, spec in group.contractions.items():
            tensor = tensors[spec.out.view.buffer]
            shared.over[key] = Contraction(spec, tensor, (index for _, index in pieces))
        for begin in column_starts:
            shared.cut = (begin, min(block, widest - begin)) if self.block else None
            shared.fixed, shared.lefts = {}, {}
            loads.forget()
            interleaved(
                (_RowTile(self, *indexed_piece, shared).run() for indexed_piece in pieces), depth
            )
        for node, port in group.outputs:
            if id(node) in group.sums:
                with computing(node):
                    self._store_sum(shared, node, port)

    def _alone(self) -> dict[int, tuple[int, Reach]]:
        """Return the results whose rows are collected: products that nothing else reads.

        On trn1 the descriptors of stores are in the program, so short stores cost nothing more.
        """
        if self.block or self.target.generation < 3:
            return {}
        reaches: dict[int, list[tuple[int, Reach]]] = {}
        for node, reach in self.stored:
            if node.opcode == "dot" and not self.facts.users.get(id(node)):
                reaches.setdefault(id(node), []).append((self.number[id(reach)], reach))
        return {key: stored[0] for key, stored in reaches.items() if len(stored) == 1}

    def _loads(self, tensors: dict[str, Tile], pieces: list[Piece]) -> Loads:
        row_reaches = [reach for reach in self.reaches.values() if reach.kind != "column"]
        reaches = [(self.number[id(reach)], reach) for reach in row_reaches]
        repeatable = frozenset(
            self.number[id(reach)]
            for key, reach in self.reaches.items()
            if self.facts.is_arithmetic_alone(key)
        )
        return Loads(tensors, reaches, pieces, self.together, self.block, repeatable)

    def _own(
        self, pieces: list[tuple[Piece, tuple[int, ...]]]
    ) -> Sequence[tuple[Piece, tuple[int, ...]]]:
        """Return this core's share of the tiles; tiles that add to the same sums stay together."""
        if not self.group.over:
            return core_share(pieces)
        batch = min(spec.batch for spec in self.group.contractions.values())
        batches = groupby(pieces, lambda piece: piece[1][:batch])
        return [
            piece
            for batch_pieces in core_share(list(pieces_of_batch) for _, pieces_of_batch in batches)
            for piece in batch_pieces
        ]

    def _even(self, widest: int) -> int:
        """Return the columns of a block, so that all cores have the same number of blocks if
        possible.
        """
        cores = nl.num_programs(0)
        if not self.block or cores == 1:
            return self.block or widest
        blocks_per_core = -(-widest // (cores * self.block))
        return min(
            self.block,
            -(-widest // (cores * blocks_per_core * MAX_MOVING_COLUMNS)) * MAX_MOVING_COLUMNS,
        )

    def _store_sum(self, shared: _Shared, node: Node, port: Port) -> None:
        total = shared.sums[id(node)]
        tile = nl.ndarray(total.shape, dtype=port.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(tile, total)
        view = tight(port.view)
        dims = merge(
            [Dim(extent, (step,)) for extent, step in zip(view.shape, view.strides, strict=True)]
        )
        pattern = [[0, 1], *([dim.steps[0], dim.extent] for dim in dims)]
        nisa.dma_copy(window(shared.tensors[view.buffer], port, 0, pattern), tile)

    def _resident(self, key: int) -> int:
        product = self.group.products[key]
        depth, columns = product.right.view.shape[-2:]
        columns = min(columns, self.block or columns)
        return -(-depth // PARTITIONS) * columns * product.dtype.itemsize

    def _pieces(self) -> Iterator[tuple[Piece, tuple[int, ...]]]:
        """Yield the tiles, each with its batch index."""
        batch = self.group.batch
        for where in indices(*(range(extent) for extent in self.group.rows[:batch])):
            starts = [
                sum(index * steps[view] for index, steps in zip(where, self.steps, strict=False))
                for view in range(self.views)
            ]
            for piece in tiles(self.dims, self.together, self.views, least=1):
                offsets = tuple(map(sum, zip(piece.offsets, starts, strict=True)))
                yield replace(piece, offsets=offsets), where


@dataclass(slots=True)
class _Shared:
    """State that the tiles of a kernel share.

    Attributes:
        tensors: tensors of the kernel, by buffer.
        constants: tiles of constants.
        balance: work of each engine so far.
        fixed: tiles that all rows read, by input.
        sums: sums over all rows, by node, in PSUM.
        over: sums of products that contract the rows, by node.
        rights: right operands, by product, each with its batch index.
        right_batches: small right operands, by product.
        cut: (first, count) of the columns of this pass; None for all.
        loads: rows of operands in SBUF.
        lefts: rows of left operands in SBUF, by product.
        stores: rows of results on their way to HBM.
    """

    tensors: dict[str, Tile]
    balance: Balance
    stores: Stores
    constants: Constants = field(default_factory=Constants)
    fixed: dict[int, Tile] = field(default_factory=dict[int, Tile])
    rights: dict[int, tuple[Value, list[Tile]]] = field(
        default_factory=dict[int, tuple[Value, list[Tile]]]
    )
    right_batches: dict[int, RightBatches] = field(default_factory=dict[int, RightBatches])
    cut: tuple[int, int] | None = None
    sums: dict[int, Tile] = field(default_factory=dict[int, Tile])
    over: dict[int, Contraction] = field(default_factory=dict[int, Contraction])
    loads: Loads | None = None
    lefts: dict[int, _Left] = field(default_factory=dict[int, "_Left"])


@dataclass(frozen=True, slots=True)
class _Left:
    """Rows of a left operand in SBUF, from ``offset`` in its view."""

    where: tuple[int, ...]
    offset: int
    count: int
    tiles: list[Tile]


class _RowTile:
    """The work on one tile."""

    def __init__(
        self, kernel: RowKernel, piece: Piece, where: tuple[int, ...], shared: _Shared
    ) -> None:
        self._kernel, self._piece, self._where, self._shared = kernel, piece, where, shared
        self._cut = shared.cut
        self._partitions, self._rows = piece.partition.extent, piece.elements
        self._emitters: dict[int, RowEmitter] = {}
        self._transposed_lefts: dict[int, list[Tile]] = {}
        rows = self._emitter_of(1)
        numbers = kernel.target.generation >= 3
        self._values = Evaluator(
            kernel.facts, self._emitter, self._load, numbers, shared.balance, self._product
        ).with_rows(rows)

    def run(self) -> Iterator[None]:
        """Load, compute, store; yield after each instruction on full rows.

        Gradients have long chains of row values: no engine waits for them if other tiles run in
        between.
        """
        always = bool(self._kernel.group.over)
        stores: dict[int, list[Reach]] = {}
        for node, reach in self._kernel.stored:
            stores.setdefault(id(node), []).append(reach)
        for node in self._kernel.group.nodes:
            if id(node) in self._kernel.group.sums:
                self._sum(node)
                continue
            if id(node) in self._kernel.group.over:
                self._contract(node)
                yield
                continue
            if node.opcode == "dot" and self._transposes_left(node):
                yield
            if self._shared.stores.collects(id(node), self._piece):
                self._collect(node)
                yield
                continue
            self._values.compute(node)
            self._store(node, stores.get(id(node), ()))
            if always or node.opcode == "reduce" or self._values.is_done(node):
                yield

    def _store(self, node: Node, reaches: Sequence[Reach]) -> None:
        with computing(node):
            for reach in reaches:
                nisa.dma_copy(self._window(reach), self._values.result(node))
                self._shared.balance.spend_store()

    def _collect(self, node: Node) -> None:
        """Copy a product, which only its result reads, from PSUM to the tiles of its transfer."""
        (reach,) = (reach for stored, reach in self._kernel.stored if stored is node)
        number = self._kernel.number[id(reach)]
        with computing(node):
            target = self._shared.stores.tile(number, reach, self._piece)
            for begin, total in self._product(node):
                nisa.tensor_copy(target[:, begin : begin + total.shape[1]], total)
            if self._shared.stores.store(number, reach, self._piece):
                self._shared.balance.spend_store()

    def _transposes_left(self, node: Node) -> bool:
        """Transpose a left operand that a member computed, so that other tiles multiply meanwhile.

        Operands of two bytes, which the DMA engines transpose, are better started late.
        """
        product = self._kernel.group.products[id(node)]
        if product.dtype.itemsize < 4:
            return False
        left = self._values.left(node)
        if left is None:
            return False
        with computing(node):
            blocks_of_left = transposed_blocks(left, product.dtype, exact=self._kernel.exact)
        self._transposed_lefts[id(node)] = blocks_of_left
        return True

    def _emitter(self, node: Node) -> RowEmitter:
        columns = self._kernel.group.columns(node.shape)
        return self._emitter_of(self._cut[1] if self._cut and columns > 1 else columns)

    def _emitter_of(self, columns: int) -> RowEmitter:
        emitter = self._emitters.get(columns)
        if emitter is None:
            per_row = self._emitter_of(1) if columns > 1 else None
            emitter = self._emitters[columns] = RowEmitter(
                self._partitions, self._rows, columns, self._shared.constants, per_row
            )
        return emitter

    # -- inputs and outputs ----------------------------------------------------------------

    def _load(self, key: int) -> Value:
        reach = self._kernel.reaches.get(key)
        if reach is None:
            return self._kernel.group.inputs[key]
        if reach.kind == "column":
            return Spread(self._column(key, reach), "column")
        number = self._kernel.number[id(reach)]
        assert self._shared.loads is not None
        tile = self._shared.loads.tile(number, reach, self._piece, self._cut or (0, reach.count))
        has_columns = len(tight(reach.port.view).shape) > len(self._kernel.group.rows)
        return Spread(tile, "row") if reach.kind == "row" and has_columns else tile

    def _column(self, key: int, reach: Reach) -> Tile:
        """Return a tile of values that are the same for all rows, loaded once into all
        partitions.
        """
        tile = self._shared.fixed.get(key)
        if tile is None:
            begin, columns = reach.column_range(*(self._cut or (0, reach.count)))
            tensor = self._shared.tensors[reach.port.view.buffer]
            source = window(tensor, reach.port, begin, [[0, PARTITIONS], *columns])
            count = prod(source.shape[1:])
            tile = nl.ndarray((PARTITIONS, count), dtype=reach.port.dtype, buffer=nl.sbuf)
            nisa.dma_copy(tile, source)
            self._shared.fixed[key] = tile
        return tile[0 : self._partitions]

    def _window(self, reach: Reach) -> Tile:
        number = self._kernel.number[id(reach)]
        begin, columns = reach.column_range(*(self._cut or (0, reach.count)))
        pattern = self._piece.pattern(number)
        pattern = [*(pattern[:1] if self._rows == 1 and columns else pattern), *columns]
        tensor = self._shared.tensors[reach.port.view.buffer]
        return window(tensor, reach.port, self._piece.offsets[number] + begin, pattern)

    def _sum(self, node: Node) -> None:
        """Add a tile's rows to the sums in PSUM: the tensor engine multiplies them by ones."""
        tile = self._values.in_sbuf(node.operands[0])
        total = self._shared.sums.get(id(node))
        is_first = total is None
        if total is None:
            shape = (1, prod(tile.shape[1:]))
            total = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
            self._shared.sums[id(node)] = total
        e = Emitter(PARTITIONS, 1, self._shared.constants)
        ones = e.filled(np.float32(1), tile.dtype)[0 : self._partitions]
        for first in range(0, total.shape[1], MAX_MOVING_COLUMNS):
            last = min(first + MAX_MOVING_COLUMNS, total.shape[1])
            with computing(node):
                nisa.nc_matmul(
                    total[:, first:last], ones, tile[:, first:last], accumulate=not is_first
                )

    def _contract(self, node: Node) -> None:
        """Add a tile's rows to the sums of a product that contracts the rows."""
        dtype = self._kernel.group.contractions[id(node)].dtype
        left, right = (self._values.in_sbuf(operand, dtype) for operand in node.operands)
        with computing(node):
            self._shared.over[id(node)].add(self._where, left, right)

    # -- products --------------------------------------------------------------------------

    def _product(self, node: Node) -> Iterator[tuple[int, Tile]]:
        """Yield the product's columns, in PSUM: (first column, tile) in pieces."""
        product = self._kernel.group.products[id(node)]
        rights = self._right(id(node), product)
        lefts = self._transposed_lefts.pop(id(node), None)
        if lefts is None:
            left = self._values.left(node)
            exact = self._kernel.exact
            lefts = (
                self._left(node, product)
                if left is None
                else transposed_blocks(left, product.dtype, exact=exact)
            )
        columns = self._cut[1] if self._cut else product.right.view.shape[-1]
        for begin in range(0, columns, PSUM_COLUMNS):
            count = min(PSUM_COLUMNS, columns - begin)
            total = nl.ndarray((self._partitions, count), dtype=nl.float32, buffer=nl.psum)
            for first in range(0, count, MAX_MOVING_COLUMNS):
                column_count = min(MAX_MOVING_COLUMNS, count - first)
                target = total[:, first : first + column_count]
                for number, (a, b) in enumerate(zip(lefts, rights, strict=True)):
                    moving = b[:, begin + first : begin + first + column_count]
                    nisa.nc_matmul(target, a, moving, accumulate=number > 0)
            yield begin, total

    def _left(self, node: Node, product: RowProduct) -> list[Tile]:
        """Return the left operand's rows, loaded for several tiles at a time if they are short."""
        reach, rows = self._kernel.lefts[id(node)], self._partitions
        assert product.left is not None
        number = self._kernel.number[id(reach)]
        view = product.left.view
        along = self._piece.partition.steps[number]
        offset = self._piece.offsets[number]
        tensor = self._shared.tensors[view.buffer]
        loaded = self._shared.lefts.get(id(node))
        is_stacked = self._kernel.is_stacked(number)
        if loaded is not None and along and (is_stacked or self._where == loaded.where):
            first, remainder = divmod(offset - loaded.offset, along)
            if not remainder and 0 <= first <= loaded.count - rows:
                return [tile[:, first : first + rows] for tile in loaded.tiles]
        count = self._rows_ahead(number, offset, along, product)
        matrix = Matrix(
            product.left, view.shape[-1], count, view.strides[-1], along, product.dtype,
            self._kernel.exact,
        )  # fmt: skip
        left_tiles = blocks(tensor, matrix, offset, 0, count)
        self._shared.lefts[id(node)] = _Left(self._where, offset, count, left_tiles)
        return [tile[:, 0:rows] for tile in left_tiles]

    def _rows_ahead(self, number: int, offset: int, along: int, product: RowProduct) -> int:
        """Return the rows of the left operand to load: for this tile, and for later tiles."""
        kernel = self._kernel
        if len(kernel.dims) != 1 or not along:
            return self._partitions
        rows, start = prod(kernel.group.rows), 0
        if not kernel.is_stacked(number):
            rows = kernel.dims[0].extent
            start = sum(
                index * steps[number]
                for index, steps in zip(self._where, kernel.steps, strict=False)
            )
        left = rows - (offset - start) // along
        assert product.left is not None
        depth = -(-product.left.view.shape[-1] // PARTITIONS)
        ahead = (
            max(1, kernel.tuning.ahead // (depth * product.dtype.itemsize * PARTITIONS))
            * PARTITIONS
        )
        return max(self._partitions, min(left, ahead))

    def _right(self, key: int, product: RowProduct) -> list[Tile]:
        view = product.right.view
        batch_index = self._where[: product.batch]
        loaded = self._shared.rights.get(key)
        if loaded is not None and loaded[0] == (batch_index, self._cut):
            return loaded[1]
        tensor = self._shared.tensors[view.buffer]
        small = self._shared.right_batches[key].tile(tensor, batch_index)
        if small is not None:
            return [small]
        depth, columns = view.shape[-2:]
        down, along = view.strides[-2:]
        exact = self._kernel.exact
        matrix = Matrix(product.right, depth, columns, down, along, product.dtype, exact)
        start = sum(index * step for index, step in zip(batch_index, view.strides, strict=False))
        right_tiles = blocks(tensor, matrix, start, *(self._cut or (0, columns)))
        self._shared.rights[key] = ((batch_index, self._cut), right_tiles)
        return right_tiles
