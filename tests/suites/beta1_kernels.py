"""Run files with kernels of NKI beta 1 that other people published, unmodified, and count results.

Nothing of them is in this repository. A folder holds one checkout for each repository::

    python -m tests.suites.beta1_kernels FOLDER [--list files.json] [--references FOLDER]
        [--only WORD ...] [--seconds 300] [--json results.json]

Each file runs in a process of its own, by the convention of its repository (``published/beta1_files.py``).
The table counts the files of each repository: equal to the reference beside them, traced where
there is none, different, refused with a code, failed without one, ended by the limit, and not run
because nothing says how to call their kernels. The exit code is 1 when a file differs or failed
without a code.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.suites.published.beta1_files import Outcome, run_file

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("equal", "traced", "differs", "refused", "error", "limit", "no arguments")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="one checkout for each repository")
    parser.add_argument("--list", type=Path, help="JSON list of files, relative to the folder")
    parser.add_argument("--references", type=Path, help="NumPy references of operators")
    parser.add_argument("--only", nargs="*", default=[], help="words that paths must contain")
    parser.add_argument("--sample", type=int, help="take so many files, chosen by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300, help="limit of one file")
    parser.add_argument("--json", type=Path, help="write every result to this file")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return run_child(options)
    results = {name: run(name, options) for name in selected(options)}
    print_counts(results)
    if options.json:
        rows = [{"file": name} | asdict(outcome) for name, outcome in results.items()]
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    wrong = [result for result in results.values() if result.kind in ("differs", "error")]
    return int(bool(wrong) or not results)


def selected(options: argparse.Namespace) -> list[str]:
    """Return the paths of the files, relative to the folder."""
    if options.list:
        names = json.loads(options.list.read_text(encoding="utf-8"))
    else:
        names = [
            path.relative_to(options.folder).as_posix()
            for path in sorted(options.folder.glob("**/*.py"))
            if "neuronxcc" in path.read_text(encoding="utf-8", errors="replace")
        ]
    names = [name for name in names if not options.only or any(w in name for w in options.only)]
    if options.sample:
        names = random.Random(options.seed).sample(names, min(options.sample, len(names)))
    return names


def run(name: str, options: argparse.Namespace) -> Outcome:
    """Run a file in a process of its own, within the limit of time."""
    command = [
        sys.executable,
        "-m",
        "tests.suites.beta1_kernels",
        str(options.folder),
        "--child",
        name,
    ]
    if options.references:
        command += ["--references", str(options.references)]
    start = time.perf_counter()
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = child.communicate(timeout=options.seconds)
        lines = output.splitlines()
        fields = json.loads(lines[-1]) if lines else {}
        outcome = Outcome(**fields) if fields else Outcome("error", "", "the process ended")
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        outcome = Outcome("limit", "", f"took more than {options.seconds:.0f} s")
    except ValueError:
        outcome = Outcome("error", "", "the process printed no result")
    seconds = time.perf_counter() - start
    print(f"{outcome.kind:12} {outcome.convention:9} {seconds:6.1f} s  {name}  {outcome.reason}",
          flush=True)  # fmt: skip
    return outcome


def run_child(options: argparse.Namespace) -> int:
    """Run one file and print its outcome as the last line."""
    sys.path += [str(ROOT), str(ROOT / "compat")]
    warnings.simplefilter("ignore")
    file = (options.folder / options.child).resolve()
    checkout = options.folder.resolve() / options.child.parts[0]
    references = options.references.resolve() if options.references else None
    # A kernel file of a checkout that has its own package `tests` imports that.
    sys.modules.pop("tests", None)
    outcome = run_file(file, checkout, references)
    print("\n" + json.dumps(asdict(outcome)))
    return 0


def print_counts(results: dict[str, Outcome]) -> None:
    """Print the number of files of each kind for each checkout, and the shares that count."""
    checkouts = sorted({name.partition("/")[0] for name in results})
    width = max([len(name) for name in checkouts] + [10])
    print("  ".join(["".ljust(width), *(kind.rjust(12) for kind in KINDS)]))
    for checkout in [*checkouts, ""]:
        counts = Counter(
            outcome.kind
            for name, outcome in results.items()
            if name.partition("/")[0] == checkout or not checkout
        )
        label = checkout or "all"
        print("  ".join([label.ljust(width), *(str(counts[kind]).rjust(12) for kind in KINDS)]))
    counts = Counter(outcome.kind for outcome in results.values())
    called = len(results) - counts["no arguments"]
    traced = counts["equal"] + counts["traced"] + counts["differs"]
    compared = counts["equal"] + counts["differs"]
    print(
        f"\n{traced} of {called} called files trace; {counts['equal']} of {compared} equal their reference"
    )


if __name__ == "__main__":
    sys.exit(main())
