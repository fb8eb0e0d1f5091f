"""A list scheduler: each engine starts the next instruction of its window that is ready."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

__all__ = ["WINDOW_INSTRUCTIONS", "list_schedule"]

WINDOW_INSTRUCTIONS = 32
"""Instructions that an engine looks ahead. Attention kernels on trn1 (beta 1) come out best with 32
of 8, 16, 32 and 64."""

_NEVER = (float("inf"), -1)


class _Sequencer:
    """One engine; instructions have their number in the run.

    Attributes:
        numbers: its instructions, in source order.
        head: index of the first instruction that has not started.
        end: number of the last instruction in the window.
        free: when it can start another one.
        startable: a heap of instructions in the window that could start when the engine is free.
        later: a heap of those whose operands arrive later: when, and the number.
        beyond: a heap of instructions behind the window whose operands have a time.
    """

    __slots__ = ("beyond", "end", "free", "head", "later", "numbers", "startable")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.head = 0
        self.end = -1
        self.free = 0.0
        self.startable: list[int] = []
        self.later: list[tuple[float, int]] = []
        self.beyond: list[int] = []


def list_schedule(
    engines: Sequence[str], hazards: Sequence[set[int]], costs: Sequence[tuple[float, float]]
) -> list[int]:
    """Return the numbers of a run's instructions in the order of their starts.

    Args:
        engines: of each instruction.
        hazards: earlier instructions that it must follow.
        costs: nanoseconds until its engine is free, and until its result arrives.
    """
    return _Run(engines, hazards, costs).order()


class _Run:
    """A straight run of instructions, from the first start on."""

    def __init__(
        self,
        engines: Sequence[str],
        hazards: Sequence[set[int]],
        costs: Sequence[tuple[float, float]],
    ) -> None:
        self.costs = costs
        self.after: list[list[int]] = [[] for _ in engines]
        for number, needed in enumerate(hazards):
            for neighbor in needed:
                self.after[neighbor].append(number)
        self.missing = [len(needed) for needed in hazards]
        self.ready = [0.0] * len(engines)
        self.is_started = [False] * len(engines)
        by_name: dict[str, _Sequencer] = {}
        self.sequencers = [by_name.setdefault(name, _Sequencer()) for name in engines]
        for number, sequencer in enumerate(self.sequencers):
            sequencer.numbers.append(number)
            if not hazards[number]:
                sequencer.beyond.append(number)  # ascending: a heap
        self.engines = list(by_name.values())

    def order(self) -> list[int]:
        for sequencer in self.engines:
            self.advance(sequencer)
        starts = [self.next(sequencer) for sequencer in self.engines]
        number_of = {id(sequencer): number for number, sequencer in enumerate(self.engines)}
        order: list[int] = []
        for _ in self.is_started:
            begin, number = min(starts)
            order.append(number)
            for sequencer in self.start(begin, number):
                starts[number_of[id(sequencer)]] = self.next(sequencer)
        return order

    def start(self, begin: float, number: int) -> list[_Sequencer]:
        """Start an instruction; return the engines whose next instruction may be another one."""
        interval, latency = self.costs[number]
        sequencer = self.sequencers[number]
        if sequencer.startable and sequencer.startable[0] == number:
            heappop(sequencer.startable)
        else:
            heappop(sequencer.later)
        sequencer.free = begin + interval
        self.is_started[number] = True
        changed = [sequencer]
        end, ready, missing = begin + latency, self.ready, self.missing
        for neighbor in self.after[number]:
            if end > ready[neighbor]:
                ready[neighbor] = end
            missing[neighbor] -= 1
            if not missing[neighbor]:
                owner = self.sequencers[neighbor]
                if neighbor <= owner.end:
                    heappush(owner.later, (ready[neighbor], neighbor))
                else:
                    heappush(owner.beyond, neighbor)
                changed.append(owner)
        self.advance(sequencer)
        return changed

    def advance(self, sequencer: _Sequencer) -> None:
        """Move the window to the first instruction that has not started."""
        numbers, head, is_started = sequencer.numbers, sequencer.head, self.is_started
        while head < len(numbers) and is_started[numbers[head]]:
            head += 1
        sequencer.head = head
        sequencer.end = numbers[min(head + WINDOW_INSTRUCTIONS, len(numbers)) - 1]
        beyond = sequencer.beyond
        while beyond and beyond[0] <= sequencer.end:
            number = heappop(beyond)
            heappush(sequencer.later, (self.ready[number], number))

    def next(self, sequencer: _Sequencer) -> tuple[float, int]:
        """Return the earliest start of an engine's instructions, and the instruction."""
        later, startable, free = sequencer.later, sequencer.startable, sequencer.free
        while later and later[0][0] <= free:
            heappush(startable, heappop(later)[1])
        if startable:
            return free, startable[0]
        return later[0] if later else _NEVER
