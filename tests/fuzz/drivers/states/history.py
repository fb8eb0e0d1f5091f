"""A random history: where a kernel's numbers are, and what happens to it, as data."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.fuzz.drivers.states.holders import HOLDERS

__all__ = ["FRAMEWORKS", "PLAIN_WAYS", "History", "Step", "history"]

PLAIN_WAYS = ("direct", "simulate", "neff", "threads", "fork", "process", "files")
"""Ways without a framework in the process."""
FRAMEWORKS = ("direct", "jax", "jax again", "jax scan", "torch", "torch neuron", "threads")


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens.

    Attributes:
        what: ``call`` in a way, ``change`` of a holder, ``keyword`` of the call, or ``reload``.
        name: the way.
        place: the holder.
        value: the new number, or the seed of the data.
    """

    what: str
    name: str = ""
    place: int = 0
    value: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """A world and what happens in it.

    Attributes:
        seed: of the generator.
        holders: names in :data:`states.holders.HOLDERS`.
        numbers: what they hold at first.
        memory: where the result lies.
        writes: whether the kernel also adds one to its argument in place.
        passed_holder: the holder whose object is an argument of the kernel; -1 for none.
        steps: in order.
    """

    seed: int
    holders: tuple[str, ...]
    numbers: tuple[int, ...]
    memory: str
    writes: bool
    steps: tuple[Step, ...]
    passed_holder: int = -1

    @property
    def has_frameworks(self) -> bool:
        return any(step.name.startswith(("jax", "torch")) for step in self.steps)

    def smaller(self) -> Iterator[History]:
        """Without a step, without an object as argument, or without a holder."""
        for number in reversed(range(len(self.steps))):
            yield replace(self, steps=(*self.steps[:number], *self.steps[number + 1 :]))
        if self.passed_holder >= 0:
            yield replace(self, passed_holder=-1)
        for number in range(len(self.holders)):
            if len(self.holders) == 1:
                return
            moved = tuple(
                replace(step, place=step.place - (step.place > number))
                for step in self.steps
                if step.what != "change" or step.place != number
            )
            yield replace(
                self, steps=moved, holders=self.holders[:number] + self.holders[number + 1 :],
                numbers=self.numbers[:number] + self.numbers[number + 1 :],
                passed_holder=-1 if self.passed_holder == number else self.passed_holder - (self.passed_holder > number),
            )  # fmt: skip


def history(seed: int) -> History:
    """The history of a seed."""
    chance = random.Random(seed)
    names = tuple(chance.choice(list(HOLDERS)) for _ in range(chance.randrange(1, 4)))
    modes = FRAMEWORKS if chance.random() < 0.4 else PLAIN_WAYS
    weights = [1 if mode in ("process", "files", "fork") else 4 for mode in modes]
    steps: list[Step] = []
    for _ in range(chance.randrange(4, 14)):
        kind = chance.choices(("call", "change", "again", "keyword"), (6, 5, 1, 1))[0]
        if kind == "again" and steps:
            steps.append(steps[0])
        elif kind == "change":
            steps.append(Step("change", "", chance.randrange(len(names)), chance.randrange(1, 60)))
        elif kind == "keyword":
            steps.append(Step("keyword", "", 0, chance.randrange(4)))
        else:
            steps.append(Step("call", chance.choices(modes, weights)[0], 0, chance.randrange(3)))
    return History(
        seed, names, tuple(chance.randrange(1, 60) for _ in names),
        chance.choice(("shared_hbm", "hbm", "private_hbm")), chance.random() < 0.2, tuple(steps),
        chance.randrange(len(names)) if chance.random() < 0.4 else -1,
    )  # fmt: skip
