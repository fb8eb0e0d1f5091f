"""Every driver in turn for some hours, several side by side, with one table at the end.

Usage: python -m tests.fuzz.drivers.lanes --hours 4 --seed 1000000000 [--lanes N] [--round MINUTES]
           [--drivers a,b] [--keep FOLDER] [MODULE ...]

A lane runs one driver for a round, then the next one; each round has seeds of its own. MODULEs are
what ``fuzz_load`` damages beside modules drawn at random. A driver that dies, hangs or ends without
a report is told as such: silence is not taken for success. FOLDER gets each round's report and output, what shows a
difference, and the table as ``table.json``. Exit code 1 after any difference or death.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.drivers.children import PATHS
from tests.fuzz.drivers.drawn_files import module_file

DRIVERS = (
    "kernels", "oracle", "hlo", "jax", "numpy", "state", "collectives", "ranks", "members", "load",
    "torch", "autograd",
)  # fmt: skip
WITHOUT_KEEP = ("ranks", "collectives", "numpy", "load")
"""Drivers that have no ``--keep``: their reports say enough."""
APART = 10_000_000
"""How far the seeds of two rounds are apart."""
SILENT = 900.0
"""Seconds after its end that a round may still take, to shrink what it found."""
SHORTEST = 0.2
"""The part of a round below which none begins."""
DRAWN = 40
"""Random modules that ``fuzz_load`` damages."""


@dataclass(frozen=True, slots=True)
class Round:
    """The outcome of one round of a driver.

    Attributes:
        driver: its name.
        seed: its first seed.
        began, ended: seconds since the start of all.
        processor: seconds of processor time, with all of its processes.
        cases: seeds, or damaged files.
        runs: how often a case was run in any way.
        differences: its differences, as the driver tells them.
        died: why there is no report; empty when there is one.
    """

    driver: str
    seed: int
    began: float
    ended: float
    processor: float
    cases: int
    runs: int
    differences: list[Any]
    died: str

    @property
    def wrong(self) -> int:
        """How many differences and deaths."""
        return len(self.differences) + bool(self.died)


def command(
    driver: str, seed: int, minutes: float, folder: Path, modules: Sequence[str]
) -> list[str]:
    """The command line of one round."""
    words = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        f"tests.fuzz.drivers.fuzz_{driver}",
        "--seed",
        str(seed),
    ]
    words += ["--minutes", str(minutes), "--json", str(folder / f"{driver}-{seed}.json")]
    if driver == "load":
        return [*words, "--count", "100000000", *modules]
    return words if driver in WITHOUT_KEEP else [*words, "--keep", str(folder / "kept")]


def run_round(words: list[str], driver: str, seed: int, folder: Path, limit: float) -> Round:
    """Run a command, wait for its end, read its report."""
    report, output = folder / f"{driver}-{seed}.json", folder / f"{driver}-{seed}.txt"
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}
    with output.open("w") as log:
        process = subprocess.Popen(
            words, stdout=log, stderr=subprocess.STDOUT, cwd=folder, env=environment
        )
    alarm = threading.Timer(limit, process.kill)
    alarm.start()
    _, status, usage = os.wait4(process.pid, 0)
    alarm.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    read = json.loads(report.read_text()) if report.exists() else {}
    first, last = read.get("seeds", (0, 0)) if driver != "load" else (0, read.get("cases", 0))
    failures = read.get("faults", read.get("failures", []))
    died = "" if read else f"no report, exit code {process.returncode}"
    if read and process.returncode not in (0, 1):
        died = f"exit code {process.returncode}"
    return Round(
        driver, seed, began, time.monotonic(), usage.ru_utime + usage.ru_stime, last - first,
        sum(read.get("runs", {}).values()) if driver != "load" else last, failures, died,
    )  # fmt: skip


class Lanes:
    """Lanes that take rounds from one list until the time is over.

    Args:
        words: the command line.
    """

    def __init__(self, words: argparse.Namespace) -> None:
        self._words = words
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._until = self._began + 3600 * words.hours
        self._next = self._numbers()
        self.rounds: list[Round] = []

    def _numbers(self) -> Iterator[tuple[str, int]]:
        """The driver and the seed of each round."""
        number = 0
        while True:
            drivers = self._words.drivers
            yield drivers[number % len(drivers)], self._words.seed + number * APART
            number += 1

    def run(self) -> None:
        """Run all lanes to their ends."""
        threads = [threading.Thread(target=self._lane) for _ in range(self._words.lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _lane(self) -> None:
        while True:
            with self._lock:
                left = (self._until - time.monotonic()) / 60
                if left < SHORTEST * self._words.round:
                    return
                driver, seed = next(self._next)
            minutes, folder = min(left, self._words.round), self._words.keep
            words = command(driver, seed, minutes, folder, self._words.modules)
            done = run_round(words, driver, seed, folder, 60 * minutes + SILENT)
            with self._lock:
                self.rounds.append(done)
                self._tell(done)

    def _tell(self, done: Round) -> None:
        minutes = (done.ended - self._began) / 60
        message = f"{minutes:6.1f} min  {done.driver:<11} from {done.seed}: {done.cases} cases, "
        print(
            f"{message}{done.runs} runs, {len(done.differences)} differences {done.died}",
            flush=True,
        )
        (self._words.keep / "table.json").write_text(json.dumps(self.table(), indent=1))

    def table(self) -> dict[str, Any]:
        """Sums by driver; minutes of all lanes, and those since the last difference."""
        rows = {
            driver: {
                "cases": sum(entry.cases for entry in rounds), "runs": sum(entry.runs for entry in rounds),
                "minutes": round(sum(entry.ended - entry.began for entry in rounds) / 60, 1),
                "processor_minutes": round(sum(entry.processor for entry in rounds) / 60, 1),
                "differences": sum(len(entry.differences) for entry in rounds),
                "deaths": sum(bool(entry.died) for entry in rounds),
            }
            for driver in self._words.drivers
            if (rounds := [entry for entry in self.rounds if entry.driver == driver])
        }  # fmt: skip
        last = max((entry.ended for entry in self.rounds if entry.wrong), default=0.0)
        return {
            "drivers": rows,
            "lane_minutes": self._minutes(0.0),
            "lane_minutes_since_the_last_difference": self._minutes(last),
        }

    def _minutes(self, since: float) -> float:
        """Minutes of all lanes after a time."""
        return round(
            sum(max(0.0, entry.ended - max(entry.began, since)) for entry in self.rounds) / 60, 1
        )


def written_modules(folder: Path, seed: int) -> list[str]:
    """Files of random modules."""
    paths = [folder / f"drawn-{number}.pb" for number in range(DRAWN)]
    for number, path in enumerate(paths):
        path.write_bytes(module_file(seed + number))
    return [str(path) for path in paths]


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=1.0, help="of wall time")
    parser.add_argument("--seed", type=int, required=True, help="the first one")
    parser.add_argument("--lanes", type=int, default=os.cpu_count() or 1, help="side by side")
    parser.add_argument("--round", type=float, default=6.0, help="minutes of a round")
    parser.add_argument("--drivers", default=",".join(DRIVERS), help="all of them unless given")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-lanes"), help="folder of reports")
    parser.add_argument("modules", nargs="*", help="what fuzz_load damages, too")
    words = parser.parse_args()
    words.drivers = words.drivers.split(",")
    if unknown := [name for name in words.drivers if name not in DRIVERS]:
        parser.error(f"there is no driver {unknown[0]!r}; there are {', '.join(DRIVERS)}")
    words.keep = words.keep.resolve()
    words.modules = [str(Path(path).resolve()) for path in words.modules]
    return words


def main() -> int:
    words = parsed()
    words.keep.mkdir(parents=True, exist_ok=True)
    if "load" in words.drivers:
        words.modules += written_modules(words.keep, words.seed)
    lanes = Lanes(words)
    lanes.run()
    print(json.dumps(lanes.table(), indent=1))
    return 1 if any(entry.wrong for entry in lanes.rounds) else 0


if __name__ == "__main__":
    sys.exit(main())
