"""``nki-neff profile``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hlo_tools.cli import console
from neff.cli.estimates import EstimateOptions
from neff.errors import NeffError
from neff.profile import (
    Profile,
    Share,
    by,
    changes_of,
    critical_path,
    engine_splits,
    profile_of,
    summary,
    what_if,
    write_trace,
)
from nki_lang.atomic import atomic_file

__all__ = ["Asked", "profile_file"]

_PATH_ROWS = 12
"""Steps of the critical path that the text shows; the documents hold all."""


_CONTEXT = 6
"""Lines of the source that are shown around one that costs something."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks to see; see ``nki-neff profile --help``."""

    by: str
    source: bool
    root: Path
    what_if: str
    output: Path | None
    as_json: bool


def profile_file(file: Path, asked: Asked, options: EstimateOptions) -> int:
    """Print where a NEFF's time goes by the timing model, and write the documents.

    Raises:
        NeffError: it cannot be read, is not ours, or an option names nothing.
    """
    from neff.container import read

    program = read(file)
    keywords = options.keywords(program, file)
    changes = changes_of(asked.what_if) if asked.what_if else None
    profile = profile_of(program, **keywords)
    shares = by(profile, asked.by)
    document = summary(profile) if asked.as_json or asked.output else {}
    faster = None if changes is None else what_if(program, changes, **keywords).total.value
    if faster is not None:
        document["what_if"] = {"changes": asked.what_if, "total_us": round(faster / 1e3, 3)}
    if asked.output is not None:
        _write(profile, document, asked.output)
    if asked.as_json:
        console.write_json("profile", file=str(file), profile=document)
        return 0
    _text(profile, shares, asked)
    if faster is not None:
        _what_if(profile, asked.what_if, faster)
    return 0


def _write(profile: Profile, document: dict[str, object], folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_file(folder / "summary.json") as file:
            file.write(json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n")
        with atomic_file(folder / "events.json") as file:
            profile.write_events(file)
        with atomic_file(folder / "profile.perfetto-trace") as file:
            write_trace(profile, file)
    except OSError as error:
        raise NeffError(
            f"cannot be written: {error.strerror}",
            code="NEFF-WRITE",
            place=str(folder),
            remedy="give a folder that can be written",
        ) from error
    console.note(f"wrote summary.json, events.json and profile.perfetto-trace to {folder}")


def _text(profile: Profile, shares: list[Share], asked: Asked) -> None:
    found = profile.estimate
    bound = "" if found.is_complete else "at least "
    console.line(f"{profile.name}, {found.target}, {found.statistic}: {bound}{found} (estimated)")
    console.line()
    _shares(asked.by, shares)
    if asked.source:
        _source(by(profile, "line"), asked.root)
    for core in range(len(found.cores)):
        console.line()
        _engines(profile, core)
        console.line()
        _path(profile, core)


def _shares(name: str, shares: list[Share]) -> None:
    total = sum(share.path_ns for share in shares) or 1.0
    rows = [
        (
            share.name,
            share.events,
            _us(share.self_ns),
            _us(share.path_ns),
            f"{share.path_ns / total:.1%}",
            _us(share.waiting_ns),
            f"{share.nbytes:,}",
            f"{share.flops:,}",
        )
        for share in shares
    ]
    columns = ("events", "self µs", "path µs", "share", "waiting µs", "bytes", "FLOPs")
    console.table((name, *columns), rows)


def _engines(profile: Profile, core: int) -> None:
    splits = engine_splits(profile, core)
    causes = sorted({cause for split in splits for cause in split.waiting_ns})
    rows = [
        (
            split.engine,
            _us(split.busy_ns),
            *(_us(split.waiting_ns.get(cause, 0.0)) for cause in causes),
            _us(split.issue_ns),
            _us(split.idle_ns),
        )
        for split in splits
    ]
    waits = (f"waits for {cause}" for cause in causes)
    console.table((f"core {core}, µs", "busy", *waits, "issue", "idle"), rows)


def _path(profile: Profile, core: int) -> None:
    steps = critical_path(profile, core)
    shown = sorted(range(len(steps)), key=lambda one: -steps[one].path_ns)[:_PATH_ROWS]
    rows = [
        (
            steps[index].lane,
            steps[index].opcode,
            steps[index].count,
            _us(steps[index].path_ns),
            profile.sites[steps[index].site].place,
        )
        for index in sorted(shown)
    ]
    console.table(("critical path", "opcode", "events", "µs", "line"), rows)
    if len(steps) > len(rows):
        rest = sum(step.path_ns for step in steps) - sum(steps[index].path_ns for index in shown)
        console.line(f"and {console.counted(len(steps) - len(rows), 'shorter step')}: {_us(rest)}")


def _what_if(profile: Profile, changes: str, faster: float) -> None:
    before = profile.estimate.total.value
    gain = (before - faster) / before if before else 0.0
    console.line()
    console.line(f"with {changes}: {_us(faster)} µs instead of {_us(before)}, {gain:.1%} less")


def _source(lines: list[Share], root: Path) -> None:
    """Each source file with what its lines cost; one that is not found is named."""
    files: dict[str, dict[int, Share]] = {}
    for share in lines:
        file, _, number = share.name.rpartition(":")
        if file and number.isdigit():
            files.setdefault(file, {})[int(number)] = share
    for name, costs in sorted(files.items()):
        texts = _lines(root, name)
        if texts is None:
            console.note(f"{name} is not below {root}; --source-root names another folder")
            continue
        console.line()
        console.line(f"{name}: self µs, µs of the critical path")
        _annotated(texts, costs)


def _lines(root: Path, name: str) -> list[str] | None:
    """The lines of a file below ``root``; the name comes from the NEFF and is not trusted."""
    path = (root / name).resolve()
    if not path.is_relative_to(root.resolve()):
        return None
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None


def _annotated(texts: list[str], costs: dict[int, Share]) -> None:
    shown = {line for number in costs for line in range(number - _CONTEXT, number + _CONTEXT + 1)}
    last = 0
    for number, text in enumerate(texts, 1):
        if number not in shown:
            continue
        if number != last + 1:
            console.line("…")
        last, cost = number, costs.get(number)
        cells = f"{_us(cost.self_ns):>9} {_us(cost.path_ns):>9}" if cost else " " * 19
        console.line(f"{cells} {number:>5} | {text}".rstrip())


def _us(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.1f}"
