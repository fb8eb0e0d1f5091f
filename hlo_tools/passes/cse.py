"""Common subexpressions: what is computed twice is computed once.

Instructions are visited operands first. A cheap key (opcode and operands) separates most of them
apart; only those that share one are compared in full, so the cost is that of one walk.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from hlo_tools.ir.computation import Computation
from hlo_tools.ir.module import Module
from hlo_tools.passes.base import Pass
from hlo_tools.passes.merging import (
    Rows,
    called_first,
    effectful_rows,
    keep,
    read_all,
    replace_instructions,
)
from hlo_tools.rewrite.effects import always_stays, callers_among, can_call, is_pure
from hlo_tools.types.ids import LOCAL_MASK
from hlo_tools.types.opcodes import opcodes_of_cost, opcodes_of_kind, opcodes_with

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto

__all__ = ["CommonSubexpressions"]

_COMMUTATIVE = opcodes_with("commutative") - {"maximum", "minimum"}
_SHARED_BY = (opcodes_of_cost("applied") | opcodes_of_kind("control") | {"sort"}) - {"fusion"}
"""Callers whose computation may be another caller's too; a fusion's may not."""
_IDENTITY = (
    "id", "name", "metadata", "operand_ids", "called_computation_ids", "control_predecessor_ids",
    "original_value", "statistics_viz",
)  # fmt: skip

_MAX_KEY_BYTES = 256
"""Larger literals are compared in full only if opcode and operands are equal."""


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
        everything = dict(read_all(module))
        effectful = effectful_rows(module, everything)
        numbers = _Numbers()
        changed = False
        for computation in called_first(module, everything):
            rows = everything[computation.id]
            if self.computations:
                changed |= _share_calls(computation, rows, numbers.same)
            left = _Merger(computation, effectful, numbers.same).run(rows)
            changed |= left is not rows
            everything[computation.id] = left
            if self.computations and not computation.is_entry:
                numbers.add(computation, left)
        keep(module, everything)
        return changed


class _Numbers:
    """Equal computations: ``same`` leads from an id to that of an earlier equal one, if any."""

    def __init__(self) -> None:
        self.same: dict[int, int] = {}
        self._seen: dict[Hashable, int] = {}

    def add(self, computation: Computation, rows: Rows) -> None:
        positions = {number: position for position, number in enumerate(rows.ids)}
        used = [
            tuple([positions[operand_id] for operand_id in operands]) for operands in rows.operands
        ]
        waits = [
            (positions[number], *[positions[operand_id] for operand_id in waits])
            for number, waits in rows.waits.items()
        ]
        root = positions[rows.root(computation)]
        key = (tuple(used), tuple(waits), root, self._called(rows), _body(computation, rows))
        first = self._seen.setdefault(key, computation.id)
        if first != computation.id:
            self.same[computation.id] = first

    def _called(self, rows: Rows) -> Hashable:
        callers = callers_among(rows.opcodes)
        if not callers:
            return ()
        same = self.same
        return tuple(
            tuple([same.get(number, number) for number in row.called_computation_ids])
            for opcode, row in zip(rows.opcodes, rows.messages, strict=True)
            if opcode in callers
        )


def _body(computation: Computation, rows: Rows) -> Hashable:
    """Return a computation's content without names and references."""
    proto = computation.proto
    copy = type(proto)(
        is_fusion_computation=proto.is_fusion_computation, execution_thread=proto.execution_thread
    )
    copy.instructions.extend(rows.messages)
    for row in copy.instructions:
        _clear(row)
    encoded = copy.SerializeToString(deterministic=True)
    if not computation.module.has_kept_constants:
        return encoded
    return encoded, tuple([_kept(computation, row) for row in rows.messages])


def _share_calls(computation: Computation, rows: Rows, same: dict[int, int]) -> bool:
    changed = False
    if not same:
        return False
    if _SHARED_BY.isdisjoint(rows.opcodes):
        return False
    for opcode, row in zip(rows.opcodes, rows.messages, strict=True):
        if opcode in _SHARED_BY:
            shared = [same.get(number, number) for number in row.called_computation_ids]
            if shared != list(row.called_computation_ids):
                row.called_computation_ids[:] = shared
                changed = True
    if changed:
        computation.module.forget_callers()
        computation.module.mark_changed()
    return changed


def _rest(row: HloInstructionProto) -> bytes:
    """Return an instruction's content without name, id and references."""
    copy = type(row)()
    copy.CopyFrom(row)
    _clear(copy)
    return copy.SerializeToString(deterministic=True)


def _clear(row: HloInstructionProto) -> None:
    clear = row.ClearField
    for name in _IDENTITY:
        clear(name)


def _kept(computation: Computation, row: HloInstructionProto) -> bytes:
    """A constant that was left in the file."""
    if not computation.module.has_kept_constants:
        return b""
    literal = computation.module.kept_constant(computation.id, row.id & LOCAL_MASK)
    return b"" if literal is None else bytes(literal.buffer[literal.begin : literal.end])


class _Merger:
    """The instructions of one computation."""

    def __init__(
        self, computation: Computation, effectful: frozenset[int], same: dict[int, int]
    ) -> None:
        self._computation = computation
        self._effectful = effectful
        self._same = same
        self._first: dict[Hashable, HloInstructionProto] = {}
        self._full: dict[Hashable, dict[bytes, HloInstructionProto]] = {}
        self._merged: dict[int, int] = {}

    def run(self, rows: Rows) -> Rows:
        """Return the remaining rows; the same object if nothing was merged."""
        ordered_ids = {*rows.waits}.union(*rows.waits.values())
        merged, first_of = self._merged, self._first
        is_disjoint = merged.keys().isdisjoint
        for number, opcode, operands, row in zip(
            rows.ids, rows.opcodes, rows.operands, rows.messages, strict=True
        ):
            kind = _kind(opcode)
            if kind == "alone" or number in ordered_ids:
                continue
            if merged and not is_disjoint(operands):
                operands = tuple([merged.get(operand_id, operand_id) for operand_id in operands])
            cheap: Hashable = (opcode, operands)
            if kind != "plain":
                if kind == "caller" and not is_pure(row, self._effectful):
                    continue
                cheap = self._cheap(kind, opcode, operands, row)
            first = first_of.setdefault(cheap, row)
            if first is not row:
                self._merge(number, row, first, cheap)
        return replace_instructions(self._computation, rows, merged) if merged else rows

    def _merge(
        self, number: int, row: HloInstructionProto, first: HloInstructionProto, cheap: Hashable
    ) -> None:
        """Compare in full the instructions that have the same opcode and operands."""
        if isinstance(cheap, bytes):
            self._merged[number] = first.id
            return
        equal_rows = self._full.get(cheap)
        if equal_rows is None:
            equal_rows = self._full[cheap] = {self._everything(first): first}
        first_equal = equal_rows.setdefault(self._everything(row), row)
        if first_equal is not row:
            self._merged[number] = first_equal.id

    def _everything(self, row: HloInstructionProto) -> bytes:
        return _rest(row) + _kept(self._computation, row)

    def _cheap(
        self, kind: str, opcode: str, operands: tuple[int, ...], row: HloInstructionProto
    ) -> Hashable:
        """The key that separates most instructions; operands are those that are kept."""
        if kind == "constant":
            return self._glance(row)
        if kind == "commutative":
            return (opcode, tuple(sorted(operands)))
        called = row.called_computation_ids
        return (opcode, operands, tuple([self._same.get(n, n) for n in called]))

    def _glance(self, row: HloInstructionProto) -> Hashable:
        """A small constant as it is; of a large one its shape and size."""
        size = row.literal.ByteSize()
        if size < _MAX_KEY_BYTES and not self._computation.module.has_kept_constants:
            return _rest(row)
        return (row.shape.SerializeToString(), size)


@cache
def _kind(opcode: str) -> str:
    """The key that equal instructions of an opcode share: mostly opcode and operands (``"plain"``)."""
    if always_stays(opcode):
        return "alone"
    if can_call(opcode):
        return "caller"
    if opcode in _COMMUTATIVE:
        return "commutative"
    return "constant" if opcode == "constant" else "plain"
