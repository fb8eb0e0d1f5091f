"""Costs of single instructions, for a compiler that chooses between alternatives."""

from __future__ import annotations

from typing import NamedTuple

from neff.timing.costs import Cost, Pricing
from neff.timing.lowering import works_of
from neff.timing.parameters import Parameters, Side
from neff.timing.transfers import COPIES, lanes_of
from neff.timing.work import Transfer, Work
from nki_lang.ir import Access, Instruction

__all__ = ["InstructionCost", "InstructionCosts"]


class InstructionCost(NamedTuple):
    """The cost of an instruction that runs alone, in nanoseconds.

    Attributes:
        interval: until its engine can start another one.
        latency: until its result arrives; for a transfer, in its destination memory.
        measured_share: share of the latency that comes from measured parameters, 0 to 1.
    """

    interval: float
    latency: float
    measured_share: float


class InstructionCosts:
    """Costs of instructions on the target of ``parameters``.

    The tensor engine is warm, the DMA engines are free. With ``is_static`` the descriptors of
    transfers are made before the program runs; ``side`` selects an end of every range.
    """

    def __init__(
        self, parameters: Parameters, *, is_static: bool = False, side: Side = Side.nominal
    ) -> None:
        self._pricing = Pricing(parameters, side)
        self._is_static = is_static
        self._cached_costs: dict[Work, InstructionCost] = {}
        self._costs_by_form: dict[tuple[object, ...], InstructionCost] = {}

    def of(self, instruction: Instruction) -> InstructionCost:
        """The cost of an instruction that has its engine."""
        form = form_of(instruction)
        try:
            cost = self._costs_by_form.get(form)
        except TypeError:  # an operand without a hash
            return self._sum(instruction)
        if cost is None:
            cost = self._costs_by_form[form] = self._sum(instruction)
        return cost

    def _sum(self, instruction: Instruction) -> InstructionCost:
        """Return the cost of all works of an instruction."""
        costs = [self._cost(work) for work in works_of(instruction, self._is_static)]
        interval = sum(cost.interval for cost in costs)
        latency = interval - costs[-1].interval + costs[-1].latency
        measured_ns = sum(cost.measured_share * cost.latency for cost in costs)
        total = sum(cost.latency for cost in costs) or 1.0
        return InstructionCost(interval, latency, measured_ns / total)

    def _cost(self, work: Work) -> InstructionCost:
        cost = self._cached_costs.get(work)
        if cost is None:
            cost = self._cached_costs[work] = self._alone(work, self._pricing.cost(work))
        return cost

    def _alone(self, work: Work, cost: Cost) -> InstructionCost:
        if type(work) is not Transfer:
            return InstructionCost(cost.interval, cost.latency, cost.measured_share)
        numbers = self._pricing.numbers
        moving = (cost.packets + (cost.extra_packets > 0)) * cost.packet + numbers["dma.stagger_ns"]
        descriptor_ns = cost.interval if cost.by_software else 0.0
        latency = descriptor_ns + cost.latency + moving + numbers["dma.completion_ns"]
        return InstructionCost(cost.interval, latency, cost.measured_share)


def form_of(instruction: Instruction) -> tuple[object, ...]:
    """Return what the cost of an instruction depends on: everything but where its tiles are."""
    op, operands = instruction.op, instruction.operands
    is_copy = op in COPIES
    form: list[object] = [op, id(instruction.engine), *operands]
    for value in operands.values():
        if type(value) is not Access:
            form.append(value)
            continue
        tensor, _, pattern, scalar, vector, _, dtype, _ = value
        form.append((
            # Members of enumerations and types are never freed, and their hashes are slow.
            pattern, id(tensor.buffer), id(dtype or tensor.dtype), scalar is None, vector is None,
            lanes_of(value) if is_copy else None,
        ))  # fmt: skip
    return tuple(form)
