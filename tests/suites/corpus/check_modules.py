"""Put modules through everything, with jaxlib beside it, and count what differs.

Usage: python -m tests.suites.corpus.check_modules [options] PATH ...

A PATH is a module, a folder of modules (text, proto, pbtxt, JSON, packed or not) or a ``.jsonl``
file whose lines have ``id`` and ``text``. Every module is loaded, saved, printed and read again,
compared with what jaxlib makes of it (by names, never by ids), verified, linted, counted, compared
with itself, drawn, sent through every pass with the verifier behind it, and evaluated before and
after on random inputs, by us and by jaxlib. Exit code 1 when anything is not as it should be.

What a kind of finding means stands in ``checks.py``.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.suites.corpus.checks import CHECKS, Case
from tests.suites.corpus.jaxlib_server import Server
from tests.suites.corpus.limits import MEMORY, within

ENDS = (".pb", ".hlo", ".txt", ".pbtxt", ".json", ".gz", ".zst")


def modules(paths: list[Path]) -> Iterator[tuple[str, bytes]]:
    """Names and contents."""
    for path in paths:
        if path.suffix == ".jsonl":
            for line in path.read_text().splitlines():
                row = json.loads(line)
                yield str(row["id"]), row["text"].encode()
        elif path.is_dir():
            yield from modules(sorted(p for p in path.rglob("*") if p.name.endswith(ENDS)))
        else:
            yield str(path), path.read_bytes()


def look_at(case: Case, names: list[str], seconds: float) -> dict[str, str]:
    """For each check "ok", or what is wrong; a check that has nothing to look at is left out."""
    outcomes: dict[str, str] = {}
    for name in names:
        for aspect, reason in within(seconds, lambda name=name: CHECKS[name](case)).items():
            outcomes[f"{name} {aspect}".strip()] = reason
        if name == "load" and not outcomes["load"].startswith(("ok", "LOOSER", "WRONG")):
            break
    return outcomes


def kind_of(reason: str) -> str:
    """A reason without what is peculiar to one module."""
    first = reason.strip().splitlines()[0] if reason.strip() else reason
    return re.sub(r"%?[\w.\-]*\d[\w.\-]*", "#", first)[:150]


def main() -> int:
    words = arguments()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    servers = {"": Server(words.python, max(words.seconds, 60.0))}
    names = words.checks.split(",") if words.checks else list(CHECKS)
    shard, parts = map(int, words.part.split("/"))
    counts: Counter[str] = Counter()
    reasons: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], str] = {}
    rows: list[dict[str, Any]] = []
    for number, (name, content) in enumerate(modules(words.paths)):
        if number % parts != shard or (words.only and words.only != name):
            continue
        started = time.monotonic()
        outcomes = look_at(Case(name, content, servers[""]), names, words.seconds)
        rows.append({"name": name, "seconds": round(time.monotonic() - started, 2), **outcomes})
        for check, reason in outcomes.items():
            counts[f"{check}: {'ok' if reason == 'ok' else reason.split(':')[0]}"] += 1
            if reason != "ok":
                key = (check, kind_of(reason))
                reasons[key] += 1
                examples.setdefault(key, name)
                if words.verbose:
                    print(f"{name}: {check}: {reason}", flush=True)
    servers[""].close()
    report(words, rows, counts, reasons, examples)
    if not rows:
        print("no module was found: nothing was checked", file=sys.stderr)
        return 2
    return 1 if any(reason.startswith("WRONG") for _, reason in reasons) else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the Python whose jaxlib is asked")
    parser.add_argument("--checks", default="", help=f"some of {','.join(CHECKS)}")
    parser.add_argument("--seconds", type=float, default=20.0, help="for one check of one module")
    parser.add_argument("--part", default="0/1", help="every N-th module from number K: K/N")
    parser.add_argument("--only", default="", help="one module, by its name or id")
    parser.add_argument("--json", type=Path, help="write one row for each module here")
    parser.add_argument("--verbose", action="store_true", help="show findings as they come")
    return parser.parse_args()


def report(
    words: argparse.Namespace,
    rows: list[dict[str, Any]],
    counts: Counter[str],
    reasons: Counter[tuple[str, str]],
    examples: dict[tuple[str, str], str],
) -> None:
    print(f"{len(rows)} modules")
    for name, count in sorted(counts.items()):
        print(f"{count:6}  {name}")
    for key, count in sorted(reasons.items(), key=lambda item: (item[0][0], -item[1])):
        print(f"{count:6}  {key[0]}: {key[1]}   (e.g. {examples[key]})")
    for row in sorted(rows, key=lambda row: -row["seconds"])[:3]:
        print(f"slow: {row['seconds']:.1f} s {row['name']}")
    if words.json:
        words.json.write_text("\n".join(json.dumps(row) for row in rows) + "\n")


if __name__ == "__main__":
    sys.exit(main())
