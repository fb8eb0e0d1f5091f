"""The engine programs of one core, run over simulated time; see :mod:`neff.timing.machine`.

Every time has three sides: by the nominal parameters, by their fast ends and by their slow ends.
The nominal side decides the order of starts; so one pass computes the total and its range.
"""

from __future__ import annotations

import heapq

from neff.errors import NeffRuntimeError
from neff.timing.events import DESCRIPTORS, Event, event_of
from neff.timing.machine import (
    EngineState,
    Item,
    Loop,
    Machine,
    Price,
    Semaphore,
    Sent,
    Signal,
    Steps,
    Times,
    added,
    latest,
)
from neff.timing.work import Matmul, Transfer, Weights

__all__ = ["simulate"]


def simulate(machine: Machine, steps: Steps, location: str = "") -> None:
    """Run engine programs to their end; the machine holds the events.

    Raises:
        NeffRuntimeError: ``NEFF-DEADLOCK``; the engines wait for each other.
    """
    for engine in steps:
        machine.engines.setdefault(engine, EngineState())
    _Block(machine, steps, location).run()


class _Block:
    """The engines within one loop body, or in the outermost program."""

    def __init__(self, machine: Machine, steps: Steps, place: str) -> None:
        self.machine, self.steps, self.place = machine, steps, place
        self.positions = dict.fromkeys(steps, 0)
        self.semaphores: dict[int, Semaphore] = {}
        self.runnable = list(steps)[::-1]
        self.pending: list[tuple[float, int, Times, Sent | str]] = []
        self.number = 0
        self.granted, self.now = "", 0.0

    def run(self) -> None:
        while True:
            while self.runnable:
                self.advance(self.runnable.pop())
            if self.pending:
                self.serve()
            elif not self.loop():
                return

    # --- engines ------------------------------------------------------------------------------

    def advance(self, engine: str) -> None:
        """Start the engine's items until it has to wait."""
        steps, prices, start = self.steps[engine], self.machine.prices, self.start
        state = self.machine.engines[engine]
        position, count = self.positions[engine], len(steps)
        while position < count:
            item = steps[position]
            if isinstance(item, Loop):
                break
            price = prices[item.work]
            if price.kind is Transfer:
                self.issue(engine, state, item, price)
            elif not start(engine, state, item, price):
                break
            position += 1
        self.positions[engine] = position

    def start(self, engine: str, state: EngineState, item: Item, price: Price) -> bool:
        """Start an instruction; return False when it has to wait for an unknown time."""
        machine, kind = self.machine, price.kind
        _, opcode, waits, signals, follows, source = item
        nominal, fast, slow = state.ready
        since, after, waits_for = nominal, state.before, -1
        delay, fast_delay, slow_delay = machine.to_tensor if kind is Weights else machine.semaphore
        for number, value in waits:
            semaphore = self.semaphores.get(number)
            if semaphore is None or len(semaphore.reached) < value:
                self.semaphore(number).engines.append(engine)
                return False
            nominal_ns, fast_ns, slow_ns, event = semaphore.reached[value - 1]
            if nominal_ns + delay > nominal:
                nominal, after, waits_for = nominal_ns + delay, event, event
            if fast_ns + fast_delay > fast:
                fast = fast_ns + fast_delay
            if slow_ns + slow_delay > slow:
                slow = slow_ns + slow_delay
        if follows:
            nominal_ns, fast_ns, slow_ns = state.done
            nominal, fast = max(nominal, nominal_ns + delay), max(fast, fast_ns + fast_delay)
            slow = max(slow, slow_ns + slow_delay)
        if price.ports:
            (nominal_ns, fast_ns, slow_ns), event = machine.free(price.ports)
            if nominal_ns > nominal:
                nominal, after, waits_for = nominal_ns, event, event
            begin = nominal, max(fast, fast_ns), max(slow, slow_ns)
            if engine != self.granted or nominal > self.now:
                self.push(begin, engine)
                return False
            machine.hold(price.ports, begin, len(machine.events))
            nominal, fast, slow = begin
        if kind is Matmul:
            begin, end = machine.multiply((nominal, fast, slow), price)
            nominal, state.ready = begin[0], added(begin, machine.dispatch)
        else:
            nominal_ns, fast_ns, slow_ns = price.interval
            state.ready = nominal + nominal_ns, fast + fast_ns, slow + slow_ns
            if kind is Weights:
                end = machine.load((nominal, fast, slow), price)
            else:
                nominal_ns, fast_ns, slow_ns = price.latency
                end = nominal + nominal_ns, fast + fast_ns, slow + slow_ns
        state.done = end
        state.before = index = len(machine.events)
        row = (machine.core, engine, opcode, nominal, end[0], after, waits_for, since, 0,
               machine.turns, price.measured_share, source)  # fmt: skip
        machine.events.append(event_of(Event, row))
        machine.reach(end, index)
        for number in signals:
            self.signal(number, end, index)
        return True

    # --- semaphores ---------------------------------------------------------------------------

    def semaphore(self, number: int) -> Semaphore:
        semaphore = self.semaphores.get(number)
        if semaphore is None:
            semaphore = self.semaphores[number] = Semaphore()
        return semaphore

    def signal(self, number: int, time: Times, event: int) -> None:
        semaphore = self.semaphores.get(number) or self.semaphore(number)
        if semaphore.late:
            semaphore.late.append(Signal(time, event))
            return
        self.count(semaphore, time, event)
        if semaphore.engines or semaphore.transfers:
            self.wake(semaphore)

    def count(self, semaphore: Semaphore, time: Times, event: int) -> None:
        """Add a signal; it never counts before earlier ones."""
        reached = semaphore.reached
        nominal, fast, slow = time
        if reached:
            last_nominal, last_fast, last_slow, last_event = reached[-1]
            if last_nominal > nominal:
                nominal, event = last_nominal, last_event
            if last_fast > fast:
                fast = last_fast
            if last_slow > slow:
                slow = last_slow
        reached.append((nominal, fast, slow, event))

    def settle(self, semaphore: Semaphore) -> None:
        """Count the late signals whose times are now known; they count in program order."""
        late = semaphore.late
        while late and late[0].time is not None:
            self.count(semaphore, late[0].time, late[0].event)
            late.popleft()
        if semaphore.engines or semaphore.transfers:
            self.wake(semaphore)

    def wake(self, semaphore: Semaphore) -> None:
        if semaphore.engines:
            self.runnable += semaphore.engines
            semaphore.engines = []
        transfers, count = semaphore.transfers, len(semaphore.reached)
        while transfers and transfers[0][0] <= count:
            self.release(heapq.heappop(transfers)[2])

    # --- transfers ----------------------------------------------------------------------------

    def issue(self, engine: str, state: EngineState, item: Item, price: Price) -> None:
        """Put a transfer into its queue; the semaphores that it waits for may come later."""
        machine = self.machine
        since = latest(state.ready, state.done)
        state.ready = added(since, price.interval)
        if not price.by_software:
            state.before = machine.record(
                engine, item, since[0], (since[0] + price.busy, since[1], since[2]), state.before,
                -1, since[0], price.measured_share,
            )  # fmt: skip
        queue = state.stores if price.to_hbm else state.loads
        if queue is None:
            queue = machine.queue(engine, price.to_hbm)
        sent = Sent(None, -1, item, price, queue, since, state.before, not price.by_software)
        for number in item.signals:
            self.semaphore(number).late.append(sent)
        self.release(sent)

    def release(self, sent: Sent) -> None:
        """Send a transfer on if it need not wait any more; later ones may pass one that waits."""
        delay, fast_delay, slow_delay = self.machine.semaphore
        nominal, fast, slow = sent.issued
        for number, value in sent.item.waits:
            semaphore = self.semaphore(number)
            if len(semaphore.reached) < value:
                self.number += 1
                heapq.heappush(semaphore.transfers, (value, self.number, sent))
                return
            nominal_ns, fast_ns, slow_ns, event = semaphore.reached[value - 1]
            if nominal_ns + delay > nominal:
                nominal, sent.waits_for, sent.after = nominal_ns + delay, event, event
            if fast_ns + fast_delay > fast:
                fast = fast_ns + fast_delay
            if slow_ns + slow_delay > slow:
                slow = slow_ns + slow_delay
        begin = nominal, fast, slow
        self.push(added(begin, sent.price.latency) if sent.has_descriptors else begin, sent)

    def push(self, time: Times, sent: Sent | str) -> None:
        """Schedule a transfer, or an engine that requests a port."""
        self.number += 1
        heapq.heappush(self.pending, (time[0], self.number, time, sent))

    def serve(self) -> None:
        """Serve the next event: descriptors are made, packets move, or an engine gets its port."""
        now, _, time, sent = heapq.heappop(self.pending)
        if isinstance(sent, str):
            self.granted, self.now = sent, now
            self.advance(sent)
            self.granted = ""
            return
        if not sent.has_descriptors:
            self.describe(time, sent)
            return
        machine, item, price = self.machine, sent.item, sent.price
        first, last, written = machine.move(time, price)
        sent.event = index = len(machine.events)
        row = (machine.core, sent.queue.name, item.opcode, first, written, sent.after, sent.waits_for,
               sent.issued[0], price.nbytes, machine.turns, price.measured_share, item.source)  # fmt: skip
        machine.events.append(event_of(Event, row))
        machine.reach((written, 0.0, 0.0), index)
        reported = added(last, machine.completion)
        machine.reach(reported, index)
        nominal, fast, slow = machine.semaphore
        sent.time = reported[0] - nominal, reported[1] - fast, reported[2] - slow
        for number in item.signals:
            self.settle(self.semaphores[number])

    def describe(self, time: Times, sent: Sent) -> None:
        """Let GpSimd write the descriptors, one transfer after the other."""
        machine, price, item = self.machine, sent.price, sent.item
        begin = latest(time, machine.descriptors)
        machine.descriptors = end = added(begin, price.interval)
        descriptor_event = machine.record(
            DESCRIPTORS,
            item,
            begin[0],
            end,
            sent.after,
            sent.waits_for,
            sent.issued[0],
            price.measured_share,
        )
        shown = end[0] + price.busy, end[1], end[2]
        sent.after = machine.record(
            sent.queue.engine,
            item,
            end[0],
            shown,
            descriptor_event,
            -1,
            end[0],
            price.measured_share,
        )
        sent.has_descriptors = True
        self.push(added(end, price.latency), sent)

    # --- loops --------------------------------------------------------------------------------

    def loop(self) -> bool:
        """Simulate the first iteration of a loop, and one for all the others."""
        fronts = {engine: steps[self.positions[engine]] for engine, steps in self.steps.items()
                  if self.positions[engine] < len(steps)}  # fmt: skip
        stuck = [
            sent for semaphore in self.semaphores.values() for _, _, sent in semaphore.transfers
        ]
        if stuck:
            raise self.deadlock({sent.queue.name: sent.item for sent in stuck[::-1]} | fronts)
        if not fronts:
            return False
        loops = {engine: loop for engine, loop in fronts.items() if type(loop) is Loop}
        if len(loops) != len(self.steps) or len({loop.ident for loop in loops.values()}) != 1:
            raise self.deadlock(fronts)
        iterations = next(iter(loops.values())).turns
        bodies = {engine: loop.body for engine, loop in loops.items()}
        if iterations > 0:
            self.iterate(bodies, 1)
        if iterations > 1:
            iteration_ns = self.iterate(bodies, iterations - 1)
            self.machine.skip(tuple(side_ns * (iterations - 2) for side_ns in iteration_ns))  # type: ignore[arg-type]
        self.meet()
        for engine in self.steps:
            self.positions[engine] += 1
        self.runnable = list(self.steps)[::-1]
        return True

    def meet(self) -> None:
        """Let all engines continue together."""
        machine = self.machine
        machine.end = added(machine.end, machine.loop_ns)
        for engine in self.steps:
            state = machine.engines[engine]
            state.ready, state.before = machine.end, machine.last

    def iterate(self, bodies: Steps, count: float) -> Times:
        """Simulate one iteration that represents ``count``; return its nanoseconds."""
        machine, outer_turns = self.machine, self.machine.turns
        begin = machine.end
        self.meet()
        machine.turns = max(1, round(outer_turns * count))
        _Block(machine, bodies, self.place).run()
        machine.turns = outer_turns
        nominal, fast, slow = machine.end
        return nominal - begin[0], fast - begin[1], slow - begin[2]

    def deadlock(self, fronts: dict[str, Item | Loop]) -> NeffRuntimeError:
        lines = [
            f"{engine} is at a loop"
            if isinstance(front, Loop)
            else f"{engine} at {front.opcode} waits for "
            + " and ".join(f"semaphore {number} to reach {value}" for number, value in front.waits)
            for engine, front in fronts.items()
        ]
        return NeffRuntimeError(
            "the engines wait for each other: " + "; ".join(lines),
            code="NEFF-DEADLOCK",
            place=self.place,
            remedy="this is a bug in the tool that wrote the program, not a user error; build it again",
        )
