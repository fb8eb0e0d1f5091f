"""Where the cores of a kernel, or the ranks of a group, meet.

Every member runs in a thread of its own, but only one runs at a time: the lowest that can go on.
It runs until it has to wait for another, so a program has the same result each time. When
no member can go on, all that wait receive an error that names who waits for whom and where.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nki_lang.dtypes import Array
from nki_lang.errors import NkiExecutionError
from nki_lang.semantics.floats import engine_floats
from nki_lang.source import SourceLocation

__all__ = ["Cores", "Meeting", "Ranks", "run_together"]


class Meeting:
    """Meeting place of ``size`` members, numbered from 0.

    Attributes:
        size: number of members.
        names: what each member is called in messages.
    """

    def __init__(self, size: int, names: Sequence[str] = ()) -> None:
        self.size = size
        self.names = tuple(names) or tuple(f"core {member}" for member in range(size))
        self._lock = threading.Condition()
        self._running = set(range(size))
        self._turn = 0
        self._waiting: dict[int, tuple[str, tuple[int, ...], SourceLocation | None]] = {}
        self._met: dict[Any, dict[int, Any]] = {}
        self._visits: dict[Any, int] = {}
        self._dead: NkiExecutionError | None = None

    def barrier(self, core: int, cores: tuple[int, ...], place: SourceLocation | None) -> None:
        """Wait until every core of ``cores`` is here."""
        Cores(self, 0, self.size).barrier(core, cores, place)

    def swap(
        self,
        core: int,
        value: Array,
        to: int,
        source: int,
        pipe: int,
        place: SourceLocation | None,
    ) -> Array:
        """Hand ``value`` to core ``to`` and take what core ``source`` hands over."""
        return Cores(self, 0, self.size).swap(core, value, to, source, pipe, place)

    def meet(
        self,
        member: int,
        members: tuple[int, ...],
        what: tuple[Any, ...],
        value: Any,
        place: SourceLocation | None,
    ) -> dict[int, Any]:
        """Wait until all ``members`` came here as often as this one; the value of each.

        Raises:
            NkiExecutionError: ``NKI-DEADLOCK``.
        """
        with self._lock:
            visit = self._visits.get((member, members, what), 0)
            self._visits[member, members, what] = visit + 1
            key = (members, what, visit)
            met = self._met.setdefault(key, {})
            met[member] = value
            if len(met) == len(members):
                del self._met[key]
                for other in members:
                    self._waiting.pop(other, None)
                return met
            self._waiting[member] = (what[0], members, place)
            self._hand_over()
            while self._turn != member or member in self._waiting:
                if self._dead is not None:
                    raise self._dead
                self._lock.wait()
            return met

    def start(self, member: int) -> None:
        """Wait for the first turn."""
        with self._lock:
            while self._turn != member and self._dead is None:
                self._lock.wait()

    def finish(self, member: int) -> None:
        """The member has ended or failed; the next one goes on."""
        with self._lock:
            self._running.discard(member)
            self._hand_over()

    def _hand_over(self) -> None:
        """Give the turn to the lowest member that does not wait, or declare a deadlock."""
        ready = sorted(self._running - self._waiting.keys())
        if ready:
            self._turn = ready[0]
        elif self._waiting and self._dead is None:
            self._dead = self._deadlock()
        self._lock.notify_all()

    def _deadlock(self) -> NkiExecutionError:
        lines: list[str] = []
        for member, (what, members, place) in sorted(self._waiting.items()):
            others = ", ".join(self.names[other] for other in members if other != member)
            at = place or "an unknown line"
            lines.append(f"{self.names[member]} waits in {what} for {others} at {at}")
        awaited = {other for _, members, _ in self._waiting.values() for other in members}
        lines += [f"{self.names[other]} has ended" for other in sorted(awaited - self._running)]
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

    def barrier(self, core: int, cores: tuple[int, ...], place: SourceLocation | None) -> None:
        """Wait until every core of ``cores`` is here.

        Raises:
            NkiExecutionError: ``NKI-CORES``, the kernel runs on fewer.
        """
        members = self._members(cores, place)
        self._meeting.meet(self._base + core, members, ("core_barrier",), None, place)

    def swap(
        self,
        core: int,
        value: Array,
        to: int,
        source: int,
        pipe: int,
        place: SourceLocation | None,
    ) -> Array:
        """Hand ``value`` to core ``to`` and take what core ``source`` hands over.

        Raises:
            NkiExecutionError: ``NKI-SENDRECV``, the other core sends elsewhere; ``NKI-CORES``, the
                kernel runs on fewer.
        """
        members = self._members({core, to, source}, place)
        what = ("sendrecv", pipe)
        met = self._meeting.meet(self._base + core, members, what, (to, value), place)
        target, received = met[self._base + source]
        if target != core:
            raise NkiExecutionError(
                f"core {core} expects data from core {source}, which sends to core {target}",
                code="NKI-SENDRECV",
                location=place,
                remedy="make send_to_rank and recv_from_rank of the two cores match",
            )
        return received

    def _members(self, cores: Iterable[int], place: SourceLocation | None) -> tuple[int, ...]:
        beyond = [core for core in cores if not 0 <= core < self._count]
        if beyond:
            raise NkiExecutionError(
                f"core {beyond[0]} is named, and the kernel runs on {self._count} cores",
                code="NKI-CORES",
                location=place,
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
        what: tuple[Any, ...],
        value: Any,
        place: SourceLocation | None,
    ) -> dict[int, Any]:
        """Wait until all ranks of ``members`` came here as often as this one."""
        own = self._members
        seats = tuple(own[rank] for rank in members)
        met = self._meeting.meet(own[member], seats, what, value, place)
        return {rank: met[own[rank]] for rank in members}


def run_together(programs: Sequence[Callable[[], Any]], meeting: Meeting) -> list[Any]:
    """Run each program in a thread of its own; what each returned.

    Raises:
        BaseException: what the first member raised; a deadlock that only follows from another
            member's failure gives way to that failure.
    """
    results: list[Any] = [None] * len(programs)
    failures: dict[int, BaseException] = {}

    def work(member: int, program: Callable[[], Any]) -> None:
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
