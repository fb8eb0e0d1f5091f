"""A progress bar on a terminal for what takes over a second.

Commands name their current step with :func:`step`. The bar is on stderr, appears by itself, and is
removed before anything else is written; where stderr is not a terminal there is none.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TextIO

from hlo_tools.cli.shared import console

__all__ = ["Progress", "paused", "shown", "step", "with_progress"]

AFTER = 1.0
"""Seconds without output after which the bar is shown."""
_EVERY = 0.1
_current: Progress | None = None


def step(text: str, done: int = 0, total: int = 0) -> None:
    """Name the current step.

    Args:
        done, total: how many of how many are finished; a total of 0 is unknown.
    """
    if _current is not None:
        _current.step(text, done, total)


@contextmanager
def shown(text: str) -> Generator[None]:
    """Show a bar while something runs, on a terminal and unless quiet."""
    global _current
    streams = sys.stdout, sys.stderr
    if not _wanted(streams[1]) or _current is not None:
        yield
        return
    _current = progress = Progress(text, streams[1])
    sys.stdout, sys.stderr = (_Watched(stream, progress) for stream in streams)  # type: ignore[assignment]
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(progress, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        progress.hide()
        sys.stdout, sys.stderr = streams
        _current = None


@contextmanager
def paused() -> Generator[None]:
    """Show no bar while a child process writes to the terminal."""
    progress = _current
    if progress is None:
        yield
        return
    progress.pause(True)
    try:
        yield
    finally:
        progress.pause(False)


def with_progress(name: str, function: Callable[..., object]) -> Callable[..., Any]:
    """A command's function that shows a bar while it runs."""

    @wraps(function)
    def run(*args: object, **kwargs: object) -> Any:
        with shown(name):
            return function(*args, **kwargs)

    return run


def _wanted(stream: TextIO) -> bool:
    return not console.settings().quiet and stream.isatty() and os.environ.get("TERM") != "dumb"


def _watch(progress: Progress, ended: threading.Event) -> None:
    while not ended.wait(_EVERY):
        progress.tick(time.monotonic())


class Progress:
    """A bar that is shown when nothing was written for a while.

    Args:
        text: what is done.
        stream: the terminal.
    """

    def __init__(self, text: str, stream: TextIO) -> None:
        self._stream = stream
        self._state: tuple[str, int, int] = text, 0, 0
        self._quiet_since = time.monotonic()
        self._within_line = False
        self._is_paused = False
        self._bar: Any = None
        self._lock = threading.RLock()

    def step(self, text: str, done: int, total: int) -> None:
        """See :func:`step`."""
        with self._lock:
            self._state = text, done, total
            self._update()

    def tick(self, now: float) -> None:
        """Show the bar if it is time."""
        with self._lock:
            is_due = now - self._quiet_since >= AFTER
            if self._bar is None and is_due and not (self._within_line or self._is_paused):
                self._bar = _new_bar(self._stream)
                self._update()

    def pause(self, is_paused: bool) -> None:
        """Hide the bar, or allow it again."""
        with self._lock:
            self.hide()
            self._is_paused = is_paused
            self._quiet_since = time.monotonic()

    def before_writing(self, text: str) -> None:
        """Something else is about to be written to the terminal."""
        with self._lock:
            self.hide()
            self._quiet_since = time.monotonic()
            self._within_line = not text.endswith("\n")

    def hide(self) -> None:
        """Remove the bar."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _update(self) -> None:
        if self._bar is not None:
            text, done, total = self._state
            self._bar.update(
                self._bar.task_ids[0], description=text, completed=done, total=total or None
            )


def _new_bar(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.progress import TimeElapsedColumn as Elapsed

    class Count(MofNCompleteColumn):
        def render(self, task: Any) -> Any:
            return super().render(task) if task.total else ""

    colored = console.settings().color != "never" and not os.environ.get("NO_COLOR")
    bar = Bar(
        SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20), Count(),
        Elapsed(), console=Console(file=stream, no_color=not colored), transient=True,
        redirect_stdout=False, redirect_stderr=False,
    )  # fmt: skip
    bar.add_task("", total=None)
    bar.start()
    return bar


class _Watched:
    """A stream that removes the bar before it is written to."""

    def __init__(self, stream: TextIO, progress: Progress) -> None:
        self._stream = stream
        self._progress = progress

    def write(self, text: str) -> int:
        self._progress.before_writing(text)
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    @property
    def buffer(self) -> Any:
        self._progress.before_writing("\n")
        return self._stream.buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
