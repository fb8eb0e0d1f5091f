"""A program in the order of a list scheduler, for a second estimate.

The compiler here keeps the order in which a kernel was written. The vendor's middle end, which kernels of
NKI beta 1 went through, reorders: each engine takes the next instruction that is ready among those
ahead of it (decoded streams show it: the next exponential starts before the copies of this one). The
second estimate has this order. Tiles of different names are different memory, as long as all
of them fit into SBUF and PSUM in the new order; if they do not, tiles keep their addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from neff.compiler.assembly.engines import TRANSFERS
from neff.compiler.assembly.regions import FENCES, operands_touched
from neff.compiler.assembly.schedule import SEQUENCERS, Counter, ScheduledRun, append_loop
from neff.errors import NeffError
from neff.profile.advice.rebuild import bodies_of
from neff.profile.advice.versions import runs_of
from neff.profile.hazards import Touched, hazards_of
from neff.profile.list_schedule import WINDOW_INSTRUCTIONS, list_schedule
from neff.profile.tile_pool import Life, reused_bytes, room_of
from neff.program import KERNEL_LANGUAGE, EngineStep, Program, SubGraph
from neff.timing import Estimate, InstructionCosts, Parameters, Trips, estimate
from nki_lang.base.memory import MemoryRegion
from nki_lang.base.targets import Target, target_of
from nki_lang.ir import Access, Block, ForLoop, Instruction, Tensor, WhileLoop
from nki_lang.isa.table import COLLECTIVES

__all__ = [
    "ORDERS", "WINDOW_INSTRUCTIONS", "default_order", "estimate_in_order", "in_scheduled_order",
]  # fmt: skip

ORDERS = ("source", "scheduled")
"""The order of the program, and that of a list scheduler."""

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
    """Return the program as a list scheduler orders it, for timing only: it cannot be run.

    Tiles have the addresses of the source order. Semaphores let a tile wait for those whose bytes it takes in the
    new order.

    Args:
        program: compiled.
        parameters: costs that the scheduler reckons with.
        is_static: descriptors of transfers whose location is known are ready in memory.
    """
    costs = InstructionCosts(parameters, is_static=is_static)
    bodies = bodies_of(program)
    target = target_of(program.target)
    graphs = [_Reordering(body, costs, target).graph() for body in bodies]
    return replace(program, subgraphs=graphs)


class _DoesNotFitError(Exception):
    """Not all tiles fit into memory in the new order."""


class _Reordering:
    """The statements of a core in the order of the list scheduler, as lists of its engines."""

    def __init__(self, body: Block, costs: InstructionCosts, target: Target) -> None:
        self._body, self._costs, self._target = body, costs, target
        self._counter = Counter()
        self._is_placed = False
        self._resident: set[str] = set()
        self._room: dict[MemoryRegion, int] = {}

    def graph(self) -> SubGraph:
        """Order the statements; tiles keep their addresses if they do not fit otherwise."""
        resident = _tensors_of_several_runs(self._body)
        self._resident = set(resident)
        self._room = room_of(self._target, resident.values())
        try:
            lists = self._block(self._body)
        except _DoesNotFitError:
            self._is_placed, self._counter = True, Counter()
            lists = self._block(self._body)
        return SubGraph(dict(zip(SEQUENCERS, lists, strict=True)), self._counter.semaphores)

    def _block(self, body: Block) -> list[list[EngineStep]]:
        lists: list[list[EngineStep]] = [[] for _ in SEQUENCERS]
        for run in runs_of(body):
            if isinstance(run, ForLoop | WhileLoop):
                ident = self._counter.loop()
                append_loop(lists, run, ident, self._block(run.body))
            else:
                self._run(run, lists)
        return lists

    def _run(self, run: list[Instruction], lists: list[list[EngineStep]]) -> None:
        """Append a straight run to the lists."""
        touched_by = [list(operands_touched(instruction)) for instruction in run]
        hazards = hazards_of(touched_by, is_placed=self._is_placed)
        order = self._order(run, hazards)
        positions = [0] * len(run)
        for position, number in enumerate(order):
            positions[number] = position
        if not self._is_placed:
            self._reuse(run, touched_by, order, hazards)
        scheduled = ScheduledRun({}, TRANSFERS)
        for number in order:
            scheduled.follow(run[number], {positions[needed] for needed in hazards[number]})
        scheduled.finish(lists, self._counter)

    def _order(self, run: list[Instruction], hazards: list[set[int]]) -> list[int]:
        """Return the numbers of the instructions in their new order; nothing passes a barrier."""
        edges = [number for number, inst in enumerate(run) if inst.op in _ORDERED]
        if not edges:
            return self._segment(run, hazards, range(len(run)))
        order: list[int] = []
        first = 0
        for edge in edges:
            order += [*self._segment(run, hazards, range(first, edge)), edge]
            first = edge + 1
        return order + self._segment(run, hazards, range(first, len(run)))

    def _segment(
        self, run: list[Instruction], hazards: list[set[int]], numbers: range
    ) -> list[int]:
        first = numbers.start
        within = [
            {needed - first for needed in hazards[number] if needed >= first} for number in numbers
        ]
        engines = [run[number].engine.name for number in numbers]
        costs = [self._costs.of(run[number])[:2] for number in numbers]
        return [first + number for number in list_schedule(engines, within, costs)]

    def _reuse(
        self,
        run: list[Instruction],
        touched_by: list[Touched],
        order: list[int],
        hazards: list[set[int]],
    ) -> None:
        """Let each tile wait for those whose bytes it takes."""
        users: dict[str, dict[tuple[str, bool], int]] = {}
        firsts: dict[str, tuple[Tensor, int]] = {}
        lasts: dict[str, int] = {}
        for position, number in enumerate(order):
            instruction = run[number]
            lane = instruction.engine.name, instruction.op in TRANSFERS
            for operand, _ in touched_by[number]:
                if type(operand) is not Access or not operand.tensor.on_chip:
                    continue
                tensor = operand.tensor
                name = tensor.name
                if name not in firsts:
                    if name in self._resident:
                        continue
                    firsts[name], users[name] = (tensor, position), {}
                lasts[name] = position
                users[name][lane] = number
        lives = [Life(*first, lasts[name]) for name, first in firsts.items()]
        pairs = reused_bytes(lives, self._room, self._target)
        if pairs is None:
            raise _DoesNotFitError
        for life, gone in pairs:
            hazards[order[life.first]].update(users[gone.tensor.name].values())


def _tensors_of_several_runs(body: Block) -> dict[str, Tensor]:
    """Return the tensors on chip that more than one straight run of statements touches."""
    homes: dict[str, int] = {}
    shared: dict[str, Tensor] = {}
    if all(isinstance(statement, Instruction) for statement in body):
        return shared
    for number, run in enumerate(_straight_runs(body)):
        for instruction in run:
            for operand, _ in operands_touched(instruction):
                if type(operand) is Access and operand.tensor.on_chip:
                    tensor = operand.tensor
                    if homes.setdefault(tensor.name, number) != number:
                        shared[tensor.name] = tensor
    return shared


def _straight_runs(body: Block) -> Iterator[list[Instruction]]:
    for run in runs_of(body):
        if isinstance(run, ForLoop | WhileLoop):
            yield from _straight_runs(run.body)
        else:
            yield run
