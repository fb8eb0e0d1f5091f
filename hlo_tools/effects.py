"""What an instruction does beside giving its result."""

from __future__ import annotations

from functools import cache
from typing import Any

from hlo_tools.module import Module
from hlo_tools.opcodes import OPCODES

__all__ = ["always_stays", "can_call", "effectful_computations", "has_effect", "is_pure"]

Message = Any

_PARTICIPANTS = frozenset(
    {"infeed", "outfeed", "send", "send-done", "recv", "recv-done", "after-all", "rng",
     "rng-get-and-update-state", "all-reduce", "all-gather", "all-to-all", "ragged-all-to-all",
     "collective-permute", "reduce-scatter", "collective-broadcast", "domain", "opt-barrier"}
)  # fmt: skip
"""Opcodes that take part in something beyond their computation, or have a state."""

_ASYNC_ENDS = ("-start", "-update", "-done")

_CALLING = frozenset(
    {"to_apply", "calls", "condition", "body", "select", "scatter", "branch_computations",
     "called_computations"}
)  # fmt: skip
"""Attributes that name computations."""


@cache
def always_stays(opcode: str) -> bool:
    """Whether instructions of an opcode stay although nobody uses their results."""
    return opcode in _PARTICIPANTS or opcode == "parameter" or opcode.endswith(_ASYNC_ENDS)


@cache
def can_call(opcode: str) -> bool:
    """Whether instructions of an opcode can call computations; true for unknown opcodes."""
    known = OPCODES.get(opcode)
    return known is None or not _CALLING.isdisjoint(known.required | known.optional)


def has_effect(row: Message) -> bool:
    """Whether an instruction stays although nobody uses its result; parameters do."""
    opcode = row.opcode
    return always_stays(opcode) or (opcode == "custom-call" and row.custom_call_has_side_effect)


def effectful_computations(module: Module) -> frozenset[int]:
    """Ids of computations, the entry aside, in which or in whose callees something has an effect."""
    found: set[int] = set()
    callers: dict[int, list[int]] = {}
    for computation in module.proto.computations:
        number = computation.id
        if number == module.proto.entry_computation_id:
            continue
        for row in computation.instructions:
            opcode = row.opcode
            if opcode != "parameter" and has_effect(row):
                found.add(number)
            if can_call(opcode):
                for called in row.called_computation_ids:
                    callers.setdefault(called, []).append(number)
    stack = list(found)
    while stack:
        for caller in callers.get(stack.pop(), ()):
            if caller not in found:
                found.add(caller)
                stack.append(caller)
    return frozenset(found)


def is_pure(row: Message, effectful: frozenset[int]) -> bool:
    """Whether its result is all it gives, so that it may be left out or made once for two."""
    if has_effect(row):
        return False
    return not effectful or effectful.isdisjoint(row.called_computation_ids)
