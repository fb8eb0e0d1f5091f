"""The work of a collective on the links between devices: steps with a latency, and bytes.

Rings are assumed: each rank sends to the next one, and the time is ``steps * latency + bytes /
bandwidth``. A ring with more ranks than a node has waits in each step for the hop between nodes
(docs ``intranode-collective-comm``, ``internode``).
"""

from __future__ import annotations

from math import prod

from neff.timing.work import Fixed
from nki_lang.ir import Access, Instruction, is_group

__all__ = ["link_of"]

_RING_ROUNDS = {"all_reduce": 2, "all_gather": 1, "all_gather_v": 1, "reduce_scatter": 1,
           "all_to_all": 1, "all_to_all_v": 1}  # fmt: skip
"""How often data goes around a ring of all ranks; any other collective is one step to one rank."""


def link_of(instruction: Instruction) -> Fixed:
    """Return the work of a collective on one rank."""
    operands = instruction.operands
    sent, received = (_nbytes(operands.get(name)) for name in ("srcs", "dsts"))
    if "dsts_by_channel" in operands:
        received = _nbytes(operands["dsts_by_channel"])
    rounds = _RING_ROUNDS.get(instruction.op, 0)
    if not rounds:
        return Fixed("link.latency_ns", max(sent, received))
    ranks = _largest(operands.get("replica_group"))
    steps = rounds * (ranks - 1)
    return Fixed("link.latency_ns", steps * max(sent, received) // ranks, max(1, steps), ranks)


def _largest(groups: object) -> int:
    """Return the number of ranks in the largest group."""
    if not is_group(groups):
        return 1
    return max((len(group) for group in groups if is_group(group)), default=1) or 1


def _nbytes(operand: object) -> int:
    if type(operand) is Access:
        return prod(count for _, count in operand.pattern) * operand.element_type.itemsize
    return sum(_nbytes(element) for element in operand) if is_group(operand) else 0
