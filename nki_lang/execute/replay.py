"""Replays of simulated calls.

A kernel of small tiles spends nearly all of its simulated time in Python between the NumPy calls. A
call that was simulated before with the same shapes issues the same instructions, so the second
such call records what it executes, and later ones execute the record on their own values.

Replays change no result and no report. A call is recorded only if nothing else can tell the
difference: the kernel is pure (:mod:`nki_lang.execute.purity`), it has one core, it wrote no
argument, its Python saw no value of a tile, every operand was static and completely written, and
no check had to examine a value or found anything.
"""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from nki_lang.base.versions import selected_version
from nki_lang.execute.memory import precise_floats
from nki_lang.execute.purity import is_plain_argument, is_pure
from nki_lang.execute.recording import MAX_STEPS, RecordedStep
from nki_lang.semantics.state import has_wide_scales
from nki_lang.tracing.fingerprint import Unidentifiable, call_key, fingerprint

__all__ = ["RECORDS", "Record", "Records", "call_key_of"]

MAX_SEEN = 256
"""Calls that are remembered without a record."""


class Replayable(Protocol):
    """A simulated call whose steps were recorded."""

    def replay(
        self, steps: list[RecordedStep], args: tuple[object, ...], kwargs: dict[str, object], /
    ) -> object:
        """Execute the steps on the arrays of another call, and return its results."""
        ...


@dataclass(slots=True)
class Record:
    """Steps of a call, and the call itself, whose memory they use."""

    steps: list[RecordedStep]
    call: Replayable
    lock: threading.Lock = field(default_factory=threading.Lock)


class Records:
    """The records of this process, the least recently used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: OrderedDict[Hashable, bool] = OrderedDict()
        self._records: OrderedDict[Hashable, Record] = OrderedDict()

    def find(self, key: Hashable) -> Record | None:
        """Return the record of a call."""
        with self._lock:
            record = self._records.get(key)
            if record is not None:
                self._records.move_to_end(key)
            return record

    def is_due(self, key: Hashable, func: Callable[..., object]) -> bool:
        """Return True if a call should be recorded: it is the second one, and the kernel is pure."""
        with self._lock:
            earlier = self._seen.pop(key, None)
            self._seen[key] = False
            if len(self._seen) > MAX_SEEN:
                self._seen.popitem(last=False)
            if earlier is None:
                return False
            self._seen[key] = True
        return not earlier and is_pure(func)

    def add(self, key: Hashable, steps: list[RecordedStep], call: Replayable) -> None:
        """Add a record; the oldest ones make room for it."""
        with self._lock:
            self._records[key] = Record(steps, call)
            while sum(len(record.steps) for record in self._records.values()) > MAX_STEPS:
                self._records.popitem(last=False)

    def remove(self, key: Hashable) -> None:
        """Remove a record whose steps failed."""
        with self._lock:
            self._records.pop(key, None)


RECORDS = Records()


def call_key_of(
    func: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    options: Hashable,
) -> Hashable | None:
    """Return the key of a simulated call; None if it must be interpreted.

    A debugger or another tool that traces Python sees each call. ``options`` are those of the
    simulation: the target, the checks.
    """
    if _is_observed():
        return None
    if not all(is_plain_argument(value) for value in (*args, *kwargs.values())):
        return None
    rules = precise_floats(), has_wide_scales(), selected_version()
    try:
        content, classes = call_key((args, kwargs))
        if classes:
            return None
        return (fingerprint(func), content, options, rules)
    except Unidentifiable:
        return None


def _is_observed() -> bool:
    """Return True if a debugger, a profiler or a coverage tool follows Python."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return True
    monitoring = getattr(sys, "monitoring", None)  # Python 3.12
    return monitoring is not None and any(monitoring.get_tool(tool) for tool in range(6))
