"""Calls in processes of their own, each with a limit of time and of memory."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Generic, TypeVar

__all__ = ["Limits", "Outcome", "called"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of each call.

    Attributes:
        seconds: after which its process is killed.
        memory_bytes: that it may allocate besides what its process has at the start.
    """

    seconds: float
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Result]):
    """The result of a call; None with an ``error`` when it has none, which took ``seconds``."""

    result: Result | None
    error: str
    seconds: float


@dataclass(slots=True)
class _Call:
    """A call that runs: its number, its process, and when it began."""

    number: int
    process: BaseProcess
    began: float


def called(
    function: Callable[[Argument], Result],
    arguments: Sequence[Argument],
    *,
    jobs: int,
    limits: Limits,
    preload: Sequence[str] = (),
) -> Iterator[Outcome[Result]]:
    """Call a function with each argument, ``jobs`` at a time; outcomes come in their order.

    Each call has the environment that this process has when the call begins.

    Args:
        function: of a module, so that another process finds it.
        arguments: one for each call.
        jobs: processes at a time.
        limits: of each call.
        preload: modules that all processes share.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    waiting = deque(enumerate(arguments))
    running: dict[Connection, _Call] = {}
    outcomes: dict[int, Outcome[Result]] = {}
    sent = 0
    try:
        while sent < len(arguments):
            while waiting and len(running) < jobs:
                number, argument = waiting.popleft()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(
                    target=_child,
                    args=(sender, function, argument, limits.memory_bytes, dict(os.environ)),
                )
                process.start()
                sender.close()
                running[receiver] = _Call(number, process, time.monotonic())
            outcomes = _with_finished(outcomes, running, limits)
            while sent in outcomes:
                yield outcomes.pop(sent)
                sent += 1
    finally:
        for call in running.values():
            call.process.kill()


def _with_finished(
    outcomes: dict[int, Outcome[Result]], running: dict[Connection, _Call], limits: Limits
) -> dict[int, Outcome[Result]]:
    """Wait for calls to end; return the outcomes by number, with theirs."""
    now = time.monotonic()
    left = min(call.began + limits.seconds - now for call in running.values())
    ready = [receiver for receiver in wait(list(running), max(0.0, left)) if receiver in running]
    for receiver in ready:
        assert isinstance(receiver, Connection)
        call = running.pop(receiver)
        seconds = time.monotonic() - call.began
        try:
            result, error = receiver.recv()
        except (EOFError, OSError):
            call.process.join()
            result, error = None, f"its process ended with exit code {call.process.exitcode}"
        receiver.close()
        call.process.join()
        outcomes[call.number] = Outcome(result, error, seconds)
    for receiver, call in list(running.items()):
        if time.monotonic() - call.began >= limits.seconds:
            del running[receiver]
            call.process.kill()
            call.process.join()
            receiver.close()
            error = f"it took longer than {limits.seconds:g} s"
            outcomes[call.number] = Outcome(None, error, limits.seconds)
    return outcomes


def _child(
    sender: Connection,
    function: Callable[[Argument], Result],
    argument: Argument,
    memory_bytes: int,
    environment: dict[str, str],
) -> None:
    os.environ.clear()  # the fork server has the environment of the first call
    os.environ.update(environment)
    os.dup2(2, 1)  # what a call prints must not get between the records on stdout
    size = _address_space() + memory_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size, hard))
    try:
        sender.send((function(argument), ""))
    except MemoryError:
        sender.send((None, f"it needs more than {memory_bytes >> 20} MiB of memory"))
    except Exception as error:
        sender.send((None, f"{type(error).__name__}: {error}"))


def _address_space() -> int:
    """Bytes of address space that this process has; 0 where the system does not say."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return 0
    return int(status.read_text().split()[0]) * resource.getpagesize()
