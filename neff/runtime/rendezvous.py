"""Devices that are launched one by one, each from its own thread, and have to run together.

torch_xla compiles each program for all devices and launches it on one at a time; models of ``spike``
and ``nrtpy`` are each one rank. What communicates starts when the last of them arrives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

from neff.errors import NeffRuntimeError

__all__ = ["Rendezvous"]

_PATIENCE_SECONDS = 600.0


class _Meeting:
    """One launch: what each participant brought, and what it takes home."""

    def __init__(self) -> None:
        self.brought: dict[int, Any] = {}
        self.results: list[Any] | None = None
        self.error: BaseException | None = None

    @property
    def is_over(self) -> bool:
        return self.results is not None or self.error is not None


class Rendezvous:
    """Brings the participants of a launch together."""

    def __init__(self, patience: float = _PATIENCE_SECONDS) -> None:
        self._changed = threading.Condition()
        self._open: dict[Hashable, _Meeting] = {}
        self._patience = patience

    def meet(
        self,
        key: Hashable,
        position: int,
        size: int,
        value: Any,
        work: Callable[[list[Any]], list[Any]],
    ) -> Any:
        """Wait for all participants; the last one does the work for everybody.

        Args:
            key: what they meet for.
            position: this participant's number, below ``size``.
            size: how many there are.
            value: what this participant brings.
            work: all values in the order of places -> all results in that order.

        Raises:
            NeffRuntimeError: ``NEFF-EXEC-DEADLOCK``; the others did not come in time.
            BaseException: whatever ``work`` raised, for every participant.
        """
        meeting = self._join(key, position, value)
        if len(meeting.brought) == size:
            self._finish(key, meeting, work)
        with self._changed:
            if not self._changed.wait_for(lambda: meeting.is_over, self._patience):
                self._open.pop(key, None)
                raise self.late(size, sorted(meeting.brought))
        if meeting.error is not None:
            raise meeting.error
        return (meeting.results or [])[position]

    def late(self, size: int, came: list[int]) -> Exception:
        """The error for a launch to which some never came."""
        missing = sorted(set(range(size)) - set(came))
        return NeffRuntimeError(
            f"the model is for {size} ranks that run it together; within {self._patience:g} s of the "
            f"first, {', '.join(map(str, missing))} did not come",
            code="NEFF-EXEC-DEADLOCK",
            remedy="run the model of each rank in this process, from a thread of its own, equally often",
        )

    def _join(self, key: Hashable, position: int, value: Any) -> _Meeting:
        with self._changed:
            # Somebody who is early for the next launch waits until this one has started.
            self._changed.wait_for(
                lambda: key not in self._open or position not in self._open[key].brought,
                self._patience,
            )
            meeting = self._open.setdefault(key, _Meeting())
            meeting.brought[position] = value
            return meeting

    def _finish(
        self, key: Hashable, meeting: _Meeting, work: Callable[[list[Any]], list[Any]]
    ) -> None:
        with self._changed:
            self._open.pop(key, None)
            self._changed.notify_all()
        try:
            results = work([meeting.brought[rank] for rank in sorted(meeting.brought)])
        except BaseException as error:
            with self._changed:
                meeting.error = error
                self._changed.notify_all()
            return
        with self._changed:
            meeting.results = results
            self._changed.notify_all()
