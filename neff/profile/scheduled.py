"""A program in the order of a list scheduler, for a second estimate.

The compiler here keeps the order in which a kernel was written. The vendor's middle end, which kernels of
NKI beta 1 went through, reorders: each engine takes the next instruction that is ready among those
ahead of it (decoded streams show it: the next exponential starts before the copies of this one). The
second estimate has this order. Tiles of different names are different memory, as long as all
of them fit into SBUF and PSUM in the new order; if they do not, tiles keep their addresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from neff.compiler.assembly.assemble import scheduled
from neff.compiler.assembly.regions import FENCES
from neff.errors import NeffError
from neff.profile.advice.rebuild import bodies_of, rebuilt
from neff.profile.advice.reorder import dependencies
from neff.profile.advice.versions import runs_of
from neff.program import KERNEL_LANGUAGE, Program
from neff.timing import Estimate, InstructionCosts, Parameters, Trips, estimate
from nki_lang.ir import Block, ForLoop, Instruction, WhileLoop
from nki_lang.isa.table import COLLECTIVES

__all__ = [
    "ORDERS", "WINDOW_INSTRUCTIONS", "default_order", "estimate_in_order", "in_scheduled_order",
]  # fmt: skip

ORDERS = ("source", "scheduled")
"""The order of the program, and that of a list scheduler."""

WINDOW_INSTRUCTIONS = 32
"""Instructions that an engine looks ahead. Attention kernels on trn1 (beta 1) come out best with 32
of 8, 16, 32 and 64."""

_ORDERED = FENCES | COLLECTIVES | {"sendrecv", "device_print"}
"""Instructions that nothing passes: cores and ranks meet at them."""


def estimate_in_order(
    program: Program,
    order: str,
    *,
    parameters: Parameters,
    statistic: str,
    dma: str,
    trips: Trips,
) -> Estimate:
    """Estimate the time in one of :data:`ORDERS`; other arguments as of ``neff.timing.estimate``.

    Raises:
        NeffError: ``NEFF-ORDER``; there is no such order. Others as of ``estimate``.
    """
    if order not in ORDERS:
        raise NeffError(
            f"{order!r} is no order of instructions",
            code="NEFF-ORDER",
            remedy=f"use one of {', '.join(ORDERS)}",
        )
    if order == "scheduled":
        is_static = (dma or ("static" if parameters.target == "trn1" else "dynamic")) == "static"
        program = in_scheduled_order(program, parameters, is_static=is_static)
    return estimate(program, parameters=parameters, statistic=statistic, dma=dma, trips=trips)


def default_order(program: Program) -> str:
    """Return the order in which a program ran on the device, one of :data:`ORDERS`.

    The vendor's middle end reorders programs with kernels of NKI beta 1.
    """
    return "scheduled" if program.metadata.get(KERNEL_LANGUAGE) == "beta1" else "source"


def in_scheduled_order(
    program: Program, parameters: Parameters, *, is_static: bool = False
) -> Program:
    """Return the program as a list scheduler orders it, for timing only.

    Args:
        program: compiled.
        parameters: costs that the scheduler reckons with.
        is_static: descriptors of transfers whose location is known are ready in memory.
    """
    costs = InstructionCosts(parameters, is_static=is_static)
    bodies = bodies_of(program)
    reordered = rebuilt(program, [_reordered(body, costs, False) for body in bodies])
    if reordered is not None:
        return reordered
    bodies_in_place = [_reordered(body, costs, True) for body in bodies]
    return replace(
        program, subgraphs=[scheduled(body, program.variables) for body in bodies_in_place]
    )


def _reordered(body: Block, costs: InstructionCosts, is_placed: bool) -> Block:
    reordered: Block = []
    for run in runs_of(body):
        if isinstance(run, ForLoop | WhileLoop):
            reordered.append(replace(run, body=_reordered(run.body, costs, is_placed)))
            continue
        segment: list[Instruction] = []
        for instruction in run:
            if instruction.op not in _ORDERED:
                segment.append(instruction)
                continue
            reordered += [*_ListSchedule(segment, costs, is_placed).run(), instruction]
            segment = []
        reordered += _ListSchedule(segment, costs, is_placed).run()
    return reordered


@dataclass(slots=True)
class _Sequencer:
    """One engine while it is scheduled; instructions have their number in the run.

    Attributes:
        numbers: its instructions, in source order.
        head: place of the first instruction that has not started.
        free: when it can start another one.
        candidates: instructions within the window whose operands have a time.
        beyond: the same behind the window.
    """

    numbers: list[int] = field(default_factory=list[int])
    head: int = 0
    free: float = 0.0
    candidates: list[int] = field(default_factory=list[int])
    beyond: list[int] = field(default_factory=list[int])


class _ListSchedule:
    """A straight run of instructions, from the first start on.

    With ``is_placed`` tiles keep their addresses.
    """

    def __init__(self, run: list[Instruction], costs: InstructionCosts, is_placed: bool) -> None:
        self._instructions = run
        self._after: list[list[int]] = [[] for _ in run]
        before = dependencies(run, is_placed=is_placed)
        for number, needed in enumerate(before):
            for neighbor in needed:
                self._after[neighbor].append(number)
        self._missing = [len(needed) for needed in before]
        self._ready = [0.0] * len(run)
        self._costs = [costs.of(instruction)[:2] for instruction in run]
        self._started = [False] * len(run)
        self._engines: dict[str, _Sequencer] = {}
        self._sequencers = [
            self._engines.setdefault(instruction.engine.name, _Sequencer()) for instruction in run
        ]
        for number, sequencer in enumerate(self._sequencers):
            sequencer.numbers.append(number)

    def run(self) -> list[Instruction]:
        """Return the instructions in the order of their starts."""
        for number, count in enumerate(self._missing):
            if not count:
                heappush(self._sequencers[number].beyond, number)
        order: list[Instruction] = []
        for _ in self._instructions:
            start, number = min(
                self._next(sequencer)
                for sequencer in self._engines.values()
                if sequencer.beyond or sequencer.candidates
            )
            order.append(self._instructions[number])
            self._start(start, number, self._sequencers[number])
        return order

    def _next(self, sequencer: _Sequencer) -> tuple[float, int]:
        """Return the earliest start of an engine's instructions, and the instruction."""
        numbers = sequencer.numbers
        while self._started[numbers[sequencer.head]]:
            sequencer.head += 1
        last = numbers[min(sequencer.head + WINDOW_INSTRUCTIONS, len(numbers)) - 1]
        while sequencer.beyond and sequencer.beyond[0] <= last:
            sequencer.candidates.append(heappop(sequencer.beyond))
        free, ready = sequencer.free, self._ready
        if not sequencer.candidates:
            return float("inf"), numbers[sequencer.head]
        return min((max(free, ready[number]), number) for number in sequencer.candidates)

    def _start(self, start: float, number: int, sequencer: _Sequencer) -> None:
        interval, latency = self._costs[number]
        sequencer.candidates.remove(number)
        sequencer.free = start + interval
        self._started[number] = True
        end = start + latency
        for neighbor in self._after[number]:
            self._ready[neighbor] = max(self._ready[neighbor], end)
            self._missing[neighbor] -= 1
            if not self._missing[neighbor]:
                heappush(self._sequencers[neighbor].beyond, neighbor)
