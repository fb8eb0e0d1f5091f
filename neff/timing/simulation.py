"""The engine programs of one core, run over simulated time; see :mod:`neff.timing.machine`."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from neff.errors import NeffRuntimeError
from neff.timing.costs import Cost
from neff.timing.events import DESCRIPTORS
from neff.timing.machine import Item, Loop, Machine, Queue, Sent, Steps
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
        machine.ready.setdefault(engine, 0.0)
        machine.before.setdefault(engine, -1)
        machine.done.setdefault(engine, 0.0)
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
        at, count = self.at[engine], len(self.steps[engine])
        while at < count:
            item = steps[at]
            if type(item) is not Item:
                break
            if kinds[item.work] is Transfer:
                self.issue(engine, item, machine.costs[item.work])
            elif not self.start(engine, item, kinds[item.work], machine.costs[item.work]):
                break
            at += 1
        self.at[engine] = at

    def start(self, engine: str, item: Item, kind: type, cost: Cost) -> bool:
        """Start an instruction; False when it has to wait for something not known yet."""
        machine = self.machine
        since = start = machine.ready[engine]
        after, waits_for = machine.before[engine], -1
        latency = machine.to_tensor if kind is Weights else machine.semaphore
        if item.waits:
            found = self.wait(engine, item.waits)
            if found is None:
                return False
            if found[0] + latency > start:
                start, after = found[0] + latency, found[1]
                waits_for = after
        if item.follows and machine.done[engine] + latency > start:
            start, after = machine.done[engine] + latency, machine.before[engine]
        if kind is Matmul:
            start, end = machine.tensor.multiply(start, cost)
            machine.ready[engine] = start + machine.tensor.dispatch
        else:
            end = machine.tensor.load(start, cost) if kind is Weights else start + cost.latency
            machine.ready[engine] = start + cost.interval
        index = machine.record(engine, item, start, end, after, waits_for, since, cost.known)
        machine.before[engine], machine.done[engine] = index, end
        for semaphore in item.signals:
            self.signal(semaphore, end, index)
        return True

    # --- semaphores ---------------------------------------------------------------------------

    def wait(self, engine: str, waits: tuple[tuple[int, int], ...]) -> tuple[float, int] | None:
        """When the last of the semaphores was reached and by which event; None: not yet known."""
        latest = (-1.0, -1)
        for semaphore, value in waits:
            reached = self.reached.get(semaphore)
            if reached is None or len(reached) < value:
                self.sleepers.setdefault(semaphore, []).append(engine)
                return None
            if value > 0 and reached[value - 1] > latest:
                latest = reached[value - 1]
        return latest

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
        reached = self.reached.setdefault(semaphore, [])
        while late and late[0][0] is not None:
            time, event = late.popleft()
            reached.append(max((time, event), reached[-1]) if reached else (time, event))
        self.wake(semaphore)

    def wake(self, semaphore: int) -> None:
        self.runnable += self.sleepers.pop(semaphore, ())
        for queue in self.parked.pop(semaphore, ()):
            self.release(queue)

    # --- transfers ----------------------------------------------------------------------------

    def issue(self, engine: str, item: Item, cost: Cost) -> None:
        """Put a transfer into its queue; what it waits for may come later."""
        machine = self.machine
        work = machine.works[item.work]
        assert type(work) is Transfer
        since = max(machine.ready[engine], machine.done[engine])
        machine.ready[engine] = since + cost.interval
        is_software = work.descriptors == "software"
        after = machine.before[engine]
        if not is_software:
            after = machine.record(
                engine, item, since, since + cost.busy, after, -1, since, cost.known
            )
            machine.before[engine] = after
        slots: list[tuple[int, list[Any]]] = []
        for semaphore in item.signals:
            slot: list[Any] = [None, -1]
            self.late.setdefault(semaphore, deque()).append(slot)
            slots.append((semaphore, slot))
        queue = machine.queue(engine, work.to_hbm)
        queue.waiting.append(Sent(item, cost, queue, since, slots, after, -1, not is_software))
        if len(queue.waiting) == 1:
            self.release(queue)

    def release(self, queue: Queue) -> None:
        """Send on the transfers in front of a queue that need not wait any more."""
        machine = self.machine
        while queue.waiting:
            sent = queue.waiting[0]
            begin = max(sent.issued, queue.last + _ORDER)
            for semaphore, value in sent.item.waits:
                reached = self.reached.get(semaphore)
                if reached is None or len(reached) < value:
                    self.parked.setdefault(semaphore, []).append(queue)
                    return
                if value > 0 and reached[value - 1][0] + machine.semaphore > begin:
                    begin = reached[value - 1][0] + machine.semaphore
                    sent.waits_for = sent.after = reached[value - 1][1]
            queue.waiting.popleft()
            queue.last = begin
            self.push(begin + sent.cost.latency * sent.has_descriptors, sent)

    def push(self, time: float, sent: Sent) -> None:
        self.number += 1
        heapq.heappush(self.pending, (time, self.number, sent))

    def serve(self) -> None:
        """The next transfer: its descriptors are made, or its packets are moved."""
        time, _, sent = heapq.heappop(self.pending)
        if not sent.has_descriptors:
            self.describe(time, sent)
            return
        machine, item, cost = self.machine, sent.item, sent.cost
        first, last = machine.move(time, cost)
        nbytes = machine.works[item.work].nbytes  # type: ignore[union-attr]
        index = machine.record(
            sent.queue.name, item, first, last, sent.after, sent.waits_for, sent.issued,
            cost.known, nbytes,
        )  # fmt: skip
        machine.reach(last + machine.completion, index)
        seen = last + machine.completion - machine.semaphore
        for semaphore, slot in sent.slots:
            slot[:] = seen, index
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
            machine.ready[engine] = machine.end
            machine.before[engine] = machine.last

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
