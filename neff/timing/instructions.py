"""Costs of single instructions, for a compiler that chooses between several."""

from __future__ import annotations

from typing import NamedTuple

from neff.timing.costs import Cost, Pricing
from neff.timing.lowering import works_of
from neff.timing.parameters import Parameters, Side
from neff.timing.work import Transfer, Work
from nki_lang.ir import Instruction

__all__ = ["InstructionCost", "InstructionCosts"]


class InstructionCost(NamedTuple):
    """What an instruction takes alone, in nanoseconds.

    Attributes:
        interval: until its engine can start another one.
        latency: until its result is there; of a transfer, in the memory that it goes to.
        known: share of the latency that comes from measured parameters, 0 to 1.
    """

    interval: float
    latency: float
    known: float


class InstructionCosts:
    """Costs of instructions on the target of ``parameters``.

    The tensor engine is warm, the DMA engines are free; ``is_static`` takes transfers' descriptors
    as made before the program runs, ``side`` the fastest or slowest end of every range.
    """

    def __init__(
        self, parameters: Parameters, *, is_static: bool = False, side: Side = Side.nominal
    ) -> None:
        self._pricing = Pricing(parameters, side)
        self._is_static = is_static
        self._known: dict[Work, InstructionCost] = {}

    def of(self, instruction: Instruction) -> InstructionCost:
        """The cost of an instruction that has its engine."""
        costs = [self._cost(work) for work in works_of(instruction, self._is_static)]
        interval = sum(cost.interval for cost in costs)
        latency = interval - costs[-1].interval + costs[-1].latency
        known = sum(cost.known * cost.latency for cost in costs)
        total = sum(cost.latency for cost in costs) or 1.0
        return InstructionCost(interval, latency, known / total)

    def _cost(self, work: Work) -> InstructionCost:
        found = self._known.get(work)
        if found is None:
            found = self._known[work] = self._alone(work, self._pricing.cost(work))
        return found

    def _alone(self, work: Work, cost: Cost) -> InstructionCost:
        if type(work) is not Transfer:
            return InstructionCost(cost.interval, cost.latency, cost.known)
        numbers = self._pricing.numbers
        moving = (cost.packets + (cost.more > 0)) * cost.packet + numbers["dma.stagger_ns"]
        made = cost.interval if cost.by_software else 0.0
        latency = made + cost.latency + moving + numbers["dma.completion_ns"]
        return InstructionCost(cost.interval, latency, cost.known)
