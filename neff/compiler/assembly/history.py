"""Which value each kernel call means when it reads or writes a memory: values against memory.

A memory is a variable of the program. What is computed in it gets a name of its own, a *version*, each
time that a value takes the place of another. While a graph is lowered, views and kernel calls name
versions; this record keeps them, and the memory of each, for the proof that no read comes too late
(:mod:`neff.compiler.assembly.overwrites`). Nothing here takes part in the choice of memories.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Began", "Choice", "Event", "History", "Renamed", "Turns", "Used"]


@dataclass(frozen=True, slots=True)
class Used:
    """A kernel call.

    Attributes:
        call: its number in the program.
        reads, writes: versions.
    """

    call: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Renamed:
    """The content of a memory becomes another version without a copy.

    Attributes:
        call: number of the next call.
        old: the version that must be there.
        new: the version that is there afterwards.
    """

    call: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Began:
    """A version begins with any content; what follows writes all of it before it is read."""

    version: str


@dataclass(frozen=True, slots=True)
class Turns:
    """A loop.

    Attributes:
        body: the events of each turn.
        certain: it has at least one turn.
    """

    body: list[Event]
    certain: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """Branches, of which one is taken."""

    branches: list[list[Event]]


Event = Used | Renamed | Began | Turns | Choice


@dataclass(slots=True)
class History:
    """The events of a program in order.

    Attributes:
        events: of the block that is being lowered; of the whole program in the end.
        memories: version -> its memory, where the names differ.
    """

    events: list[Event] = field(default_factory=list[Event])
    memories: dict[str, str] = field(default_factory=dict[str, str])

    def memory(self, version: str) -> str:
        """The memory that a version is in."""
        return self.memories.get(version, version)

    def version(self, memory: str) -> str:
        """The name of a fresh version in a memory."""
        name = f"{memory}@{len(self.memories)}"
        self.memories[name] = memory
        return name

    def finish(self, outputs: Iterable[str], calls: int) -> None:
        """Whoever calls the program reads its outputs behind its last kernel."""
        self.events.append(Used(calls, tuple(outputs), ()))

    @contextmanager
    def turns(self, *, certain: bool) -> Generator[None]:
        """Record the events of the ``with`` block as the body of a loop."""
        around, self.events = self.events, []
        yield
        around.append(Turns(self.events, certain))
        self.events = around

    @contextmanager
    def branch(self, choice: Choice) -> Generator[None]:
        """Record the events of the ``with`` block as a new branch of a choice in the events."""
        around, self.events = self.events, []
        yield
        choice.branches.append(self.events)
        self.events = around
