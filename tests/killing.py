"""Processes that die at a chosen moment of their writing, whatever the machine's load.

A moment is counted in what the process does to a folder (Python's audit events: files opened,
folders made, renamed, removed) and then in calls of functions, so that it can also fall between
opening a file, each write, and the renaming.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["killed_at"]


def killed_at(folder: Path, touches: int, calls: int, work: Callable[[], object]) -> bool:
    """Run ``work`` in a child that is killed ``calls`` calls after it touched ``folder`` for the
    ``touches``-th time. False when it ended before."""
    child = os.fork()
    if child == 0:
        try:
            _die_at(os.fspath(folder), touches, calls)
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _die_at(folder: str, touches: int, calls: int) -> None:
    touched = 0
    left = calls

    def called(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal touched
        location = arguments[0] if arguments else None
        if not isinstance(location, (str, os.PathLike)) or not os.fspath(location).startswith(
            folder
        ):
            return
        touched += 1
        if touched == touches:
            sys.setprofile(called)

    sys.addaudithook(heard)
