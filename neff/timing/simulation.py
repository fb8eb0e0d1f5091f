"""The engine programs of one core, run over simulated time; see :mod:`neff.timing.machine`.

Every time is three: by the parameters' values, by their fast ends and by their slow ends. What
starts in which order is decided by the first; so one pass computes the total and its range.
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
    Queue,
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


def simulate(machine: Machine, steps: Steps, place: str = "") -> None:
    """Run engine programs to their end; the machine holds the events.

    Raises:
        NeffRuntimeError: ``NEFF-DEADLOCK``; the engines wait for each other.
    """
    for engine in steps:
        machine.engines.setdefault(engine, EngineState())
    _Block(machine, steps, place).run()


class _Block:
    """The engines within one loop body, or in the outermost program."""

    def __init__(self, machine: Machine, steps: Steps, place: str) -> None:
        self.machine, self.steps, self.place = machine, steps, place
        self.at = dict.fromkeys(steps, 0)
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
        """Start the engine's items until one has to wait."""
        steps, prices, start = self.steps[engine], self.machine.prices, self.start
        state = self.machine.engines[engine]
        at, count = self.at[engine], len(steps)
        while at < count:
            item = steps[at]
            if isinstance(item, Loop):
                break
            price = prices[item[0]]
            if price.kind is Transfer:
                self.issue(engine, state, item, price)
            elif not start(engine, state, item, price):
                break
            at += 1
        self.at[engine] = at

    def start(self, engine: str, state: EngineState, item: Item, price: Price) -> bool:
        """Start an instruction; False when it has to wait for something not known yet."""
        machine, kind = self.machine, price.kind
        _, opcode, waits, signals, follows, source = item
        first, fast, slow = state.ready
        since, after, waits_for = first, state.before, -1
        delay, fast_delay, slow_delay = machine.to_tensor if kind is Weights else machine.semaphore
        for number, value in waits:
            semaphore = self.semaphores.get(number)
            if semaphore is None or len(semaphore.reached) < value:
                self.semaphore(number).engines.append(engine)
                return False
            one, two, three, event = semaphore.reached[value - 1]
            if one + delay > first:
                first, after, waits_for = one + delay, event, event
            if two + fast_delay > fast:
                fast = two + fast_delay
            if three + slow_delay > slow:
                slow = three + slow_delay
        if follows:
            one, two, three = state.done
            first, fast = max(first, one + delay), max(fast, two + fast_delay)
            slow = max(slow, three + slow_delay)
        if price.ports:
            (one, two, three), event = machine.free(price.ports)
            if one > first:
                first, after, waits_for = one, event, event
            begin = first, max(fast, two), max(slow, three)
            if engine != self.granted or first > self.now:
                self.push(begin, engine)
                return False
            machine.hold(price.ports, begin, len(machine.events))
            first, fast, slow = begin
        if kind is Matmul:
            begin, end = machine.multiply((first, fast, slow), price)
            first, state.ready = begin[0], added(begin, machine.dispatch)
        else:
            one, two, three = price.interval
            state.ready = first + one, fast + two, slow + three
            if kind is Weights:
                end = machine.load((first, fast, slow), price)
            else:
                one, two, three = price.latency
                end = first + one, fast + two, slow + three
        state.done = end
        state.before = index = len(machine.events)
        row = (machine.core, engine, opcode, first, end[0], after, waits_for, since, 0,
               machine.turns, price.known, source)  # fmt: skip
        machine.events.append(event_of(Event, row))
        machine.reach(end, index)
        for number in signals:
            self.signal(number, end, index)
        return True

    # --- semaphores ---------------------------------------------------------------------------

    def semaphore(self, number: int) -> Semaphore:
        found = self.semaphores.get(number)
        if found is None:
            found = self.semaphores[number] = Semaphore()
        return found

    def signal(self, number: int, time: Times, event: int) -> None:
        semaphore = self.semaphores.get(number) or self.semaphore(number)
        if semaphore.late:
            semaphore.late.append(Signal(time, event))
            return
        self.count(semaphore, time, event)
        if semaphore.engines or semaphore.queues:
            self.wake(semaphore)

    def count(self, semaphore: Semaphore, time: Times, event: int) -> None:
        """One more signal; it never counts before the ones in front of it."""
        reached = semaphore.reached
        one, two, three = time
        if reached:
            first, second, third, earlier = reached[-1]
            if first > one:
                one, event = first, earlier
            if second > two:
                two = second
            if third > three:
                three = third
        reached.append((one, two, three, event))

    def settle(self, semaphore: Semaphore) -> None:
        """Signals count in the order of the program; take those that are known by now."""
        late = semaphore.late
        while late and late[0].time is not None:
            self.count(semaphore, late[0].time, late[0].event)
            late.popleft()
        if semaphore.engines or semaphore.queues:
            self.wake(semaphore)

    def wake(self, semaphore: Semaphore) -> None:
        if semaphore.engines:
            self.runnable += semaphore.engines
            semaphore.engines = []
        if semaphore.queues:
            queues, semaphore.queues = semaphore.queues, []
            for queue in queues:
                self.release(queue)

    # --- transfers ----------------------------------------------------------------------------

    def issue(self, engine: str, state: EngineState, item: Item, price: Price) -> None:
        """Put a transfer into its queue; what it waits for may come later."""
        machine = self.machine
        since = latest(state.ready, state.done)
        state.ready = added(since, price.interval)
        if not price.by_software:
            state.before = machine.record(
                engine, item, since[0], (since[0] + price.busy, since[1], since[2]), state.before,
                -1, since[0], price.known,
            )  # fmt: skip
        queue = state.stores if price.to_hbm else state.loads
        if queue is None:
            queue = machine.queue(engine, price.to_hbm)
        sent = Sent(None, -1, item, price, queue, since, state.before, not price.by_software)
        for number in item[3]:
            self.semaphore(number).late.append(sent)
        queue.waiting.append(sent)
        if len(queue.waiting) == 1:
            self.release(queue)

    def release(self, queue: Queue) -> None:
        """Send on the transfers in front of a queue that need not wait any more."""
        waiting, (delay, fast_delay, slow_delay) = queue.waiting, self.machine.semaphore
        while waiting:
            sent = waiting[0]
            first, fast, slow = latest(sent.issued, queue.last)
            for number, value in sent.item[2]:
                semaphore = self.semaphore(number)
                if len(semaphore.reached) < value:
                    semaphore.queues.append(queue)
                    return
                one, two, three, event = semaphore.reached[value - 1]
                if one + delay > first:
                    first, sent.waits_for, sent.after = one + delay, event, event
                if two + fast_delay > fast:
                    fast = two + fast_delay
                if three + slow_delay > slow:
                    slow = three + slow_delay
            waiting.popleft()
            queue.last = begin = first, fast, slow
            self.push(added(begin, sent.price.latency) if sent.has_descriptors else begin, sent)

    def push(self, time: Times, sent: Sent | str) -> None:
        """A transfer, or an engine that asks for a port, goes on at that time."""
        self.number += 1
        heapq.heappush(self.pending, (time[0], self.number, time, sent))

    def serve(self) -> None:
        """What comes next: a transfer's descriptors are made, its packets are moved, or an engine
        gets the port that it asked for, if nobody has taken it since.
        """
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
        first, last, shown = machine.move(time, price)
        sent.event = index = len(machine.events)
        row = (machine.core, sent.queue.name, item[1], first, shown, sent.after, sent.waits_for,
               sent.issued[0], price.nbytes, machine.turns, price.known, item[5])  # fmt: skip
        machine.events.append(event_of(Event, row))
        machine.reach((shown, 0.0, 0.0), index)
        seen = added(last, machine.completion)
        machine.reach(seen, index)
        one, two, three = machine.semaphore
        sent.time = seen[0] - one, seen[1] - two, seen[2] - three
        for number in item[3]:
            self.settle(self.semaphores[number])

    def describe(self, time: Times, sent: Sent) -> None:
        """GpSimd writes the descriptors, one transfer after the other."""
        machine, price, item = self.machine, sent.price, sent.item
        begin = latest(time, machine.descriptors)
        machine.descriptors = end = added(begin, price.interval)
        made = machine.record(
            DESCRIPTORS,
            item,
            begin[0],
            end,
            sent.after,
            sent.waits_for,
            sent.issued[0],
            price.known,
        )
        shown = end[0] + price.busy, end[1], end[2]
        sent.after = machine.record(
            sent.queue.engine, item, end[0], shown, made, -1, end[0], price.known
        )
        sent.has_descriptors = True
        self.push(added(end, price.latency), sent)

    # --- loops --------------------------------------------------------------------------------

    def loop(self) -> bool:
        """All engines stand in front of a loop: its first turn, and one for all the others."""
        fronts = {engine: steps[self.at[engine]] for engine, steps in self.steps.items()
                  if self.at[engine] < len(steps)}  # fmt: skip
        stuck = [queue for queue in self.machine.queues if queue.waiting]
        if stuck:
            raise self.deadlock({queue.name: queue.waiting[0].item for queue in stuck} | fronts)
        if not fronts:
            return False
        loops = {engine: loop for engine, loop in fronts.items() if type(loop) is Loop}
        if len(loops) != len(self.steps) or len({loop.ident for loop in loops.values()}) != 1:
            raise self.deadlock(fronts)
        turns = next(iter(loops.values())).turns
        bodies = {engine: loop.body for engine, loop in loops.items()}
        if turns > 0:
            self.turn(bodies, 1)
        if turns > 1:
            spent = self.turn(bodies, turns - 1)
            self.machine.skip(tuple(one * (turns - 2) for one in spent))  # type: ignore[arg-type]
        self.meet()
        for engine in self.steps:
            self.at[engine] += 1
        self.runnable = list(self.steps)[::-1]
        return True

    def meet(self) -> None:
        """All engines go on together."""
        machine = self.machine
        machine.end = added(machine.end, machine.loop_ns)
        for engine in self.steps:
            state = machine.engines[engine]
            state.ready, state.before = machine.end, machine.last

    def turn(self, bodies: Steps, times: float) -> Times:
        """One turn that stands for so many; nanoseconds from meeting to meeting."""
        machine, outside = self.machine, self.machine.turns
        begin = machine.end
        self.meet()
        machine.turns = max(1, round(outside * times))
        _Block(machine, bodies, self.place).run()
        machine.turns = outside
        one, two, three = machine.end
        return one - begin[0], two - begin[1], three - begin[2]

    def deadlock(self, fronts: dict[str, Item | Loop]) -> NeffRuntimeError:
        lines = [
            f"{engine} is at a loop"
            if isinstance(front, Loop)
            else f"{engine} at {front[1]} waits for "
            + " and ".join(f"semaphore {number} to reach {value}" for number, value in front[2])
            for engine, front in fronts.items()
        ]
        return NeffRuntimeError(
            "the engines wait for each other: " + "; ".join(lines),
            code="NEFF-DEADLOCK",
            place=self.place,
            remedy="this is a bug in the tool that wrote the program, not a user error; build it again",
        )
