"""The engine programs of one core, run over simulated time; see :mod:`neff.timing.machine`."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from neff.errors import NeffRuntimeError
from neff.timing.costs import Cost
from neff.timing.events import DESCRIPTORS
from neff.timing.machine import EngineState, Item, Loop, Machine, Queue, Sent, Steps
from neff.timing.work import Matmul, Transfer, Weights

__all__ = ["simulate"]

_ORDER = 1e-6
"""Two transfers of one queue never start at the same time; nanoseconds."""


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
        self.reached: dict[int, list[tuple[float, int]]] = {}
        self.late: dict[int, deque[list[Any]]] = {}
        self.sleepers: dict[int, list[str]] = {}
        self.parked: dict[int, list[Queue]] = {}
        self.runnable = list(steps)[::-1]
        self.pending: list[tuple[float, int, Sent]] = []
        self.number = 0

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
        machine, steps, kinds = self.machine, self.steps[engine], self.machine.kinds
        costs, start = machine.costs, self.start
        at, count = self.at[engine], len(steps)
        while at < count:
            item = steps[at]
            if type(item) is not Item:
                break
            work = item.work
            if kinds[work] is Transfer:
                self.issue(engine, item, costs[work])
            elif not start(engine, item, kinds[work], costs[work]):
                break
            at += 1
        self.at[engine] = at

    def start(self, engine: str, item: Item, kind: type, cost: Cost) -> bool:
        """Start an instruction; False when it has to wait for something not known yet."""
        machine = self.machine
        state = machine.engines[engine]
        since = start = state.ready
        after, waits_for = state.before, -1
        latency = machine.to_tensor if kind is Weights else machine.semaphore
        for semaphore, value in item.waits:
            reached = self.reached.get(semaphore)
            if reached is None or len(reached) < value:
                self.sleepers.setdefault(semaphore, []).append(engine)
                return False
            time, event = reached[value - 1]
            if time + latency > start and value > 0:
                start, after, waits_for = time + latency, event, event
        if item.follows and state.done + latency > start:
            start, after = state.done + latency, state.before
        if kind is Matmul:
            start, end = machine.tensor.multiply(start, cost)
            state.ready = start + machine.tensor.dispatch
        else:
            end = machine.tensor.load(start, cost) if kind is Weights else start + cost.latency
            state.ready = start + cost.interval
        if machine.has_events:
            state.before = machine.record(
                engine, item, start, end, after, waits_for, since, cost.known
            )
        elif end > machine.end:
            machine.end = end
        state.done = end
        index = state.before
        for semaphore in item.signals:
            self.signal(semaphore, end, index)
        return True

    # --- semaphores ---------------------------------------------------------------------------

    def signal(self, semaphore: int, time: float, event: int) -> None:
        late = self.late.get(semaphore)
        if late:
            late.append([time, event])
            return
        reached = self.reached.setdefault(semaphore, [])
        if reached and reached[-1][0] > time:
            reached.append(reached[-1])
        else:
            reached.append((time, event))
        self.wake(semaphore)

    def settle(self, semaphore: int) -> None:
        """Signals count in the order of the program; take those that are known by now."""
        late = self.late[semaphore]
        reached = self.reached.get(semaphore)
        if reached is None:
            reached = self.reached[semaphore] = []
        while late and late[0][0] is not None:
            time, event = late.popleft()
            if reached and reached[-1][0] > time:
                time, event = reached[-1]
            reached.append((time, event))
        self.wake(semaphore)

    def wake(self, semaphore: int) -> None:
        if semaphore in self.sleepers:
            self.runnable += self.sleepers.pop(semaphore)
        if semaphore in self.parked:
            for queue in self.parked.pop(semaphore):
                self.release(queue)

    # --- transfers ----------------------------------------------------------------------------

    def issue(self, engine: str, item: Item, cost: Cost) -> None:
        """Put a transfer into its queue; what it waits for may come later."""
        machine = self.machine
        state = machine.engines[engine]
        since = max(state.ready, state.done)
        state.ready = since + cost.interval
        if machine.has_events and not cost.by_software:
            state.before = machine.record(
                engine, item, since, since + cost.busy, state.before, -1, since, cost.known
            )
        slots: list[list[Any]] = []
        for semaphore in item.signals:
            late = self.late.get(semaphore)
            if late is None:
                late = self.late[semaphore] = deque()
            slots.append([None, -1])
            late.append(slots[-1])
        queue = machine.queues.get((engine, cost.to_hbm))
        if queue is None:
            queue = machine.queue(engine, cost.to_hbm)
        queue.waiting.append(
            Sent(item, cost, queue, since, slots, state.before, -1, not cost.by_software)
        )
        if len(queue.waiting) == 1:
            self.release(queue)

    def release(self, queue: Queue) -> None:
        """Send on the transfers in front of a queue that need not wait any more."""
        waiting, latency = queue.waiting, self.machine.semaphore
        while waiting:
            sent = waiting[0]
            begin = max(sent.issued, queue.last + _ORDER)
            for semaphore, value in sent.item.waits:
                reached = self.reached.get(semaphore)
                if reached is None or len(reached) < value:
                    self.parked.setdefault(semaphore, []).append(queue)
                    return
                time, event = reached[value - 1]
                if time + latency > begin and value > 0:
                    begin = time + latency
                    sent.waits_for = sent.after = event
            waiting.popleft()
            queue.last = begin
            self.push(begin + sent.cost.latency if sent.has_descriptors else begin, sent)

    def push(self, time: float, sent: Sent) -> None:
        self.number += 1
        heapq.heappush(self.pending, (time, self.number, sent))

    def serve(self) -> None:
        """The next transfer: its descriptors are made, or its packets are moved."""
        time, _, sent = heapq.heappop(self.pending)
        if not sent.has_descriptors:
            self.describe(time, sent)
            return
        machine, item, cost, index = self.machine, sent.item, sent.cost, -1
        first, last = machine.dma.move(time, cost)
        if machine.has_events:
            machine.dma.busy_ns += cost.moving * machine.turns
            index = machine.record(
                sent.queue.name, item, first, last + machine.dma.report, sent.after,
                sent.waits_for, sent.issued, cost.known, cost.nbytes,
            )  # fmt: skip
        machine.reach(last + machine.completion, index)
        seen = last + machine.completion - machine.semaphore
        for semaphore, slot in zip(item.signals, sent.slots, strict=True):
            slot[0], slot[1] = seen, index
            self.settle(semaphore)

    def describe(self, time: float, sent: Sent) -> None:
        """GpSimd writes the descriptors, one transfer after the other."""
        machine, cost = self.machine, sent.cost
        begin = max(time, machine.descriptors)
        machine.descriptors = end = begin + cost.interval
        made = machine.record(
            DESCRIPTORS, sent.item, begin, end, sent.after, sent.waits_for, sent.issued, cost.known
        )
        sent.after = machine.record(
            sent.queue.engine, sent.item, end, end + cost.busy, made, -1, end, cost.known
        )
        sent.has_descriptors = True
        self.push(end + cost.latency, sent)

    # --- loops --------------------------------------------------------------------------------

    def loop(self) -> bool:
        """All engines stand in front of a loop: its first turn, and one for all the others."""
        fronts = {engine: steps[self.at[engine]] for engine, steps in self.steps.items()
                  if self.at[engine] < len(steps)}  # fmt: skip
        stuck = [queue for queue in self.machine.queues.values() if queue.waiting]
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
            self.machine.skip(spent * (turns - 2))
        self.meet()
        for engine in self.steps:
            self.at[engine] += 1
        self.runnable = list(self.steps)[::-1]
        return True

    def meet(self) -> None:
        """All engines go on together."""
        machine = self.machine
        machine.end += machine.loop_ns
        for engine in self.steps:
            state = machine.engines[engine]
            state.ready, state.before = machine.end, machine.last

    def turn(self, bodies: Steps, times: int) -> float:
        """One turn that stands for so many; nanoseconds from meeting to meeting."""
        machine = self.machine
        begin = machine.end
        self.meet()
        machine.turns *= times
        _Block(machine, bodies, self.place).run()
        machine.turns //= times
        return machine.end - begin

    def deadlock(self, fronts: dict[str, Item | Loop]) -> NeffRuntimeError:
        lines = [
            f"{engine} at {front.opcode} waits for "
            + " and ".join(f"semaphore {number} to reach {value}" for number, value in front.waits)
            if type(front) is Item
            else f"{engine} stands at a loop"
            for engine, front in fronts.items()
        ]
        return NeffRuntimeError(
            "the engines wait for each other: " + "; ".join(lines),
            code="NEFF-DEADLOCK",
            place=self.place,
            remedy="this is a fault of what made the program, not of its user; build it again",
        )
