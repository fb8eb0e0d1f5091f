"""The engines, queues and DMA engines of one core over simulated time.

An engine starts its items in order: as soon as the previous item has left it (its interval) and
the results that it waits for have arrived (a latency and a semaphore later). A transfer is issued by its engine
and then waits in a queue of that engine until the results that it needs have arrived. An engine has
several queues: a waiting transfer blocks no other one. Transfers whose first packet can move go to the
sixteen DMA engines in the order of that time; each takes its packets one after the other.

Engines only meet through semaphores, so each is simulated until it blocks before the next
transfer is served: the result does not depend on which engine is taken first.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from operator import add
from typing import NamedTuple

from neff.timing.costs import Cost, Pricing
from neff.timing.events import Event, event_of
from neff.timing.work import LANES, Compute, Work

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


class Item(NamedTuple):
    """One item that an engine starts; a tuple, because a program has millions of them.

    Attributes:
        work: its number in the program's list of works.
        opcode: for the event.
        waits: semaphores that it waits for, each with its value.
        signals: semaphores that it signals.
        follows: it reads the result of the engine's previous item, without a semaphore between.
        source: the instruction, or its index in a stream.
    """

    work: int
    opcode: str
    waits: tuple[tuple[int, int], ...]
    signals: tuple[int, ...]
    follows: bool
    source: object


@dataclass(slots=True)
class Loop:
    """A loop that all engines run together; ``turns`` iterations, a mean where runs differ."""

    ident: int
    turns: float
    body: list[Item | Loop]


Steps = dict[str, list["Item | Loop"]]
"""Engine name -> its items, in order."""


Times = tuple[float, float, float]
"""Nanoseconds by the nominal parameters, their fast ends and their slow ends; a tuple for speed."""


def latest(left: Times, right: Times) -> Times:
    """Return the later of two times, for each side separately."""
    nominal, fast, slow = left
    right_nominal, right_fast, right_slow = right
    return (
        nominal if nominal > right_nominal else right_nominal,
        fast if fast > right_fast else right_fast,
        slow if slow > right_slow else right_slow,
    )


def added(left: Times, right: Times) -> Times:
    """Return the sum of two times, for each side separately."""
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


@dataclass(slots=True)
class Price:
    """The cost of a piece of work on each side; see :class:`~neff.timing.costs.Cost`.

    ``is_even``: all DMA engines get equally many packets of a transfer; ``packets_ns``: the time of
    the packets that every engine gets; ``moving``: their sum over the engines. ``ports``: the ports
    that a computation shares with another engine's work, and how long it keeps each.

    Of a transfer besides: ``is_even`` when all DMA engines get as many packets, ``spent`` how long
    each is at those that all get, ``moving`` their sum over the engines. Of a computation:
    ``ports`` that it shares with another engine's work, and how long it keeps each.
    """

    kind: type
    interval: Times
    latency: Times
    costs: tuple[Cost, Cost, Cost]
    busy: float
    measured_share: float
    by_software: bool
    to_hbm: bool
    nbytes: int
    is_even: bool
    packets_ns: Times
    moving: float
    ports: tuple[tuple[str, Times], ...]


@dataclass(slots=True)
class Signal:
    """A signal in program order: its time, None while unknown, and its event."""

    time: Times | None
    event: int


@dataclass(slots=True)
class Semaphore:
    """One semaphore of a block.

    Attributes:
        reached: when (by the three) and event of each signal in the program's order.
        late: signals that were issued and whose time, or an earlier signal's time, is unknown.
        engines: those that wait for the next signal.
        transfers: a heap of those that wait for a later signal: its count, a number, the transfer.
    """

    reached: list[tuple[float, float, float, int]] = field(
        default_factory=list[tuple[float, float, float, int]]
    )
    late: deque[Signal] = field(default_factory=deque[Signal])
    engines: list[str] = field(default_factory=list[str])
    transfers: list[tuple[int, int, Sent]] = field(
        default_factory=lambda: list[tuple[int, int, Sent]]()
    )


@dataclass(slots=True)
class Sent(Signal):
    """A transfer that was issued, and the semaphores that it will signal.

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
    """The queues of one engine in one direction, as one lane of events."""

    engine: str
    name: str


@dataclass(slots=True)
class EngineState:
    """An engine: the earliest start of its next item, its last event and the end of that event."""

    ready: Times = (0.0, 0.0, 0.0)
    before: int = -1
    done: Times = (0.0, 0.0, 0.0)
    loads: Queue | None = None
    stores: Queue | None = None


PortHold = tuple[Times, int]
"""The time until which a port is kept, and the event that keeps it."""

Prices = tuple[Pricing, Pricing, Pricing]


class Machine:
    """One core, from time zero on."""

    def __init__(self, works: list[Work], pricings: Prices, core: int = 0) -> None:
        numbers = [pricing.numbers for pricing in pricings]
        self._numbers = numbers
        shared = _shared_ports(works)
        self.prices = [_price(work, pricings, shared) for work in works]
        self.ports: dict[str, PortHold] = {}
        self.core = core
        self.events: list[Event] = []
        self.turns = 1
        self.end: Times = (0.0, 0.0, 0.0)
        self.last = -1
        self.engines: dict[str, EngineState] = {}
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
        nominal, fast, slow = (p[parameter] for p in self._numbers)
        return nominal, fast, slow

    def record(
        self, lane: str, item: Item, start: float, end: Times, after: int, waits_for: int,
        since: float, measured_share: float, nbytes: int = 0,
    ) -> int:  # fmt: skip
        """Add an event and return its index."""
        events, index = self.events, len(self.events)
        row = (self.core, lane, item.opcode, start, end[0], after, waits_for, since, nbytes,
               self.turns, measured_share, item.source)  # fmt: skip
        events.append(event_of(Event, row))
        self.reach(end, index)
        return index

    def reach(self, end: Times, event: int) -> None:
        """Extend the body to the end of an event."""
        current = self.end
        if end[0] > current[0]:
            self.last = event
        if end[0] > current[0] or end[1] > current[1] or end[2] > current[2]:
            self.end = latest(end, current)

    def queue(self, engine: str, is_store: bool) -> Queue:
        """Return the queue of an engine's loads, or stores."""
        state = self.engines[engine]
        queue = state.stores if is_store else state.loads
        if queue is None:
            queue = Queue(engine, f"dma.{engine}.{'out' if is_store else 'in'}")
            if is_store:
                state.stores = queue
            else:
                state.loads = queue
        return queue

    def move(self, arrival: Times, price: Price) -> tuple[float, Times, float]:
        """Give a transfer's packets to the DMA engines.

        Returns:
            The start of the first packet, the arrival of the last one with data, and the time
            at which the DMA engines have reported completion.
        """
        nominal_dma, fast_dma, slow_dma = self.dma
        self.dma_ns += price.moving * self.turns
        begin, fast, slow = arrival
        if (
            price.is_even
            and nominal_dma.lanes is None
            and fast_dma.lanes is None
            and slow_dma.lanes is None
        ):
            packets_ns, fast_packets_ns, slow_packets_ns = price.packets_ns
            if nominal_dma.level > begin:
                begin = nominal_dma.level
            last = begin + packets_ns
            nominal_dma.level = last + nominal_dma.report
            last = last + nominal_dma.spread + nominal_dma.overlap
            fast = (fast_dma.level if fast_dma.level > fast else fast) + fast_packets_ns
            fast_dma.level = fast + fast_dma.report
            slow = (slow_dma.level if slow_dma.level > slow else slow) + slow_packets_ns
            slow_dma.level = slow + slow_dma.report
            ends = (
                last,
                fast + fast_dma.spread + fast_dma.overlap,
                slow + slow_dma.spread + slow_dma.overlap,
            )
            return begin, ends, last + nominal_dma.report
        cost, fast_cost, slow_cost = price.costs
        first, last = nominal_dma.move(begin, cost)
        _, fast_last = fast_dma.move(fast, fast_cost)
        _, slow_last = slow_dma.move(slow, slow_cost)
        return first, (last, fast_last, slow_last), last + nominal_dma.report

    def load(self, start: Times, price: Price) -> Times:
        """Load weights and return their arrival."""
        nominal_tensor, fast_tensor, slow_tensor = self.tensor
        cost, fast, slow = price.costs
        return (
            nominal_tensor.load(start[0], cost),
            fast_tensor.load(start[1], fast),
            slow_tensor.load(start[2], slow),
        )

    def multiply(self, start: Times, price: Price) -> tuple[Times, Times]:
        """Send columns and return the start of the instruction and the arrival of its result."""
        nominal_tensor, fast_tensor, slow_tensor = self.tensor
        cost, fast, slow = price.costs
        begin, end = nominal_tensor.multiply(start[0], cost)
        fast_begin, fast_end = fast_tensor.multiply(start[1], fast)
        slow_begin, slow_end = slow_tensor.multiply(start[2], slow)
        return (begin, fast_begin, slow_begin), (end, fast_end, slow_end)

    def free(self, ports: tuple[tuple[str, Times], ...]) -> tuple[Times, int]:
        """Return when all of these ports are free, and the event that keeps the last one."""
        time, event = (0.0, 0.0, 0.0), -1
        for port, _ in ports:
            port_hold = self.ports.get(port)
            if port_hold is not None:
                event = port_hold[1] if port_hold[0][0] > time[0] else event
                time = latest(time, port_hold[0])
        return time, event

    def hold(self, ports: tuple[tuple[str, Times], ...], start: Times, event: int) -> None:
        """Keep ports for an event from its start on."""
        for port, times in ports:
            self.ports[port] = added(start, times), event

    def skip(self, elapsed: Times) -> None:
        """Advance all times by iterations that repeat the previous one."""
        self.end = added(self.end, elapsed)
        for tensor, nanoseconds in zip(self.tensor, elapsed, strict=True):
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
    nominal_cost, fast_cost, slow_cost = (pricing.cost(work) for pricing in pricings)
    fast, slow = dict(fast_cost.ports), dict(slow_cost.ports)
    port_times = [
        (port, (port_ns, fast.get(port, 0.0), slow.get(port, 0.0)))
        for port, port_ns in nominal_cost.ports
    ]
    return Price(
        type(work),
        (nominal_cost.interval, fast_cost.interval, slow_cost.interval),
        (nominal_cost.latency, fast_cost.latency, slow_cost.latency),
        (nominal_cost, fast_cost, slow_cost),
        nominal_cost.busy,
        nominal_cost.measured_share,
        nominal_cost.by_software,
        nominal_cost.to_hbm,
        nominal_cost.nbytes,
        not (nominal_cost.extra_packets or fast_cost.extra_packets or slow_cost.extra_packets)
        and nominal_cost.lane_count == LANES,
        (
            nominal_cost.packets * nominal_cost.packet,
            fast_cost.packets * fast_cost.packet,
            slow_cost.packets * slow_cost.packet,
        ),
        nominal_cost.moving,
        tuple((port, times) for port, times in port_times if port in shared),
    )


class DmaEngines:
    """The times at which the DMA engines are free; they start one after the other.

    While every transfer uses all engines equally, ``level`` is the time at which the first one is
    free and the others follow by their stagger. ``lanes`` is set only when they differ;
    ``highest`` is then the latest of them.
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
        """Move a transfer's packets; return the first start and the end of the last with data.

        After its data each engine reports its completion.
        """
        if self.lanes is not None and self.highest <= arrival:
            self.level, self.lanes = arrival, None
        if cost.extra_packets or self.lanes is not None or cost.lane_count < LANES:
            if self.lanes is None:
                self.lanes = [self.level + later for later in self.stagger]
                self.highest = max(self.lanes)
            if cost.lane_count < LANES:
                first, last = self._move_on_partitions(arrival, cost, self.lanes)
                return first, last + self.overlap
            first, last = (
                self._move_on_all(arrival, cost)
                if cost.packets
                else self._move_on_next(arrival, cost)
            )
            self.next = (self.next + cost.extra_packets) % LANES
            return first, last + self.overlap
        begin = max(arrival, self.level)
        end = begin + cost.packets * cost.packet
        self.level = end + self.report
        return begin, end + self.spread + self.overlap

    def _move_on_all(self, arrival: float, cost: Cost) -> tuple[float, float]:
        """Move packets on every engine; engines with one more packet rotate."""
        common_ns = cost.packets * cost.packet
        durations = [common_ns] * LANES
        for position in range(self.next, self.next + cost.extra_packets):
            durations[position % LANES] = (cost.packets + 1) * cost.packet
        arrivals = [arrival + later for later in self.stagger]
        starts = list(map(max, self.lanes or (), arrivals))
        ends = list(map(add, starts, durations))
        self.lanes = [end + self.report for end in ends]
        last = max(ends)
        self.highest = last + self.report
        return min(starts), last

    def _move_on_next(self, arrival: float, cost: Cost) -> tuple[float, float]:
        """Move one packet on each of the next engines, which rotate."""
        lanes = self.lanes or []
        first, last = float("inf"), arrival
        for position in range(cost.extra_packets):
            lane = (self.next + position) % LANES
            start = max(lanes[lane], arrival + self.stagger[position])
            end = start + cost.packet
            lanes[lane] = free = end + self.report
            first, last = min(first, start), max(last, end)
            self.highest = max(self.highest, free)
        return min(first, last), last

    def _move_on_partitions(
        self, arrival: float, cost: Cost, lanes: list[float]
    ) -> tuple[float, float]:
        """Move packets on the engines of the transfer's partitions."""
        first, last = float("inf"), arrival
        for place in range(cost.lane_count if cost.packets else cost.extra_packets):
            lane = (cost.first_lane + place) % LANES
            start = max(lanes[lane], arrival + self.stagger[place])
            end = start + (cost.packets + (place < cost.extra_packets)) * cost.packet
            lanes[lane] = free = end + self.report
            first, last = min(first, start), max(last, end)
            self.highest = max(self.highest, free)
        return min(first, last), last


class Tensor:
    """State of the tensor engine: columns in flight, weights, and its clock."""

    __slots__ = ("cooling", "free", "pause", "since", "warm", "warm_up", "weights")

    def __init__(self, p: dict[str, float]) -> None:
        self.warm_up, self.cooling = p["tensor.warm_up_ns"], p["tensor.cooling_ns"]
        self.pause = p["tensor.pause_ns"]
        self.free = self.weights = 0.0
        self.since = -1.0
        self.warm = False

    def load(self, start: float, cost: Cost) -> float:
        """Load weights and return their arrival."""
        warm = self.warm and start - self.free <= self.cooling
        self.weights = start + (cost.exposed if warm else cost.cold_exposed)
        return start + (cost.latency if warm else cost.cold_latency)

    def multiply(self, start: float, cost: Cost) -> tuple[float, float]:
        """Send columns and return the start of the instruction and the arrival of its result."""
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
        """Advance the state by time in which the engine repeats its work."""
        self.free += nanoseconds
        self.since += nanoseconds if self.since >= 0 else 0.0
