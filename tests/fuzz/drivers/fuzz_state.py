"""Random histories of a kernel: what it reads changes, it is called in many ways, results are kept.

Usage: python -m tests.fuzz.drivers.fuzz_state [--seed N] [--count N] [--minutes M] [--keep FOLDER] [--json FILE]

A kernel adds numbers to its argument; the numbers lie in globals, closures, objects, classes,
helpers, the environment (``states/holders.py``). A history changes them between calls: directly,
from threads, in a forked child, in another process with the same cache, as a NEFF, from files that
were cut, in JAX and torch. Each call must give what the numbers are then (JAX may
refuse a kernel that writes its argument); results that are kept must stay. Histories are shrunk. Exit code 1 when one went wrong.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

os.environ.update(OPENBLAS_NUM_THREADS="1", JAX_PLATFORMS="cpu")

from tests.fuzz.drivers.children import Child
from tests.fuzz.drivers.driving import Driver
from tests.fuzz.drivers.states.history import History, history


class Fuzzer:
    """Plays histories and counts what happens."""

    def __init__(self) -> None:
        self.plain = Child("tests.fuzz.drivers.states.world:serve_histories")
        self.frameworks = Child("tests.fuzz.drivers.states.world:serve_histories")
        self.runs: Counter[str] = Counter()
        self.played = 0

    def fault(self, drawn: History) -> str:
        """Return the fault of a history; "" when there is none."""
        self.played += 1
        self.runs.update(step.name or step.what for step in drawn.steps)
        child = self.frameworks if drawn.has_frameworks else self.plain
        answer = child.ask((drawn, f"{drawn.seed}_{self.played}"))
        return answer["error"] if "error" in answer else answer["fault"]

    def shrunk(self, drawn: History) -> History:
        """The smallest history found that still goes wrong."""
        for smaller in drawn.smaller():
            if self.fault(smaller):
                return self.shrunk(smaller)
        return drawn


def main() -> int:
    """Run from the command line."""
    driver, fuzzer = Driver(__doc__).parse(), Fuzzer()
    for seed in driver.seeds():
        drawn = history(seed)
        fault = fuzzer.fault(drawn)
        if fault:
            small = fuzzer.shrunk(drawn)
            message = f"{fuzzer.fault(small) or fault}\n{small}"
            driver.found(
                {"seed": seed, "fault": message}, f"seed {seed}: {message}", f"{seed}-state.txt"
            )
    fuzzer.plain.stop()
    fuzzer.frameworks.stop()
    return driver.finish("histories", fuzzer.runs)


if __name__ == "__main__":
    sys.exit(main())
