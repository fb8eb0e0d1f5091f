"""Time of ``nki-neff profile FILE -o DIR`` for a long program, without reading the file.

python -m scripts.bench profile [--instructions 102000] [--times 3] [--json]

The program is that of ``bench_timing.py``. Bounds: 4 s and 1 GiB for 100k instructions, with the
estimate itself; CPU time, the least of several. A plain loop of Python is timed beside it, for
comparing machines.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

from neff.profile import Analysis, Profile, by, profile_of, summary, write_files, write_trace
from neff.profile.page import render_page
from neff.program import Program
from scripts.bench.bench_timing import plain_loop, program


def parts(profiled: Program) -> tuple[Profile, dict[str, float], dict[str, int]]:
    """Return the seconds of each phase and the bytes of the files."""
    phase_seconds: dict[str, float] = {}
    last_time = time.process_time()

    def done(name: str) -> None:
        nonlocal last_time
        now = time.process_time()
        phase_seconds[name], last_time = now - last_time, now

    profile = profile_of(profiled)
    done("table")
    analysis = Analysis(profile)
    by(analysis, "line")
    summary(analysis)
    done("summary")
    with tempfile.TemporaryDirectory() as folder:
        with (Path(folder) / "events.json").open("wb") as file:
            profile.write_events(file)
        done("events")
        with (Path(folder) / "trace").open("wb") as file:
            write_trace(analysis, file)
        done("trace")
        (Path(folder) / "page").write_text(render_page([analysis]))
        done("page")
        sizes = {path.name: path.stat().st_size for path in Path(folder).iterdir()}
    return profile, phase_seconds, sizes


def whole(profiled: Program) -> float:
    """The same by the functions that the command calls."""
    start = time.process_time()
    analysis = Analysis(profile_of(profiled))
    by(analysis, "line")
    with tempfile.TemporaryDirectory() as folder:
        write_files(analysis, summary(analysis), Path(folder))
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instructions", type=int, default=102_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    profiled = program(options.instructions // 6)
    least = min(whole(profiled) for _ in range(options.times))
    rows = [parts(profiled) for _ in range(options.times)]
    profile, first, sizes = rows[0]
    phase_seconds = {name: min(row[1][name] for row in rows) for name in first}
    events = sum(len(core.events) for core in profile.estimate.cores)
    report = {
        "instructions": options.instructions,
        "events": events,
        "seconds": {**phase_seconds, "all": sum(phase_seconds.values()), "command": least},
        "us a slice": phase_seconds["trace"] / events * 1e6,
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
