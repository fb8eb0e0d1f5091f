"""Random histories of a kernel: what it reads changes, it is called in many ways, results are kept.

Usage: python scripts/fuzz/fuzz_state.py [--seed N] [--count N] [--minutes M] [--keep FOLDER] [--json FILE]

A kernel adds numbers to its argument; the numbers lie in globals, closures, objects, classes,
helpers, the environment (``states/holders.py``). A history changes them between calls: directly,
from threads, in a forked child, in another process with the same cache, as a NEFF, from files that
were cut, in JAX and torch. Each call must give what the numbers are then, or be refused with a
code; results that are kept must stay. Histories are shrunk. Exit code 1 when one went wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.update(OPENBLAS_NUM_THREADS="1", JAX_PLATFORMS="cpu")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from children import Child
from states.history import History, history


class Fuzzer:
    """Plays histories and counts what happens."""

    def __init__(self) -> None:
        self.plain = Child("states.world:serve_histories")
        self.frameworks = Child("states.world:serve_histories")
        self.runs: Counter[str] = Counter()
        self.played = 0

    def fault(self, made: History) -> str:
        """What goes wrong in a history; nothing when all is right."""
        self.played += 1
        self.runs.update(one.name or one.what for one in made.steps)
        child = self.frameworks if made.has_frameworks else self.plain
        answer = child.ask((made, f"{made.seed}_{self.played}"))
        return answer["error"] if "error" in answer else answer["fault"]

    def shrunk(self, made: History) -> History:
        """The smallest history found that still goes wrong."""
        for smaller in made.smaller():
            if self.fault(smaller):
                return self.shrunk(smaller)
        return made


def look(fuzzer: Fuzzer, made: History, keep: Path | None) -> list[dict[str, Any]]:
    """Play one history; its fault, shrunk."""
    fault = fuzzer.fault(made)
    if not fault:
        return []
    small = fuzzer.shrunk(made)
    told = f"{fuzzer.fault(small) or fault}\n{small}"
    print(f"seed {made.seed}: {told}", flush=True)
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{made.seed}-state.txt").write_text(told)
    return [{"seed": made.seed, "fault": told}]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    fuzzer, faults = Fuzzer(), []
    until = time.monotonic() + 60 * options.minutes if options.minutes else None
    seed = options.seed
    while (time.monotonic() < until) if until else seed < options.seed + options.count:
        faults += look(fuzzer, history(seed), options.keep)
        seed += 1
    fuzzer.plain.stop()
    fuzzer.frameworks.stop()
    report = {"seeds": [options.seed, seed], "runs": dict(fuzzer.runs), "faults": faults}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
    print(
        f"{seed - options.seed} histories, {sum(fuzzer.runs.values())} steps, {len(faults)} faults"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
