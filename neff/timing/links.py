"""What a collective asks of the links between devices: steps, each with a latency, and bytes.

Nothing is published about the vendor's algorithms, so rings are assumed: each rank sends to the next
one, and the time is ``steps * latency + bytes / bandwidth``.
"""

from __future__ import annotations

from math import prod

from neff.timing.work import Fixed
from nki_lang.ir import Access, Instruction, is_group

__all__ = ["link_of"]

_ROUNDS = {"all_reduce": 2, "all_gather": 1, "all_gather_v": 1, "reduce_scatter": 1,
           "all_to_all": 1, "all_to_all_v": 1}  # fmt: skip
"""How often data goes around a ring of all ranks; others are one step to one rank."""


def link_of(instruction: Instruction) -> Fixed:
    """The work of a collective on one rank."""
    given = instruction.operands
    sent, made = (_nbytes(given.get(name)) for name in ("srcs", "dsts"))
    if "dsts_by_channel" in given:
        made = _nbytes(given["dsts_by_channel"])
    rounds = _ROUNDS.get(instruction.op, 0)
    if not rounds:
        return Fixed("link.latency_ns", max(sent, made))
    ranks = _largest(given.get("replica_group"))
    steps = rounds * (ranks - 1)
    return Fixed("link.latency_ns", steps * max(sent, made) // ranks, max(1, steps))


def _largest(groups: object) -> int:
    """Ranks of the largest group."""
    if not is_group(groups):
        return 1
    return max((len(group) for group in groups if is_group(group)), default=1) or 1


def _nbytes(operand: object) -> int:
    if type(operand) is Access:
        return prod(count for _, count in operand.pattern) * operand.element_type.itemsize
    return sum(_nbytes(part) for part in operand) if is_group(operand) else 0
