"""Analyses of the computations of a module: needed instructions, and the operation that a reduction
applies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neff.compiler.unsupported import EFFECTS

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloComputationProto, HloInstructionProto

__all__ = ["Needs", "passed_on", "root_of", "single_op"]


def root_of(computation: HloComputationProto) -> int:
    """Return the id of the root: the last instruction if the computation names none."""
    return computation.root_id or computation.instructions[-1].id


def single_op(computation: HloComputationProto) -> str:
    """Return the opcode of a computation of two parameters and one operation over them.

    Return ``second`` for a computation that returns its second parameter, "" for any other.
    """
    by_id = {row.id: row for row in computation.instructions}
    root = by_id.get(computation.root_id) or computation.instructions[-1]
    if root.opcode == "parameter" and root.parameter_number == 1:
        return "second"
    operands = [by_id[ident] for ident in root.operand_ids if ident in by_id]
    plain = len(operands) == 2 and all(row.opcode == "parameter" for row in operands)
    if not plain or len({row.parameter_number for row in operands}) != 2:
        return ""
    return root.opcode


def passed_on(computation: HloComputationProto) -> frozenset[int]:
    """Return the indices of the tuple elements that a computation returns unchanged."""
    by_id = {row.id: row for row in computation.instructions}
    root = by_id.get(root_of(computation))
    if root is None or root.opcode != "tuple":
        return frozenset()
    indices: set[int] = set()
    for index, ident in enumerate(root.operand_ids):
        row = by_id.get(ident)
        while row is not None and row.opcode == "copy" and row.operand_ids:
            row = by_id.get(row.operand_ids[0])
        if row is None or row.opcode != "get-tuple-element" or row.tuple_index != index:
            continue
        source = by_id.get(row.operand_ids[0])
        if source is not None and source.opcode == "parameter":
            indices.add(index)
    return frozenset(indices)


class Needs:
    """The instructions of each computation that its root and its effects need.

    Args:
        computations: id -> computation, of the module.
    """

    def __init__(self, computations: dict[int, HloComputationProto]) -> None:
        self._computations = computations
        self._needed: dict[int, frozenset[int]] = {}
        self._acts: dict[int, bool] = {}

    def of(self, computation: HloComputationProto) -> frozenset[int]:
        """Return the ids of the instructions that are needed."""
        needed = self._needed.get(computation.id)
        if needed is None:
            needed = self._needed[computation.id] = self._reached(computation)
        return needed

    def _reached(self, computation: HloComputationProto) -> frozenset[int]:
        by_id = {row.id: row for row in computation.instructions}
        stack = [root_of(computation)]
        stack += [row.id for row in computation.instructions if self._has_effect(row)]
        reached: set[int] = set()
        while stack:
            ident = stack.pop()
            if ident in reached or ident not in by_id:
                continue
            reached.add(ident)
            stack += by_id[ident].operand_ids
        return frozenset(reached)

    def _has_effect(self, row: HloInstructionProto) -> bool:
        if row.opcode in EFFECTS or row.custom_call_has_side_effect:
            return True
        return any(self._acting(ident) for ident in row.called_computation_ids)

    def _acting(self, ident: int) -> bool:
        """Return True if the computation has an effect. A recursive call counts as having none."""
        acts = self._acts.get(ident)
        if acts is not None or ident not in self._computations:
            return bool(acts)
        self._acts[ident] = False
        rows = self._computations[ident].instructions
        self._acts[ident] = any(self._has_effect(row) for row in rows)
        return self._acts[ident]
