"""Devices that are launched one by one and have to run together.

torch_xla compiles each program for all devices and launches it on one at a time, each from its
own thread. A program whose devices communicate starts when the last of them arrives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

from neff.device.status import Status, StatusError

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
        place: int,
        size: int,
        value: Any,
        work: Callable[[list[Any]], list[Any]],
    ) -> Any:
        """Wait for all participants; the last one does the work for everybody.

        Args:
            key: what they meet for.
            place: this participant's number, below ``size``.
            size: how many there are.
            value: what this participant brings.
            work: all values in the order of places -> all results in that order.

        Raises:
            StatusError: the others did not come in time.
            BaseException: whatever ``work`` raised, for every participant.
        """
        meeting = self._join(key, place, value)
        if len(meeting.brought) == size:
            self._finish(key, meeting, work)
        with self._changed:
            if not self._changed.wait_for(lambda: meeting.is_over, self._patience):
                self._open.pop(key, None)
                raise StatusError(
                    Status.FAILED_PRECONDITION,
                    f"[NEFF-DEVICE-LAUNCH] a program for {size} devices was launched on "
                    f"{sorted(meeting.brought)} only",
                )
        if meeting.error is not None:
            raise meeting.error
        return (meeting.results or [])[place]

    def _join(self, key: Hashable, place: int, value: Any) -> _Meeting:
        with self._changed:
            # Somebody who is early for the next launch waits until this one has started.
            self._changed.wait_for(
                lambda: key not in self._open or place not in self._open[key].brought,
                self._patience,
            )
            meeting = self._open.setdefault(key, _Meeting())
            meeting.brought[place] = value
            return meeting

    def _finish(
        self, key: Hashable, meeting: _Meeting, work: Callable[[list[Any]], list[Any]]
    ) -> None:
        with self._changed:
            self._open.pop(key, None)
            self._changed.notify_all()
        try:
            results = work([meeting.brought[each] for each in sorted(meeting.brought)])
        except BaseException as error:
            with self._changed:
                meeting.error = error
                self._changed.notify_all()
            return
        with self._changed:
            meeting.results = results
            self._changed.notify_all()
