"""Effects of instructions besides their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import Module
from hlo_tools.types.opcodes import OPCODES, opcodes_with

if TYPE_CHECKING:
    from hlo_tools.schema.messages import HloInstructionProto

__all__ = [
    "always_stays",
    "callers_among",
    "can_call",
    "effectful_among",
    "effectful_computations",
    "has_effect",
    "has_effect_within",
    "is_pure",
]

_PARTICIPANTS = opcodes_with("participant")

_ASYNC_ENDS = ("-start", "-update", "-done")

_CALLING = frozenset(
    {"to_apply", "calls", "condition", "body", "select", "scatter", "branch_computations",
     "called_computations"}
)  # fmt: skip
"""Attributes that name computations."""


@cache
def always_stays(opcode: str) -> bool:
    """Return True if instructions of an opcode stay without users."""
    return opcode in _PARTICIPANTS or opcode == "parameter" or opcode.endswith(_ASYNC_ENDS)


@cache
def can_call(opcode: str) -> bool:
    """Return True if instructions of an opcode can call computations; True for unknown opcodes."""
    opcode_facts = OPCODES.get(opcode)
    return opcode_facts is None or not _CALLING.isdisjoint(
        opcode_facts.required | opcode_facts.optional
    )


_NO_CALLERS = frozenset(opcode for opcode in OPCODES if not can_call(opcode))


def callers_among(opcodes: Iterable[str]) -> set[str]:
    """Return the given opcodes that can call computations."""
    return set(opcodes) - _NO_CALLERS


def has_effect(row: HloInstructionProto, opcode: str = "") -> bool:
    """Return True if an instruction stays without users; parameters do.

    Args:
        opcode: that of the instruction, where it is at hand.
    """
    opcode = opcode or row.opcode
    return always_stays(opcode) or (opcode == "custom-call" and row.custom_call_has_side_effect)


def effectful_computations(module: Module) -> frozenset[int]:
    """Ids of computations, the entry aside, in which or in whose callees something has an effect."""
    proto = module.proto
    rows = {body.id: list(body.instructions) for body in proto.computations}
    opcodes = {number: [row.opcode for row in body] for number, body in rows.items()}
    return effectful_among(rows, opcodes, proto.entry_computation_id)


def effectful_among(
    rows: Mapping[int, Sequence[HloInstructionProto]],
    opcodes: Mapping[int, Sequence[str]],
    entry: int,
) -> frozenset[int]:
    """Like :func:`effectful_computations`, for instructions and opcodes by computation."""
    effectful: set[int] = set()
    callers: dict[int, list[int]] = {}
    for number, body in rows.items():
        if number == entry:
            continue
        names = set(opcodes[number])
        if any(name != "parameter" and always_stays(name) for name in names):
            effectful.add(number)
        calling = callers_among(names)
        if not calling:
            continue
        for opcode, row in zip(opcodes[number], body, strict=True):
            if opcode in calling:
                if has_effect(row, opcode):
                    effectful.add(number)
                for called in row.called_computation_ids:
                    callers.setdefault(called, []).append(number)
    stack = list(effectful)
    while stack:
        for caller in callers.get(stack.pop(), ()):
            if caller not in effectful:
                effectful.add(caller)
                stack.append(caller)
    return frozenset(effectful)


def has_effect_within(view: Instruction, answers: dict[int, bool]) -> bool:
    """Return True if an instruction or its callees have an effect; nothing else is checked.

    Args:
        answers: known answers by the computation's id; new answers are added.
    """
    if has_effect(view.proto):
        return True
    computations = view.module.by_id()
    for first in view.proto.called_computation_ids:
        reached, stack = {first}, [first]
        while stack:
            number = stack.pop()
            body = computations.get(number)
            if body is None or answers.get(number) is False:
                continue
            rows = [inst.proto for inst in body.instructions]
            if answers.get(number) or any(r.opcode != "parameter" and has_effect(r) for r in rows):
                answers[first] = True
                return True
            for called in body.called_ids():
                if called not in reached:
                    reached.add(called)
                    stack.append(called)
        answers.update(dict.fromkeys(reached, False))
    return False


def is_pure(row: HloInstructionProto, effectful: frozenset[int]) -> bool:
    """Return True if its result is its only effect: it can be removed or merged with an equal one."""
    if has_effect(row):
        return False
    return not effectful or effectful.isdisjoint(row.called_computation_ids)
