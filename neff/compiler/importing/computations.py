"""What a computation of a module is made of: which of its instructions are needed, what it applies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neff.compiler.unsupported import EFFECTS

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloComputationProto, HloInstructionProto

__all__ = ["Needs", "passed_on", "root_of", "single_op"]


def root_of(computation: HloComputationProto) -> int:
    """The id of the root; the last instruction when none is named."""
    return computation.root_id or computation.instructions[-1].id


def single_op(computation: HloComputationProto) -> str:
    """The opcode of a computation of two parameters and one operation over them; ``second`` for
    one that returns its second parameter, "" for any other."""
    by_id = {one.id: one for one in computation.instructions}
    root = by_id.get(computation.root_id) or computation.instructions[-1]
    if root.opcode == "parameter" and root.parameter_number == 1:
        return "second"
    operands = [by_id[ident] for ident in root.operand_ids if ident in by_id]
    plain = len(operands) == 2 and all(one.opcode == "parameter" for one in operands)
    if not plain or len({one.parameter_number for one in operands}) != 2:
        return ""
    return root.opcode


def passed_on(computation: HloComputationProto) -> frozenset[int]:
    """Places of the tuple that a computation takes and returns which it returns as they came."""
    by_id = {one.id: one for one in computation.instructions}
    root = by_id.get(root_of(computation))
    if root is None or root.opcode != "tuple":
        return frozenset()
    found: set[int] = set()
    for place, ident in enumerate(root.operand_ids):
        part = by_id.get(ident)
        while part is not None and part.opcode == "copy" and part.operand_ids:
            part = by_id.get(part.operand_ids[0])
        if part is None or part.opcode != "get-tuple-element" or part.tuple_index != place:
            continue
        source = by_id.get(part.operand_ids[0])
        if source is not None and source.opcode == "parameter":
            found.add(place)
    return frozenset(found)


class Needs:
    """Which instructions of each computation the root and effects need.

    Args:
        computations: id -> computation, of the module.
    """

    def __init__(self, computations: dict[int, HloComputationProto]) -> None:
        self._computations = computations
        self._needed: dict[int, frozenset[int]] = {}
        self._acts: dict[int, bool] = {}

    def of(self, computation: HloComputationProto) -> frozenset[int]:
        """Ids of the instructions that are needed."""
        found = self._needed.get(computation.id)
        if found is None:
            found = self._needed[computation.id] = self._reached(computation)
        return found

    def _reached(self, computation: HloComputationProto) -> frozenset[int]:
        by_id = {one.id: one for one in computation.instructions}
        stack = [root_of(computation)]
        stack += [one.id for one in computation.instructions if self._has_effect(one)]
        found: set[int] = set()
        while stack:
            ident = stack.pop()
            if ident in found or ident not in by_id:
                continue
            found.add(ident)
            stack += by_id[ident].operand_ids
        return frozenset(found)

    def _has_effect(self, one: HloInstructionProto) -> bool:
        if one.opcode in EFFECTS or one.custom_call_has_side_effect:
            return True
        return any(self._acting(ident) for ident in one.called_computation_ids)

    def _acting(self, ident: int) -> bool:
        """True when the computation has an effect; of one that calls itself, what is known."""
        known = self._acts.get(ident)
        if known is not None or ident not in self._computations:
            return bool(known)
        self._acts[ident] = False
        rows = self._computations[ident].instructions
        self._acts[ident] = any(self._has_effect(one) for one in rows)
        return self._acts[ident]
