"""The contents of a memory, as a map from ranges of bytes to values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Run", "Runs"]


class Run(NamedTuple):
    """Bytes of a space with one value, which is empty where nothing is written.

    Attributes:
        space: name of the memory space.
        low, high: bytes, ``high`` excluded.
        value: what they hold.
    """

    space: str
    low: int
    high: int
    value: str


@dataclass(slots=True)
class _Space:
    """Run ``i`` is ``[starts[i], starts[i + 1])``; the last one has no end."""

    starts: list[int] = field(default_factory=lambda: [0])
    values: list[str] = field(default_factory=lambda: [""])

    def cut(self, byte: int) -> int:
        """Number of the run that starts at a byte; one is cut when none does."""
        position = bisect_right(self.starts, byte) - 1
        if self.starts[position] == byte:
            return position
        self.starts.insert(position + 1, byte)
        self.values.insert(position + 1, self.values[position])
        return position + 1


@dataclass(slots=True)
class Runs:
    """The runs of all spaces. A range that is written becomes one run, so the work for an access is
    that of the runs which it touches."""

    _spaces: dict[str, _Space] = field(default_factory=dict[str, _Space])

    def put(self, run: Run) -> None:
        """Give bytes a value."""
        if run.low >= run.high:
            return
        space = self._space(run.space)
        begin, end = space.cut(run.low), space.cut(run.high)
        space.starts[begin:end] = [run.low]
        space.values[begin:end] = [run.value]

    def meet(self, run: Run, lost: str) -> None:
        """Give bytes the value ``lost`` where they hold another one than the run's."""
        if run.low >= run.high:
            return
        space = self._space(run.space)
        begin, end = space.cut(run.low), space.cut(run.high)
        for position in range(begin, end):
            if space.values[position] != run.value:
                space.values[position] = lost

    def over(self, name: str, low: int, high: int) -> Iterator[Run]:
        """The runs of a range, clipped to it."""
        space = self._spaces.get(name)
        if space is None:
            if low < high:
                yield Run(name, low, high, "")
            return
        position = bisect_right(space.starts, low) - 1
        while low < high:
            following = position + 1
            end = space.starts[following] if following < len(space.starts) else high
            yield Run(name, low, min(end, high), space.values[position])
            low, position = end, following

    def all(self) -> Iterator[Run]:
        """The runs that hold something."""
        for name, space in self._spaces.items():
            for position, value in enumerate(space.values[:-1]):
                if value:
                    yield Run(name, space.starts[position], space.starts[position + 1], value)

    def _space(self, name: str) -> _Space:
        space = self._spaces.get(name)
        if space is None:
            space = self._spaces[name] = _Space()
        return space
