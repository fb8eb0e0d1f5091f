"""Random views of a tensor, each with the elements that it names."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.fuzz.drivers.oracle.places import OutsideError, Region, Values, resolved, width
from tests.fuzz.drivers.oracle.program import Access, ByCore, Counter, Number, Step, Tensor

__all__ = ["STARTS", "Views"]

STARTS = ((32, (0, 32, 64, 96)), (64, (0, 64)), (128, (0,)))
"""Up to so many partitions start at one of these (architecture guide: start partition)."""

_RANK = 4


@dataclass(slots=True)
class Views:
    """The state with which views are drawn.

    Attributes:
        chance: source of random numbers.
        tensors: of the program.
        cores: 1 or 2.
        counter, turns: of the loop around, if there is one.
    """

    chance: random.Random
    tensors: Mapping[str, Tensor]
    cores: int = 1
    counter: str = ""
    turns: int = 1

    def regions(self, access: Access) -> list[Region]:
        """The elements of an access on each core, in the first and in the last turn.

        Raises:
            OutsideError: one of them does not exist.
        """
        iterations = {0, self.turns - 1} if self.counter else {0}
        return [
            resolved(access, self.tensors, Values(core, {self.counter: iteration}))
            for core in range(self.cores)
            for iteration in sorted(iterations)
        ]

    def view(self, name: str, *, engine: bool, writes: bool = False) -> tuple[Access, Region]:
        """Up to three views after each other, with different elements if they are written."""
        access = Access(name)
        (region, *_) = self.regions(access)
        for _ in range(self.chance.choice((0, 1, 1, 2, 3))):
            kind = self.chance.choice(KINDS)
            step = kind(_Drawn(self, access, region, engine, writes))
            if step is None:
                continue
            longer = Access(name, (*access.steps, step))
            try:
                regions = self.regions(longer)
            except OutsideError:
                continue
            if len(regions[0].shape) <= _RANK:
                access, region = longer, regions[0]
        return access, region

    def leaving(self, name: str) -> Access | None:
        """A pattern that stays in its tile and leaves its partition; None if there is none."""
        tensor, row = self.tensors[name], width(self.tensors[name])
        if not tensor.on_chip or tensor.shape[0] < 2:
            return None
        rows = self.chance.randrange(1, tensor.shape[0])
        extent = self.chance.randrange(1, row + 1)
        offset = self.chance.randrange(row - extent + 1, row + 1) if extent < row else 1
        if offset == row:
            return None
        return Access(name, (Step("ap", (((row, rows), (1, extent)), offset)),))

    def number(self, low: int, high: int) -> Number:
        """A number in [low, high], sometimes one for each core."""
        if self.cores == 2 and self.chance.random() < 0.2:
            return ByCore((self.chance.randint(low, high), self.chance.randint(low, high)))
        return self.chance.randint(low, high)


@dataclass(slots=True)
class _Drawn:
    """The input of a step's drawing."""

    views: Views
    access: Access
    region: Region
    engine: bool
    writes: bool
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = self.views.chance

    @property
    def first(self) -> int:
        """The first dimension that a view may change."""
        return 1 if self.region.tensor.on_chip else 0


def _index(drawn: _Drawn) -> Step | None:
    entries: list[tuple[object, ...]] = []
    dynamic = bool(drawn.views.counter) and drawn.chance.random() < 0.6
    steps = drawn.access.steps
    dynamic = dynamic and not any(isinstance(n, Counter) for s in steps for n in _numbers(s))
    for axis, extent in enumerate(drawn.region.shape):
        if axis == 0 and drawn.region.tensor.on_chip:
            entries.append(_partitions(drawn, extent))
        elif dynamic and extent >= drawn.views.turns:
            dynamic = False
            plus = drawn.chance.randint(0, extent - drawn.views.turns)
            entries.append(("ds", Counter(drawn.views.counter, plus), 1))
        else:
            entries.append(_entry(drawn, extent))
    return Step("index", tuple(entries))


def _numbers(step: Step) -> list[object]:
    return [n for argument in step.arguments if isinstance(argument, tuple) for n in argument]


def _entry(drawn: _Drawn, extent: int) -> tuple[object, ...]:
    kind = drawn.chance.choice(("full", "full", "slice", "step", "at", "ds"))
    if kind == "full" or extent == 1:
        return ("slice", 0, extent)
    if kind == "at":
        return ("at", drawn.views.number(0, extent - 1))
    size = drawn.chance.randint(1, extent)
    if kind == "ds":
        return ("ds", drawn.views.number(0, extent - size), size)
    start = drawn.chance.randint(0, extent - size)
    step = drawn.chance.randint(2, 3) if kind == "step" else 1
    return ("slice", start, start + size, step)


def _partitions(drawn: _Drawn, extent: int) -> tuple[object, ...]:
    first = drawn.region.places[0][0]
    if drawn.chance.random() < 0.5:
        return ("slice", 0, extent)
    size = drawn.chance.randint(1, extent)
    starts = list(range(extent - size + 1))
    if drawn.engine:
        allowed = next(positions for limit, positions in STARTS if size <= limit)
        starts = [start for start in starts if first + start in allowed]
    if not starts:
        return ("slice", 0, extent)
    start = drawn.chance.choice(starts)
    return ("slice", start, start + size)


def _pattern(drawn: _Drawn) -> Step | None:
    """Up to three dimensions with any steps, as far as they stay inside."""
    tensor, chance = drawn.region.tensor, drawn.chance
    if any(step.kind != "index" for step in drawn.access.steps) or drawn.views.counter:
        return None
    row = width(tensor)
    if drawn.access.steps and drawn.region.tensor.on_chip and len(drawn.region.places) < 2:
        return None
    partition = drawn.region.places[0][0]
    elements = [region.places[0][1] for region in drawn.views.regions(drawn.access)]
    steps = range(1, 5) if drawn.writes else range(-3, 5)
    pairs = [(chance.choice(steps), chance.randint(1, 4)) for _ in range(chance.randint(1, 3))]
    low = sum(min(0, step * (count - 1)) for step, count in pairs)
    high = sum(max(0, step * (count - 1)) for step, count in pairs)
    first, last = -low - min(elements), row - 1 - high - max(elements)
    if last < first:  # of all cores
        return None
    if not tensor.on_chip:
        offset = chance.randint(first, last)
        return Step("ap", (tuple(pairs), offset)) if offset >= 0 else None
    rows = chance.randint(1, tensor.shape[0] - partition)
    skipped = 0
    if drawn.engine:
        starts = next(positions for limit, positions in STARTS if rows <= limit)
        skipped = chance.choice([s for s in starts if s >= partition] or [partition]) - partition
    offset = skipped * row + chance.randint(first, last)
    return Step("ap", (((row, rows), *pairs), offset)) if offset >= 0 else None


def _reshape_dim(drawn: _Drawn) -> Step | None:
    axis = drawn.chance.randrange(drawn.first, len(drawn.region.shape))
    extent = drawn.region.shape[axis]
    parts = [divisor for divisor in range(1, extent + 1) if extent % divisor == 0]
    outer_extent = drawn.chance.choice(parts)
    return Step("reshape_dim", (axis, (outer_extent, extent // outer_extent)))


def _flatten_dims(drawn: _Drawn) -> Step | None:
    shape = drawn.region.shape
    if len(shape) - drawn.first < 2:
        return None
    first = drawn.chance.randrange(drawn.first, len(shape) - 1)
    last = drawn.chance.randrange(first + 1, len(shape))
    size = math.prod(shape[last + 1 :])
    count = math.prod(shape[first : last + 1])
    run = [drawn.region.places[position * size][1] for position in range(count)]
    gaps = {second - first for first, second in itertools.pairwise(run)}
    return Step("flatten_dims", (first, last)) if len(gaps) <= 1 else None


def _permute(drawn: _Drawn) -> Step | None:
    axes = list(range(drawn.first, len(drawn.region.shape)))
    drawn.chance.shuffle(axes)
    return Step("permute", ((*range(drawn.first), *axes),))


def _expand_dim(drawn: _Drawn) -> Step | None:
    return Step("expand_dim", (drawn.chance.randint(drawn.first, len(drawn.region.shape)),))


def _of_one(drawn: _Drawn) -> int | None:
    shape = drawn.region.shape
    axes = [axis for axis in range(drawn.first, len(shape)) if shape[axis] == 1]
    return drawn.chance.choice(axes) if axes else None


def _squeeze_dim(drawn: _Drawn) -> Step | None:
    axis = _of_one(drawn)
    has_few_dims = len(drawn.region.shape) < 3
    return None if axis is None or has_few_dims else Step("squeeze_dim", (axis,))


def _broadcast(drawn: _Drawn) -> Step | None:
    axis = _of_one(drawn)
    if axis is None or drawn.writes:
        return None
    return Step("broadcast", (axis, drawn.chance.randint(2, 4)))


KINDS: tuple[Callable[[_Drawn], Step | None], ...] = (
    _index, _index, _index, _pattern, _pattern, _reshape_dim, _reshape_dim, _flatten_dims,
    _permute, _expand_dim, _squeeze_dim, _broadcast, _broadcast,
)  # fmt: skip
