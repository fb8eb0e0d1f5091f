"""Common subexpressions: what is computed twice is computed once.

Instructions are looked at operands first. A cheap key (opcode and operands) tells most of them
apart; only those that share one are compared in full, so the cost is that of one walk.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from hlo_tools.computation import Computation
from hlo_tools.effects import always_stays, can_call, is_pure
from hlo_tools.ids import LOCAL_MASK
from hlo_tools.module import Module
from hlo_tools.opcodes import COMMUTATIVE
from hlo_tools.passes.base import Pass
from hlo_tools.passes.merging import (
    Rows,
    called_first,
    effectful_rows,
    read_all,
    replace_instructions,
)

__all__ = ["CommonSubexpressions"]

Message = Any

_COMMUTATIVE = COMMUTATIVE - {"maximum", "minimum"}
_SHARED_BY = frozenset(
    {"reduce", "reduce-window", "map", "scatter", "select-and-scatter", "sort", "all-reduce",
     "reduce-scatter", "call", "while", "conditional"}
)  # fmt: skip
"""Callers whose computation may be another caller's too; a fusion's may not."""
_IDENTITY = (
    "id", "name", "metadata", "operand_ids", "called_computation_ids", "control_predecessor_ids",
    "original_value", "statistics_viz",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CommonSubexpressions(Pass):
    """Compute once what is computed several times from the same operands.

    The first of two equal instructions stays, with its name and source line. Instructions with an
    effect or a state, and those that wait for others by control edges, are left alone.

    Attributes:
        computations: let callers of equal computations call the same one.
    """

    name: ClassVar[str] = "cse"

    computations: bool = True

    def run(self, module: Module) -> bool:
        everything = read_all(module)
        effectful = effectful_rows(module, everything)
        numbers = _Numbers()
        changed = False
        for computation in called_first(module, everything):
            rows = everything[computation.id]
            if self.computations:
                changed |= _share_calls(computation, rows, numbers.same)
            merged = _Merger(computation, effectful, numbers.same).run(rows)
            if self.computations and not computation.is_entry:
                numbers.add(computation, Rows.of(computation) if merged else rows)
            changed |= merged
        return changed


@dataclass(slots=True)
class _Numbers:
    """Equal computations: ``same`` leads from an id to that of an earlier equal one, if any."""

    same: dict[int, int] = field(default_factory=dict)
    _seen: dict[Hashable, int] = field(default_factory=dict)

    def add(self, computation: Computation, order: Rows) -> None:
        place = {number: at for at, number in enumerate(order.ids)}
        rows: list[Hashable] = []
        for number, row, operands in zip(order.ids, order.messages, order.operands, strict=True):
            called = tuple(self.same.get(n, n) for n in row.called_computation_ids)
            used = tuple(place[n] for n in operands)
            waits = tuple(place[n] for n in order.waits.get(number, ()))
            rows.append((used, called, waits, _rest(row), _kept(computation, row)))
        proto = computation.proto
        root = place[order.root(computation)]
        key = (tuple(rows), root, computation.is_fusion, proto.execution_thread)
        first = self._seen.setdefault(key, computation.id)
        if first != computation.id:
            self.same[computation.id] = first


def _share_calls(computation: Computation, rows: Rows, same: dict[int, int]) -> bool:
    changed = False
    if not same:
        return False
    for opcode, row in zip(rows.opcodes, rows.messages, strict=True):
        if opcode in _SHARED_BY:
            shared = [same.get(number, number) for number in row.called_computation_ids]
            if shared != list(row.called_computation_ids):
                row.called_computation_ids[:] = shared
                changed = True
    if changed:
        computation.module.mark_changed()
    return changed


def _rest(row: Message) -> bytes:
    """Everything of an instruction but who it is and what it refers to."""
    copy = type(row)()
    copy.CopyFrom(row)
    for name in _IDENTITY:
        copy.ClearField(name)
    return copy.SerializeToString(deterministic=True)


def _kept(computation: Computation, row: Message) -> bytes:
    """A constant that was left in the file."""
    if not computation.module.has_kept_constants:
        return b""
    kept = computation.module.kept_constant(computation.id, row.id & LOCAL_MASK)
    return b"" if kept is None else bytes(kept.buffer[kept.begin : kept.end])


class _Merger:
    """The instructions of one computation."""

    def __init__(
        self, computation: Computation, effectful: frozenset[int], same: dict[int, int]
    ) -> None:
        self._computation = computation
        self._effectful = effectful
        self._same = same
        self._first: dict[Hashable, Message] = {}
        self._full: dict[Hashable, dict[bytes, Message]] = {}
        self._merged: dict[int, int] = {}

    def run(self, rows: Rows) -> bool:
        held = {*rows.waits}.union(*rows.waits.values())
        merged, first_of = self._merged, self._first
        for number, opcode, operands, row in zip(
            rows.ids, rows.opcodes, rows.operands, rows.messages, strict=True
        ):
            if always_stays(opcode) or number in held:
                continue
            if merged and not merged.keys().isdisjoint(operands):
                operands = tuple([merged.get(each, each) for each in operands])
            cheap: Hashable = (opcode, operands)
            if not _is_plain(opcode):
                if can_call(opcode) and not is_pure(row, self._effectful):
                    continue
                cheap = self._cheap(opcode, operands, row)
            first = first_of.setdefault(cheap, row)
            if first is not row:
                self._merge(number, row, first, cheap)
        if merged:
            replace_instructions(self._computation, rows, merged)
        return bool(merged)

    def _merge(self, number: int, row: Message, first: Message, cheap: Hashable) -> None:
        """Compare in full what has the same opcode and operands."""
        known = self._full.get(cheap)
        if known is None:
            known = self._full[cheap] = {self._everything(first): first}
        found = known.setdefault(self._everything(row), row)
        if found is not row:
            self._merged[number] = found.id

    def _everything(self, row: Message) -> bytes:
        return _rest(row) + _kept(self._computation, row)

    def _cheap(self, opcode: str, operands: tuple[int, ...], row: Message) -> Hashable:
        """What tells most instructions apart; operands are those that stay."""
        if opcode == "constant":
            return (opcode, row.shape.SerializeToString(), _glance(row.literal))
        if opcode in _COMMUTATIVE:
            return (opcode, tuple(sorted(operands)))
        called = row.called_computation_ids
        return (opcode, operands, tuple(self._same.get(n, n) for n in called))


@cache
def _is_plain(opcode: str) -> bool:
    """Whether opcode and operands tell most instructions of an opcode apart."""
    return opcode != "constant" and opcode not in _COMMUTATIVE and not can_call(opcode)


def _glance(literal: Message) -> bytes:
    """A small literal as it is; a large one by its size."""
    size = literal.ByteSize()
    return literal.SerializeToString(deterministic=True) if size < 256 else str(size).encode()
