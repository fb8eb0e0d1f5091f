"""Synchronization of the cores of a kernel, or of the ranks of a group.

Every member has a thread, but only one thread runs at a time: the ready member with the lowest
number. It runs until it waits for another member, so a program has the same result on each run.
When no member is ready, all waiting members receive an error that lists who waits for whom and
where.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nki_lang.base.dtypes import Array
from nki_lang.base.errors import NkiExecutionError
from nki_lang.base.source import SourceLocation
from nki_lang.semantics.floats import engine_floats

__all__ = ["Cores", "Meeting", "Ranks", "run_together"]


class Meeting:
    """Synchronization of ``size`` members, numbered from 0.

    Attributes:
        size: number of members.
        names: name of each member in messages.
    """

    def __init__(self, size: int, names: Sequence[str] = ()) -> None:
        self.size = size
        self.names = tuple(names) or tuple(f"core {member}" for member in range(size))
        self._lock = threading.Condition()
        self._running = set(range(size))
        self._active = 0
        self._waiting: dict[int, tuple[str, tuple[int, ...], SourceLocation | None]] = {}
        self._arrived: dict[Any, dict[int, Any]] = {}
        self._visits: dict[Any, int] = {}
        self._dead: NkiExecutionError | None = None

    def barrier(self, core: int, cores: tuple[int, ...], location: SourceLocation | None) -> None:
        """Wait until every core of ``cores`` calls this."""
        Cores(self, 0, self.size).barrier(core, cores, location)

    def swap(
        self,
        core: int,
        value: Array,
        to: int,
        source: int,
        pipe: int,
        location: SourceLocation | None,
    ) -> Array:
        """Pass ``value`` to core ``to`` and return the value that core ``source`` passes."""
        return Cores(self, 0, self.size).swap(core, value, to, source, pipe, location)

    def meet(
        self,
        member: int,
        members: tuple[int, ...],
        key: tuple[Any, ...],
        value: object,
        location: SourceLocation | None,
    ) -> dict[int, Any]:
        """Wait until all ``members`` have called this equally often; return the value of each.

        Raises:
            NkiExecutionError: ``NKI-DEADLOCK``.
        """
        with self._lock:
            visit = self._visits.get((member, members, key), 0)
            self._visits[member, members, key] = visit + 1
            meeting_key = (members, key, visit)
            arrived = self._arrived.setdefault(meeting_key, {})
            arrived[member] = value
            if len(arrived) == len(members):
                del self._arrived[meeting_key]
                for peer in members:
                    self._waiting.pop(peer, None)
                return arrived
            self._waiting[member] = (key[0], members, location)
            self._activate_next()
            while self._active != member or member in self._waiting:
                if self._dead is not None:
                    raise self._dead
                self._lock.wait()
            return arrived

    def start(self, member: int) -> None:
        """Wait until the member may run for the first time."""
        with self._lock:
            while self._active != member and self._dead is None:
                self._lock.wait()

    def finish(self, member: int) -> None:
        """Record that the member has ended or failed, and activate the next one."""
        with self._lock:
            self._running.discard(member)
            self._activate_next()

    def _activate_next(self) -> None:
        """Activate the ready member with the lowest number, or declare a deadlock."""
        ready = sorted(self._running - self._waiting.keys())
        if ready:
            self._active = ready[0]
        elif self._waiting and self._dead is None:
            self._dead = self._deadlock()
        self._lock.notify_all()

    def _deadlock(self) -> NkiExecutionError:
        lines: list[str] = []
        for member, (what, members, location) in sorted(self._waiting.items()):
            peers = ", ".join(self.names[peer] for peer in members if peer != member)
            line = location or "an unknown line"
            lines.append(f"{self.names[member]} waits in {what} for {peers} at {line}")
        awaited = {peer for _, members, _ in self._waiting.values() for peer in members}
        lines += [f"{self.names[peer]} has ended" for peer in sorted(awaited - self._running)]
        return NkiExecutionError(
            f"deadlock: {'; '.join(lines)}",
            code="NKI-DEADLOCK",
            location=self._waiting[min(self._waiting)][2],
            remedy="call the same instructions in the same order everywhere",
        )


class Cores:
    """The ``count`` cores of one kernel as members ``base``, ``base + 1``, ... of a meeting."""

    def __init__(self, meeting: Meeting, base: int, count: int) -> None:
        self._meeting = meeting
        self._base = base
        self._count = count

    def barrier(self, core: int, cores: tuple[int, ...], location: SourceLocation | None) -> None:
        """Wait until every core of ``cores`` calls this.

        Raises:
            NkiExecutionError: ``NKI-CORES``, the kernel runs on fewer cores.
        """
        members = self._members(cores, location)
        self._meeting.meet(self._base + core, members, ("core_barrier",), None, location)

    def swap(
        self,
        core: int,
        value: Array,
        to: int,
        source: int,
        pipe: int,
        location: SourceLocation | None,
    ) -> Array:
        """Pass ``value`` to core ``to`` and return the value that core ``source`` passes.

        Raises:
            NkiExecutionError: ``NKI-SENDRECV``, the other core sends elsewhere; ``NKI-CORES``, the
                kernel runs on fewer cores.
        """
        members = self._members({core, to, source}, location)
        key = ("sendrecv", pipe)
        met = self._meeting.meet(self._base + core, members, key, (to, value), location)
        target, received = met[self._base + source]
        if target != core:
            raise NkiExecutionError(
                f"core {core} expects data from core {source}, which sends to core {target}",
                code="NKI-SENDRECV",
                location=location,
                remedy="make send_to_rank and recv_from_rank of the two cores match",
            )
        return received

    def _members(self, cores: Iterable[int], location: SourceLocation | None) -> tuple[int, ...]:
        beyond = [core for core in cores if not 0 <= core < self._count]
        if beyond:
            raise NkiExecutionError(
                f"core {beyond[0]} is named, and the kernel runs on {self._count} cores",
                code="NKI-CORES",
                location=location,
                remedy=f"name cores 0 to {self._count - 1}",
            )
        return tuple(sorted(self._base + core for core in cores))


class Ranks:
    """The same core of every rank as members of a meeting.

    Attributes:
        size: number of ranks.
    """

    def __init__(self, meeting: Meeting, bases: Sequence[int], core: int) -> None:
        self.size = len(bases)
        self._meeting = meeting
        self._members = tuple(base + core for base in bases)

    def meet(
        self,
        member: int,
        members: tuple[int, ...],
        key: tuple[object, ...],
        value: object,
        location: SourceLocation | None,
    ) -> dict[int, Any]:
        """Wait until all ranks of ``members`` have called this equally often; return the value of
        each.
        """
        all_members = self._members
        seats = tuple(all_members[rank] for rank in members)
        met = self._meeting.meet(all_members[member], seats, key, value, location)
        return {rank: met[all_members[rank]] for rank in members}


def run_together(programs: Sequence[Callable[[], object]], meeting: Meeting) -> list[Any]:
    """Run each program in a thread and return the results.

    Raises:
        BaseException: the exception of the first member that failed; a deadlock that follows from
            another member's failure is not reported.
    """
    results: list[Any] = [None] * len(programs)
    failures: dict[int, BaseException] = {}

    def work(member: int, program: Callable[[], object]) -> None:
        meeting.start(member)
        try:
            with engine_floats():
                results[member] = program()
        except BaseException as error:
            failures[member] = error
        finally:
            meeting.finish(member)

    threads = [
        threading.Thread(
            target=contextvars.copy_context().run, args=(work, member, program), daemon=True
        )
        for member, program in enumerate(programs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[min(failures, key=lambda member: (_follows(failures[member]), member))]
    return results


def _follows(error: BaseException) -> bool:
    return isinstance(error, NkiExecutionError) and error.code == "NKI-DEADLOCK"
