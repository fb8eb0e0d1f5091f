"""Counting what a module costs, from the columns of its overview."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from hlo_tools._gc import no_collection
from hlo_tools.errors import HloError, HloFileError, HloUnsupportedError
from hlo_tools.inference.types import UNBOUNDED
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import KERNEL_TARGET
from hlo_tools.ir.ordering import needs_first
from hlo_tools.ir.overview import ModuleOutline
from hlo_tools.outline import CALLED, CALLED_ONE, Body, OutlinedInstruction, shape_of
from hlo_tools.stats.cost_groups import group_by_cost
from hlo_tools.stats.flops import (
    APPLIED,
    ELEMENTWISE,
    FORMULAS,
    TRANSCENDENTAL,
    Extent,
    applications,
)
from hlo_tools.stats.result import (
    ComputationStatistics,
    KernelStatistics,
    OpcodeStatistics,
    Statistics,
)
from hlo_tools.stats.traffic import traffic
from hlo_tools.types.shape import Shape

__all__ = ["Counting", "count", "kernel_of"]

APPLIED_OR_COMPARED = APPLIED | {"sort"}
_MAX_TOTAL = (1 << 63) - 1


def count(outline: ModuleOutline, trips: Mapping[int, int], root: Path | None) -> Statistics:
    """The statistics of an overview; arguments as :func:`hlo_tools.stats.statistics`."""
    with no_collection():
        return Counting(outline, trips, root).result()


class _Cost(NamedTuple):
    """FLOPs, transcendentals and bytes of one run of something."""

    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0


_Sums = list[int]
"""Like :class:`_Cost`, for a computation; includes its callees."""


class _Call(NamedTuple):
    """An instruction that calls computations."""

    row: int
    opcode: str
    group: int
    numbers: list[int]


class Counting:
    """One count: what instructions cost alone first, then what computations add by their calls."""

    def __init__(self, outline: ModuleOutline, trips: Mapping[int, int], root: Path | None) -> None:
        self.outline = outline
        self.trips = trips
        self.root = root
        self.bodies = outline.by_id
        self.groups = group_by_cost(outline)
        self.extents: dict[bytes, Extent] = {}
        self.unknown_loops = 0
        self.own = [self._own(group) for group in range(len(self.groups.first))]
        self.opcodes = self._opcodes()
        self.costs = self._alone()
        self.times: dict[int, tuple[int, ...]] = {}
        self.called: dict[int, dict[int, int]] = {}

    def result(self) -> Statistics:
        outline = self.outline
        entry = outline.entry
        runs = self.runs
        flops, transcendentals, moved = self.costs[entry.id]
        constants = self.opcodes.get("constant", OpcodeStatistics("constant"))
        return Statistics(
            name=outline.name,
            instructions=outline.instruction_count,
            flops=flops,
            transcendentals=transcendentals,
            bytes=moved,
            constants=constants.count,
            constant_bytes=self._size(self.counts, "constant"),
            parameter_bytes=self._size(self._counts_in(entry), "parameter"),
            result_bytes=self._result_size(entry),
            unknown_loops=self.unknown_loops,
            opcodes=tuple(sorted(self.opcodes.values(), key=lambda o: (-o.count, o.opcode))),
            computations=tuple(
                ComputationStatistics(body.name, body.last - body.first, runs[number], *cost)
                for (number, body), cost in zip(
                    self.bodies.items(), self.costs.values(), strict=True
                )
            ),
            kernels=self._kernels(),
        )

    # Groups of instructions

    @cached_property
    def counts(self) -> list[int]:
        """Return the number of instructions per group, in reachable computations."""
        rows = self.groups.of
        if len(self.bodies) != len(self.outline.bodies):
            spans = [np.arange(body.first, body.last) for body in self.bodies.values()]
            rows = rows[np.concatenate(spans)]
        return np.bincount(rows, minlength=len(self.groups.first)).tolist()

    def _counts_in(self, body: Body) -> list[int]:
        rows = self.groups.of[body.first : body.last]
        return np.bincount(rows, minlength=len(self.groups.first)).tolist()

    def kind(self, group: int) -> tuple[str, bytes]:
        return self.outline.kinds[int(self.outline.kind_of[self.groups.first[group]])]

    @cached_property
    def group_opcodes(self) -> list[str]:
        return [self.kind(group)[0] for group in range(len(self.groups.first))]

    def _own(self, group: int) -> _Cost:
        """Return the cost of one instruction of a group, without its callees."""
        opcode, shape = self.kind(group)
        result = self._extent(shape)
        operands = [self._extent(data) for data in self.groups.operands[group]]
        moved = traffic(opcode, result, operands)
        if opcode in ELEMENTWISE:
            return _Cost(result.elements, 0, moved)
        if opcode in TRANSCENDENTAL:
            return _Cost(0, result.elements, moved)
        if opcode in FORMULAS:
            row = OutlinedInstruction(self.outline, self.groups.first[group]).proto
            try:
                return _Cost(FORMULAS[opcode](row, result, operands), 0, moved)
            except (IndexError, ValueError):  # what a valid module would have is missing
                return _Cost(0, 0, moved)
        return _Cost(0, 0, moved)

    def _opcodes(self) -> dict[str, OpcodeStatistics]:
        by_opcode: dict[str, OpcodeStatistics] = {}
        for opcode, number, sums in zip(self.group_opcodes, self.counts, self.own, strict=True):
            if number:
                kind = by_opcode.setdefault(opcode, OpcodeStatistics(opcode))
                kind.count += number
                _add(kind, sums, number)
        return by_opcode

    def _size(self, counts: list[int], opcode: str) -> int:
        """Bytes that the instructions of an opcode hold."""
        return sum(
            number * self._extent(self.kind(group)[1]).size
            for group, number in enumerate(counts)
            if number and self.group_opcodes[group] == opcode
        )

    def _result_size(self, entry: Body) -> int:
        outline = self.outline
        root_rows = np.flatnonzero(outline.ids[entry.first : entry.last] == entry.root_id)
        if not root_rows.size:
            return 0
        return self._extent(outline.kinds[int(outline.kind_of[entry.first + root_rows[0]])][1]).size

    def _extent(self, data: bytes) -> Extent:
        extent = self.extents.get(data)  # an operand that is missing has no bytes: an empty shape
        if extent is None:
            extent = self.extents[data] = _extent_of(shape_of(data), self.outline.path)
        return extent

    # Computations

    def _alone(self) -> dict[int, _Sums]:
        """Return the cost of each computation's instructions, without callees, by its id."""
        bodies = self.outline.bodies
        reach = sum(
            max(map(abs, sums)) * number for sums, number in zip(self.own, self.counts, strict=True)
        )
        exact: Any = np.int64 if reach <= _MAX_TOTAL else object
        table = np.array([*self.own, _Cost()], exact)[np.append(self.groups.of, len(self.own))]
        sums = np.add.reduceat(table, [body.first for body in bodies], axis=0)
        sums[[body.last == body.first for body in bodies]] = 0
        return dict(zip([body.id for body in bodies], sums.tolist(), strict=True))

    @cached_property
    def calls(self) -> dict[int, list[_Call]]:
        """Return the instructions that call computations, by their computation's id."""
        outline = self.outline
        first, values = outline.numbers(CALLED, CALLED_ONE)
        rows = np.flatnonzero(np.diff(first))
        columns = (rows, outline.kind_of[rows], self.groups.of[rows], first[rows], first[rows + 1])
        numbers = values.tolist()
        opcodes = [opcode for opcode, _ in outline.kinds]
        every = [
            _Call(row, opcodes[kind], group, numbers[begin:end])
            for row, kind, group, begin, end in zip(*(c.tolist() for c in columns), strict=True)
        ]
        owner = outline.body_of[rows]
        starts = np.flatnonzero(np.diff(owner, prepend=-1))
        calls: dict[int, list[_Call]] = {}
        for begin, end in zip(starts.tolist(), [*starts.tolist()[1:], len(every)], strict=False):
            body = outline.bodies[int(owner[begin])]
            if self.bodies[body.id] is body:
                calls[body.id] = every[begin:end]
        return calls

    def order(self) -> list[int]:
        """Ids of the computations that call others, called ones first."""
        positions = {number: position for position, number in enumerate(self.bodies)}
        in_order = True
        for caller, calls in self.calls.items():
            for number in {number for call in calls for number in call.numbers}:
                if number not in positions:
                    self.outline.body(number)
                in_order = in_order and positions[number] < positions[caller]
        if in_order:
            return list(self.calls)

        def needs(number: int) -> list[int]:
            calls = self.calls.get(number, ())
            return list(dict.fromkeys(called for call in calls for called in call.numbers))

        order = needs_first(self.bodies, needs, f"module {self.outline.name}")
        return [number for number in order if number in self.calls]

    def _computation(self, number: int) -> None:
        """Add what a computation calls, which is complete, to what it costs."""
        total = self.costs[number]
        runs: dict[int, int] = {}
        applied: dict[str, _Sums] = {}
        for call in self.calls[number]:
            if call.opcode in APPLIED:
                self._apply(call, applied.setdefault(call.opcode, [0, 0, 0]))
            elif call.opcode not in APPLIED_OR_COMPARED:
                self._enter(call, total, runs)
        for opcode, work in applied.items():
            _add(self.opcodes[opcode], _Cost(*work), 1)
            total[0] += work[0]
            total[1] += work[1]
        self.called[number] = runs

    def _apply(self, call: _Call, work: _Sums) -> None:
        """Add what the computations cost that are applied to elements: arithmetic only."""
        times = self.times.get(call.group)
        if times is None:
            times = self.times[call.group] = self.times_of(call.group)
        for number, count in zip(call.numbers, times, strict=False):
            flops, transcendentals, _ = self.costs[number]
            work[0] += flops * count
            work[1] += transcendentals * count

    def times_of(self, group: int) -> tuple[int, ...]:
        """Return how often an instruction of a group applies each of its computations."""
        row = OutlinedInstruction(self.outline, self.groups.first[group]).proto
        result = self._extent(self.kind(group)[1])
        operands = [self._extent(data) for data in self.groups.operands[group]]
        try:
            return applications(row, result, operands)
        except IndexError:
            return ()

    def _enter(self, call: _Call, total: _Sums, runs: dict[int, int]) -> None:
        """Add what the computations cost that an instruction runs."""
        numbers, times = call.numbers, 1
        costs = [self.costs[number] for number in numbers]
        if call.opcode == "while":
            times = self._turns(call.row)
        elif call.opcode == "conditional":  # as XLA counts: the most that a branch has of each
            numbers = [max(numbers, key=lambda n: (self.costs[n][0], self.costs[n][2]))]
            costs = [tuple(map(max, *costs))] if len(costs) > 1 else costs
        for number, (flops, transcendentals, moved) in zip(numbers, costs, strict=True):
            total[0] += flops * times
            total[1] += transcendentals * times
            if call.opcode != "fusion":
                total[2] += moved * times
            runs[number] = runs.get(number, 0) + times

    def _turns(self, row: int) -> int:
        known_count = _known_trip_count(OutlinedInstruction(self.outline, row).proto.backend_config)
        count = (
            known_count if known_count is not None else self.trips.get(int(self.outline.ids[row]))
        )
        if count is None:
            self.unknown_loops += 1
            return 1
        return count

    @cached_property
    def runs(self) -> dict[int, int]:
        """Return how often each computation runs; completes the costs of computations."""
        order = self.order()
        for number in order:
            self._computation(number)
        runs = dict.fromkeys(self.bodies, 0)
        runs[self.outline.entry.id] = 1
        for number in reversed(order):
            for called, times in self.called[number].items():
                runs[called] += runs[number] * times
        return runs

    # Kernels

    def _kernels(self) -> tuple[KernelStatistics, ...]:
        rows = [call.row for call in self.outline.custom_calls(KERNEL_TARGET)]
        if not rows:
            return ()
        totals: dict[tuple[str, tuple[int, ...], int | None], list[int]] = {}
        kernel_by_config: dict[bytes, tuple[str, tuple[int, ...], int | None]] = {}
        views = self.outline.part(rows).find_custom_calls()
        for row, view in zip(rows, views, strict=True):
            config = view.backend_config
            if config not in kernel_by_config:
                kernel_by_config[config] = kernel_of(view, self.root)
            entry = totals.setdefault(kernel_by_config[config], [0, 0])
            entry[0] += 1
            entry[1] += self.own[int(self.groups.of[row])].bytes
        ordered = sorted(totals.items(), key=lambda item: item[0][:2])
        return tuple(
            KernelStatistics(name, grid, calls, moved, macs)
            for (name, grid, macs), (calls, moved) in ordered
        )


def _add(kind: OpcodeStatistics, cost: _Cost, times: int) -> None:
    kind.flops += cost.flops * times
    kind.transcendentals += cost.transcendentals * times
    kind.bytes += cost.bytes * times


def _extent_of(shape: Shape, path: str) -> Extent:
    leaves = [leaf for _, leaf in shape.leaves()] if shape.is_tuple else [shape]
    if any(size < 0 for leaf in leaves for size in leaf.dimensions):
        raise _without_size(shape, path)
    return Extent(
        sum(leaf.element_count for leaf in leaves),
        sum(leaf.byte_size for leaf in leaves),
        leaves[0].dimensions if leaves else (),
        len(shape.tuple_shapes) if shape.is_tuple else 1,
    )


def _without_size(shape: Shape, path: str) -> HloError:
    if UNBOUNDED in [size for _, leaf in shape.leaves() for size in leaf.dimensions]:
        return HloUnsupportedError(
            f"{shape} has a dimension without a bound, so nothing that takes it can be counted",
            code="HLO-UNBOUNDED",
            place=path,
            remedy="compile the program for a size",
        )
    return HloFileError(
        f"{shape} has a negative extent",
        code="HLO-DAMAGED",
        place=path,
        remedy="nki-hlo verify reports which instructions state it",
    )


def _known_trip_count(config: bytes) -> int | None:
    """The count that XLA's ``while-loop-trip-count-annotator`` writes into a loop."""
    if b"known_trip_count" not in config:
        return None
    try:
        return max(int(json.loads(config)["known_trip_count"]["n"]), 0)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def kernel_of(call: Instruction, root: Path | None) -> tuple[str, tuple[int, ...], int | None]:
    """(name, grid, MACs) of a kernel; the name is "?" where the configuration does not decode."""
    from hlo_tools.kernel_calls.description import work_of
    from hlo_tools.kernels.backend_config import decode_backend_config
    from hlo_tools.kernels.calls import resolve

    try:
        record = decode_backend_config(call.backend_config)
    except HloError:
        return "?", (), None
    name, grid, macs = record.get("func_name"), record.get("grid"), record.get("mac_count")
    grid_values = cast(list[object], grid) if isinstance(grid, list) else []
    sizes = tuple(n for n in grid_values if isinstance(n, int))
    try:
        macs = work_of(resolve(call.backend_config, root).kernel).macs
    except HloError:  # the kernel's file is elsewhere
        macs = macs if isinstance(macs, int) else None
    return str(name or "?"), sizes, macs
