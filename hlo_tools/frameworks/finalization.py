"""A guard between XLA's threads and a handler in Python when the interpreter ends."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["guarded", "set_guard"]

_guards: list[Callable[[int], int]] = []


def set_guard(guard: Callable[[int], int]) -> None:
    """Let ``guard`` put a function of its own before every handler that is registered from now on.

    It takes the address of a handler and returns that of a function which calls it as long as
    Python can be called. Native code can do that, and this package has none.
    """
    _guards[:] = [guard]


def guarded(handler: int) -> int:
    """The address to register for a handler."""
    return _guards[0](handler) if _guards else handler
