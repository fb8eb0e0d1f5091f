"""Lower bounds of the time of each instruction on a target, and the bounding resource.

An instruction runs by itself here: it reads its operands from device memory and writes its result
there, and each engine works at its peak rate. The sum is therefore a bound for a program whose
instructions are not fused any further.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hlo_tools._gc import no_collection
from hlo_tools.ir.instruction import Instruction
from hlo_tools.ir.module import KERNEL_TARGET, Module
from hlo_tools.ir.overview import ModuleOutline
from hlo_tools.outline import Body, shape_of
from hlo_tools.stats.counting import APPLIED_OR_COMPARED, Counting, kernel_of
from hlo_tools.stats.flops import APPLIED
from hlo_tools.stats.peaks import PEAKS, Peaks
from hlo_tools.stats.places import Places
from hlo_tools.stats.statistics import known_trips

__all__ = ["Group", "Roofline", "Work", "roofline"]

_PRODUCTS = frozenset({"convolution", "dot"})
_CONTROL = frozenset({"call", "conditional", "while"})
_MAX_COUNT = 10**300
"""Damaged modules claim more than floats can represent, so counts are cut here."""

Products = dict[int, int]
"""FLOPs of products by the size of an element in bits."""


@dataclass(frozen=True, slots=True)
class Work:
    """The work of an instruction in all its runs.

    Attributes:
        runs: how often it runs.
        flops: operations on elements, those of products among them (``products``: FLOPs of ``dot``,
            ``convolution`` and kernels).
        seconds: the least time of each resource: ``memory``, ``tensor``, ``vector``, ``scalar``.
        source: ``file:line`` of the user's program, or "".
        scope: the operation's name in the framework, without its last part.
    """

    instruction: str
    computation: str
    opcode: str
    runs: int
    flops: int
    products: int
    transcendentals: int
    bytes: int
    seconds: dict[str, float]
    source: str
    scope: str

    @property
    def time(self) -> float:
        """Seconds at least."""
        return max(self.seconds.values())

    @property
    def bound(self) -> str:
        """The resource that needs this time."""
        return max(self.seconds, key=lambda name: self.seconds[name])

    @property
    def intensity(self) -> float:
        """FLOPs a byte."""
        return self.flops / self.bytes if self.bytes else 0.0


@dataclass(slots=True)
class Group:
    """Instructions of one source line or scope, added up."""

    name: str
    instructions: int = 0
    flops: int = 0
    bytes: int = 0
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class Roofline:
    """A module on one core of a target.

    Attributes:
        work: every instruction that costs something, the most time first.
        unknown_loops: loops of unknown length, counted as one iteration.
    """

    peaks: Peaks
    work: tuple[Work, ...]
    unknown_loops: int

    @property
    def time(self) -> float:
        """Seconds at least, of all instructions one after the other."""
        return sum(work.time for work in self.work)

    def by_bound(self) -> dict[str, float]:
        """Seconds of the instructions that each resource bounds, the most first."""
        seconds: dict[str, float] = {}
        for work in self.work:
            seconds[work.bound] = seconds.get(work.bound, 0.0) + work.time
        return dict(sorted(seconds.items(), key=lambda item: -item[1]))

    def by_source(self) -> list[Group]:
        """Sums by source line, the most time first."""
        return _groups((work.source, work) for work in self.work)

    def by_scope(self) -> list[Group]:
        """Sums by scope, the most time first."""
        return _groups((work.scope, work) for work in self.work)


def roofline(module: Module, target: str, *, root: Path | None = None) -> Roofline:
    """Return the roofline (minimum time) of a module on one core of a target.

    Args:
        target: ``trn1``, ``trn2`` or ``trn3``.
        root: folder that relative paths of kernel files start from; the module's by default.

    Raises:
        HloFileError: the module refers to what it does not have (HLO-REFERENCE).
    """
    with no_collection():
        outline = ModuleOutline.of(module)
        counting = Counting(outline, known_trips(module), root or module.folder)
        works = _Rows(module, counting, PEAKS[target]).work()
        ordered = sorted(works, key=lambda work: (-work.time, work.computation, work.instruction))
        return Roofline(PEAKS[target], tuple(ordered), counting.unknown_loops)


class _Rows:
    """The instructions of a module with their rows in its overview."""

    def __init__(self, module: Module, counting: Counting, peaks: Peaks) -> None:
        self.module = module
        self.counting = counting
        self.peaks = peaks
        self.places = Places(module)
        self.runs = counting.runs
        self.calls = {call.row: call for calls in counting.calls.values() for call in calls}
        self.products: dict[int, Products] = {}

    def work(self) -> Iterator[Work]:
        for number in self._entered():
            body, runs = self.counting.bodies[number], self.runs[number]
            if not runs:
                continue
            views = self.module.computation_by_id(number).instructions
            for row, view in zip(range(body.first, body.last), views, strict=True):
                work = self._work(row, view, runs)
                if work is not None:
                    yield work

    def _entered(self) -> list[int]:
        """Computations whose instructions run by themselves, not fused or applied to elements."""
        entered = {self.counting.outline.entry.id}
        for calls in self.counting.calls.values():
            for call in calls:
                if call.opcode != "fusion" and call.opcode not in APPLIED_OR_COMPARED:
                    entered.update(call.numbers)
        return [number for number in self.counting.bodies if number in entered]

    def _work(self, row: int, view: Instruction, runs: int) -> Work | None:
        group = int(self.counting.groups.of[row])
        flops, transcendentals, moved = self.counting.own[group]
        products = self._products_of(row, group)
        call = self.calls.get(row)
        if call is not None and call.opcode not in _CONTROL:
            costs = [self.counting.costs[number] for number in call.numbers]
            times = [1] * len(costs)
            if call.opcode in APPLIED:
                times = list(self.counting.times_of(group))
            elif call.opcode != "fusion":
                times = [0] * len(costs)
            flops += sum(cost[0] * n for cost, n in zip(costs, times, strict=False))
            transcendentals += sum(cost[1] * n for cost, n in zip(costs, times, strict=False))
        if view.custom_call_target == KERNEL_TARGET:
            flops += sum(products.values())
        if not (flops or transcendentals or moved):
            return None
        flops, transcendentals, moved = (
            min(count, _MAX_COUNT) for count in (flops, transcendentals, moved)
        )
        products = {bits: min(count, _MAX_COUNT) for bits, count in products.items()}
        runs = min(runs, _MAX_COUNT)
        product_flops = sum(products.values())
        seconds = {
            "memory": moved / self.peaks.bandwidth,
            "tensor": sum(n / self.peaks.of_product(bits) for bits, n in products.items()),
            "vector": (flops - product_flops) / self.peaks.vector,
            "scalar": transcendentals / self.peaks.scalar,
        }
        return Work(
            view.name, view.computation.name, view.opcode, runs, flops * runs, product_flops * runs,
            transcendentals * runs, moved * runs, {k: v * runs for k, v in seconds.items()},
            self.places.source(view), self.places.scope(view),
        )  # fmt: skip

    # Products

    def _products_of(self, row: int, group: int) -> Products:
        """FLOPs of products of an instruction, those in what it fuses included."""
        opcode = self.counting.group_opcodes[group]
        if opcode in _PRODUCTS:
            return {self._bits(group): self.counting.own[group].flops}
        call = self.calls.get(row)
        if opcode == "fusion" and call is not None:
            return self._products_in(call.numbers[0])
        if opcode == "custom-call":
            return self._products_of_kernel(row, group)
        return {}

    def _products_in(self, number: int) -> Products:
        products = self.products.get(number)
        if products is None:
            products = self.products[number] = {}  # a fusion that calls itself ends here
            body: Body = self.counting.bodies[number]
            for row in range(body.first, body.last):
                inner = self._products_of(row, int(self.counting.groups.of[row]))
                for bits, flops in inner.items():
                    products[bits] = products.get(bits, 0) + flops
        return products

    def _products_of_kernel(self, row: int, group: int) -> Products:
        views = self.counting.outline.part([row]).find_custom_calls()
        if not views or views[0].custom_call_target != KERNEL_TARGET:
            return {}
        macs = kernel_of(views[0], self.counting.root)[2]
        return {self._bits(group): 2 * macs} if macs else {}

    def _bits(self, group: int) -> int:
        """The size of an element of the first operand."""
        operands = self.counting.groups.operands[group]
        return shape_of(operands[0]).element.bits if operands else 32


def _groups(pairs: Iterable[tuple[str, Work]]) -> list[Group]:
    groups: dict[str, Group] = {}
    for name, work in pairs:
        group = groups.setdefault(name, Group(name))
        group.instructions += 1
        group.flops += work.flops
        group.bytes += work.bytes
        group.time += work.time
    return sorted(groups.values(), key=lambda group: (-group.time, group.name))
