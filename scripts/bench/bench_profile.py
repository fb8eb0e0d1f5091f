"""What a profile costs for a long program: the table, all attributions, and the three files.

python scripts/bench/bench_profile.py [--instructions 102000] [--json]

The program is that of ``bench_timing.py``. Bounds: 4 s and 1 GiB for 100k instructions, with the
estimate itself. A plain loop of Python is timed beside it, for comparing machines.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

from bench_timing import plain_loop, program

from neff.profile import profile_of, summary, write_trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instructions", type=int, default=102_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    given = program(options.instructions // 6)
    spent: dict[str, float] = {}
    start = time.process_time()
    profile = profile_of(given)
    spent["table"] = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        summary(profile)
        spent["summary"] = time.process_time() - start
        start = time.process_time()
        with (Path(folder) / "events.json").open("wb") as file:
            profile.write_events(file)
        spent["events"] = time.process_time() - start
        start = time.process_time()
        with (Path(folder) / "trace").open("wb") as file:
            write_trace(profile, file)
        spent["trace"] = time.process_time() - start
        sizes = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
    events = sum(len(core.events) for core in profile.estimate.cores)
    report = {
        "instructions": options.instructions,
        "events": events,
        "seconds": {**spent, "all": sum(spent.values())},
        "us a slice": spent["trace"] / events * 1e6,
        "bytes": sizes,
        "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "loop ns": plain_loop(),
    }
    if options.json:
        print(json.dumps(report))
        return
    for name, value in report.items():
        print(f"{name:14} {value}")


if __name__ == "__main__":
    main()
