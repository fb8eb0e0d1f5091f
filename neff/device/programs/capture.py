"""Who wants to see each program that a framework compiles.

A callback takes a :class:`Captured`. Extraction is one such callback; a test or a tool may add
its own. A callback that raises makes the compilation fail with that error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Callback", "Captured", "add", "is_suspended", "notify", "remove", "suspended", "wanted"]


@dataclass(frozen=True, slots=True)
class Captured:
    """A program that a framework compiled: what one device runs.

    Attributes:
        name: name of the module.
        module: serialized ``HloModuleProto``, kernel calls in the vendor's form. One for several
            partitions is behind XLA's partitioner; one for several devices names them in its
            ``device_assignment``.
        num_replicas, num_partitions: how many devices it is for.
        target: family that NEURON_PLATFORM_TARGET_OVERRIDE names, or the default.
    """

    name: str
    module: bytes
    num_replicas: int
    num_partitions: int
    target: str


Callback = Callable[[Captured], None]

_callbacks: list[Callback] = []
_lock = threading.Lock()
_silent = threading.local()


def add(callback: Callback) -> None:
    """Show every program compiled from now on to ``callback``, once however often it is added."""
    with _lock:
        if callback not in _callbacks:
            _callbacks.append(callback)


def remove(callback: Callback) -> None:
    """Stop showing programs to ``callback``.

    Raises:
        ValueError: it was not added.
    """
    with _lock:
        _callbacks.remove(callback)


@contextmanager
def suspended() -> Generator[None]:
    """Programs that this thread compiles within are shown to nobody."""
    before = is_suspended()
    _silent.active = True
    try:
        yield
    finally:
        _silent.active = before


def is_suspended() -> bool:
    """Return whether programs of this thread are hidden from listeners."""
    return getattr(_silent, "active", False)


def wanted() -> bool:
    """Return whether a listener is registered."""
    return bool(_callbacks) and not is_suspended()


def notify(program: Captured) -> None:
    """Pass a program to every listener."""
    with _lock:
        callbacks = tuple(_callbacks) if wanted() else ()
    for callback in callbacks:
        callback(program)
