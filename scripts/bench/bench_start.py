"""Startup time: imports beyond NumPy, and `--help` of both programs.

python -m scripts.bench start [--runs 7] [--json]

Each row is the median of several processes, and its ratio to a process that imports NumPy and
does nothing else, measured in turn with it. Bounds: 100 ms an import, 200 ms a `--help`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEER = ["-c", "import numpy"]
MEASURED_COMMANDS = {
    "import nki_lang": (["-c", "import nki_lang"], 0.1),
    "import hlo_tools": (["-c", "import hlo_tools"], 0.1),
    "import neff": (["-c", "import neff"], 0.1),
    "nki-hlo --help": (["-m", "hlo_tools.cli", "--help"], 0.2),
    "nki-neff --help": (["-m", "neff.cli", "--help"], 0.2),
}


def seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, cwd=ROOT)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report = []
    for name, (arguments, bound) in MEASURED_COMMANDS.items():
        pairs = [(seconds(arguments), seconds(PEER)) for _ in range(options.runs)]
        own_seconds = statistics.median(pair[0] for pair in pairs)
        peer = statistics.median(pair[1] for pair in pairs)
        report.append(
            {"what": name, "seconds": own_seconds, "of numpy": own_seconds / peer, "bound": bound}
        )
    if options.json:
        print(json.dumps(report))
        return
    for row in report:
        print(
            f"{row['what']:18} {row['seconds'] * 1e3:6.0f} ms   {row['of numpy']:.2f}x import numpy"
            f"   (bound {row['bound'] * 1e3:.0f} ms)"
        )


if __name__ == "__main__":
    main()
