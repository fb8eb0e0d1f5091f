"""``nki-neff diff``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, cast

from hlo_tools.cli import console
from neff.cli.diff_figures import OVERVIEW, overview, quantity, share

if TYPE_CHECKING:
    from neff.container.compare import Difference
    from neff.profile.changes import Change, Figures

__all__ = ["FORMATS", "diff"]

EQUAL, DIFFERENT = 0, 1
FORMATS = ("text", "json", "markdown")


def diff(one: Path, two: Path, *, check_hash: bool = True, form: str) -> int:
    """Print what changed between two NEFFs or folders of them; 1 when something did.

    ``check_hash=False`` reads payloads too that do not match their hash.

    Raises:
        NeffError: a file and a folder are given, or one cannot be read.
    """
    from neff.profile.changes import changes
    from neff.timing import overrides_of

    found = changes(one, two, check_hash=check_hash, overrides=overrides_of((), Path.cwd()))
    if form == "json":
        rows = [_as_json(change) for change in found]
        console.write_json("diff", files=[str(one), str(two)], estimated=True, neffs=rows)
    elif form == "markdown":
        from neff.cli.diff_markdown import render

        sys.stdout.write(render(found))
    else:
        _print(found, is_folder=two.is_dir())
    return DIFFERENT if any(change.status != "equal" for change in found) else EQUAL


# ---------------------------------------------------------------------------------------- text


def _print(found: Sequence[Change], *, is_folder: bool) -> None:
    if is_folder:
        rows = [(change.name, change.status, *overview(change)) for change in found]
        console.table(("NEFF", "", *OVERVIEW), rows)
    for change in found:
        if change.status != "changed":
            continue
        if is_folder:
            console.line(f"\n{change.name}")
        assert change.before is not None and change.after is not None
        _figures(change.before, change.after)
        console.line()
        for row in change.differences:
            _difference(row)
    counts = {status: sum(one.status == status for one in found)
              for status in ("equal", "changed", "added", "removed")}  # fmt: skip
    console.note(", ".join(f"{count} {name}" for name, count in counts.items() if count))


def _figures(before: Figures, after: Figures) -> None:
    from neff.profile.changes import FIGURES

    rows = [
        (name, quantity(one, unit), quantity(two, unit), share(one, two))
        for name, unit in FIGURES.items()
        if (one := before.values[name]) or after.values[name]
        for two in (after.values[name],)
    ]
    targets = f"{before.target} to {after.target}" if before.target != after.target else ""
    console.table((targets or after.target, "before", "after", "change"), rows)


def _difference(row: Difference) -> None:
    """What differs, and both values, wrapped."""
    console.line(str(row["what"]))
    for mark, value in (("-", row["one"]), ("+", row["two"])):
        for number, text in enumerate(wrap(str(value), _width() - 4) or [""]):
            console.line(f"  {mark if not number else ' '} {text}".rstrip())


def _width() -> int:
    """Of the terminal; 80 where there is none."""
    return max(shutil.get_terminal_size((80, 24)).columns if _is_terminal() else 80, 20)


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


# ---------------------------------------------------------------------------------------- JSON


def _as_json(change: Change) -> dict[str, object]:
    return {
        "name": change.name,
        "status": change.status,
        "before": _side(change.before),
        "after": _side(change.after),
        "differences": [
            {**row, "one": _plain(row["one"]), "two": _plain(row["two"])}
            for row in change.differences
        ],
    }


def _side(figures: Figures | None) -> dict[str, object] | None:
    from neff.profile.changes import FIGURES

    if figures is None:
        return None
    values = {_key(name, FIGURES[name]): value for name, value in figures.values.items()}
    return {"target": figures.target, **values}


def _key(name: str, unit: str) -> str:
    """``SBUF peak`` in bytes is ``sbuf_peak_bytes``."""
    return "_".join(filter(None, (name.lower().replace(" ", "_"), {"B": "bytes"}.get(unit, unit))))


def _plain(value: object) -> object:
    return list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value
