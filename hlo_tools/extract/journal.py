"""What a running script tells the command that started it: one line of JSON a module."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

__all__ = ["VARIABLE", "CapturedModule", "note", "read"]

VARIABLE: Final = "NKI_HLO_EXTRACT_JOURNAL"
"""Environment variable with the path of the journal; unset when nobody listens."""


@dataclass(frozen=True, slots=True)
class CapturedModule:
    """One program that a script compiled.

    Attributes:
        name: name of the module.
        path: its entry in the cache, "" when it was not written.
        instructions: how many instructions it has.
        kernels: functions of its kernel calls, in order.
        size: bytes of the entry's files, or of the module when it was not written.
        seconds: how long capturing took.
    """

    name: str
    path: str
    instructions: int
    kernels: tuple[str, ...]
    size: int
    seconds: float


def note(module: CapturedModule, environment: Mapping[str, str] = os.environ) -> None:
    """Add a line to the journal, if there is one. Lines of several processes do not mix."""
    path = environment.get(VARIABLE)
    if not path:
        return
    line = json.dumps(asdict(module)).encode() + b"\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def read(path: Path) -> list[CapturedModule]:
    """The modules that a journal tells of; a last line that was cut off is left out."""
    if not path.exists():
        return []
    modules: list[CapturedModule] = []
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            entry = json.loads(line)
            modules.append(CapturedModule(**{**entry, "kernels": tuple(entry["kernels"])}))
    return modules
