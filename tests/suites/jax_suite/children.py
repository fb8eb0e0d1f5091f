"""Child processes that run tests; one that hangs or dies loses the test that it was at."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Found", "listed", "run"]

_ROOT = Path(__file__).resolve().parents[3]
_START = 180.0
"""Seconds until a child must have imported JAX and the file."""

_PATIENCE = 10.0
"""A child is killed that is silent for so many times a test's limit of CPU time."""


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of one test.

    Attributes:
        test: ``Class.method``.
        outcome: passed, skipped, refused, wrong, foreign, bug, crash or hang.
        reason: why it did not pass.
        seconds: how long it took.
    """

    test: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0


def _command(file: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "tests.suites.jax_suite.child", str(file), *words]


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    base = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")]))
    return base | {"PYTHONPATH": path} | dict(extra)


def listed(file: Path) -> list[str]:
    """The names of a file's tests.

    Raises:
        RuntimeError: the file cannot be imported.
    """
    environment = _environment({"JAX_PLATFORMS": "cpu"})
    done = subprocess.run(
        _command(file, "list"), env=environment, capture_output=True, text=True, timeout=_START
    )
    if done.returncode:
        raise RuntimeError(f"{file} cannot be imported: {done.stderr[-2000:]}")
    return list(json.loads(done.stdout.splitlines()[-1]))


def run(
    file: Path, names: Sequence[str], environment: Mapping[str, str], seconds: float
) -> list[Found]:
    """Run tests of a file in child processes, as many as hangs and crashes make needed."""
    results: list[Found] = []
    while len(results) < len(names):
        results += _one_child(file, names[len(results) :], _environment(environment), seconds)
    return results


def _one_child(
    file: Path, names: Sequence[str], environment: Mapping[str, str], seconds: float
) -> list[Found]:
    """Return the outcomes of one child process until it ended; at least one test."""
    child = subprocess.Popen(
        _command(file, "run", str(seconds)), env=environment, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(json.dumps(list(names)).encode())
    child.stdin.close()
    results: list[Found] = []
    limit = _START
    lines = _Lines(child.stdout.fileno())
    while (line := lines.next(limit)) is not None:
        row = json.loads(line)
        limit = _PATIENCE * seconds
        if "start" not in row:
            results.append(Found(**row))
    if not lines.ended:
        child.kill()
    code = child.wait()
    child.stdout.close()
    if len(results) < len(names) and (code != 0 or not results):
        outcome, reason = ("crash", f"ended with {code}") if lines.ended else ("hang", "is silent")
        results.append(Found(names[len(results)], outcome, reason))
    return results


class _Lines:
    """Lines of a pipe, each within a limit.

    Attributes:
        ended: the other side closed it.
    """

    def __init__(self, number: int) -> None:
        self.ended = False
        self._number, self._pending = number, b""

    def next(self, seconds: float) -> bytes | None:
        """The next line; None at the end, or when none comes in time."""
        while b"\n" not in self._pending:
            if not select.select([self._number], [], [], seconds)[0]:
                return None
            chunk = os.read(self._number, 1 << 16)
            if not chunk:
                self.ended = True
                return None
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return line
