"""Units over rows that SBUF does not hold: rows come in blocks of columns, in several passes.

A pass computes the reductions of the blocks that need no later reduction, and adds them up; values
on full rows that several passes need are computed again in each of them. So a normalization has three
passes, and a softmax two (``shifted_sums``)::

    pass 0:  sum of x                                 maximum of x, sum of exp(x - maximum)
    pass 1:  sum of (x - mean) ** 2                   exp(x - maximum) / sum, which is stored
    pass 2:  (x - mean) * rsqrt(variance), stored

The operands stay in SBUF from the first pass to the last if they fit, else each pass loads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import nki_lang.isa as nisa
import nki_lang.language as nl
from neff.compiler.assembly.budget import Budget
from neff.compiler.graph.nodes import Node
from neff.compiler.graph.types import held_as
from neff.compiler.lowering.rows.expressions import Evaluator, Facts
from neff.compiler.lowering.rows.positions import Positions, positions_of
from neff.compiler.lowering.rows.reaches import Reach
from neff.compiler.lowering.rows.reduction import REDUCERS, is_neutral
from neff.compiler.lowering.rows.row_groups import RowGroup
from neff.compiler.lowering.rows.row_kernel import RowKernel
from neff.compiler.lowering.rows.shifted_sums import Collected, ShiftedSum, shifted_sums
from neff.compiler.lowering.rows.spreads import RowEmitter, Spread
from neff.compiler.lowering.tiles.balance import Balance
from neff.compiler.lowering.tiles.emitter import Constants, Tile, Value
from neff.compiler.lowering.tiles.interleaving import interleaved
from neff.compiler.lowering.tiles.task import Port, Task, core_share, window
from neff.compiler.lowering.tiles.tiling import PARTITIONS, Piece, affordable
from neff.compiler.plans import Tuning
from nki_lang.base.dtypes import dtype_of
from nki_lang.base.targets import Target

F32, I32 = dtype_of("float32"), dtype_of("int32")

__all__ = ["has_passes", "long_rows_task", "stays_resident"]

_MAX_BLOCK_COLUMNS = 2048
"""Columns of a block: at 8 KiB of float32 the fixed costs of instructions vanish."""

_MIN_BLOCK_COLUMNS = 256

_BLOCKS_IN_FLIGHT = 4
"""Blocks whose tiles may be alive at the same time."""

_MAX_SHARED_BYTES = 16 * 1024
"""Limit on the bytes of a partition for operands that all rows read, which then stay in SBUF."""


def has_passes(nodes: Sequence[Node]) -> bool:
    """Return True if a unit has elementwise operations and reductions of rows alone, whose partial
    results can be combined.
    """
    return all(
        _is_combined(node) for node in nodes if node.opcode in ("reduce", "dot", "rearranged-row")
    )


def _is_combined(node: Node) -> bool:
    if node.opcode != "reduce" or node.attributes["applied"] not in ("add", "maximum", "minimum"):
        return False
    start = node.operands[1].splat
    if start is None or not is_neutral(node.attributes["applied"], start, held_as(node).kind):
        return False
    return node.element.name == "f32" or node.attributes["applied"] != "add"


def stays_resident(group: RowGroup, target: Target) -> bool:
    """Return True if SBUF can hold the operands' rows besides the blocks in flight."""
    wide = [
        reach
        for port in group.inputs.values()
        if isinstance(port, Port) and (reach := Reach(group.rows, port)).kind == "full"
    ]
    operand_bytes = sum(reach.count * reach.port.dtype.itemsize for reach in wide)
    block = replace(group, block=_MAX_BLOCK_COLUMNS)
    return operand_bytes + 2 * block.alive() <= Budget(target).working_bytes() * 5 // 4


def long_rows_task(
    name: str, group: RowGroup, target: Target, tuning: Tuning, *, resident: bool
) -> Task:
    """Return the kernel of a unit over rows in blocks of columns.

    Args:
        name: of the kernel.
        group: a unit for which :func:`has_passes` is true.
        target: family.
        tuning: sizes; ``wide`` bounds the columns of a block.
        resident: the operands stay in SBUF between passes.
    """
    ports = {key: port for key, port in group.inputs.items() if isinstance(port, Port)}
    reads = list(dict.fromkeys(port.view.buffer for port in ports.values()))
    writes = list(dict.fromkeys(port.view.buffer for _, port in group.outputs))
    kernel = _LongRowKernel(group, ports, target, tuning, resident)
    return Task(name, reads, writes, kernel.run, kernel.facts.idioms, divides=True)


@dataclass(frozen=True, slots=True)
class _Pass:
    """The work of a pass over the blocks of a row.

    Attributes:
        row_facts: the row values that are computed in front of the pass.
        facts: the nodes that are computed on each block.
        reductions: the reductions that the pass finishes.
        shifted: those of them that are sums of exponentials of the pass's own maximum.
    """

    row_facts: Facts
    facts: Facts
    reductions: list[Node]
    shifted: list[ShiftedSum]


def _passes(group: RowGroup, idioms: set[str]) -> list[_Pass]:
    """Return the passes of a unit; the last one has no blocks if only row values follow."""
    stored = {id(node) for node, _ in group.outputs}
    shifted = {id(item.total): item for item in shifted_sums(group)}
    available: dict[int, int] = {}  # the pass in front of which, or in which, a member has a value
    for node in group.nodes:
        sources = [group.sources[id(operand)][0] for operand in node.operands]
        number = max((available.get(source, 0) for source in sources), default=0)
        if (item := shifted.get(id(node))) is not None and number == available[id(item.maximum)]:
            available[id(node)] = number
            continue
        shifted.pop(id(node), None)
        available[id(node)] = number + (node.opcode == "reduce")

    def is_wide(node: Node) -> bool:
        return node.opcode != "reduce" and group.columns(node.shape) > 1

    passes: list[_Pass] = []
    for number in range(max(available.values()) + 1):
        reductions = [
            node
            for node in group.nodes
            if node.opcode == "reduce" and available[id(node)] == number + 1
        ]
        needed = {id(node) for node in reductions}
        needed |= {
            id(node)
            for node in group.nodes
            if is_wide(node) and id(node) in stored and available[id(node)] == number
        }
        for node in reversed(group.nodes):
            if id(node) in needed:
                needed |= {group.sources[id(operand)][0] for operand in node.operands}
        block_nodes = [
            node
            for node in group.nodes
            if id(node) in needed and (is_wide(node) or node in reductions)
        ]
        row_nodes = [
            node
            for node in group.nodes
            if node.opcode != "reduce" and not is_wide(node) and available[id(node)] == number
        ]
        final = {key for key in stored if available.get(key) == number}
        row_facts = Facts(row_nodes, final, group.sources)
        facts = Facts(block_nodes, final, group.sources)
        row_facts.idioms = facts.idioms = idioms
        sums = [shifted[id(node)] for node in reductions if id(node) in shifted]
        passes.append(_Pass(row_facts, facts, reductions, sums))
    return passes


@dataclass(slots=True)
class _Shared:
    """State that the tiles of a kernel share.

    Attributes:
        tensors: tensors of the kernel, by buffer.
        balance: work of each engine so far.
        constants: tiles of constants.
        columns: blocks of operands that all rows read, by operand and first column.
        positions: the numbers of the first block's columns.
    """

    tensors: dict[str, Tile]
    balance: Balance
    constants: Constants = field(default_factory=Constants)
    columns: dict[tuple[int, int], Tile] = field(default_factory=dict[tuple[int, int], Tile])
    positions: Tile | None = None


class _LongRowKernel(RowKernel):
    """The kernel; see :class:`RowKernel` for the walk over the rows."""

    def __init__(
        self,
        group: RowGroup,
        ports: dict[int, Port],
        target: Target,
        tuning: Tuning,
        resident: bool,
    ) -> None:
        super().__init__(group, ports, target, tuning)
        self.together, self.resident = 1, resident
        self.passes = _passes(group, self.facts.idioms)
        repeated = {
            key
            for key, reach in self.reaches.items()
            if reach.kind == "row" and self.repeats(reach)
        }
        self.positions = {
            key
            for key in positions_of(group, repeated)
            if (reach := self.reaches.get(key)) is not None and reach.kind == "column"
        }
        shared = [
            reach
            for key, reach in self.reaches.items()
            if reach.kind == "column" and key not in self.positions
        ]
        shared_bytes = sum(reach.count * reach.port.dtype.itemsize for reach in shared)
        self.keeps_columns = shared_bytes <= _MAX_SHARED_BYTES
        limit = max(_MIN_BLOCK_COLUMNS, min(_MAX_BLOCK_COLUMNS, tuning.wide))
        free_bytes = Budget(target).working_bytes() // _BLOCKS_IN_FLIGHT
        while limit > _MIN_BLOCK_COLUMNS and replace(group, block=limit).alive() > free_bytes:
            limit //= 2
        self.block_columns = limit

    def repeats(self, reach: Reach) -> bool:
        """Return True if an operand repeats one element along each row."""
        wide = [extent for extent in reach.port.view.shape if extent != 1]
        return len(wide) > len(self.group.rows)

    def run(self, tensors: dict[str, Tile]) -> None:
        pieces = [piece for piece, _ in self._pieces()]
        blocks = -(-self.group.widest // self.block_columns)
        affordable(len(pieces) * blocks * len(self.passes))
        shared = _Shared(tensors, Balance(self.target.generation >= 3))
        tiles = (_LongRowTile(self, piece, shared).run() for piece in core_share(pieces))
        interleaved(tiles, 1 if self.resident else 2)


class _LongRowTile:
    """The work on one tile of rows.

    Attributes:
        values: row values of the passes so far, by node.
    """

    def __init__(self, kernel: _LongRowKernel, piece: Piece, shared: _Shared) -> None:
        self._kernel, self._piece, self._shared = kernel, piece, shared
        self._partitions = piece.partition.extent
        self._emitters: dict[int, RowEmitter] = {}
        self._loaded: dict[tuple[int, int], Tile] = {}
        self._rows = self._emitter_of(1)
        self.values: dict[int, Value] = {}

    def run(self) -> Iterator[None]:
        """Compute all passes; yield after each block."""
        columns = self._kernel.group.widest
        block = self._kernel.block_columns
        for work in self._kernel.passes:
            self._compute_rows(work)
            if not work.facts.nodes:
                continue
            totals: dict[int, Tile] = {}
            blocks = -(-columns // block)
            collected = Collected(self._partitions, blocks, work.shifted)
            for number in range(blocks):
                begin = number * block
                cut = (begin, min(block, columns - begin))
                self._compute_block(work, cut, totals, (collected, number))
                yield
            if work.shifted:
                self.values.update(totals)
                totals = collected.totals(self._emitter_of(blocks), self._shift)
            self.values.update(totals)

    def _shift(self, item: ShiftedSum) -> Tile:
        """Return what a sum of exponentials subtracts from the elements of a whole row."""
        facts = Facts(item.row_nodes, {item.shift}, self._kernel.group.sources)
        evaluator = self._evaluator(facts, (0, 1))
        evaluator.values[id(item.maximum)] = self.values[id(item.maximum)]
        for node in item.row_nodes:
            evaluator.compute(node)
        return self._rows.force(evaluator.values[item.shift])

    def _compute_rows(self, work: _Pass) -> None:
        """Compute and store the row values that are known in front of a pass."""
        evaluator = self._evaluator(work.row_facts, (0, 1))
        for node in work.row_facts.nodes:
            evaluator.compute(node)
            self.values[id(node)] = self._rows.force(evaluator.values[id(node)])
        for node, reach in self._kernel.stored:
            if self._kernel.group.columns(node.shape) == 1 and id(node) in work.row_facts.outputs:
                value = self.values[id(node)]
                evaluator.values[id(node)] = value
                nisa.dma_copy(self._window(reach, None), evaluator.result(node))
                self._shared.balance.spend_store()

    def _compute_block(
        self,
        work: _Pass,
        cut: tuple[int, int],
        totals: dict[int, Tile],
        place: tuple[Collected, int],
    ) -> None:
        """Compute a block.

        Args:
            work: the pass.
            cut: first column and number of columns.
            totals: reductions of the blocks so far.
            place: where shifts and sums of exponentials are kept, and the number of the block.
        """
        collected, number = place
        evaluator = self._evaluator(work.facts, cut)
        partials: dict[int, Tile] = {}
        for node in work.facts.nodes:
            evaluator.compute(node)
            if node in work.reductions:
                partials[id(node)] = self._rows.force(evaluator.values[id(node)])
                if shifts := collected.shift(node, number, partials[id(node)]):
                    evaluator.values.update(shifts)
                continue
            for stored_node, reach in self._kernel.stored:
                if stored_node is node and id(node) in work.facts.outputs:
                    nisa.dma_copy(self._window(reach, cut), evaluator.result(node))
                    self._shared.balance.spend_store()
        for node in work.reductions:
            partial = partials[id(node)]
            if collected.add(node, number, partial):
                continue
            total = totals.setdefault(id(node), partial)
            if total is not partial:
                op = getattr(nl, REDUCERS[node.attributes["applied"]])
                nisa.tensor_tensor(total, total, partial, op)

    def _evaluator(self, facts: Facts, cut: tuple[int, int]) -> Evaluator:
        def emitter(node: Node) -> RowEmitter:
            return self._emitter_of(cut[1] if self._kernel.group.columns(node.shape) > 1 else 1)

        def load(key: int) -> Value:
            return self._load(key, cut)

        numbers = self._kernel.target.generation >= 3
        evaluator = Evaluator(facts, emitter, load, numbers, self._shared.balance)
        return evaluator.with_rows(self._rows)

    def _emitter_of(self, columns: int) -> RowEmitter:
        emitter = self._emitters.get(columns)
        if emitter is None:
            per_row = self._emitter_of(1) if columns > 1 else None
            emitter = self._emitters[columns] = RowEmitter(
                self._partitions, 1, columns, self._shared.constants, per_row
            )
        return emitter

    # -- inputs and outputs ----------------------------------------------------------------

    def _load(self, key: int, cut: tuple[int, int]) -> Value:
        if key in self.values:
            return self.values[key]
        reach = self._kernel.reaches.get(key)
        if reach is None:
            return self._kernel.group.inputs[key]
        if reach.kind == "column":
            if key in self._kernel.positions:
                return self._positions(cut)
            return Spread(self._column(key, reach, cut), "column")
        place = (key, 0 if reach.kind == "row" else cut[0])
        tile = self._loaded.get(place)
        if tile is None:
            source = self._window(reach, None if reach.kind == "row" else cut)
            shape = (self._partitions, 1 if reach.kind == "row" else cut[1])
            tile = nl.ndarray(shape, dtype=reach.port.dtype, buffer=nl.sbuf)
            nisa.dma_copy(tile, source)
            if reach.kind == "row" or self._kernel.resident:
                self._loaded[place] = tile
        return Spread(tile, "row") if reach.kind == "row" and self._kernel.repeats(reach) else tile

    def _positions(self, cut: tuple[int, int]) -> Positions:
        """Return the positions of a block's columns."""
        tile = self._shared.positions
        if tile is None:
            shape = (PARTITIONS, self._kernel.block_columns)
            words = nl.ndarray(shape, dtype=I32, buffer=nl.sbuf)
            nisa.iota(words, [[1, shape[1]]], 0, 0)
            tile = self._shared.positions = nl.ndarray(shape, dtype=F32, buffer=nl.sbuf)
            nisa.tensor_copy(tile, words)
        return Positions(tile[0 : self._partitions, 0 : cut[1]], cut[0])

    def _column(self, key: int, reach: Reach, cut: tuple[int, int]) -> Tile:
        """Return a block of values that are the same for all rows."""
        tile = self._shared.columns.get((key, cut[0]))
        if tile is None:
            begin, columns = reach.column_range(*cut)
            tensor = self._shared.tensors[reach.port.view.buffer]
            source = window(tensor, reach.port, begin, [[0, PARTITIONS], *columns])
            tile = nl.ndarray((PARTITIONS, cut[1]), dtype=reach.port.dtype, buffer=nl.sbuf)
            nisa.dma_copy(tile, source)
            if self._kernel.keeps_columns:
                self._shared.columns[key, cut[0]] = tile
        return tile[0 : self._partitions]

    def _window(self, reach: Reach, cut: tuple[int, int] | None) -> Tile:
        """Return the elements of a tile's rows in HBM: of a block of columns, or of row values."""
        number = self._kernel.number[id(reach)]
        pattern, begin = self._piece.pattern(number), 0
        if cut is not None:
            begin, columns = reach.column_range(*cut)
            pattern = [*pattern[:1], *columns]
        tensor = self._shared.tensors[reach.port.view.buffer]
        return window(tensor, reach.port, self._piece.offsets[number] + begin, pattern)
