"""Events: what PJRT calls the completion of something.

The device works synchronously, so its own events are complete when they are made. Events that
the framework creates (``Event_Create``) complete when it sets them.
"""

from __future__ import annotations

import threading
from ctypes import Structure
from typing import Any

from neff.device.pjrt import abi
from neff.device.pjrt.c_strings import text_at
from neff.device.pjrt.handles import Host
from neff.device.pjrt.slots import slot
from neff.device.pjrt.status import StatusError

__all__ = ["Event"]


class Event:
    """A completion with an optional error (code, message)."""

    __slots__ = ("_callbacks", "_done", "error")

    def __init__(self, *, complete: bool = True, error: tuple[int, str] | None = None) -> None:
        self.error = error
        self._done = None if complete else threading.Event()
        self._callbacks: list[Any] = []

    @property
    def is_ready(self) -> bool:
        """Return whether it is complete, with an error or without."""
        return self._done is None or self._done.is_set()

    def wait(self) -> None:
        """Block until complete."""
        if self._done is not None:
            self._done.wait()

    def raise_error(self) -> None:
        """Raise the error that the event carries, if it carries one."""
        if self.error is not None:
            raise StatusError(*self.error)

    def when_ready(self, callback: Any) -> None:
        """Call ``callback()`` once complete: now, or from whoever completes it."""
        if self.is_ready:
            callback()
        else:
            self._callbacks.append(callback)

    def complete(self, error: tuple[int, str] | None) -> None:
        """Complete an event that was created incomplete."""
        self.error = error
        if self._done is not None:
            self._done.set()
        pending, self._callbacks = self._callbacks, []
        for callback in pending:
            callback()


@slot
def event_destroy(host: Host, arguments: Structure) -> None:
    host.handles.drop(arguments.event)


@slot
def event_is_ready(host: Host, arguments: Structure) -> None:
    arguments.is_ready = host.handles.get(arguments.event, Event).is_ready


@slot
def event_error(host: Host, arguments: Structure) -> None:
    host.handles.get(arguments.event, Event).raise_error()


@slot
def event_await(host: Host, arguments: Structure) -> None:
    event = host.handles.get(arguments.event, Event)
    event.wait()
    event.raise_error()


@slot
def event_on_ready(host: Host, arguments: Structure) -> None:
    event = host.handles.get(arguments.event, Event)
    callback, user = abi.ErrorCallback(arguments.callback), arguments.user_arg

    def call() -> None:
        # The callback takes over the error and destroys it.
        callback(host.error_handle(*event.error) if event.error else None, user)

    event.when_ready(call)


@slot
def event_create(host: Host, arguments: Structure) -> None:
    arguments.event = host.handles.add(Event(complete=False))


@slot
def event_set(host: Host, arguments: Structure) -> None:
    event = host.handles.get(arguments.event, Event)
    message = text_at(arguments.message, arguments.message_size)
    event.complete((arguments.code, message) if arguments.code else None)
