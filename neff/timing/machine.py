"""The engines, queues and DMA engines of one core over simulated time.

An engine starts its items in order: as soon as the item before has left it (its interval) and
what it waits for is there (a latency and a semaphore later). A transfer is issued by its engine
and then waits in a queue of that engine, loads and stores apart; one that still waits holds up
only its own queue. Transfers whose first packet can move go to the sixteen DMA engines in the
order of that time; each takes its packets one after the other.

Engines only meet through semaphores, so each is simulated as far as it can go before the next
transfer is served: the result does not depend on which engine is taken first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from neff.timing.costs import LANES, Cost, Pricing
from neff.timing.events import Event
from neff.timing.work import Work

__all__ = [
    "DmaEngines",
    "EngineState",
    "Item",
    "Loop",
    "Machine",
    "Price",
    "Prices",
    "Queue",
    "Semaphore",
    "Sent",
    "Signal",
    "Steps",
    "Tensor",
    "Times",
    "added",
    "latest",
]  # fmt: skip


@dataclass(slots=True)
class Item:
    """One thing that an engine starts.

    Attributes:
        work: number of the work in the program's list of works.
        opcode: for the event.
        waits: (semaphore, value).
        signals: semaphores.
        follows: it reads what the engine's item before writes, without a semaphore between.
        source: the instruction, or its index in a stream.
    """

    work: int
    opcode: str
    waits: tuple[tuple[int, int], ...] = ()
    signals: tuple[int, ...] = ()
    follows: bool = False
    source: object = None


@dataclass(slots=True)
class Loop:
    """A loop that all engines run together; ``turns`` times, a mean where those differ."""

    ident: int
    turns: float
    body: list[Item | Loop]


Steps = dict[str, list["Item | Loop"]]
"""Engine name -> what it starts, in order."""


Times = tuple[float, float, float]
"""Nanoseconds by the parameters' values, by their fast ends, by their slow ends."""


def latest(left: Times, right: Times) -> Times:
    """The later of two, each of the three for itself."""
    one, two, three = left
    first, second, third = right
    return (
        one if one > first else first,
        two if two > second else second,
        three if three > third else third,
    )


def added(left: Times, right: Times) -> Times:
    """The sum, each of the three for itself."""
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


@dataclass(slots=True)
class Price:
    """What a piece of work takes, by the three; see :class:`~neff.timing.costs.Cost`."""

    kind: type
    interval: Times
    latency: Times
    costs: tuple[Cost, Cost, Cost]
    busy: float
    known: float
    by_software: bool
    to_hbm: bool
    nbytes: int


@dataclass(slots=True)
class Signal:
    """A signal in its place among others: when it comes, None while unknown, and its event."""

    time: Times | None = None
    event: int = -1


@dataclass(slots=True)
class Semaphore:
    """One semaphore of a block.

    Attributes:
        reached: (when, event) of each signal in the program's order.
        late: signals that were issued and whose time, or a time before, is not known.
        engines, queues: who waits for the next one.
    """

    reached: list[tuple[Times, int]] = field(default_factory=list[tuple[Times, int]])
    late: deque[Signal] = field(default_factory=deque[Signal])
    engines: list[str] = field(default_factory=list[str])
    queues: list[Queue] = field(default_factory=lambda: list[Queue]())


@dataclass(slots=True)
class Sent:
    """A transfer that was issued.

    Attributes:
        issued: when.
        after: event of its issue, or of its descriptors.
        waits_for: event whose end it waited for in its queue, or -1.
        signals: those of its item, in order.
    """

    item: Item
    price: Price
    queue: Queue
    issued: Times
    after: int
    has_descriptors: bool
    waits_for: int = -1
    signals: list[Signal] = field(default_factory=list[Signal])


@dataclass(slots=True)
class Queue:
    """Transfers of one engine in one direction that wait; the first holds up the others."""

    engine: str
    name: str
    waiting: deque[Sent] = field(default_factory=deque[Sent])
    last: Times = (0.0, 0.0, 0.0)


@dataclass(slots=True)
class EngineState:
    """An engine: when it may start the next item, its last event, and when that one is done."""

    ready: Times = (0.0, 0.0, 0.0)
    before: int = -1
    done: Times = (0.0, 0.0, 0.0)


_make: Callable[[type[Event], tuple[Any, ...]], Event] = tuple.__new__  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
"""Half the time of ``Event(...)``, which is called a million times."""

Prices = tuple[Pricing, Pricing, Pricing]


class Machine:
    """One core, from time zero on."""

    def __init__(self, works: list[Work], pricings: Prices, core: int = 0) -> None:
        numbers = [pricing.numbers for pricing in pricings]
        self._numbers = numbers
        self.prices = [_price(work, pricings) for work in works]
        self.core = core
        self.events: list[Event] = []
        self.turns = 1
        self.end: Times = (0.0, 0.0, 0.0)
        self.last = -1
        self.engines: dict[str, EngineState] = {}
        self.queues: dict[tuple[str, bool], Queue] = {}
        self.dma = [DmaEngines(p) for p in numbers]
        self.dma_ns = 0.0
        self.tensor = [Tensor(p) for p in numbers]
        self.descriptors = self._times("dma.software_first_ns")
        self.completion = self._times("dma.completion_ns")
        self.semaphore = self._times("semaphore.compute_ns")
        self.to_tensor = self._times("semaphore.tensor_ns")
        self.dispatch = self._times("tensor.dispatch_ns")
        self.loop_ns = self._times("control.loop_ns")

    def _times(self, parameter: str) -> Times:
        one, two, three = (p[parameter] for p in self._numbers)
        return one, two, three

    def record(
        self, lane: str, item: Item, start: float, end: Times, after: int, waits_for: int,
        since: float, known: float, nbytes: int = 0,
    ) -> int:  # fmt: skip
        """Add an event; its index."""
        events, index = self.events, len(self.events)
        row = (self.core, lane, item.opcode, start, end[0], after, waits_for, since, nbytes,
               self.turns, known, item.source)  # fmt: skip
        events.append(_make(Event, row))
        self.reach(end, index)
        return index

    def reach(self, end: Times, event: int) -> None:
        """The body lasts at least until then, because of that event."""
        now = self.end
        if end[0] > now[0]:
            self.last = event
        if end[0] > now[0] or end[1] > now[1] or end[2] > now[2]:
            self.end = latest(end, now)

    def queue(self, engine: str, is_store: bool) -> Queue:
        """The queue of an engine's loads, or stores."""
        key = (engine, is_store)
        if key not in self.queues:
            self.queues[key] = Queue(engine, f"dma.{engine}.{'out' if is_store else 'in'}")
        return self.queues[key]

    def move(self, arrival: Times, price: Price) -> tuple[float, Times, float]:
        """Give a transfer's packets to the DMA engines.

        Returns:
            When the first one starts, when the last one with data has arrived, and when the
            DMA engines have written that they are done.
        """
        one, two, three = self.dma
        cost, fast, slow = price.costs
        first, last = one.move(arrival[0], cost)
        _, fast_last = two.move(arrival[1], fast)
        _, slow_last = three.move(arrival[2], slow)
        self.dma_ns += cost.moving * self.turns
        return first, (last, fast_last, slow_last), last + one.report

    def load(self, start: Times, price: Price) -> Times:
        """Load weights; when they have arrived."""
        (one, two, three), (cost, fast, slow) = self.tensor, price.costs
        return one.load(start[0], cost), two.load(start[1], fast), three.load(start[2], slow)

    def multiply(self, start: Times, price: Price) -> tuple[Times, Times]:
        """Send columns: when the instruction starts, and when its result is there."""
        (one, two, three), (cost, fast, slow) = self.tensor, price.costs
        begin, end = one.multiply(start[0], cost)
        fast_begin, fast_end = two.multiply(start[1], fast)
        slow_begin, slow_end = three.multiply(start[2], slow)
        return (begin, fast_begin, slow_begin), (end, fast_end, slow_end)

    def skip(self, spent: Times) -> None:
        """Let time pass in which everything goes on as in the iteration before."""
        self.end = added(self.end, spent)
        for tensor, nanoseconds in zip(self.tensor, spent, strict=True):
            tensor.skip(nanoseconds)


def _price(work: Work, pricings: Prices) -> Price:
    one, two, three = (pricing.cost(work) for pricing in pricings)
    return Price(
        type(work),
        (one.interval, two.interval, three.interval),
        (one.latency, two.latency, three.latency),
        (one, two, three),
        one.busy,
        one.known,
        one.by_software,
        one.to_hbm,
        one.nbytes,
    )


class DmaEngines:
    """When each of the DMA engines is free; they start one after the other.

    As long as every transfer uses all of them alike, ``level`` is when the first one is free
    and the others follow by their stagger; ``lanes`` is only there when they differ.
    """

    __slots__ = (
        "lanes", "level", "next", "overlap", "report", "spread", "stagger",
    )  # fmt: skip

    def __init__(self, p: dict[str, float]) -> None:
        self.spread = p["dma.stagger_ns"]
        self.stagger = [self.spread * lane / (LANES - 1) for lane in range(LANES)]
        self.level = 0.0
        self.lanes: list[float] | None = None
        self.next = 0
        self.overlap = p["dma.packet_overlap_ns"]
        self.report = p["dma.completion_packet_ns"]

    def move(self, arrival: float, cost: Cost) -> tuple[float, float]:
        """Give a transfer's packets to the engines: first start, end of the last with data.

        Behind its data each engine writes that it is done.
        """
        if self.lanes is not None and max(self.lanes) <= arrival:
            self.level, self.lanes = arrival, None
        if cost.more or self.lanes is not None:
            return self._apart(arrival, cost)
        begin = max(arrival, self.level)
        end = begin + cost.packets * cost.packet
        self.level = end + self.report
        return begin, end + self.spread + self.overlap

    def _apart(self, arrival: float, cost: Cost) -> tuple[float, float]:
        """Each engine by itself; those with one packet more take turns."""
        if self.lanes is None:
            self.lanes = [self.level + later for later in self.stagger]
        lanes, packet, stagger = self.lanes, cost.packet, self.stagger
        used = LANES if cost.packets else cost.more
        first, last = float("inf"), arrival
        for place in range(used):
            lane = (self.next + place) % LANES
            start = max(lanes[lane], arrival + stagger[lane if used == LANES else place])
            end = start + (cost.packets + (place < cost.more)) * packet
            lanes[lane] = end + self.report
            first, last = min(first, start), max(last, end)
        self.next = (self.next + cost.more) % LANES
        return min(first, last), last + self.overlap


class Tensor:
    """State of the tensor engine: columns under way, weights, and its clock."""

    __slots__ = ("cooling", "free", "pause", "since", "warm", "warm_up", "weights")

    def __init__(self, p: dict[str, float]) -> None:
        self.warm_up, self.cooling = p["tensor.warm_up_ns"], p["tensor.cooling_ns"]
        self.pause = p["tensor.pause_ns"]
        self.free = self.weights = 0.0
        self.since = -1.0
        self.warm = False

    def is_warm(self, now: float) -> bool:
        """Whether columns that start now move at the full rate."""
        idle = now - self.free
        if self.since < 0 or idle > (self.cooling if self.warm else self.pause):
            self.since, self.warm = now, False
        elif not self.warm and now - self.since >= self.warm_up:
            self.warm = True
        return self.warm

    def load(self, start: float, cost: Cost) -> float:
        """Load weights; when they have arrived."""
        warm = self.warm and start - self.free <= self.cooling
        self.weights = start + (cost.exposed if warm else cost.cold_exposed)
        return start + (cost.latency if warm else cost.cold_latency)

    def multiply(self, start: float, cost: Cost) -> tuple[float, float]:
        """Send columns: when the instruction starts, and when its result is there."""
        start = max(start, self.free)
        begin = max(start, self.weights)
        warm = self.is_warm(begin)
        self.free = begin + (cost.interval if warm else cost.cold_interval)
        return start, begin + (cost.latency if warm else cost.cold_latency)

    def skip(self, nanoseconds: float) -> None:
        """Time in which the engine goes on as it did."""
        self.free += nanoseconds
        self.since += nanoseconds if self.since >= 0 else 0.0
