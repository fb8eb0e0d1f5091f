"""Steps of a PyTorch/XLA script that run on the host between its programs.

torch_xla computes on the CPU what it does not lower, and runs the program so far when the script
reads a value of it. No module contains such a step, and what follows may keep its value as a
constant: whoever captures modules is told.
"""

from __future__ import annotations

import atexit
import sys
from importlib import import_module
from typing import Protocol, cast

from neff.device.frameworks.user_lines import user_line
from neff.device.programs import capture

__all__ = ["HostSteps"]

_READ = "aten::_local_scalar_dense"


class _Counters(Protocol):
    def _xla_counter_names(self) -> list[str]: ...
    def _xla_counter_value(self, name: str) -> int: ...


class HostSteps:
    """Observes torch_xla's counters where the device compiles a program or gives a value back."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._reads: list[str] = []
        self._told: set[tuple[str, str]] = set()
        atexit.register(self.ended)

    def compiled(self, _: capture.Captured) -> None:
        """A program is compiled: reads before it lead to it, new ones have cut it off."""
        for location in self._reads:
            self._tell(
                _READ, location, "(item(), int(), bool(), a condition) reads a value in the middle of a "
                "program: modules that follow may keep it as a constant",
            )  # fmt: skip
        self._reads.clear()
        if _READ in self._look():
            self._reads.append(user_line())

    def read(self) -> None:
        """A value goes to the host. One that a step of the script has computed is no cut."""
        self._look()

    def ended(self) -> None:
        """The script ends."""
        self._look(line="")

    def _look(self, line: str | None = None) -> set[str]:
        """Report operators that ran on the host since the last look; returns their names."""
        now = _fallbacks()
        names = {name for name, count in now.items() if count != self._counts.get(name, 0)}
        self._counts = now
        if capture.is_suspended():
            return set()
        for name in sorted(names - {_READ}):
            location = user_line() if line is None else line
            text = "runs on the host: no module contains it, and it cuts the program in two"
            self._tell(name, location, text)
        return names

    def _tell(self, operator: str, location: str, text: str) -> None:
        if (operator, location) in self._told:
            return
        self._told.add((operator, location))
        where = f"{location}: " if location else ""
        sys.stderr.write(f"warning: {where}[NEFF-DEVICE-HOST-STEP] {operator} {text}\n")


def _fallbacks() -> dict[str, int]:
    """How often each operator ran on the host; counters of lowerings start with ``xla::``."""
    lazy = cast("_Counters", import_module("torch_xla")._XLAC)
    names = [name for name in lazy._xla_counter_names() if "::" in name]  # pyright: ignore[reportPrivateUsage]
    return {
        name: lazy._xla_counter_value(name)  # pyright: ignore[reportPrivateUsage]
        for name in names
        if not name.startswith("xla::")
    }
