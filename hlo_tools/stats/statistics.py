"""Statistics of a module, taken from its overview in one walk.

The module is read as an :class:`~hlo_tools.outline.Outline`, so constants are never decoded, and
equal shapes are looked at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hlo_tools.errors import HloError, HloFileError
from hlo_tools.ids import LOCAL_MASK
from hlo_tools.module import KERNEL_TARGET, Module
from hlo_tools.ordering import needs_first
from hlo_tools.outline import Outline, load_outline, shape_of
from hlo_tools.shape import Shape
from hlo_tools.stats.flops import (
    APPLIED,
    ELEMENTWISE,
    FORMULAS,
    TRANSCENDENTAL,
    Extent,
    applications,
)
from hlo_tools.stats.traffic import traffic

__all__ = [
    "ComputationStatistics",
    "KernelStatistics",
    "OpcodeStatistics",
    "Statistics",
    "statistics",
]

Message = Any
_APPLIED_OR_COMPARED = APPLIED | {"sort"}
_CALL_NOTHING = frozenset(
    {"broadcast", "concatenate", "constant", "copy", "dot", "get-tuple-element", "parameter",
     "reshape", "slice", "transpose", "tuple", *ELEMENTWISE, *TRANSCENDENTAL}
)  # fmt: skip
"""The frequent opcodes that call no computation."""
_DISTINCT = frozenset(
    {"async-start", "call", "conditional", "custom-call", "fusion", "while", *APPLIED, *FORMULAS}
)
"""Opcodes whose cost depends on more than shapes."""


@dataclass(slots=True)
class OpcodeStatistics:
    """All instructions of one opcode; sums over one run of each place that they stand in."""

    opcode: str
    count: int = 0
    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0


@dataclass(slots=True)
class ComputationStatistics:
    """One run of a computation, with what it calls.

    Attributes:
        instructions: its own, without those of computations that it calls.
        runs: how often one run of the entry runs it; 0 for what is only applied to elements
            (reducers, comparators) or never called.
        flops, transcendentals, bytes: of one run.
    """

    name: str
    instructions: int
    runs: int = 0
    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class KernelStatistics:
    """Calls of one kernel with one grid.

    Attributes:
        bytes: read and written by all the calls as their operands and results tell.
        macs: multiply-adds of one call, where its configuration tells them (``mac_count``).
    """

    name: str
    grid: tuple[int, ...]
    calls: int
    bytes: int
    macs: int | None = None


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a module holds and what one run of it costs.

    FLOPs of custom calls are not known and count as 0; the bytes of their operands and results
    count. Loops count as often as they are known to run, else once (``unknown_loops``).

    Attributes:
        constants, constant_bytes: how many constants there are, and what they hold.
        parameter_bytes, result_bytes: what enters and leaves the program.
    """

    name: str
    instructions: int
    flops: int
    transcendentals: int
    bytes: int
    constants: int
    constant_bytes: int
    parameter_bytes: int
    result_bytes: int
    unknown_loops: int
    opcodes: tuple[OpcodeStatistics, ...]
    computations: tuple[ComputationStatistics, ...]
    kernels: tuple[KernelStatistics, ...]

    @property
    def intensity(self) -> float:
        """FLOPs a byte; 0 where nothing is moved."""
        return self.flops / self.bytes if self.bytes else 0.0


def statistics(
    source: str | Path | bytes | Module | Outline, *, trips: Mapping[int, int] | None = None
) -> Statistics:
    """The statistics of a module.

    Args:
        source: a file of any size and form, its bytes, or a module.
        trips: how often ``while`` instructions (by id) run, beside those whose configuration says
            it; of a :class:`Module`, counts are worked out where they are not given.

    Raises:
        HloFileError: the file cannot be read, or refers to what it does not have (HLO-REFERENCE).
    """
    if isinstance(source, Module):
        trips = _trips(source) if trips is None else trips
        source = Outline.of(source.proto)
    elif not isinstance(source, Outline):
        source = load_outline(source)
    return _Walk(source, trips or {}).result()


def _trips(module: Module) -> dict[int, int]:
    from hlo_tools.passes.while_trip_counts import trip_count

    counts = {v.id: trip_count(v) for v in module.instructions if v.proto.opcode == "while"}
    return {number: count for number, count in counts.items() if count is not None}


@dataclass(slots=True)
class _Sum:
    """What one run of something costs."""

    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0

    def add(self, other: _Sum, times: int, *, moved: bool = True) -> None:
        self.flops += other.flops * times
        self.transcendentals += other.transcendentals * times
        if moved:
            self.bytes += other.bytes * times


class _Walk:
    """One walk over a module, called computations first."""

    def __init__(self, outline: Outline, trips: Mapping[int, int]) -> None:
        self.outline = outline
        self.trips = trips
        self.bodies = {row.id: row for row in outline.proto.computations}
        # A message is wrapped anew each time that it is looked at; wrapping costs more than reading.
        self.rows = {number: list(body.instructions) for number, body in self.bodies.items()}
        self.extents: dict[bytes, Extent] = {}
        self.opcodes: dict[str, OpcodeStatistics] = {}
        self.costs: dict[int, _Sum] = {}
        self.calls: dict[int, Counter[int]] = {}
        self.kernels: dict[tuple[str, tuple[int, ...], int | None], list[int]] = {}
        self.configs: dict[bytes, tuple[str, tuple[int, ...], int | None]] = {}
        self.constants = [0, 0]
        self.unknown_loops = 0

    def result(self) -> Statistics:
        proto = self.outline.proto
        order = needs_first(self.bodies, self._called, f"module {proto.name}")
        for number in order:
            self._computation(self.bodies[number])
        entry = self._body(proto.entry_computation_id)
        runs = self._runs(order, entry.id)
        cost = self.costs[entry.id]
        parameters = [r for r in self.rows[entry.id] if r.opcode == "parameter"]
        root = next((r for r in self.rows[entry.id] if r.id == entry.root_id), None)
        return Statistics(
            name=proto.name,
            instructions=self.outline.instruction_count,
            flops=cost.flops,
            transcendentals=cost.transcendentals,
            bytes=cost.bytes,
            constants=self.constants[0],
            constant_bytes=self.constants[1],
            parameter_bytes=sum(self._extent(row.shape).size for row in parameters),
            result_bytes=self._extent(root.shape).size if root is not None else 0,
            unknown_loops=self.unknown_loops,
            opcodes=tuple(sorted(self.opcodes.values(), key=lambda o: (-o.count, o.opcode))),
            computations=tuple(self._of(row, runs) for row in self.bodies.values()),
            kernels=tuple(
                KernelStatistics(name, grid, calls, moved, macs)
                for (name, grid, macs), (calls, moved) in sorted(
                    self.kernels.items(), key=lambda item: item[0][:2]
                )
            ),
        )

    def _of(self, row: Message, runs: Mapping[int, int]) -> ComputationStatistics:
        cost = self.costs[row.id]
        return ComputationStatistics(
            row.name,
            len(row.instructions),
            runs.get(row.id, 0),
            cost.flops,
            cost.transcendentals,
            cost.bytes,
        )

    def _runs(self, order: list[int], entry: int) -> dict[int, int]:
        """How often each computation runs: callers come before what they call."""
        runs = dict.fromkeys(order, 0)
        runs[entry] = 1
        for number in reversed(order):
            for called, times in self.calls[number].items():
                runs[called] += runs[number] * times
        return runs

    def _called(self, number: int) -> list[int]:
        found: dict[int, None] = {}
        self._body(number)
        for row in self.rows[number]:
            if row.opcode not in _CALL_NOTHING and row.called_computation_ids:
                found.update(dict.fromkeys(row.called_computation_ids))
        return list(found)

    def _body(self, number: int) -> Message:
        body = self.bodies.get(number)
        if body is None:
            raise HloFileError(
                f"module {self.outline.name} has no computation with the id {number}",
                code="HLO-REFERENCE",
                remedy="the module is damaged; nki-hlo verify tells all that is wrong",
            )
        return body

    # One computation

    def _computation(self, body: Message) -> None:
        """Alike instructions are counted first and looked at once."""
        total = self.costs[body.id] = _Sum()
        self.calls[body.id] = Counter()
        for row, shapes, count in self._alike(body):
            result = self._extent(row.shape)
            own = self._own(row, result, [self._extent(shape) for shape in shapes], count)
            kind = self.opcodes.setdefault(row.opcode, OpcodeStatistics(row.opcode))
            kind.count += count
            for into in (kind, total):
                into.flops += own.flops * count
                into.transcendentals += own.transcendentals * count
                into.bytes += own.bytes * count
            if row.called_computation_ids and row.opcode not in _APPLIED_OR_COMPARED:
                self._enter(row, total, body.id)

    def _alike(self, body: Message) -> Iterator[tuple[Message, tuple[bytes, ...], int]]:
        """(one instruction, shapes of its operands, how many cost as much as it)."""
        rows = self.rows[body.id]
        shape_of_id = {row.id & LOCAL_MASK: row.shape for row in rows}
        known = shape_of_id.get
        counts: dict[Any, int] = {}
        first: list[tuple[Message, tuple[bytes, ...]]] = []
        for row in rows:
            opcode = row.opcode
            shapes = tuple([known(i & LOCAL_MASK, b"") for i in row.operand_ids])
            key: Any = (opcode, row.shape, shapes)
            if opcode in _DISTINCT:
                key = (key, _distinct(row, len(first)))
            if key in counts:
                counts[key] += 1
            else:
                counts[key] = 1
                first.append((row, shapes))
        for (row, shapes), count in zip(first, counts.values(), strict=True):
            yield row, shapes, count

    def _own(self, row: Message, result: Extent, operands: list[Extent], count: int) -> _Sum:
        opcode = row.opcode
        own = _Sum(bytes=traffic(opcode, result, operands))
        if opcode in ELEMENTWISE:
            own.flops = result.elements
        elif opcode in TRANSCENDENTAL:
            own.transcendentals = result.elements
        elif opcode in FORMULAS:
            own.flops = self._formula(row, result, operands)
        elif opcode in APPLIED:
            self._apply(row, result, operands, own)
        elif opcode == "constant":
            self.constants[0] += count
            self.constants[1] += result.size * count
        elif opcode == "custom-call" and row.custom_call_target == KERNEL_TARGET:
            self._kernel(row, own.bytes)
        return own

    def _formula(self, row: Message, result: Extent, operands: list[Extent]) -> int:
        try:
            return FORMULAS[row.opcode](row, result, operands)
        except (IndexError, ValueError):  # operands or dimensions that a valid module would have
            return 0

    def _apply(self, row: Message, result: Extent, operands: list[Extent], own: _Sum) -> None:
        """Add what the computations cost that are applied to elements: arithmetic only."""
        try:
            counts = applications(row, result, operands)
        except IndexError:
            return
        for number, times in zip(row.called_computation_ids, counts, strict=False):
            own.add(self.costs[number], times, moved=False)

    def _enter(self, row: Message, total: _Sum, caller: int) -> None:
        """Add what the computations cost that the instruction runs."""
        opcode, numbers = row.opcode, row.called_computation_ids
        times = 1
        if opcode == "while":
            times = self._turns(row)
        elif opcode == "conditional":
            numbers = [max(numbers, key=lambda n: (self.costs[n].flops, self.costs[n].bytes))]
        for number in numbers:
            total.add(self.costs[number], times, moved=opcode != "fusion")
            self.calls[caller][number] += times

    def _turns(self, row: Message) -> int:
        known = _known_trip_count(row.backend_config)
        count = known if known is not None else self.trips.get(row.id)
        if count is None:
            self.unknown_loops += 1
            return 1
        return count

    def _kernel(self, row: Message, moved: int) -> None:
        config = row.backend_config
        key = self.configs.get(config)
        if key is None:
            key = self.configs[config] = _kernel_of(config)
        entry = self.kernels.setdefault(key, [0, 0])
        entry[0] += 1
        entry[1] += moved

    def _extent(self, data: bytes) -> Extent:
        found = self.extents.get(data)  # an operand that is missing has no bytes: an empty shape
        if found is None:
            found = self.extents[data] = _extent_of(shape_of(data))
        return found


def _distinct(row: Message, number: int) -> Any:
    """What beside shapes tells instructions apart whose cost depends on more than shapes."""
    opcode = row.opcode
    if opcode == "dot":
        return row.dot_dimension_numbers
    if opcode in APPLIED:
        return row.window, tuple(row.called_computation_ids)
    return number


def _extent_of(shape: Shape) -> Extent:
    leaves = [leaf for _, leaf in shape.leaves()] if shape.is_tuple else [shape]
    return Extent(
        sum(leaf.element_count for leaf in leaves),
        sum(leaf.byte_size for leaf in leaves),
        leaves[0].dimensions if leaves else (),
        len(shape.tuple_shapes) if shape.is_tuple else 1,
    )


def _known_trip_count(config: bytes) -> int | None:
    """The count that XLA's ``while-loop-trip-count-annotator`` writes into a loop."""
    if b"known_trip_count" not in config:
        return None
    try:
        return max(int(json.loads(config)["known_trip_count"]["n"]), 0)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _kernel_of(config: bytes) -> tuple[str, tuple[int, ...], int | None]:
    """(name, grid, MACs) of a kernel's configuration; the name is "?" where it does not decode."""
    from hlo_tools.backend_config import decode_backend_config

    try:
        record = decode_backend_config(config)
    except HloError:
        return "?", (), None
    name, grid, macs = record.get("func_name"), record.get("grid"), record.get("mac_count")
    sizes = tuple(n for n in grid if isinstance(n, int)) if isinstance(grid, list) else ()
    return str(name or "?"), sizes, macs if isinstance(macs, int) else None
