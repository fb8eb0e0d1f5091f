"""Handles: the numbers that the framework holds in place of our objects.

PJRT types are opaque pointers that only the plugin follows, so any number other than zero will
do. Numbers are never used twice: a stale handle is an error, not another object.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, Protocol, TypeVar

from neff.device.pjrt.status import Status, StatusError

__all__ = ["HandleTable", "Host"]

T = TypeVar("T")

_FIRST_HANDLE, _STEP = (
    0x1000,
    16,
)  # non-zero and aligned: frameworks may tag the low bits of a pointer


class HandleTable:
    """A thread-safe table from handles to live objects."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}
        self._next = itertools.count(_FIRST_HANDLE, _STEP)
        self._lock = threading.Lock()

    def add(self, value: Any) -> int:
        """Keep ``value`` alive and return its handle."""
        with self._lock:
            handle = next(self._next)
            self._objects[handle] = value
        return handle

    def get(self, handle: int | None, kind: type[T]) -> T:
        """The object behind a handle.

        Raises:
            StatusError: there is no such object, or it is of another kind.
        """
        value = self._objects.get(handle or 0)
        if isinstance(value, kind):
            return value
        actual = "nothing" if value is None else f"a {type(value).__name__}"
        raise StatusError(
            Status.INVALID_ARGUMENT,
            f"[NEFF-DEVICE-HANDLE] handle {handle!r} is {actual}, expected a {kind.__name__}",
        )

    def drop(self, handle: int | None) -> None:
        """Forget a handle; unknown and null handles are ignored (PJRT allows null)."""
        with self._lock:
            self._objects.pop(handle or 0, None)

    def __len__(self) -> int:
        return len(self._objects)

    def all(self, kind: type[T]) -> list[T]:
        """The live objects of one kind."""
        with self._lock:
            return [value for value in self._objects.values() if isinstance(value, kind)]

    def count(self, kind: type[Any]) -> int:
        """How many live objects of one kind there are."""
        return len(self.all(kind))


class Host(Protocol):
    """The plugin's interface for every slot: handles and errors.

    Slots that need more of it name a protocol that extends this one, declared where the values
    are that it names (:class:`neff.device.pjrt.topology.DeviceHost`,
    :class:`neff.device.executables.ProgramHost`).
    """

    handles: HandleTable

    def error_handle(self, code: int, message: str) -> int:
        """A ``PJRT_Error*`` for the framework, which destroys it."""
        ...
