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
from dataclasses import dataclass, field
from operator import add

from neff.timing.costs import LANES, Cost, Pricing
from neff.timing.events import Event, event_of
from neff.timing.work import Compute, Work

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


Item = tuple[int, str, tuple[tuple[int, int], ...], tuple[int, ...], bool, object]
"""One thing that an engine starts; a plain tuple, for a program has millions.

* number of the work in the program's list of works,
* opcode, for the event,
* what it waits for: (semaphore, value),
* semaphores that it signals,
* whether it reads what the engine's item before writes, without a semaphore between,
* the instruction, or its index in a stream.
"""


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
    """What a piece of work takes, by the three; see :class:`~neff.timing.costs.Cost`.

    Of a transfer besides: ``is_even`` when all DMA engines get as many packets, ``spent`` how long
    each is at those that all get, ``moving`` their sum over the engines. Of a computation:
    ``ports`` that it shares with another engine's work, and how long it keeps each.
    """

    kind: type
    interval: Times
    latency: Times
    costs: tuple[Cost, Cost, Cost]
    busy: float
    known: float
    by_software: bool
    to_hbm: bool
    nbytes: int
    is_even: bool
    spent: Times
    moving: float
    ports: tuple[tuple[str, Times], ...]


@dataclass(slots=True)
class Signal:
    """A signal in its place among others: when it comes, None while unknown, and its event."""

    time: Times | None
    event: int


@dataclass(slots=True)
class Semaphore:
    """One semaphore of a block.

    Attributes:
        reached: when (by the three) and event of each signal in the program's order.
        late: signals that were issued and whose time, or a time before, is not known.
        engines, queues: who waits for the next one.
    """

    reached: list[tuple[float, float, float, int]] = field(
        default_factory=list[tuple[float, float, float, int]]
    )
    late: deque[Signal] = field(default_factory=deque[Signal])
    engines: list[str] = field(default_factory=list[str])
    queues: list[Queue] = field(default_factory=lambda: list[Queue]())


@dataclass(slots=True)
class Sent(Signal):
    """A transfer that was issued, and what it will signal.

    Attributes:
        issued: when.
        after: event of its issue, or of its descriptors.
        waits_for: event whose end it waited for in its queue, or -1.
    """

    item: Item
    price: Price
    queue: Queue
    issued: Times
    after: int
    has_descriptors: bool
    waits_for: int = -1


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
    loads: Queue | None = None
    stores: Queue | None = None


Held = tuple[Times, int]
"""Until when a port is kept, and by which event."""

Prices = tuple[Pricing, Pricing, Pricing]


class Machine:
    """One core, from time zero on."""

    def __init__(self, works: list[Work], pricings: Prices, core: int = 0) -> None:
        numbers = [pricing.numbers for pricing in pricings]
        self._numbers = numbers
        shared = _shared_ports(works)
        self.prices = [_price(work, pricings, shared) for work in works]
        self.ports: dict[str, Held] = {}
        self.core = core
        self.events: list[Event] = []
        self.turns = 1
        self.end: Times = (0.0, 0.0, 0.0)
        self.last = -1
        self.engines: dict[str, EngineState] = {}
        self.queues: list[Queue] = []
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
        row = (self.core, lane, item[1], start, end[0], after, waits_for, since, nbytes,
               self.turns, known, item[5])  # fmt: skip
        events.append(event_of(Event, row))
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
        state = self.engines[engine]
        found = state.stores if is_store else state.loads
        if found is None:
            found = Queue(engine, f"dma.{engine}.{'out' if is_store else 'in'}")
            self.queues.append(found)
            if is_store:
                state.stores = found
            else:
                state.loads = found
        return found

    def move(self, arrival: Times, price: Price) -> tuple[float, Times, float]:
        """Give a transfer's packets to the DMA engines.

        Returns:
            When the first one starts, when the last one with data has arrived, and when the
            DMA engines have written that they are done.
        """
        one, two, three = self.dma
        self.dma_ns += price.moving * self.turns
        begin, fast, slow = arrival
        if price.is_even and one.lanes is None and two.lanes is None and three.lanes is None:
            spent, fast_spent, slow_spent = price.spent
            if one.level > begin:
                begin = one.level
            last = begin + spent
            one.level = last + one.report
            last = last + one.spread + one.overlap
            fast = (two.level if two.level > fast else fast) + fast_spent
            two.level = fast + two.report
            slow = (three.level if three.level > slow else slow) + slow_spent
            three.level = slow + three.report
            ends = last, fast + two.spread + two.overlap, slow + three.spread + three.overlap
            return begin, ends, last + one.report
        cost, fast_cost, slow_cost = price.costs
        first, last = one.move(begin, cost)
        _, fast_last = two.move(fast, fast_cost)
        _, slow_last = three.move(slow, slow_cost)
        return first, (last, fast_last, slow_last), last + one.report

    def load(self, start: Times, price: Price) -> Times:
        """Load weights; when they have arrived."""
        one, two, three = self.tensor
        cost, fast, slow = price.costs
        return one.load(start[0], cost), two.load(start[1], fast), three.load(start[2], slow)

    def multiply(self, start: Times, price: Price) -> tuple[Times, Times]:
        """Send columns: when the instruction starts, and when its result is there."""
        one, two, three = self.tensor
        cost, fast, slow = price.costs
        begin, end = one.multiply(start[0], cost)
        fast_begin, fast_end = two.multiply(start[1], fast)
        slow_begin, slow_end = three.multiply(start[2], slow)
        return (begin, fast_begin, slow_begin), (end, fast_end, slow_end)

    def free(self, ports: tuple[tuple[str, Times], ...]) -> tuple[Times, int]:
        """When nobody keeps any of these ports any more; the event that keeps the last one."""
        time, event = (0.0, 0.0, 0.0), -1
        for port, _ in ports:
            held = self.ports.get(port)
            if held is not None:
                event = held[1] if held[0][0] > time[0] else event
                time = latest(time, held[0])
        return time, event

    def hold(self, ports: tuple[tuple[str, Times], ...], start: Times, event: int) -> None:
        """An event keeps ports from its start on."""
        for port, times in ports:
            self.ports[port] = added(start, times), event

    def skip(self, spent: Times) -> None:
        """Let time pass in which everything goes on as in the iteration before."""
        self.end = added(self.end, spent)
        for tensor, nanoseconds in zip(self.tensor, spent, strict=True):
            tensor.skip(nanoseconds)


def _shared_ports(works: list[Work]) -> set[str]:
    """Memories, and banks of them, that the work of more than one engine uses."""
    users: dict[str, set[str]] = {}
    for work in works:
        if isinstance(work, Compute):
            for memory in work.memories:
                users.setdefault(memory, set()).add(work.engine)
    return {memory for memory, engines in users.items() if len(engines) > 1}


def _price(work: Work, pricings: Prices, shared: set[str]) -> Price:
    one, two, three = (pricing.cost(work) for pricing in pricings)
    fast, slow = dict(two.ports), dict(three.ports)
    held = [(port, (spent, fast.get(port, 0.0), slow.get(port, 0.0))) for port, spent in one.ports]
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
        not (one.more or two.more or three.more),
        (one.packets * one.packet, two.packets * two.packet, three.packets * three.packet),
        one.moving,
        tuple((port, times) for port, times in held if port in shared),
    )


class DmaEngines:
    """When each of the DMA engines is free; they start one after the other.

    As long as every transfer uses all of them alike, ``level`` is when the first one is free
    and the others follow by their stagger; ``lanes`` is only there when they differ, and
    ``highest`` is then the last of them.
    """

    __slots__ = (
        "highest", "lanes", "level", "next", "overlap", "report", "spread", "stagger",
    )  # fmt: skip

    def __init__(self, p: dict[str, float]) -> None:
        self.spread = p["dma.stagger_ns"]
        self.stagger = [self.spread * lane / (LANES - 1) for lane in range(LANES)]
        self.level = self.highest = 0.0
        self.lanes: list[float] | None = None
        self.next = 0
        self.overlap = p["dma.packet_overlap_ns"]
        self.report = p["dma.completion_packet_ns"]

    def move(self, arrival: float, cost: Cost) -> tuple[float, float]:
        """Give a transfer's packets to the engines: first start, end of the last with data.

        Behind its data each engine writes that it is done.
        """
        if self.lanes is not None and self.highest <= arrival:
            self.level, self.lanes = arrival, None
        if cost.more or self.lanes is not None:
            if self.lanes is None:
                self.lanes = [self.level + later for later in self.stagger]
                self.highest = max(self.lanes)
            first, last = self._all(arrival, cost) if cost.packets else self._some(arrival, cost)
            self.next = (self.next + cost.more) % LANES
            return first, last + self.overlap
        begin = max(arrival, self.level)
        end = begin + cost.packets * cost.packet
        self.level = end + self.report
        return begin, end + self.spread + self.overlap

    def _all(self, arrival: float, cost: Cost) -> tuple[float, float]:
        """Each engine by itself; those with one packet more take turns."""
        least = cost.packets * cost.packet
        spent = [least] * LANES
        for place in range(self.next, self.next + cost.more):
            spent[place % LANES] = (cost.packets + 1) * cost.packet
        arrivals = [arrival + later for later in self.stagger]
        starts = list(map(max, self.lanes or (), arrivals))
        ends = list(map(add, starts, spent))
        self.lanes = [end + self.report for end in ends]
        last = max(ends)
        self.highest = last + self.report
        return min(starts), last

    def _some(self, arrival: float, cost: Cost) -> tuple[float, float]:
        """One packet for some of the engines, which take turns."""
        lanes = self.lanes or []
        first, last = float("inf"), arrival
        for place in range(cost.more):
            lane = (self.next + place) % LANES
            start = max(lanes[lane], arrival + self.stagger[place])
            end = start + cost.packet
            lanes[lane] = free = end + self.report
            first, last = min(first, start), max(last, end)
            self.highest = max(self.highest, free)
        return min(first, last), last


class Tensor:
    """State of the tensor engine: columns under way, weights, and its clock."""

    __slots__ = ("cooling", "free", "pause", "since", "warm", "warm_up", "weights")

    def __init__(self, p: dict[str, float]) -> None:
        self.warm_up, self.cooling = p["tensor.warm_up_ns"], p["tensor.cooling_ns"]
        self.pause = p["tensor.pause_ns"]
        self.free = self.weights = 0.0
        self.since = -1.0
        self.warm = False

    def load(self, start: float, cost: Cost) -> float:
        """Load weights; when they have arrived."""
        warm = self.warm and start - self.free <= self.cooling
        self.weights = start + (cost.exposed if warm else cost.cold_exposed)
        return start + (cost.latency if warm else cost.cold_latency)

    def multiply(self, start: float, cost: Cost) -> tuple[float, float]:
        """Send columns: when the instruction starts, and when its result is there."""
        if self.free > start:
            start = self.free
        begin = self.weights if self.weights > start else start
        idle = begin - self.free
        if self.since < 0 or idle > (self.cooling if self.warm else self.pause):
            self.since, self.warm = begin, False
        elif not self.warm and begin - self.since >= self.warm_up:
            self.warm = True
        if self.warm:
            self.free = begin + cost.interval
            return start, begin + cost.latency
        self.free = begin + cost.cold_interval
        return start, begin + cost.cold_latency

    def skip(self, nanoseconds: float) -> None:
        """Time in which the engine goes on as it did."""
        self.free += nanoseconds
        self.since += nanoseconds if self.since >= 0 else 0.0
