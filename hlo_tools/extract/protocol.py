"""Protocol between the process of a script and the command that started it.

There go environment variables (:func:`variables_for`), which the device of ``neff`` and the import
names read in the script's process; back comes the journal, one line of JSON a captured module.
Imported whenever JAX starts, so it imports nothing of the project.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

__all__ = [
    "CACHE",
    "COMPILER_FLAGS",
    "DEVICE",
    "EXECUTOR",
    "EXECUTORS",
    "EXTRACT_ONLY",
    "FRAMEWORK_DEBUG",
    "JAX_DEVICES",
    "JOURNAL",
    "PLATFORM",
    "PROFILE",
    "TORCH_DEVICE",
    "CapturedModule",
    "note",
    "read",
    "variables_for",
]

DEVICE: Final = "NKI_HLO_DEVICE"
"""``1`` enables the device, ``0`` disables it whatever else is set."""

EXTRACT_ONLY: Final = "NEURON_EXTRACT_GRAPHS_ONLY"
"""``1``: programs are captured and not run."""

CACHE: Final = "NEURON_COMPILE_CACHE_URL"
"""The compile cache that captured programs are written to."""

COMPILER_FLAGS: Final = "NEURON_CC_FLAGS"
"""The compiler's flags; ``--cache_dir`` among them wins over :data:`CACHE`."""

PLATFORM: Final = "NEURON_PLATFORM_TARGET_OVERRIDE"
"""The family that programs are captured for."""

FRAMEWORK_DEBUG: Final = "NEURON_FRAMEWORK_DEBUG"
"""``1``: each program is left in the working folder, in binary and as text."""

EXECUTOR: Final = "NKI_HLO_EXECUTOR"
"""How programs are run: one of :data:`EXECUTORS`; ``cpu`` when unset."""

EXECUTORS: Final = ("cpu", "neff", "neff,cpu")

JAX_DEVICES: Final = "JAX_PLATFORMS"
"""JAX's own choice of platforms."""

TORCH_DEVICE: Final = "PJRT_DEVICE"
"""torch_xla's own choice of a device."""

JOURNAL: Final = "NKI_HLO_EXTRACT_JOURNAL"
"""Path of the journal; unset when nobody reads it."""

PROFILE: Final = "NKI_HLO_PROFILE"
"""A folder for the NEFFs that run, and how often each does; set by ``nki-hlo profile``."""


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


def variables_for(
    *,
    platform: str = "",
    output: Path | None = None,
    execute: bool = True,
    executor: str = "",
    journal: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """The variables that enable the device, for every framework that the script may use.

    Args:
        platform: a family's name, "" to leave the environment's.
        output: the compile cache; None writes none.
        execute: False captures programs without running them.
        executor: one of :data:`EXECUTORS`, "" to leave the environment's.
        journal: where captured modules are noted.
        environment: the variables that these are added to.
    """
    variables = {
        DEVICE: "1",
        JAX_DEVICES: "neuron,cpu",
        TORCH_DEVICE: "NEURON",
        EXTRACT_ONLY: "" if execute else "1",
        CACHE: "" if output is None else str(output),
    }
    optional = {PLATFORM: platform, EXECUTOR: executor, JOURNAL: str(journal or "")}
    variables |= {name: value for name, value in optional.items() if value}
    flags = environment.get(COMPILER_FLAGS, "")
    if "--cache_dir" in flags:
        # That flag overrides the variable, and ours is the caller's choice.
        cache_flag = (
            f" --cache_dir={shlex.quote(str(output))}" if output is not None else " --cache_dir="
        )
        variables[COMPILER_FLAGS] = flags + cache_flag
    return variables


def note(module: CapturedModule, environment: Mapping[str, str] = os.environ) -> None:
    """Add a line to the journal, if there is one. Lines of several processes do not mix."""
    path = environment.get(JOURNAL)
    if not path:
        return
    line = json.dumps(asdict(module)).encode() + b"\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def read(path: Path) -> list[CapturedModule]:
    """The modules that a journal lists; a last line that was cut off is left out."""
    if not path.exists():
        return []
    modules: list[CapturedModule] = []
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            entry = json.loads(line)
            entry["kernels"] = tuple(entry["kernels"])
            modules.append(CapturedModule(**entry))
    return modules
