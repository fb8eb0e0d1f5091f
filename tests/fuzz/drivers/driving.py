"""Shared base of the fuzzers' drivers: options, seeds, saved faults and the report."""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests.fuzz.drivers.programs import Program

__all__ = ["Driver", "Fuzzer", "chosen", "fewest", "find_faults", "kind_of", "shrunk"]


NOTHING_RAN = 2
"""Exit code of a driver that compared nothing."""


class Driver:
    """One run of a fuzzer from the command line: ``--seed``, ``--count`` or ``--minutes``, ``--json``.

    Args:
        document: its docstring, whose first line is the description.
        ways: names that ``--ways`` takes; none leaves the option away.
        each: how many ways a case goes through unless ``--each`` says; 0 leaves the option away.
        keeps: whether ``--keep`` writes what shows a fault to a folder.

    Attributes:
        options: the arguments that were given.
        ways: the ways that were chosen.
        faults: what was found.
        parser: for further options, before :meth:`parse`.
    """

    def __init__(
        self,
        document: str | None,
        *,
        ways: Sequence[str] = (),
        extra_ways: int = 0,
        keeps: bool = True,
    ) -> None:
        self._known = list(ways)
        self.faults: list[dict[str, Any]] = []
        self.ways: list[str] = []
        self.options = argparse.Namespace()
        self.parser = argparse.ArgumentParser(description=(document or "").splitlines()[0])
        self.parser.add_argument("--seed", type=int, default=0, help="the first one")
        self.parser.add_argument("--count", type=int, default=100, help="how many seeds")
        self.parser.add_argument("--minutes", type=float, default=0.0, help="instead of --count")
        self.parser.add_argument("--json", type=Path, help="write counts and faults to this file")
        if keeps:
            self.parser.add_argument("--keep", type=Path, help="folder for what shows a fault")
        if ways:
            self.parser.add_argument("--ways", default="", help="all of them unless given")
        if extra_ways:
            self.parser.add_argument(
                "--each", type=int, default=extra_ways, help="further ways a case"
            )
        self._end = 0

    def parse(self) -> Driver:
        """Read the command line."""
        self.options = self.parser.parse_args()
        if self._known:
            selected = [mode.strip() for mode in self.options.ways.split(",") if mode.strip()]
            unknown = [mode for mode in selected if mode not in self._known]
            if unknown:
                there = ", ".join(self._known)
                self.parser.error(f"there is no way {unknown[0]!r}; there are {there}")
            self.ways = selected or self._known
        return self

    def seeds(self) -> Iterator[int]:
        """The seeds, until they or the minutes are used up."""
        first, minutes = self.options.seed, self.options.minutes
        until = time.monotonic() + 60 * minutes
        self._end = first
        while time.monotonic() < until if minutes else self._end < first + self.options.count:
            yield self._end
            self._end += 1

    @property
    def done(self) -> int:
        """How many seeds were run."""
        return self._end - self.options.seed

    def found(self, message: dict[str, Any], text: str, name: str = "") -> None:
        """A fault: recorded as ``message``, shown as ``text``, and kept under ``name``."""
        self.faults.append(message)
        print(text, flush=True)
        if name and self.options.keep:
            self.options.keep.mkdir(parents=True, exist_ok=True)
            (self.options.keep / name.replace(" ", "_").replace("/", "_")).write_text(text)

    def finish(self, noun: str, runs: Mapping[str, int], **counts: Mapping[str, int]) -> int:
        """Write the report and one line; the exit code."""
        ordered = {name: dict(Counter(rows).most_common()) for name, rows in counts.items()}
        report = {"seeds": [self.options.seed, self._end], "runs": dict(runs), **ordered,
                  "faults": self.faults}  # fmt: skip
        if self.options.json:
            self.options.json.write_text(json.dumps(report, indent=1))
        message = "".join(f", {sum(rows.values())} {name}" for name, rows in counts.items())
        total = sum(runs.values())
        print(f"{self.done} {noun}, {total} runs{message}, {len(self.faults)} faults")
        return 1 if self.faults else 0 if total else NOTHING_RAN


class Fuzzer(Protocol):
    """A runner of a program in several execution modes."""

    def faults(self, generated: Program, modes: list[str]) -> dict[str, str]:
        """Return the fault of each execution mode that has one."""
        ...


def shrunk(fuzzer: Fuzzer, generated: Program, mode: str) -> Program:
    """The smallest program found that still differs in a way."""
    for smaller in generated.smaller():
        if smaller != generated and smaller.statements and fuzzer.faults(smaller, [mode]):
            return shrunk(fuzzer, smaller, mode)
    return generated


def fewest(steps: list[Any], faults: Callable[[list[Any]], dict[str, str]]) -> list[Any] | None:
    """The fewest steps found that show the same kinds of faults by way; None when there are none."""

    def kinds(steps: list[Any]) -> dict[str, str]:
        return {mode: re.split("[:,]", message)[0] for mode, message in faults(steps).items()}

    fault_kinds = kinds(steps)
    position = 0
    while fault_kinds and position < len(steps):
        fewer = steps[:position] + steps[position + 1 :]
        steps, position = (fewer, 0) if kinds(fewer) == fault_kinds else (steps, position + 1)
    return steps if fault_kinds else None


def chosen(seed: int, modes: list[str], extra_count: int, always: str) -> list[str]:
    """One way always, and some of the others."""
    remaining = [mode for mode in modes if mode != always]
    sample = random.Random(seed).sample(remaining, min(extra_count, len(remaining)))
    return [*([always] if always in modes else []), *sample]


def find_faults(
    driver: Driver, fuzzer: Fuzzer, generated: Program, modes: list[str], suffix: str
) -> None:
    """Run one program; its faults are shrunk."""
    for mode, fault in fuzzer.faults(generated, modes).items():
        small = shrunk(fuzzer, generated, mode)
        message = fuzzer.faults(small, [mode]).get(mode, fault)
        source = small.shown()
        driver.found(
            {"seed": generated.seed, "way": mode, "fault": message, "source": source},
            f"# seed {generated.seed}: {mode}: {message}\n{source}",
            f"{generated.seed}-{mode.split('{')[0]}{suffix}",
        )


def kind_of(error: str) -> str:
    """A refusal without its names and numbers."""
    return re.sub(r"%?[\w.\-]*\d[\w.\-]*", "#", error.split("\n")[0])[:110]
